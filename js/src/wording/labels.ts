// What spans are called: one vocabulary for bars, tooltips, drawer and status line. Pure; words only.

import { KIND_TRAITS } from "../wire/kinds";
import type { Row, Status } from "../wire/rows";

export const STATUS_NAMES: Record<Status, string> = {
  pending: "pending", running: "running", waiting: "waiting", ok: "done", error: "failed", cancelled: "cancelled",
  interrupted: "interrupted", skipped: "skipped",
};

const ANSWERS: Record<string, string> = {
  approve: "approved", edit: "edited", retry: "sent back", reject: "rejected", exit_early: "ended the run",
};
const SUBJECTS: Record<string, string> = {
  task: "review before the start", output: "review of the output", tool: "review of a tool call", question: "question to you",
  phase: "review of the phase",
};
const OPERATIONS: Record<string, string> = { retrieve: "recall", store: "remember" };

/** The sign that a span has in front of its name; empty where it has none. */
export function glyphOf(row: Row): string {
  if ((row.kind === "llm" || row.kind === "attempt") && row.is_fallback) return "↳";
  return KIND_TRAITS[row.kind].sign;
}

export const modelOf = (row: Row): string => row.model ?? row.name;

/** What a span is called where its row is not beside it. */
export function titleOf(row: Row): string {
  switch (row.kind) {
    case "llm":
      return modelOf(row);
    case "attempt":
      return `attempt ${row.attempt ?? ""}`;
    case "tool":
      return row.tool ?? row.name;
    case "delegation":
      return row.delegate_to ?? row.name;
    case "review":
      return SUBJECTS[row.review?.subject ?? ""] ?? row.name;
    case "wait":
      return waitOf(row);
    case "memory":
      return row.memory ? `${OPERATIONS[row.memory.operation] ?? row.memory.operation} ${row.memory.scope}` : row.name;
    default:
      return row.name;
  }
}

/** What a call waits for: `rate limit`, `budget`. */
export const waitOf = (row: Row): string => (row.wait ?? row.name).replace(/_/g, " ");

/** What came of a review, in a word or two. */
export function answerOf(row: Row): string {
  const { review } = row;
  // Phases are looked at by tasks and functions, everything else by a person.
  if (row.end_ms == null) return review?.subject === "phase" ? "in review" : "waiting for you";
  if (!review?.decision) return row.status === "cancelled" ? "cancelled" : "no answer";
  const answer = review.subject === "question" && review.decision === "edit" ? "answered" : (ANSWERS[review.decision] ?? review.decision);
  return review.is_timeout ? `no answer: ${answer}` : answer;
}

/** A field of a definition as a person reads it: `max_output_retries` is "Max output retries". */
export const fieldLabel = (field: string): string => {
  const words = field.replace(/_/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};
