// Questions about a row or a run that every room asks, answered once.

import type { Row, RunStatus } from "./rows";

/** True once nothing will happen any more. */
export const isFinal = (status: RunStatus | undefined): boolean =>
  status !== undefined && status !== "pending" && status !== "running";

/** The agent that tasks without an agent have: plain code does their work. */
export const HANDLER = "Handler";

export const isHandler = (task: Row): boolean => task.agent == null || task.agent === HANDLER;

export const isError = (row: Row): boolean => row.status === "error";

export const isTask = (row: Row): boolean => row.kind === "task";
