// What a row said at a time in a run that is over (W35): it follows from the row alone. Pure; Python's `row_at`
// (`ensemble_notebook/trace/timeline/playhead.py`) says the same, and `tests/playhead_cases.json` is read by the tests of both.

import { KNOWN_AT_START, KNOWN_BEFORE, WAITS } from "../wire/playhead";
import type { Round, Row } from "../wire/rows";

type Facts = Record<string, unknown>;

const UNBEGUN: ReadonlySet<string> = new Set(["skipped", "cancelled", "interrupted"]);
/** What a row says of itself alone once the run is over. */
const AT_THE_END = ["critical", "slack_ms"];
/** What a review, a delegation or a memory operation has come to. */
const OUTCOMES = ["decision", "by", "is_timeout", "errors", "count"];

/** A row as it was at a time, in milliseconds since the start of the run; null where it was not there yet. */
export function rowAt(row: Row, ms: number): Row | null {
  const { start_ms: start, end_ms: end } = row;
  if (start == null) {
    const isSettled = !UNBEGUN.has(row.status) || (row.settled_ms != null && row.settled_ms <= ms);
    return isSettled ? leaveOut(row, AT_THE_END) : pick(row, KNOWN_BEFORE, { status: "pending" });
  }
  if (start > ms) return row.kind === "phase" || row.kind === "task" ? pick(row, KNOWN_BEFORE, { status: "pending" }) : null;
  if (end == null || end <= ms) return leaveOut(row, AT_THE_END);
  return pick(row, KNOWN_AT_START, { ...listKnown(row, ms - start), ...goesAt(row, ms) });
}

/** What a row that goes on says otherwise than in the end, but for the goes at its work. */
function listKnown(row: Row, age: number): Facts {
  const known: Facts = {};
  for (const name of ["delegation", "review", "memory"] as const) if (row[name]) known[name] = leaveOut(row[name], OUTCOMES);
  // Of a call it is how many there were.
  if (row.kind === "attempt" && row.attempt != null) known.attempt = row.attempt;
  // Of a task: an agent took over, nobody knows when.
  if (row.kind !== "task" && row.is_fallback) known.is_fallback = true;
  if (row.time_to_first_token_ms != null && row.time_to_first_token_ms <= age) known.time_to_first_token_ms = row.time_to_first_token_ms;
  if (Array.isArray(row.work)) known.work = row.work.map((each) => leaveOut(each, ["note"]));
  return known;
}

/** Its status, and what was known by then of the goes at the work of a row that is, or was, sent back. */
function goesAt(row: Row, ms: number): Facts {
  const begun = (Array.isArray(row.rounds) ? (row.rounds as Round[]) : []).filter((round) => round?.start_ms <= ms);
  const last = begun.at(-1);
  const isOver = last?.end_ms != null && last.end_ms <= ms;
  const said: Facts = isOver ? { status: "ok", end_ms: last.end_ms } : { status: (WAITS as readonly string[]).includes(row.kind) ? "waiting" : "running" };
  if (!last || begun.length < 2) return said;
  const present = leaveOut(last, isOver ? ["verdict"] : ["end_ms", "verdict"]);
  return { ...said, attempt: begun.length, rounds: [...begun.slice(0, -1), present] };
}

function pick(row: Row, names: readonly (keyof Row)[], said: Facts): Row {
  const picked: Facts = {};
  for (const name of names) if (row[name] !== undefined) picked[name] = row[name];
  return Object.assign(picked, said) as unknown as Row;
}

function leaveOut<T extends object>(record: T, names: readonly string[]): T {
  const left = { ...record } as Facts;
  for (const name of names) delete left[name];
  return left as T;
}
