// How the file with the drawer is loaded, when it is wanted for the first time. The build of the widget, which is one module,
// puts `entry/late-texts` in place of this one.

export const loadDetails = (): Promise<typeof import("./drawer-root")> => import("./drawer-root");
