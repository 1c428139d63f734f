// Reads the messages of the kernel, and lets nothing in that later steps could not rely on: they come from another
// version, a saved file, or a page that somebody else wrote. It must not know what is done with them.

import { type Bytes, readColumns } from "./columns";
import { dropMistyped, isKind, isObject, isOneOf, isRow, type JsonObject } from "./guards";
import type { AskedCall, Delta, Details, Handover, Incoming, Kept, Piece, Saved, Snapshot, TextHits, TextPiece, TimeRange } from "./messages";
import { upgradeRow, upgradeRun } from "./released-versions";
import {
  type ActiveSpan, BUDGET_AMOUNTS, type Failure, MANY_COUNTS, type Pending, type Row, type Run, RUN_AMOUNTS, RUN_COUNTS, RUN_STATUSES,
  type RunStatus, VERSION,
} from "./rows";

const isRunStatus = isOneOf(RUN_STATUSES);

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

/** Reads any message of the kernel with its buffers; what is not one comes back as `bad`, with the reason for a person. */
export function readMessage(value: unknown, buffers: readonly Bytes[] = []): Incoming {
  if (!isObject(value)) return { kind: "bad", why: "a message is not an object" };
  switch (value.kind) {
    case "snapshot":
      return readSnapshot(value, buffers) ?? { kind: "bad", why: explainUnreadable(value) };
    case "delta":
      return readDelta(value, buffers) ?? { kind: "bad", why: explainUnreadable(value) };
    case "details":
      return typeof value.span_id === "string"
        ? { kind: "details", details: readDetails(value.span_id, value) }
        : { kind: "bad", why: "incomplete details" };
    case "piece":
      return isPiece(value)
        ? { kind: "piece", piece: { span_id: value.span_id, field: value.field, from: value.from, text: value.text, length: value.length } }
        : { kind: "bad", why: "an incomplete piece" };
    case "found":
      return { kind: "found", hits: readHits(value) };
    case "graph":
      return { kind: "graph", graphs: value.graphs };
    case "cells":
      return { kind: "cells", cells: value.cells };
    case "pong":
      return { kind: "pong" };
    case "tryout": // read where it is shown, which is loaded late
      return { kind: "tryout", tryout: value, buffers };
    case "selection":
      return { kind: "selection", selected: { spans: textsOf(value.selection), range: readRange(value.range), time: numberOr(value.time, null), nonce: numberOr(value.nonce, null) } };
    case "ended": // what the cell shows now is for the page, not for the view
      return { kind: "ended" };
    default:
      return { kind: "bad", why: `a message of unknown kind ${JSON.stringify(value.kind) ?? "(none)"}` };
  }
}

function readHits(value: JsonObject): TextHits {
  const spans = new Map<string, { words: number[]; snippet: string | null }>();
  for (const hit of Array.isArray(value.spans) ? value.spans : []) {
    if (!Array.isArray(hit) || typeof hit[0] !== "string" || !Array.isArray(hit[1])) continue;
    spans.set(hit[0], { words: hit[1].filter((word) => typeof word === "number"), snippet: textOr(hit[2], null) });
  }
  return { words: textsOf(value.words), n: numberOr(value.n, 0), spans };
}

function readRange(value: unknown): TimeRange | null {
  const [from, to] = Array.isArray(value) ? [numberOr(value[0], null), numberOr(value[1], null)] : [null, null];
  return from !== null && to !== null && from < to ? { from, to } : null;
}

/** Reads the saved MIME payload, or says why it can't be shown. */
export function readSaved(value: unknown): Saved | { kind: "bad"; why: string } {
  if (!isObject(value)) return { kind: "bad", why: "the saved trace is not an object" };
  const snapshot = readSnapshot(value);
  if (!snapshot) return { kind: "bad", why: explainUnreadable(value) };
  const details: Record<string, Details> = { "*": readDetails("*", value) };
  const texts = joinTexts(value.texts);
  if (isObject(value.details)) {
    for (const [span, content] of Object.entries(value.details)) {
      if (isObject(content)) details[span] = readDetails(span, content, texts);
    }
  }
  return {
    ...snapshot,
    kind: "saved",
    details,
    saved_at: textOr(value.saved_at, null),
    rows_left_out: numberOr(value.rows_left_out, 0),
    details_left_out: numberOr(value.details_left_out, 0),
    kept: readKept(value.kept),
    graphs: value.graphs,
    cells: value.cells,
    series: value.series,
  };
}

/** The texts of a saved view, each of which may have earlier ones as parts; what is none is left out. */
function joinTexts(value: unknown): string[] {
  const texts: string[] = [];
  for (const text of Array.isArray(value) ? value : []) {
    const parts: unknown[] = Array.isArray(text) ? text : [text];
    texts.push(parts.map((part) => (typeof part === "number" ? (texts[part] ?? "") : textOr(part, ""))).join(""));
  }
  return texts;
}

function readKept(value: unknown): Record<string, Kept> {
  const isKept = (pair: unknown): boolean => Array.isArray(pair) && pair.length === 2 && pair.every((each) => typeof each === "number");
  return isObject(value) ? (Object.fromEntries(Object.entries(value).filter(([, pair]) => isKept(pair))) as Record<string, Kept>) : {};
}

