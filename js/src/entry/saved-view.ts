// A saved trace without a kernel: what a MIME renderer shows when a notebook is reopened.

import { mount } from "../chrome/app";
import { Store } from "../store/store";
import type { View } from "../view/view";
import { readSaved } from "../wire/reader";

/**
 * Shows the content of our MIME type in `el`, explorable, with the details it carries. Ends with `signal` or the returned
 * function. `read` makes a saved view of what is given.
 */
export function renderSaved(
  el: HTMLElement, saved: unknown, signal?: AbortSignal, read = readSaved, writeBelow: View["writeBelow"] = null,
): () => void {
  const store = new Store();
  const content = read(saved);
  if (content.kind === "bad") store.fault.value = content.why;
  else store.fold(content, 0);
  const end = new AbortController();
  if (signal?.aborted) return () => undefined;
  signal?.addEventListener("abort", () => end.abort(), { signal: end.signal });
  mount(el, store, null, null, end.signal, writeBelow);
  return () => end.abort();
}
