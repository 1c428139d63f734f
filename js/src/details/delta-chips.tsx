// In a view of two runs: how much more each task took in the second one, in words beside its bars (W17).

import { type TimeWindow, toPixel } from "../layout/time-scale";
import type { View } from "../view/view";
import type { Row } from "../wire/rows";

const GAP_PX = 8;
const PADDING_PX = 16;
/** Where a page has nothing to measure with. */
const CHARACTER_PX = 6;

const pen = document.createElement("canvas").getContext("2d");

/** How wide words are in the font of the chips in this place, in pixels. */
function makeMeasure(place: HTMLElement): (text: string) => number {
  if (!pen) return (text) => text.length * CHARACTER_PX;
  pen.font = `11px ${getComputedStyle(place).fontFamily}`;
  return (text) => pen.measureText(text).width;
}

/**
 * What a row says of the difference, and where: behind its bars where there is room, else before them. The last words are
 * left out first; where not even the first fit beside the bars, they stand at the right edge.
 */
export function placeDelta({ delta, start_ms: from, end_ms: to }: Row, window: TimeWindow, width: number, measure: (text: string) => number): { text: string; left: number } | null {
  if (!delta || from == null || to == null) return null;
  const [start, end] = [toPixel(window, width, from), toPixel(window, width, to)];
  if (end < 0 || start > width) return null;
  const parts = delta.split(" · ");
  for (let count = parts.length; count > 0; count -= 1) {
    const text = parts.slice(0, count).join(" · ");
    const size = measure(text) + PADDING_PX + GAP_PX;
    if (end + size <= width) return { text, left: end + GAP_PX };
    if (start - size >= 0) return { text, left: start - size };
    if (count === 1) return { text, left: Math.max(0, width - size) };
  }
  return null;
}

export function DeltaChips({ view, place }: { view: View; place: HTMLElement; change: number }) {
  if (view.shape.value !== "chart") return null;
  const [top, fixed] = [view.scrollTop.value, view.fixed.value];
  const [{ value: window }, { value: width }] = [view.window, view.width];
  const measure = makeMeasure(place);
  const chips = view.shownTracks.flatMap(({ row, y, height }) => {
    const chip = placeDelta(row, window, width, measure);
    return chip ? [<span key={row.span_id} class="et-delta" style={{ left: `${chip.left}px`, top: `${y - (y < fixed ? 0 : top) + height / 2}px` }}>{chip.text}</span>] : [];
  });
  // The treegrid says the same to readers.
  return chips.length > 0 ? <div class="et-deltas" aria-hidden="true" style={{ top: `${view.head.value}px` }}>{chips}</div> : null;
}
