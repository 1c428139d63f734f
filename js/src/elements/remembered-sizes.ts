// The sizes that a person gave to parts of a view. They are kept as long as the page is, for all views in it: who widens
// the names of one run has long names in the next one, too.

import { useSignal } from "@preact/signals";
import { keep, recall } from "../view/browser-memory";

const KEY = "ensemble-timeline-sizes";

export type SizedPart = "gutter" | "chart" | "drawer";

/** A part's size in pixels as a person wants it, null as long as nobody said so; and a function that changes it. */
export function useSize(part: SizedPart): [number | null, (size: number | null) => void] {
  const size = useSignal(remembered()[part] ?? null);
  const resize = (wanted: number | null): void => {
    size.value = wanted;
    const { [part]: _old, ...others } = remembered();
    keep("sessionStorage", KEY, wanted === null ? others : { ...others, [part]: wanted });
  };
  return [size.value, resize];
}

function remembered(): Partial<Record<SizedPart, number>> {
  const entries = Object.entries(recall("sessionStorage", KEY) ?? {});
  return Object.fromEntries(entries.filter(([, size]) => typeof size === "number" && Number.isFinite(size)));
}
