// The file of the drawer as the widget brings it: anywidget loads one module, and this one is loaded from its text.

let text = "";

export const keepDetailsText = (found: unknown): void => {
  if (typeof found === "string") text = found;
};

/** The module: what the build of the widget puts in place of `details/load-details`. */
export async function loadDetails(): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(/* @vite-ignore */ address);
  } finally {
    URL.revokeObjectURL(address);
  }
}
