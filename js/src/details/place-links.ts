// Links to a span, or to a time of a run (W126): in the address of the page, so that they lead there in a notebook that is open, in one
// that is opened by them, and in an exported page.

import type { View } from "../view/view";

const LINK = /^#run-(span|range)=([\w.]+?)(?::([\d.]+)-([\d.]+))?$/;

const addressOf = (place: string): string => `${location.href.split("#", 1)[0]}#${place}`;

export const linkToSpan = (span: string): string => addressOf(`run-span=${span}`);

export function linkToRange(view: View, { from, to }: { from: number; to: number }): string {
  return addressOf(`run-range=${view.store.run.value?.run_id}:${Math.round(from)}-${Math.round(to)}`);
}

/** Shows what the address of the page names, once its run is there; `seen` is what was shown last. Gives what is shown now. */
export function followLink(view: View, place: HTMLElement, seen: string): string {
  const [hash, kind, id = "", from, to] = LINK.exec(location.hash) ?? [""];
  if (hash === seen || !kind) return hash ?? "";
  if (kind === "span" ? !view.store.row(id) : view.store.run.value?.run_id !== id) return seen;
  if (kind === "span") view.goTo(id);
  else view.mark(Number(from), Number(to), view.now);
  place.closest(".ensemble-timeline")?.scrollIntoView?.({ block: "nearest" });
  return hash ?? "";
}
