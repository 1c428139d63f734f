// Some spans of a run in numbers (W7): how many of each kind and how long they took, tokens and cost, and how much was done
// at once. Pure; `tests/support/span_summaries.py` computes the same from the DataFrames.

import type { TimeRange } from "../wire/messages";
import { HANDLER } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { type Kind, traitsOf } from "../wire/traits";
import type { Store } from "./store";

export interface KindSummary {
  readonly kind: Kind;
  readonly count: number;
  /** From start to end, as `frames.spans` has it; in milliseconds, of those that have ended; null where none has. */
  readonly p50: number | null;
  readonly p90: number | null;
  readonly most: number | null;
}

export interface SpanSummary {
  readonly kinds: readonly KindSummary[];
  /** The known parts of what the requests took; null where nothing is known of any. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cost: number | null;
  /** What was at work inside the range: side by side adds up. */
  readonly workMs: number;
}

interface Interval {
  readonly from: number;
  readonly to: number;
}

const endOf = (row: Row, now: number): number => row.end_ms ?? now;

/** The rows that were there at some time of the range; what has not ended is there until now. */
export function rowsInside(rows: Iterable<Row>, range: TimeRange, now: number): Row[] {
  const found: Row[] = [];
  for (const row of rows) {
    if (row.start_ms != null && row.start_ms < range.to && endOf(row, now) > range.from) found.push(row);
  }
  return found;
}

/** What `rows` come to; their work is that inside the range. Tokens and cost are those of the requests among `requests`. */
export function summarize(rows: readonly Row[], range: TimeRange, now: number, requests = rows): SpanSummary {
  const leaves = requests.filter((row) => traitsOf(row.kind).isLeaf);
  return {
    kinds: summarizeKinds(rows),
    inputTokens: sum(leaves.map((row) => row.input_tokens)),
    outputTokens: sum(leaves.map((row) => row.output_tokens)),
    cost: sum(leaves.map((row) => row.cost)),
    workMs: measureWork(rows, range, now),
  };
}

/** The spans of these ids, and with them all that is inside them, each once. */
export function rowsOfSpans(store: Store, spans: readonly string[]): { rows: Row[]; withInside: Row[] } {
  const rows = spans.map((span) => store.row(span)).filter((row): row is Row => row !== undefined);
  return { rows, withInside: [...new Set(rows.flatMap((row) => [row, ...store.descendants(row.span_id)]))] };
}

/** In the order in which the kinds appear. */
function summarizeKinds(rows: readonly Row[]): KindSummary[] {
  const durations = new Map<Kind, { count: number; ended: number[] }>();
  for (const row of rows) {
    let found = durations.get(row.kind);
    if (!found) durations.set(row.kind, (found = { count: 0, ended: [] }));
    found.count += 1;
    if (row.start_ms != null && row.end_ms != null) found.ended.push(row.end_ms - row.start_ms);
  }
  return [...durations].map(([kind, { count, ended }]) => {
    ended.sort((a, b) => a - b);
    return { kind, count, p50: quantile(ended, 0.5), p90: quantile(ended, 0.9), most: ended.at(-1) ?? null };
  });
}

/** Between the two nearest values, as pandas has it. */
export function quantile(sorted: readonly number[], share: number): number | null {
  if (sorted.length === 0) return null;
  const at = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(at)] as number, sorted[Math.ceil(at)] as number];
  return below + (above - below) * (at - Math.floor(at));
}

function sum(values: readonly (number | null | undefined)[]): number | null {
  const known = values.filter((value): value is number => value != null);
  return known.length > 0 ? known.reduce((total, value) => total + value, 0) : null;
}

const isWorking = (row: Row): boolean => traitsOf(row.kind).isWork || (row.kind === "task" && row.agent === HANDLER);

/** A span that contains others is not at work while they run. */
function measureWork(rows: readonly Row[], range: TimeRange, now: number): number {
  const cut = (row: Row): Interval => ({ from: Math.max(row.start_ms ?? now, range.from), to: Math.min(endOf(row, now), range.to) });
  const inside = new Map<string, Interval[]>();
  const working = rows.filter(isWorking);
  for (const row of working) inside.set(row.span_id, []);
  for (const row of rows) inside.get(row.parent_id ?? "")?.push(cut(row));
  let work = 0;
  for (const row of working) {
    const { from, to } = cut(row);
    work += Math.max(0, to - from) - covered(inside.get(row.span_id) ?? [], from, to);
  }
  return work;
}

/** How much of a time the intervals take, together. */
function covered(intervals: Interval[], from: number, to: number): number {
  let [total, reached] = [0, from];
  for (const one of intervals.sort((a, b) => a.from - b.from)) {
    const end = Math.min(one.to, to);
    total += Math.max(0, end - Math.max(one.from, reached));
    reached = Math.max(reached, end);
  }
  return total;
}
