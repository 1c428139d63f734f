// The file of all that is loaded late as the widget brings it: anywidget loads one module, and this one is loaded from its text.

let text = "";

export const keepDetailsText = (found: unknown): void => {
  if (typeof found === "string") text = found;
};

let loaded: Promise<unknown> | null = null;

/** The module, loaded once: what the build of the widget puts in place of `details/load-details`, and of `explore/load-explorer`. */
export const loadDetails = (): Promise<unknown> => (loaded ??= load());
export const loadExplorer = loadDetails;

async function load(): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(/* @vite-ignore */ address);
  } finally {
    URL.revokeObjectURL(address);
  }
}
