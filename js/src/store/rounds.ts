// The goes at the work of a phase or task that was sent back (W23), whoever sent it back. The kernel tells of them; where an
// earlier version has saved the rows, they are found by the reviews.

import { isReturn } from "../wire/predicates";
import type { Round, Row } from "../wire/rows";
import { ANSWERS, NO_RETRY_LEFT } from "../wire/words";
import { answerOf } from "../wording/labels";

/** The rows of a run, as far as rounds are found in them. */
export interface RowsOfRun {
  row(span: string): Row | undefined;
  children(span: string): readonly Row[];
}

const NONE: readonly Round[] = [];
/** Less is not told: it is what clocks differ by. */
const LEAST_MS = 50;

/** All goes at the work of a row, in order; none where it was never sent back. */
export function roundsOf(store: RowsOfRun, row: Row): readonly Round[] {
  if (Array.isArray(row.rounds)) return row.rounds.filter(isRound);
  return (row.attempt ?? 1) > 1 && row.start_ms != null ? findRounds(store, row, row.start_ms) : NONE;
}

const isRound = (round: Round | null): boolean =>
  typeof round?.start_ms === "number" && (round.end_ms == null || typeof round.end_ms === "number") && (round.verdict == null || typeof round.verdict === "string");

/** By the reviews and guardrails that sent it back, and by the rounds of the phase that it is in. */
function findRounds(store: RowsOfRun, row: Row, start: number): readonly Round[] {
  const children = store.children(row.span_id).filter((child) => child.start_ms != null);
  const returns = children.filter((child) => child.end_ms != null && isReturn(child));
  const phase = row.kind === "task" ? store.row(row.parent_id ?? "") : undefined;
  const around = phase?.kind === "phase" ? roundsOf(store, phase) : NONE;
  const ends = [...returns.slice(0, (row.attempt ?? 1) - 1), ...around].flatMap(({ end_ms }) => end_ms ?? []).sort((a, b) => a - b);
  const found: Round[] = [];
  [...ends, Infinity].forEach((to, k) => {
    const from = ends[k - 1] ?? start;
    const end = to === Infinity ? (row.end_ms ?? null) : to;
    const inside = children.filter(({ start_ms }) => (start_ms as number) >= from && (start_ms as number) < to);
    // Of a phase, tasks are told once, however often they began.
    if (row.kind === "phase") found.push({ start_ms: from, end_ms: end });
    else if (inside.length) found.push({ start_ms: inside[0]?.start_ms as number, end_ms: inside.some((each) => each.end_ms == null) ? end : Math.max(...inside.map((each) => each.end_ms as number)) });
  });
  const last = children.filter((child) => child.review?.decision != null).at(-1);
  const ending = !last || returns.indexOf(last) in ends ? null : last.review?.decision === "retry" ? NO_RETRY_LEFT : answerOf(last);
  return found.length > 1 ? found.map((round, k) => ({ ...round, verdict: k < found.length - 1 ? (ANSWERS.retry ?? null) : ending })) : NONE;
}

/** How long a row stood still between its goes. */
export function timeBetween(rounds: readonly Round[]): number {
  let sum = 0;
  for (let k = 1; k < rounds.length; k += 1) sum += Math.max(0, (rounds[k] as Round).start_ms - ((rounds[k - 1] as Round).end_ms ?? Infinity));
  return sum;
}

/** How long, from its start to its end, a row waited for a model that was made ready (E57); 0 where none was. */
export function startupTimeOf(store: RowsOfRun & { readonly startups: readonly Row[] }, row: Row): number {
  const { start_ms, end_ms, duration_ms } = row;
  if (duration_ms == null || start_ms == null || end_ms == null) return 0;
  const beside = end_ms - start_ms - duration_ms - timeBetween(roundsOf(store, row));
  if (beside < LEAST_MS) return 0;
  let [covered, from] = [0, start_ms];
  for (const startup of store.startups) {
    const until = Math.min(end_ms, startup.end_ms ?? end_ms);
    covered += Math.max(0, until - Math.max(from, startup.start_ms ?? end_ms));
    from = Math.max(from, until);
  }
  return covered < LEAST_MS ? 0 : Math.min(beside, covered);
}
