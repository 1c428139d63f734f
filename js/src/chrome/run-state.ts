// The states that a run can be in: each has a sign, a word and one plain sentence that says what a person can do (W15).
// Pure.

import type { IconName } from "../elements/icon";
import type { Run, RunStatus } from "../wire/rows";
import { AS_IT_WAS, EXIT_NAMES, RUN_STATUS_NAMES, WAITING_FOR_YOU, WHEN_SAVED } from "../wire/words";

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
  /** There is none: what is shown was saved. */
  readonly isSaved: boolean;
}

/** A word of the table, which saved pictures have, too, at the beginning of a line. */
const title = (word = ""): string => word.charAt(0).toUpperCase() + word.slice(1);

const KEPT = "What was done is kept";
const LEFT = "What had arrived by then is kept here";

const NOT_STARTED: State = { key: "pending", word: title(RUN_STATUS_NAMES.pending), icon: "pending", hint: "The rows fill as soon as the run begins; there is nothing to do." };
const UNREADABLE: State = { key: "bad", word: "Can't be read", icon: "question", hint: "Run the cell again, or open it with the version of ensemble-notebook that wrote it." };
const EMPTY: State = { key: "empty", word: "No tasks", icon: "empty", hint: "This run had no tasks: write one into the cell, and run it again." };
const GONE: State = { key: "gone", word: "Kernel gone", icon: "gone", hint: `The kernel is gone, and the run with it. ${LEFT}; start the kernel, and resume the run.` };
const RESTARTED: State = { key: "restarted", word: "Kernel restarted", icon: "restarted", hint: `The kernel was restarted, and this run ended with it. ${LEFT}; resume the run once what its cell needs is there again.` };
const SAVED: State = { key: "saved", word: title(WHEN_SAVED), icon: "saved", hint: "It was saved while the run went on: how that ended is not known here." };
const STOPPING: State = { key: "stopping", word: "Stopping…", icon: "stop", hint: "What is under way is being cancelled; what is done is kept." };
const WAITING: State = { key: "waiting", word: title(WAITING_FOR_YOU), icon: "waiting", hint: "The run goes on as soon as you have answered below." };
const RUNNING: State = { key: "running", word: title(RUN_STATUS_NAMES.running), icon: "running", hint: "Stop ends the run, and keeps what is done." };
const LATE: State = { key: "failed", word: title(EXIT_NAMES.timeout), icon: "clock", hint: `The run took longer than it was given. ${KEPT}; give it a longer timeout, or less to do.` };
const NOBODY: State = { key: "early", word: title(EXIT_NAMES.nobody_to_ask), icon: "door", hint: `A review could not be answered, since nobody could be asked. ${KEPT}; give a review_handler, or resume the run where somebody can be asked.` };
/** Of a run that is over and shown as it was at a time in it. */
export const PAST: State = { key: "past", word: title(AS_IT_WAS), icon: "clock", hint: "At its end it is as it ended." };
const BY_REASON: Partial<Record<string, State>> = { timeout: LATE, nobody_to_ask: NOBODY };

const FINAL: Partial<Record<RunStatus, State>> = {
  completed: { key: "completed", word: title(RUN_STATUS_NAMES.completed), icon: "ok", hint: "Select a row to see what it was given, and what it wrote." },
  completed_with_warnings: { key: "warned", word: title(RUN_STATUS_NAMES.completed_with_warnings), icon: "warning", hint: "Not all of it went well: the signs on the right lead to what did not." },
  failed: { key: "failed", word: title(RUN_STATUS_NAMES.failed), icon: "error", hint: `The sign ✕ on the right leads to the error. ${KEPT}.` },
  budget_exceeded: { key: "budget", word: title(RUN_STATUS_NAMES.budget_exceeded), icon: "budget", hint: "What is left of the budget is too little for the next model call." },
  exited_early: { key: "early", word: title(RUN_STATUS_NAMES.exited_early), icon: "door", hint: "A review ended the run: what was running finished, nothing new started." },
  interrupted: { key: "interrupted", word: title(RUN_STATUS_NAMES.interrupted), icon: "cancelled", hint: `The run was stopped before its end. ${KEPT}.` },
};

/** The state to show. A run that has ended stays as it ended, whatever becomes of its kernel. */
export function stateOf(run: Run | null, kernel: KernelState, isUnreadable = false): State {
  if (!run && isUnreadable) return UNREADABLE;
  const end = run && FINAL[run.status];
  if (run && end) {
    if (run.tasks_total === 0 && run.status === "completed") return EMPTY;
    return BY_REASON[run.exit_reason ?? ""] ?? end;
  }
  if (kernel.isLost) return kernel.isRestarted ? RESTARTED : GONE;
  if (!run || run.status === "pending") return NOT_STARTED;
  if (kernel.isSaved) return SAVED;
  if (kernel.isStopping) return STOPPING;
  return run.waiting.length ? WAITING : RUNNING;
}

/** States of runs that can go on from what they have done (W30). */
export const RESUMABLE: ReadonlySet<string> = new Set(["failed", "interrupted", "budget", "early", "gone", "restarted", "saved"]);

/** States that nothing else on the page explains: their sentence stands below the status line. */
export const EXPLAINED: ReadonlySet<string> = new Set(["bad", "gone", "restarted", "budget", "early", "saved"]);
