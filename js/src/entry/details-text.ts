// The file of the drawer as the widget brings it: anywidget loads one module, and this one is loaded from its text.

let text = "";

export const keepDetailsText = (found: unknown): void => {
  if (typeof found === "string") text = found;
};

/** The module, for what the build puts in place of its import. */
export async function importDetails(): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(/* @vite-ignore */ address);
  } finally {
    URL.revokeObjectURL(address);
  }
}
