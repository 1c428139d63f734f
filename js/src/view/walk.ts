// Ways from span to span: pure functions of what is on show, from where a person stands to where a step leads.

import { isSelectableMark } from "../layout/marks";
import type { Layout, Track } from "../layout/tracks";

/** The spans of one row in the order of time; the row itself comes first. */
export const spansOf = (track: Track): string[] =>
  [track.id, ...new Set(track.marks.filter(isSelectableMark).map((mark) => mark.row.span_id))];

/** The span `step` places after `span` in time, over all rows; undefined at the ends. */
export function nextInTime(layout: Layout, span: string | null, step: 1 | -1): string | undefined {
  const starts = new Map<string, number>();
  for (const track of layout.tracks) {
    for (const mark of track.marks) {
      if (isSelectableMark(mark) && !starts.has(mark.row.span_id)) starts.set(mark.row.span_id, mark.from);
    }
  }
  const order = [...starts].sort((a, b) => a[1] - b[1]).map(([id]) => id);
  const at = span === null ? -1 : order.indexOf(span);
  if (at >= 0) return order[at + step];
  const from = layout.tracks.find((track) => track.id === span)?.row.start_ms;
  if (from == null) return step > 0 ? order[0] : order.at(-1);
  return step > 0 ? order.find((id) => (starts.get(id) as number) >= from) : order.filter((id) => (starts.get(id) as number) < from).at(-1);
}

/** The slowest bar that is over; each further step goes to the next slower one, around to the slowest. */
export function nextSlowest(layout: Layout, span: string | null): string | undefined {
  const lengths = new Map<string, number>();
  for (const track of layout.tracks) {
    for (const { row } of track.marks.filter(isSelectableMark)) if (row.end_ms != null) lengths.set(row.span_id, row.end_ms - (row.start_ms ?? 0));
  }
  const order = [...lengths].sort((a, b) => b[1] - a[1]).map(([id]) => id).slice(0, 10);
  return order[(order.indexOf(span ?? "") + 1) % Math.max(order.length, 1)];
}

const isAtWork = (track: Track): boolean => (track.kind === "task" || track.told !== undefined) && (track.row.status === "running" || track.row.status === "waiting");

/** The next row at work after the one that holds the selection, around to the first. */
export function nextRunning(layout: Layout, current: Track | undefined): Track | undefined {
  const running = layout.tracks.filter(isAtWork);
  return running[((current ? running.indexOf(current) : -1) + 1) % Math.max(running.length, 1)];
}

/**
 * How far to scroll so that what runs now is in sight: as far as now where that shows as many running rows as any place
 * could, else so that the first of the best stretch stands under the row above it. The rows of the first `fixed` pixels do not scroll.
 */
export function scrollToRunning(layout: Layout, scrollTop: number, viewport: number, fixed = 0): number {
  const running = layout.tracks.filter((track) => track.y >= fixed && isAtWork(track));
  if (running.length === 0) return scrollTop;
  const bottomOf = (track: Track): number => track.y + Math.min(track.height, viewport - fixed);
  const seen = running.filter((track) => track.y >= scrollTop + fixed && bottomOf(track) <= scrollTop + viewport).length;
  let [best, most] = [running[0] as Track, 0];
  for (let first = 0, end = 0; first < running.length; first += 1) {
    const track = running[first] as Track;
    while (end < running.length && bottomOf(running[end] as Track) <= track.y + viewport - fixed) end += 1;
    if (end - first > most) [best, most] = [track, end - first];
  }
  if (seen >= most) return scrollTop;
  const above = layout.tracks[layout.tracks.indexOf(best) - 1];
  const last = running[running.indexOf(best) + most - 1] ?? best;
  return (above && bottomOf(last) <= above.y + viewport - fixed ? above.y : best.y) - fixed;
}
