// What a run calls a person for: a question that it waits for, or its end (W29). Pure: from a store to a sentence.

import type { Store } from "../store/store";
import { formatClock } from "../wording/numbers";
import { describeQuestion, describeTimeout } from "../wording/questions";
import { describeEnd } from "./announcer";

export interface Call {
  /** The span of the question, or "end". */
  readonly about: string;
  readonly text: string;
}

/** Who started a shorter run still looks at it. */
const LONG_RUN_MS = 20_000;

/** What a person should come for now; null where there is nothing. */
export function callOf(store: Store): Call | null {
  const run = store.run.value;
  if (!run) return null;
  const row = run.status === "running" && store.lostAt.value === null ? store.row(run.waiting[0] ?? "") : undefined;
  if (row?.review) {
    const { deadline_ms } = row.review;
    const left = deadline_ms == null ? "no time limit" : `${formatClock(Math.max(0, deadline_ms - store.elapsed(performance.now())) + 999)} left, ${describeTimeout(row.review)}`;
    return { about: row.span_id, text: `${run.name}: ${describeQuestion(row, row.review)} ${left.charAt(0).toUpperCase()}${left.slice(1)}.` };
  }
  return store.isOver && run.elapsed_ms >= LONG_RUN_MS ? { about: "end", text: describeEnd(run) } : null;
}
