// Questions about a row or a run that every room asks, answered once.

import type { Round, Row, RunStatus } from "./rows";
import { traitsOf } from "./traits";

/** True once nothing will happen any more. */
export const isFinal = (status: RunStatus | undefined): boolean =>
  status !== undefined && status !== "pending" && status !== "running";

/** The agent that tasks without an agent have: plain code does their work. */
export const HANDLER = "Handler";

export const isHandler = (task: Row): boolean => task.agent == null || task.agent === HANDLER;

/** What stands for the agent of a task that is a run of its own: its agents are those of that run. */
const ENSEMBLE = "Ensemble";

/** Who does a task; null where no agent does. */
export const agentOf = (task: Row): string | null => (isHandler(task) || task.agent === ENSEMBLE ? null : (task.agent as string));

/** How long a row took, `null` while it runs: a task says what of the time was its own, all else is start to end. */
export const durationOf = (row: Row): number | null =>
  row.duration_ms ?? (row.start_ms != null && row.end_ms != null ? row.end_ms - row.start_ms : null);

export const isError = (row: Row): boolean => row.status === "error";

/** True for what sent the work of its task back: a review, or a guardrail that objected to the output. */
export const isReturn = (row: Row): boolean => row.review?.decision === "retry" || (row.guardrail === "output" && isError(row));

/** True where the tokens tell something: a handler, which asks no model, has a sum of none. */
export const hasTokens = (row: Row): boolean => Boolean(row.input_tokens || row.output_tokens);

/** True for a model that is made ready: the kernel tells of it once, beside all tasks (E57). */
export const isStartup = (row: Row): boolean => row.kind === "wait" && row.wait_kind === "startup";

/** True where the cost tells something: what was free costs 0, and what asks no model, such as a hand-over, has none. */
export const hasCost = (row: Row): boolean => Boolean(row.cost) || (row.cost != null && hasTokens(row));

export const isTask = (row: Row): boolean => row.kind === "task";

/** What was at work itself, or a person at a review, and did not only frame or wait for something. */
export const isBusy = (row: Row): boolean => (isTask(row) ? isHandler(row) && row.item_count == null : traitsOf(row.kind).isActivity);

/**
 * True for what stands for itself in a list of spans: turns only frame what is in them, and an attempt that succeeded at once
 * is its call over again.
 */
export const isListed = (row: Row): boolean =>
  row.kind !== "turn" && (row.kind !== "attempt" || row.status !== "ok" || (row.attempt ?? 1) > 1);

/** The number of the go in which something was at a moment, from 1; 0 where the row was never sent back, or before the first. */
export function roundAt(rounds: readonly Round[], ms: number): number {
  let number = 0;
  for (const { start_ms } of rounds) if (start_ms <= ms) number += 1;
  return number;
}
