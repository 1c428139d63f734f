// What lies under a point of the chart: pure, from a height and a moment to a track and a mark.

import type { Mark } from "./marks";
import type { Layout, Track } from "./tracks";

/** The track at a height, by bisection; undefined outside. */
export function trackAt(layout: Layout, y: number): Track | undefined {
  let [low, high] = [0, layout.tracks.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const track = layout.tracks[middle] as Track;
    if (y < track.y) high = middle - 1;
    else if (y >= track.y + track.height) low = middle + 1;
    else return track;
  }
  return undefined;
}

/** The innermost mark of a track at a moment and height; `slack` (ms) widens bars that are too thin to hit. */
export function markAt(track: Track, ms: number, y: number, now: number, slack: number): Mark | undefined {
  let best: Mark | undefined;
  let distance = Infinity;
  for (const mark of track.marks) {
    if (mark.shape === "ghost" || mark.shape === "backoff" || mark.shape === "notch") continue;
    if (y < mark.top - 1 || y > mark.top + mark.height + 1) continue;
    const to = mark.to ?? Math.max(now, mark.from);
    const away = ms < mark.from ? mark.from - ms : ms > to ? ms - to : 0;
    if (away > slack) continue;
    // Later marks lie on top of earlier ones, so the last of the nearest is what a person sees.
    const isInner = mark.shape !== "task" && mark.shape !== "phase";
    const rank = away + (isInner ? 0 : slack * 2 + 1);
    if (rank <= distance) [best, distance] = [mark, rank];
  }
  return best;
}
