// What spans are called: one vocabulary for bars, tooltips, drawer and status line. Pure; words only.

import type { KnownKind } from "../wire/kinds";
import type { Row, Run, Status } from "../wire/rows";
import { entryOf, type Kind, traitsOf } from "../wire/traits";
import { formatCount, formatDuration, formatExactCount, formatMoney, pluralize } from "./numbers";

export const STATUS_NAMES: Record<Status, string> = {
  pending: "pending", running: "running", waiting: "waiting", ok: "done", error: "failed", cancelled: "cancelled",
  interrupted: "interrupted", skipped: "skipped",
};

/** What is done, and then what a person must know first. */
const WORST_FIRST: readonly Status[] = ["ok", "error", "waiting", "interrupted", "cancelled", "running", "pending", "skipped"];

/** Of many together: the worst state that one of them is in, and how many are in each, `980 done, 3 failed`. */
export function stateOfMany(statuses: readonly Status[]): { status: Status; name: string } {
  const counts = new Map<Status, number>([["ok", 0]]);
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1);
  const found = WORST_FIRST.filter((status) => counts.has(status));
  return { status: found[1] ?? "ok", name: found.map((status) => `${formatExactCount(counts.get(status))} ${STATUS_NAMES[status]}`).join(", ") };
}

/** So many tasks of a run, by what they are called: `3 tasks`, of a map `3 rows`. */
export const countTasks = (run: Run, amount: number): string => pluralize(amount, run.task_noun);

/** What tells an item or a row from others with the same beginning: `[12]`, `/r4`, ` #2`; empty where a name has no such end. */
export const distinctiveEnd = (name: string): string => /(?:\/[^/]{1,10}?)?(?:\[\d+\]| #\d+)?$/.exec(name.slice(1))?.[0] ?? "";

/** How often a task runs, behind its name: ` x 12`, ` x ?` as long as nobody knows for how many items; empty for once. */
export function timesOf(row: Row): string {
  if (row.item_count != null) return ` x ${formatExactCount(row.item_count)}`;
  return row.settings?.for_each == null ? "" : " x ?";
}

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

/** The rows of a run: what a name has to know of what is around a span. */
export interface RowsAround {
  row(span: string): Row | undefined;
  /** The direct children of a span in order of first appearance. */
  children(span: string): readonly Row[];
  /** How often the work that a span is part of was begun when that span began: once more each time it was sent back. */
  draftOf(span: Row): number;
}

/** What a span is called where its row is not beside it; the kinds that are not here go by their names. */
const TITLES: Partial<Record<KnownKind, (row: Row) => string>> = {
  attempt: (row) => `attempt ${row.attempt ?? ""}`,
  tool: (row) => row.tool ?? row.name,
  delegation: (row) => row.delegate_to ?? row.name,
  review: (row) => SUBJECTS[row.review?.subject ?? ""] ?? row.name,
  wait: (row) => waitTitle(row),
  memory: (row) => row.memory ? `${OPERATIONS[row.memory.operation] ?? row.memory.operation} ${row.memory.scope}` : row.name,
};

/** The same everywhere, a model call as on its bar: by what it did, and not by the model that all of them share (W22). */
export const titleOf = (rows: RowsAround, row: Row): string =>
  row.kind === "llm" ? (namesOfCall(rows, row)[0] as string) : (entryOf(TITLES, row.kind)?.(row) ?? row.name);

/**
 * What a model call may be called, the fullest first: `asks Ana`, `calls search, fetch`, `correction`, `draft 2`, `turn 1`, and
 * the model where nothing else is known.
 */
export function namesOfCall(rows: RowsAround, call: Row): string[] {
  const turn = call.parent_id == null ? undefined : rows.row(call.parent_id);
  if (turn?.kind !== "turn") return [modelOf(call)];
  const tools = followers(rows.children(turn.span_id), call);
  const workers = tools.flatMap((tool) => rows.children(tool.span_id).flatMap((row) => (row.kind === "delegation" ? [row.delegate_to ?? row.name] : [])));
  if (workers.length) return [`asks ${list(workers)}`, turn.name];
  const asked = list(tools.map((tool) => tool.tool ?? tool.name));
  if (tools.length > 1) return [`calls ${asked}`, `calls ${tools.length} tools`, turn.name];
  if (tools.length) return [`calls ${asked}`, turn.name];
  if (turn.is_correction) return ["correction", turn.name];
  const draft = rows.draftOf(call);
  return draft > 1 ? [`draft ${draft}`, turn.name] : [turn.name];
}

/** The tool calls after a model call, up to the next one. */
function followers(inTurn: readonly Row[], call: Row): Row[] {
  const after = inTurn.slice(inTurn.findIndex((row) => row.span_id === call.span_id) + 1);
  const next = after.findIndex((row) => row.kind === "llm");
  return (next < 0 ? after : after.slice(0, next)).filter((row) => row.kind === "tool");
}

function list(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} × ${count}` : name)).join(", ");
}

/** What a call waits for, or the run: `rate limit`, `budget`, `startup`. */
export const waitOf = (row: Row): string => (row.wait_kind ?? row.name).replace(/_/g, " ");

/** The same in full: a startup says what is being made ready. */
export const waitTitle = (row: Row): string => (row.wait_kind === "startup" ? row.name : waitOf(row));

/** Why a task or phase never ran; that it did not is said once. */
export function describeSkip(reason: string | null | undefined): string {
  if (!reason) return "skipped";
  if (reason.startsWith("condition")) return reason;
  const why = reason.replace(/^not started: /, "");
  return why.startsWith("phase ") ? `skipped, since ${why}` : `skipped: ${why}`;
}

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

/** What a reused task saved, after `before`: `$0.012, 4.1k tokens and 12 s saved`; empty where nothing is known of it. */
export function savingOf(row: Row, before = ""): string {
  const parts = [
    row.saved_cost ? formatMoney(row.saved_cost, row.currency) : "",
    row.saved_tokens ? `${formatCount(row.saved_tokens)} tokens` : "",
    row.saved_ms != null && row.saved_ms >= 1 ? formatDuration(row.saved_ms) : "",
  ].filter(Boolean);
  if (parts.length === 0) return "";
  const [first, last] = [parts.slice(0, -1).join(", "), parts.at(-1)];
  return `${before}${first ? `${first} and ` : ""}${last} saved`;
}

/** Why a task was reused, or ran although somebody asked for reuse; empty where nobody did. */
export const reuseOf = (row: Row): string =>
  row.reuse_reason ? `${row.reused ? "reused" : "not reused"}: ${row.reuse_reason}` : "";

/** A field of a definition as a person reads it: `max_output_retries` is "Max output retries". */
export const fieldLabel = (field: string): string => {
  const words = field.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** What a person calls a kind; one that only a later version knows goes by its own name. */
export const kindTitle = (kind: Kind): string => traitsOf(kind).title || fieldLabel(kind) || "Span";
