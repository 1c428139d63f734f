// What may be a part of a row, whichever form it came in: every later step can rely on it.

import { type Review, type Row, STATUSES } from "./rows";

export type JsonObject = Record<string, unknown>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** True for the content of a trace file: a saved view has no `schemaVersion`. */
export const isTraceFile = (value: unknown): value is JsonObject => isObject(value) && "schemaVersion" in value;

export function isOneOf(names: readonly string[]): (value: unknown) => boolean {
  const known = new Set<unknown>(names);
  return (value) => known.has(value);
}

// Any kind: one that this view does not know is shown plainly.
export const isKind = (value: unknown): value is string => typeof value === "string";

const isStatus = isOneOf(STATUSES);
const isTime = (value: unknown): boolean => value == null || (typeof value === "number" && Number.isFinite(value));

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
