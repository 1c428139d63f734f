// What lies under a point of the chart: pure, from a height and a moment to a track and a mark.

import type { Mark } from "./marks";
import { firstAtLeast, stripsOf } from "./strips";
import type { Layout, Track } from "./tracks";

/** The track at a height, undefined outside. */
export function trackAt(layout: Layout, y: number): Track | undefined {
  const track = layout.tracks[layout.indexAt(y)];
  return track && y >= track.y && y < track.y + track.height ? track : undefined;
}

/** The innermost mark of a track at a moment and height; `slack` (ms) widens bars that are too thin to hit. */
export function markAt(track: Track, ms: number, y: number, now: number, slack: number): Mark | undefined {
  let best: Mark | undefined;
  let distance = Infinity;
  const look = (mark: Mark): void => {
    if (mark.shape === "ghost") return;
    if (y < mark.top - 1 || y > mark.top + mark.height + 1) return;
    const to = mark.to ?? Math.max(now, mark.from);
    const away = ms < mark.from ? mark.from - ms : ms > to ? ms - to : 0;
    if (away > slack) return;
    // Later marks lie on top of earlier ones, so the last of the nearest is what a person sees.
    const isInner = mark.shape !== "task" && mark.shape !== "phase";
    const rank = away + (isInner ? 0 : slack * 2 + 1);
    if (rank <= distance) [best, distance] = [mark, rank];
  };
  const { frames, bars, beads } = stripsOf(track.marks);
  frames.forEach(look);
  for (const strip of [...bars, beads]) {
    for (let k = firstAtLeast(strip.latest, ms - slack); k < strip.marks.length; k += 1) {
      if ((strip.from[k] as number) > ms + slack) break;
      look(strip.marks[k] as Mark);
    }
  }
  return best;
}
