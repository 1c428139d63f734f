// What a run had come to at a time (W35): the series that the kernel has made of all its spans, and that a saved view carries;
// where there is none, as in views of earlier versions, it is made of the rows that are here. Pure.

import { readNumbers } from "../wire/columns";
import { POINT_COLUMNS, type Point } from "../wire/playhead";
import { isError } from "../wire/predicates";
import type { Row, Run } from "../wire/rows";
import { traitsOf } from "../wire/traits";

type Amount = Exclude<(typeof POINT_COLUMNS)[number], "at_ms">;

const NOTHING = Object.fromEntries(POINT_COLUMNS.map((name) => [name, 0])) as unknown as Point;
/** The series of a saved view; null where it has none, or none that can be read. */
export function readPoints(value: unknown): Point[] | null {
  const series = readNumbers(value);
  const times = series?.at_ms;
  if (!series || !times || POINT_COLUMNS.some((name) => series[name]?.length !== times.length)) return null;
  const points = Array.from(times, (_, k) => Object.fromEntries(POINT_COLUMNS.map((name) => [name, series[name]?.[k]])) as unknown as Point);
  return points.every((point, k) => k === 0 || point.at_ms >= (points[k - 1] as Point).at_ms) ? points : null;
}

/** The same from rows: what was left out for size is missing. */
export function seriesOf(rows: Iterable<Row>, isOutermost: (row: Row) => boolean): Point[] {
  const changes = new Map<number, [Amount, number][]>();
  const add = (ms: number | null | undefined, name: Amount, by: number): void => {
    if (ms == null) return;
    const at = changes.get(ms);
    if (at) at.push([name, by]);
    else changes.set(ms, [[name, by]]);
  };
  for (const row of rows) addRow(row, isOutermost(row), add);
  const now = { ...NOTHING };
  return [...changes].sort((a, b) => a[0] - b[0]).map(([at_ms, found]) => {
    for (const [name, by] of found) now[name] += by;
    return { ...now, at_ms };
  });
}

const ENDS: Partial<Record<Row["status"], Amount>> = { ok: "done", error: "failed", skipped: "skipped", cancelled: "cancelled", interrupted: "cancelled" };

function addRow(row: Row, isOfPlan: boolean, add: (ms: number | null | undefined, name: Amount, by: number) => void): void {
  const { kind, start_ms: start, end_ms: end } = row;
  if (kind === "task" && isOfPlan) {
    add(start, "running", 1);
    if (start != null) add(end, "running", -1);
    const how = ENDS[row.status];
    if (how) add(end ?? row.settled_ms, how, 1);
  }
  if (kind === "attempt") {
    add(start, "requests", 1);
    if (row.attempt === 1) add(start, "llm_calls", 1);
    if (row.retry_reason) add(end, "retries", 1);
  }
  if (traitsOf(kind).isLeaf) {
    add(end, "input_tokens", row.input_tokens ?? 0);
    add(end, "output_tokens", row.output_tokens ?? 0);
    add(end, "cost", row.cost ?? 0);
  }
  if (kind === "tool" && !row.reused && row.status !== "skipped") add(end, "tool_calls", 1);
  if (isError(row) && (kind === "llm" || kind === "tool")) add(end, "errors", 1);
}

/** The latest point that was reached by a time. */
function pointAt(points: readonly Point[], ms: number): Point {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle] as Point).at_ms <= ms) low = middle + 1;
    else high = middle;
  }
  return points[low - 1] ?? NOTHING;
}

/** The run as it was at a time before its end. */
export function runAt(run: Run, points: readonly Point[], ms: number): Run {
  const point = pointAt(points, ms);
  const { budget } = run;
  const tokens = point.input_tokens + point.output_tokens;
  const shares = budget ? ([[point.cost, budget.max_cost], [tokens, budget.max_tokens], [point.requests, budget.max_llm_calls]] as const).flatMap(([spent, most]) => (most ? spent / most : [])) : [];
  return {
    ...run,
    status: "running", exit_reason: null, sentence: null, ended_at: null, elapsed_ms: ms,
    tasks_done: point.done, tasks_failed: point.failed, tasks_skipped: point.skipped, tasks_settled: null, tasks_cancelled: point.cancelled,
    phases_now: [], active: [], waiting: [], many: null, warnings: [], note: null, error: null,
    input_tokens: run.input_tokens == null ? null : point.input_tokens,
    output_tokens: run.output_tokens == null ? null : point.output_tokens,
    cache_read_tokens: null,
    cost: run.cost == null ? null : point.cost,
    llm_call_count: point.llm_calls, tool_call_count: point.tool_calls, error_count: point.errors, retry_count: point.retries,
    budget: budget ? { ...budget, cost: budget.cost == null ? null : point.cost, tokens, llm_calls: point.requests, share: shares.length ? Math.max(...shares) : null } : null,
  };
}
