// How what a person tries is loaded, when it is wanted for the first time.

export const loadTryouts = (): Promise<typeof import("./tryout-root")> => import("./tryout-root");
