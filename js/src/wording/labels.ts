// What spans are called: one vocabulary for bars, tooltips, drawer and status line. Pure; words only.

import type { KnownKind } from "../wire/kinds";
import type { Row, Status } from "../wire/rows";
import { entryOf, type Kind, traitsOf } from "../wire/traits";

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
export function signOf(row: Row): string {
  const { sign } = traitsOf(row.kind);
  return sign === "◆" && row.is_fallback ? "↳" : sign;
}

/** The model that answered, or as long as nobody knows, the one that was asked; null where there is none. */
export const modelNameOf = (row: Row): string | null => row.model ?? row.model_requested ?? null;

export const modelOf = (row: Row): string => modelNameOf(row) ?? row.name;

/** What a span is called where its row is not beside it; the kinds that are not here go by their names. */
const TITLES: Partial<Record<KnownKind, (row: Row) => string>> = {
  llm: (row) => modelOf(row),
  attempt: (row) => `attempt ${row.attempt ?? ""}`,
  tool: (row) => row.tool ?? row.name,
  delegation: (row) => row.delegate_to ?? row.name,
  review: (row) => SUBJECTS[row.review?.subject ?? ""] ?? row.name,
  wait: (row) => waitOf(row),
  memory: (row) => row.memory ? `${OPERATIONS[row.memory.operation] ?? row.memory.operation} ${row.memory.scope}` : row.name,
};

export const titleOf = (row: Row): string => entryOf(TITLES, row.kind)?.(row) ?? row.name;

/** What a call waits for, or the run: `rate limit`, `budget`, `startup`. */
export const waitOf = (row: Row): string => (row.wait_kind ?? row.name).replace(/_/g, " ");

/** Why a task or phase was done again. */
export function causeOf(row: Row): string {
  const reason = row.retry_reason ?? "review";
  return reason === "review" || reason === "guardrail" ? `a ${reason} sent it back` : reason;
}

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
  const words = field.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** What a person calls a kind; one that only a later version knows goes by its own name. */
export const kindTitle = (kind: Kind): string => traitsOf(kind).title || fieldLabel(kind) || "Span";
