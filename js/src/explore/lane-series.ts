// What a run had come to, or did, at each moment (W33): pure, from rows to steps over time, and from steps to what a stretch of
// the screen shows of them.

import { roundsOf, type RowsOfRun } from "../store/rounds";
import type { Row } from "../wire/rows";
import { traitsOf } from "../wire/traits";

/** A value over time: `values[k]` from `times[k]` on, and nothing before. Times ascend. */
export interface Steps {
  readonly times: readonly number[];
  readonly values: readonly number[];
}

/** A reply that was there at once gives no rate without end. */
const LEAST_MS = 100;

/** A change of a value, and when it came. */
type Change = readonly [at: number, by: number];

/** Changes in any order, added up. What changes at one moment is one step. */
function addUp(changes: Change[]): Steps {
  const [times, values]: [number[], number[]] = [[], []];
  let value = 0;
  for (const [at, by] of changes.sort((one, other) => one[0] - other[0])) {
    value += by;
    if (times.at(-1) !== at) times.push(at);
    values[times.length - 1] = value;
  }
  return { times, values };
}

const hasEnded = (row: Row): row is Row & { start_ms: number; end_ms: number } => row.start_ms != null && row.end_ms != null;
const requestsOf = (rows: Iterable<Row>): Row[] => [...rows].filter((row) => traitsOf(row.kind).isLeaf && row.start_ms != null);

/** The known part of the cost of all requests that had ended. */
export const costSteps = (rows: Iterable<Row>): Steps => addUp(requestsOf(rows).filter(hasEnded).flatMap((row): Change[] => (row.cost == null ? [] : [[row.end_ms, row.cost]])));

/** The tokens that were written a second: those of each request spread evenly over its time, or over a moment where it took none. */
export const tokenSteps = (rows: Iterable<Row>): Steps => addUp(requestsOf(rows).filter(hasEnded).flatMap((row): Change[] => {
  const length = Math.max(row.end_ms - row.start_ms, LEAST_MS);
  const rate = ((row.output_tokens ?? 0) / length) * 1000;
  return rate > 0 ? [[row.start_ms, rate], [row.start_ms + length, -rate]] : [];
}));

/** How many requests had been sent within the time that a rate limit is about. */
export const requestSteps = (rows: Iterable<Row>, withinMs: number): Steps =>
  addUp(requestsOf(rows).flatMap(({ start_ms }): Change[] => [[start_ms as number, 1], [(start_ms as number) + withinMs, -1]]));

/**
 * How many tasks had one of the places that `max_concurrency` counts, as `frames.timeseries` has it: items have theirs in place
 * of the task around them. What has not ended goes on.
 */
export function workSteps(store: RowsOfRun & { rows(): Iterable<Row> }): Steps {
  const items = new Map<string, Change[]>();
  const changes: Change[] = [];
  const around: Row[] = [];
  for (const row of store.rows()) {
    if (row.kind !== "task" || row.start_ms == null || !isOfRun(store, row)) continue;
    const own = timesOf(store, row);
    const parent = row.parent_id == null ? undefined : store.row(row.parent_id);
    if (parent?.kind === "task") {
      const found = items.get(parent.span_id) ?? [];
      found.push(...own);
      items.set(parent.span_id, found);
    }
    changes.push(...own);
    if (row.item_count != null) around.push(row);
  }
  // Where an item is at work, the task around it is taken out.
  for (const row of around) {
    const { times, values } = addUp(items.get(row.span_id) ?? []);
    times.forEach((at, k) => {
      const [before, after] = [values[k - 1] ?? 0, values[k] as number];
      if (before === 0 && after > 0) changes.push([at, -1]);
      else if (before > 0 && after === 0) changes.push([at, 1]);
    });
  }
  return addUp(changes);
}

function timesOf(store: RowsOfRun, row: Row): Change[] {
  const rounds = roundsOf(store, row);
  const goes = rounds.length > 0 ? rounds : [{ start_ms: row.start_ms as number, end_ms: row.end_ms ?? null }];
  return goes.flatMap(({ start_ms, end_ms }): Change[] => [[start_ms, 1], [Math.max(start_ms, end_ms ?? Infinity), -1]]);
}

/** Whether a task is one of the run itself: neither handed on nor of a run inside it. */
function isOfRun(store: RowsOfRun, row: Row): boolean {
  if (row.delegation_id != null) return false;
  for (let at = row; at.parent_id != null;) {
    const above = store.row(at.parent_id);
    if (!above) return true;
    if (above.kind !== "phase" && above.kind !== "task") return false;
    at = above;
  }
  return true;
}

/** The place of the last step up to a moment; -1 before the first. */
function placeAt({ times }: Steps, at: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export const valueAt = (steps: Steps, at: number): number => steps.values[placeAt(steps, at)] ?? 0;

/** The largest value between each moment of `edges` and the next one. */
export function largestIn(steps: Steps, edges: readonly number[]): number[] {
  const found: number[] = [];
  let place = placeAt(steps, edges[0] ?? 0);
  for (let k = 1; k < edges.length; k += 1) {
    const [start, end] = [edges[k - 1], edges[k]] as [number, number];
    let most = steps.values[place] ?? 0;
    for (let next = steps.times[place + 1]; next !== undefined && next < end; next = steps.times[place + 1]) {
      const value = steps.values[(place += 1)] as number;
      most = next > start ? Math.max(most, value) : value;
    }
    found.push(most);
  }
  return found;
}
