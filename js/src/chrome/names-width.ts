// How much room the names of the rows would take: pure, from the rows to pixels. The style sheet gives them as much, up to a
// third of the view (W26).

import type { Track } from "../layout/tracks";
import { describeLength, nameOf, timesOf } from "../wording/labels";

/** What stands beside a name: the edges, what folds it, its sign, and the letters of its agent. */
const FIXED_PX = 86;
const STEP_PX = 17;
/** So many rows are measured: to measure all of a large map would cost more than to see it. */
const MOST_MEASURED = 200;

/** In pixels; `measure` gives the width of a text in the font of the names. */
export const widthOfNames = (tracks: readonly Track[], measure: (text: string) => number): number =>
  Math.ceil(Math.max(0, ...tracks.slice(0, MOST_MEASURED).map(({ row, depth, told }) =>
    FIXED_PX + STEP_PX * depth + measure(`${nameOf(row)}${timesOf(row)} ${told ?? describeLength(row)}`))));
