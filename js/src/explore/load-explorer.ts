// How the file with all that explores a run is loaded, when some of it is wanted for the first time. The build of the widget,
// which is one module, puts `entry/late-texts` in place of this one.

export const loadExplorer = (): Promise<typeof import("./explorer-root")> => import("./explorer-root");
