// What may be a part of a row, whichever form it came in: every later step can rely on it.

import { type Holds, type Review, ROW_COLUMNS, type Row, STATUSES } from "./rows";

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

/** True for a column that this view knows; own names only, since `constructor` is none. */
export const isColumn = (name: unknown): name is keyof typeof ROW_COLUMNS => typeof name === "string" && Object.hasOwn(ROW_COLUMNS, name);

const TYPES: Record<Holds, string> = { text: "string", number: "number", flag: "boolean", record: "object" };

/** The row without what is not of the type that its column holds; what no column has is left to who upgrades it. */
export function dropMistyped(row: Row): Row {
  const isFine = ([name, value]: [string, unknown]): boolean => value == null || !isColumn(name) || typeof value === TYPES[ROW_COLUMNS[name]];
  const fields = Object.entries(row);
  return fields.every(isFine) ? row : (Object.fromEntries(fields.filter(isFine)) as unknown as Row);
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