function explainUnreadable(value: JsonObject): string {
  if (value.kind !== "delta" && !isReadable(value.version)) {
    return `the trace has version ${JSON.stringify(value.version) ?? "(none)"}, and this view reads versions up to ${VERSION}`;
  }
  if (!isObject(value.run)) return "the message says nothing about the run";
  if (!Array.isArray(value.rows) && !Array.isArray(value.columns)) return "the message has no rows";
  return `the ${value.kind === "delta" ? "update" : "trace"} is incomplete`;
}

const isReadable = (version: unknown): boolean =>
  typeof version === "number" && Number.isInteger(version) && version >= 1 && version <= VERSION;

/** Rows one by one, as versions 1 and 2 and small updates have them, or column by column. */
function readRows(value: JsonObject, buffers: readonly Bytes[], run: Run): Row[] | null {
  if (Array.isArray(value.rows)) return value.rows.filter(isRow).map((row) => upgradeRow(dropMistyped(row), run));
  return readColumns(value, buffers);
}

function readSnapshot(value: JsonObject, buffers: readonly Bytes[] = []): Snapshot | null {
  const run = readRun(value.run);
  const rows = isReadable(value.version) && run ? readRows(value, buffers, run) : null;
  if (!run || !rows) return null;
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
    rows,
    text: readText(value.text),
  };
}

function readText(value: unknown): TextPiece[] {
  return (Array.isArray(value) ? value : []).filter(
    (piece): piece is TextPiece =>
      Array.isArray(piece) && typeof piece[0] === "string" && typeof piece[1] === "string" &&
      (piece[2] === undefined || (Number.isInteger(piece[2]) && (piece[2] as number) >= 0)),
  );
}

function readDelta(value: JsonObject, buffers: readonly Bytes[]): Delta | null {
  const run = readRun(value.run);
  const rows = run && readRows(value, buffers, run);
  if (!run || !rows || typeof value.from !== "number" || typeof value.n !== "number") return null;
  return {
    kind: "delta",
    from: value.from,
    n: value.n,
    run,
    rows,
    text: readText(value.text),
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
    sentence: textOr(value.sentence, null),
    view: textOr(value.view, null),
    ended_at: textOr(value.ended_at, null),
    pending: value.pending as Pending | undefined,
    is_resumable: typeof value.is_resumable === "boolean" ? value.is_resumable : null,
    framework: textOr(value.framework, null),
    is_stoppable: typeof value.is_stoppable === "boolean" ? value.is_stoppable : null,
    many: isObject(value.many) ? numbersOf(value.many, MANY_COUNTS, 0) : null,
    task_noun: textOr(value.task_noun, "task"),
    phases_now: textsOf(value.phases_now),
    active: Array.isArray(value.active) ? value.active.filter(isActive) : [],
    tokens_complete: value.tokens_complete !== false,
    cost_complete: value.cost_complete !== false,
    currency,
    is_scripted: value.is_scripted === true,
    replayed_from: textOr(value.replayed_from, null),
    score_names: textsOf(value.score_names),
    row_inputs: textsOf(value.row_inputs),
    standing: value.standing as Run["standing"],
    ranges: value.ranges as Run["ranges"],
    warnings: textsOf(value.warnings),
    note: textOr(value.note, null),
    capture_mode: textOr(value.capture_mode, null),
    variable: textOr(value.variable, null),
    budget: isObject(value.budget)
      ? { ...numbersOf(value.budget, BUDGET_AMOUNTS, null), currency: textOr(value.budget.currency, currency) } : null,
    waiting: textsOf(value.waiting),
    error: failureOf(value.error),
  };
}

function isHandover(value: unknown): value is Handover {
  return isObject(value) && typeof value.kind === "string" && typeof value.from === "string" && typeof value.to === "string"
    && typeof value.characters === "number";
}

function isPiece(value: JsonObject): value is JsonObject & Piece {
  return typeof value.span_id === "string" && typeof value.field === "string" && typeof value.from === "number"
    && typeof value.text === "string" && typeof value.length === "number";
}

function isActive(value: unknown): value is ActiveSpan {
  return isObject(value) && typeof value.span_id === "string" && typeof value.name === "string" && isKind(value.kind);
}

function readDetails(span_id: string, value: JsonObject, texts: readonly string[] = []): Details {
  /** A text as it is, or by its number. */
  const textAt = <T extends string | null>(found: unknown, otherwise: T): string | T => textOr(typeof found === "number" ? texts[found] : found, otherwise);
  const messages = Array.isArray(value.messages) ? value.messages.filter(isObject) : [];
  return {
    span_id,
    messages: messages.map((message) => ({
      role: textOr(message.role, "user"),
      text: textAt(message.text, ""),
      reasoning: textAt(message.reasoning, null),
      field: textOr(message.field, null),
      name: textOr(message.name, null),
      tool_calls: Array.isArray(message.tool_calls)
        ? message.tool_calls.filter(isObject).map((call) => ({
            id: textOr(call.id, null),
            name: textOr(call.name, "tool"),
            arguments: call.arguments,
          }))
        : null,
    })),
    input: textAt(value.input, null),
    output: textAt(value.output, null),
    error: failureOf(value.error),
    lengths: isObject(value.lengths)
      ? Object.fromEntries(Object.entries(value.lengths).filter((pair): pair is [string, number] => typeof pair[1] === "number")) : {},
    handovers: Array.isArray(value.handovers) ? value.handovers.filter(isHandover) : [],
    call: value.call as AskedCall | undefined,
    transcript: value.transcript,
    pictures: value.pictures,
  };
}
