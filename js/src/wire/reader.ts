// Reads the messages of the kernel, and lets nothing in that later steps could not rely on: they come from another
// version, a saved file, or a page that somebody else wrote. It must not know what is done with them.

import type { Delta, Details, Incoming, Saved, Snapshot } from "./messages";
import { upgradeRow, upgradeRun } from "./released-versions";
import {
  type ActiveSpan, BUDGET_AMOUNTS, type Failure, type Review, type Row, type Run, RUN_AMOUNTS, RUN_COUNTS, RUN_STATUSES,
  type RunStatus, STATUSES, VERSION,
} from "./rows";

// Any kind: one that this view does not know is shown plainly.
const isKind = (value: unknown): value is string => typeof value === "string";
const isStatus = isOneOf(STATUSES);
const isRunStatus = isOneOf(RUN_STATUSES);

function isOneOf(names: readonly string[]): (value: unknown) => boolean {
  const known = new Set<unknown>(names);
  return (value) => known.has(value);
}

type JsonObject = Record<string, unknown>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTime = (value: unknown): boolean => value == null || (typeof value === "number" && Number.isFinite(value));
const numberOr = <T extends number | null>(value: unknown, otherwise: T): number | T =>
  typeof value === "number" && Number.isFinite(value) ? value : otherwise;
const textOr = <T extends string | null>(value: unknown, otherwise: T): string | T => (typeof value === "string" ? value : otherwise);
const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
const failureOf = (value: unknown): Failure | null =>
  isObject(value) ? { type: textOr(value.type, "Error"), message: textOr(value.message, "") } : null;

/** The numbers of these names; what is missing, or none, becomes `otherwise`. */
function numbersOf<Name extends string, T extends number | null>(
  value: JsonObject, names: readonly Name[], otherwise: T,
): Record<Name, number | T> {
  const found = names.map((name) => [name, numberOr(value[name], otherwise)]);
  return Object.fromEntries(found) as Record<Name, number | T>;
}

/** True for a row that every later step can rely on. */
export function isRow(value: unknown): value is Row {
  return (
    isObject(value) &&
    typeof value.span_id === "string" &&
    typeof value.name === "string" &&
    isKind(value.kind) &&
    isStatus(value.status) &&
    isTime(value.start_ms) &&
    isTime(value.end_ms) &&
    (value.review == null || isReview(value.review))
  );
}

function isReview(value: unknown): value is Review {
  return isObject(value) && typeof value.text === "string" && Array.isArray(value.verdicts) && isTime(value.deadline_ms);
}

/** Reads any message of the kernel; what is not one comes back as `bad`, with the reason for a person. */
export function readMessage(value: unknown): Incoming {
  if (!isObject(value)) return { kind: "bad", why: "a message is not an object" };
  switch (value.kind) {
    case "snapshot":
      return readSnapshot(value) ?? { kind: "bad", why: explainUnreadable(value) };
    case "delta":
      return readDelta(value) ?? { kind: "bad", why: explainUnreadable(value) };
    case "details":
      return typeof value.span_id === "string"
        ? { kind: "details", details: readDetails(value.span_id, value) }
        : { kind: "bad", why: "details without a span" };
    case "pong":
      return typeof value.nonce === "number"
        ? { kind: "pong", nonce: value.nonce }
        : { kind: "bad", why: "a pong without its number" };
    default:
      return { kind: "bad", why: `a message of unknown kind ${JSON.stringify(value.kind) ?? "(none)"}` };
  }
}

/** Reads the saved MIME payload, or says why it can't be shown. */
export function readSaved(value: unknown): Saved | { kind: "bad"; why: string } {
  if (!isObject(value)) return { kind: "bad", why: "the saved trace is not an object" };
  const snapshot = readSnapshot(value);
  if (!snapshot) return { kind: "bad", why: explainUnreadable(value) };
  const details: Record<string, Details> = {};
  if (isObject(value.details)) {
    for (const [span, content] of Object.entries(value.details)) {
      if (isObject(content)) details[span] = readDetails(span, content);
    }
  }
  return {
    ...snapshot,
    kind: "saved",
    details,
    saved_at: textOr(value.saved_at, null),
    rows_left_out: numberOr(value.rows_left_out, 0),
    details_left_out: numberOr(value.details_left_out, 0),
  };
}

