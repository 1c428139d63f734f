// The marks of a row by lane, as columns of numbers in order of time: what lets a picture look at those alone that are on
// screen and wide enough to be seen, out of a hundred thousand. Pure.

import { isError } from "../wire/predicates";
import type { Mark } from "./marks";
import { isGap, SHAPES } from "./shapes";

/** Bars that may hide each other: of one lane, and either failed or not. */
export interface Strip {
  readonly marks: readonly Mark[];
  /** Where each begins, ascending. */
  readonly from: Float64Array;
  /** Where the last of all up to this one ends, so ascending too; Infinity from one on that still runs. */
  readonly latest: Float64Array;
}

export interface Strips {
  /** What frames the rest, and what has no time yet. */
  readonly frames: readonly Mark[];
  /** Model calls before tools, and errors last, so that nothing covers them. */
  readonly bars: readonly Strip[];
  readonly beads: Strip;
  readonly notches: readonly Mark[];
}

const made = new WeakMap<readonly Mark[], Strips>();

/** The strips of a row's marks; made once for each array of them. */
export function stripsOf(marks: readonly Mark[]): Strips {
  let strips = made.get(marks);
  if (!strips) made.set(marks, (strips = sort(marks)));
  return strips;
}

function sort(marks: readonly Mark[]): Strips {
  const frames: Mark[] = [];
  const notches: Mark[] = [];
  const beads: Mark[] = [];
  const lanes = new Map<number, Mark[]>();
  for (const mark of marks) {
    const { isBead, isThinnable } = SHAPES[mark.shape];
    if (mark.shape === "notch") notches.push(mark);
    else if (isBead) beads.push(mark);
    else if (!isThinnable && !isGap(mark.shape)) frames.push(mark);
    else {
      const key = mark.top + (isError(mark.row) && !isGap(mark.shape) ? 1e6 : 0);
      const lane = lanes.get(key);
      if (lane) lane.push(mark);
      else lanes.set(key, [mark]);
    }
  }
  const bars = [...lanes].sort(([a], [b]) => a - b).map(([, lane]) => stripOf(lane));
  return { frames, bars, beads: stripOf(beads), notches };
}

function stripOf(marks: Mark[]): Strip {
  for (let k = 1; k < marks.length; k += 1) {
    if ((marks[k] as Mark).from >= (marks[k - 1] as Mark).from) continue;
    marks.sort((a, b) => a.from - b.from);
    break;
  }
  const from = new Float64Array(marks.length);
  const latest = new Float64Array(marks.length);
  let end = -Infinity;
  for (let k = 0; k < marks.length; k += 1) {
    const mark = marks[k] as Mark;
    from[k] = mark.from;
    latest[k] = end = Math.max(end, mark.to ?? Infinity);
  }
  return { marks, from, latest };
}

/**
 * The first place from `start` on whose value is at least `least`, in ascending values; their number where none is. It costs
 * by how far away that is, since most are near.
 */
export function firstAtLeast(values: Float64Array, least: number, start = 0): number {
  let low = start;
  let high = start;
  for (let step = 1; high < values.length && (values[high] as number) < least; step *= 2) {
    low = high + 1;
    high += step;
  }
  high = Math.min(high, values.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
