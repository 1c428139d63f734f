// How the file with the views in place of the bars is loaded, when one of them is wanted for the first time. The build of the
// widget, which is one module, puts `entry/late-texts` in place of this one.

export const loadViews = (): Promise<typeof import("./views-root")> => import("./views-root");