function explainUnreadable(value: JsonObject): string {
  if (value.kind !== "delta" && !isReadable(value.version)) {
    return `the trace has version ${JSON.stringify(value.version) ?? "(none)"}, and this view reads versions up to ${VERSION}`;
  }
  if (!isObject(value.run)) return "the message says nothing about the run";
  if (!Array.isArray(value.rows)) return "the message has no rows";
  return `the ${value.kind === "delta" ? "update" : "trace"} is incomplete`;
}

const isReadable = (version: unknown): boolean =>
  typeof version === "number" && Number.isInteger(version) && version >= 1 && version <= VERSION;

function readRows(rows: readonly unknown[], run: Run): Row[] {
  return rows.filter(isRow).map((row) => upgradeRow(row, run));
}

function readSnapshot(value: JsonObject): Snapshot | null {
  const run = readRun(value.run);
  if (!isReadable(value.version) || !run || !Array.isArray(value.rows)) return null;
  const phases = Array.isArray(value.phases) ? value.phases.filter(isObject) : [];
  return {
    kind: "snapshot",
    n: numberOr(value.n, 0),
    run,
    phases: phases.map((phase) => ({
      name: textOr(phase.name, "phase"),
      span_id: textOr(phase.span_id, ""),
      after: textsOf(phase.after),
    })),
    rows: readRows(value.rows, run),
  };
}

function readDelta(value: JsonObject): Delta | null {
  const run = readRun(value.run);
  if (!run || !Array.isArray(value.rows) || typeof value.from !== "number" || typeof value.n !== "number") return null;
  const text = Array.isArray(value.text) ? value.text : [];
  return {
    kind: "delta",
    from: value.from,
    n: value.n,
    run,
    rows: readRows(value.rows, run),
    text: text.filter(
      (pair): pair is [string, string] =>
        Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === "string",
    ),
  };
}

function readRun(found: unknown): Run | null {
  if (!isObject(found) || typeof found.run_id !== "string" || !isRunStatus(found.status)) return null;
  const value = upgradeRun(found);
  const currency = textOr(value.currency, "USD");
  return {
    ...numbersOf(value, RUN_COUNTS, 0),
    ...numbersOf(value, RUN_AMOUNTS, null),
    run_id: found.run_id,
    name: textOr(value.name, "ensemble"),
    status: value.status as RunStatus,
    exit_reason: textOr(value.exit_reason, null),
    phases_now: textsOf(value.phases_now),
    active: Array.isArray(value.active) ? value.active.filter(isActive) : [],
    tokens_complete: value.tokens_complete !== false,
    cost_complete: value.cost_complete !== false,
    currency,
    is_scripted: value.is_scripted === true,
    replayed_from: textOr(value.replayed_from, null),
    warnings: textsOf(value.warnings),
    note: textOr(value.note, null),
    budget: isObject(value.budget)
      ? { ...numbersOf(value.budget, BUDGET_AMOUNTS, null), currency: textOr(value.budget.currency, currency) } : null,
    waiting: textsOf(value.waiting),
    error: failureOf(value.error),
  };
}

function isActive(value: unknown): value is ActiveSpan {
  return isObject(value) && typeof value.span_id === "string" && typeof value.name === "string" && isKind(value.kind);
}

function readDetails(span_id: string, value: JsonObject): Details {
  const messages = Array.isArray(value.messages) ? value.messages.filter(isObject) : [];
  return {
    span_id,
    messages: messages.map((message) => ({
      role: textOr(message.role, "user"),
      text: textOr(message.text, ""),
      name: textOr(message.name, null),
      tool_calls: Array.isArray(message.tool_calls)
        ? message.tool_calls.filter(isObject).map((call) => ({
            id: textOr(call.id, null),
            name: textOr(call.name, "tool"),
            arguments: call.arguments,
          }))
        : null,
    })),
    input: textOr(value.input, null),
    output: textOr(value.output, null),
    error: failureOf(value.error),
  };
}
