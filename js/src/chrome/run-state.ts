// The states that a run can be in: each has a sign, a word and one plain sentence that says what a person can do (W15).
// Pure.

import type { IconName } from "../elements/icon";
import type { Run, RunStatus } from "../wire/rows";

export interface State {
  readonly key: string;
  readonly word: string;
  readonly icon: IconName;
  /** What it means, and what a person can do. */
  readonly hint: string;
}

/** What is known of the kernel behind a view. */
export interface KernelState {
  readonly isLost: boolean;
  readonly isRestarted: boolean;
  readonly isStopping: boolean;
}

const KEPT = "What was done is kept";
const LEFT = "What had arrived by then is kept here";

const NOT_STARTED: State = { key: "pending", word: "Not started", icon: "pending", hint: "The rows fill as soon as the run begins; there is nothing to do." };
const UNREADABLE: State = { key: "bad", word: "Can't be read", icon: "question", hint: "Run the cell again, or open it with the version of ensemble-notebook that wrote it." };
const EMPTY: State = { key: "empty", word: "No tasks", icon: "empty", hint: "This run had no tasks: write one into the cell, and run it again." };
const GONE: State = { key: "gone", word: "Kernel gone", icon: "gone", hint: `The kernel is gone, and the run with it. ${LEFT}; start the kernel, and run the cell again.` };
const RESTARTED: State = { key: "restarted", word: "Kernel restarted", icon: "restarted", hint: `The kernel was restarted, and this run ended with it. ${LEFT}; run the cell again.` };
const STOPPING: State = { key: "stopping", word: "Stopping…", icon: "stop", hint: "What is under way is being cancelled; what is done is kept." };
const WAITING: State = { key: "waiting", word: "Waiting for you", icon: "waiting", hint: "The run goes on as soon as you have answered below." };
const RUNNING: State = { key: "running", word: "Running", icon: "running", hint: "Stop ends the run, and keeps what is done." };
const LATE: State = { key: "failed", word: "Timed out", icon: "clock", hint: `The run took longer than it was given. ${KEPT}; give it a longer timeout, or less to do.` };

const FINAL: Partial<Record<RunStatus, State>> = {
  completed: { key: "completed", word: "Completed", icon: "ok", hint: "Select a row to see what it was given, and what it wrote." },
  completed_with_warnings: { key: "warned", word: "Completed with warnings", icon: "warning", hint: "Not all of it went well: the signs on the right lead to what did not." },
  failed: { key: "failed", word: "Failed", icon: "error", hint: `The sign ✕ on the right leads to the error. ${KEPT}.` },
  budget_exceeded: { key: "budget", word: "Budget exceeded", icon: "budget", hint: "What is left of the budget is too little for the next model call." },
  exited_early: { key: "early", word: "Ended early", icon: "door", hint: "A review ended the run: what was running finished, nothing new started." },
  interrupted: { key: "interrupted", word: "Interrupted", icon: "cancelled", hint: `The run was stopped before its end. ${KEPT}; run the cell again to begin anew.` },
};

/** The state to show. A run that has ended stays as it ended, whatever becomes of its kernel. */
export function stateOf(run: Run | null, kernel: KernelState, isUnreadable = false): State {
  if (!run && isUnreadable) return UNREADABLE;
  const end = run && FINAL[run.status];
  if (run && end) {
    if (run.tasks_total === 0 && run.status === "completed") return EMPTY;
    return run.exit_reason === "timeout" ? LATE : end;
  }
  if (kernel.isLost) return kernel.isRestarted ? RESTARTED : GONE;
  if (!run || run.status === "pending") return NOT_STARTED;
  if (kernel.isStopping) return STOPPING;
  return run.waiting.length ? WAITING : RUNNING;
}

/** States that nothing else on the page explains: their sentence stands below the status line. */
export const EXPLAINED: ReadonlySet<string> = new Set(["bad", "gone", "restarted", "budget", "early"]);
