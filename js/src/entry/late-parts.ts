// The one file that the widget loads late: the drawer, and what explores a run.

export * from "../details/drawer-root";
export * from "../explore/explorer-root";
