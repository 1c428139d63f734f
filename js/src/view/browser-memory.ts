// What a browser keeps for its pages: as long as the page is open, or for good. Frames without an origin of their own keep
// nothing, and what is kept may be anything; neither is worth an error.

export type Memory = "localStorage" | "sessionStorage";

/** What is kept under this name; null where nothing is, or nothing that can be read. */
export function recall(memory: Memory, name: string): unknown {
  try {
    return JSON.parse(window[memory].getItem(name) ?? "null");
  } catch {
    return null;
  }
}

export function keep(memory: Memory, name: string, value: unknown): void {
  try {
    window[memory].setItem(name, JSON.stringify(value));
  } catch {
    // Then it lasts as long as what shows it.
  }
}
