// The files of what is loaded late as the widget brings them: anywidget loads one module, and these are loaded from their texts.

const texts: Record<string, string> = {};
const loaded = new Map<string, Promise<unknown>>();

export function keepLateTexts(details: unknown, explorer: unknown, views: unknown): void {
  for (const [name, text] of Object.entries({ details, explorer, views })) if (typeof text === "string") texts[name] = text;
}

/** The modules, loaded once: what the build of the widget puts in place of `details/load-details`, `explore/load-explorer` and `explore/load-views`. */
export const loadDetails = (): Promise<unknown> => load("details");
export const loadExplorer = (): Promise<unknown> => load("explorer");
export const loadViews = (): Promise<unknown> => load("views");

function load(name: string): Promise<unknown> {
  const known = loaded.get(name) ?? loadText(texts[name] ?? "");
  loaded.set(name, known);
  return known;
}

async function loadText(text: string): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(/* @vite-ignore */ address);
  } finally {
    URL.revokeObjectURL(address);
  }
}
