// Made by `make wire-types` from Python's trace/spans/timeline_wording.py and domain/wording.py, which have the tables.
// Data alone: the sentences that are made of it are in `wording`, and in the same modules of Python.

import type { RunStatus, Status } from "./rows";

type Words = Readonly<Partial<Record<string, string>>>;

export const STATUS_NAMES: Readonly<Record<Status, string>> = {
  pending: "pending", running: "running", waiting: "waiting", ok: "done", error: "failed", cancelled: "cancelled",
  interrupted: "interrupted", skipped: "skipped",
};
export const RUN_STATUS_NAMES: Readonly<Record<RunStatus, string>> = {
  pending: "not started", running: "running", completed: "completed",
  completed_with_warnings: "completed with warnings", failed: "failed", budget_exceeded: "budget exceeded",
  exited_early: "ended early", interrupted: "interrupted",
};
export const EXIT_NAMES: Words = {
  timeout: "timed out", nobody_to_ask: "nobody to ask",
};
export const WHEN_SAVED = "running when saved";
export const AS_IT_WAS = "as it was";
export const DEMO = "demo ";
export const SCRIPTED_TEAM = "recorded from a scripted team";
export const WAITING_FOR_YOU = "waiting for you";
export const IN_REVIEW = "in review";
export const SUBJECTS: Words = {
  task: "review before the start", output: "review of the output", tool: "review of a tool call",
  question: "question to you", phase: "review of the phase",
};
export const ANSWERS: Words = {
  approve: "approved", edit: "edited", retry: "sent back", reject: "rejected", exit_early: "ended the run",
};
export const NO_RETRY_LEFT = "kept: no retry left";
export const UNDECIDED = {
  on_timeout: "no answer", nobody_to_ask: "nobody to ask",
};
export const UNKNOWN_WORKER = "who did it is unknown";
export const FAULTS: Words = {
  429: "too many requests", 5: "server error", 4: "refused",
};
export const LONGEST_CAUSE = 24;
export const UNKNOWN = "–";
export const SYMBOLS: Words = {
  USD: "$", EUR: "€", GBP: "£", JPY: "¥",
};
export const WITHOUT_CENTS: readonly string[] = [
  "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF",
  "XPF",
];
