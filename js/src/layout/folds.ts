// When a run did nothing but make models ready, and a window over it in which that is folded, so that the work has the room. Pure.

import type { Store } from "../store/store";
import { isBusy, isStartup } from "../wire/predicates";
import { type Extent, fitRun, lengthOf, SHORTEST_MS, shareOf, type Stretch, type TimeWindow } from "./time-scale";

/** A fold is so wide that the words fit in it; what is folded would be at least twice as wide. */
const FOLD_PX = 104;

/** The stretches of startups in which nothing else went on, as far as they are over, in order of time; none where rows are missing, or nothing was done. */
export function idleTimes(store: Store): Stretch[] {
  if (store.leftOut.value.rows > 0) return [];
  const last = Math.max(...store.startups.map((row) => row.end_ms ?? Infinity));
  /** When one of them begins or ends: by how much there are more startups from then on, or more at work. */
  const edges: [at: number, startups: number, work: number][] = [];
  let isWorking = false;
  for (const row of store.rows()) {
    const [startups, work] = [+isStartup(row), +isBusy(row)];
    isWorking ||= row.start_ms != null && work > 0;
    if (row.start_ms != null && row.start_ms < last && startups + work > 0) edges.push([row.start_ms, startups, work], [row.end_ms ?? Infinity, -startups, -work]);
  }
  // Of one that ends when another begins, the other one first: nothing lies between them.
  edges.sort((a, b) => a[0] - b[0] || b[1] + b[2] - a[1] - a[2]);
  const found: Stretch[] = [];
  let [made, busy, from]: [number, number, number | null] = [0, 0, null];
  for (const [at, startups, work] of edges) {
    [made, busy] = [made + startups, busy + work];
    const isIdle = made > 0 && busy === 0;
    if (from !== null && !isIdle && at > from && at < Infinity) found.push({ from, to: at });
    from = isIdle ? (from ?? at) : null;
  }
  return isWorking ? found : [];
}

/** The whole run, as `fitRun` has it; of the stretches in `idle`, those are folded that would take much of the width. */
export function foldRun(idle: readonly Stretch[], extent: Extent): TimeWindow {
  const [length, share] = [lengthOf(extent), shareOf(extent)];
  const room = extent.width * share;
  const long = idle.filter(({ from, to }) => (to - from) * room > 2 * FOLD_PX * length);
  if (long.length === 0) return fitRun(extent);
  const folded = long.reduce((sum, { from, to }) => sum + to - from, 0);
  const rest = lengthOf({ ...extent, end: Math.max(extent.end - folded, SHORTEST_MS) });
  const drawn = (FOLD_PX * rest) / (room - FOLD_PX * long.length);
  return {
    from: 0,
    to: (rest + drawn * long.length) / share + folded - drawn * long.length,
    folds: long.map(({ from, to }) => ({ from, to, cut: 1 - drawn / (to - from) })),
  };
}
