// Questions about a row or a run that every room asks, answered once.

import type { Row, RunStatus } from "./rows";

/** True once nothing will happen any more. */
export const isFinal = (status: RunStatus | undefined): boolean =>
  status !== undefined && status !== "pending" && status !== "running";

/** The agent that tasks without an agent have: plain code does their work. */
export const HANDLER = "Handler";

export const isHandler = (task: Row): boolean => task.agent == null || task.agent === HANDLER;

/** How long a row took, `null` while it runs: a task says what of the time was its own, all else is start to end. */
export const durationOf = (row: Row): number | null =>
  row.duration_ms ?? (row.start_ms != null && row.end_ms != null ? row.end_ms - row.start_ms : null);

export const isError = (row: Row): boolean => row.status === "error";

export const isTask = (row: Row): boolean => row.kind === "task";
