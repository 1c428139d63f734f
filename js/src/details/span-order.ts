// The spans of a run as a table: which columns it has, and the rows in the order that a person chose. Pure.

import type { Store } from "../store/store";
import { durationOf, hasCost } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { kindTitle, nameOfState, titleOf } from "../wording/labels";

export type ColumnKey = "name" | "kind" | "status" | "agent" | "start" | "duration" | "input" | "output" | "cost";

export interface Order {
  readonly column: ColumnKey;
  readonly isDescending: boolean;
}

type Value = string | number | null | undefined;

/** What a column sorts by; unknown values come last, whichever way it is sorted. */
const VALUES: Record<ColumnKey, (row: Row, store: Store) => Value> = {
  name: (row, store) => titleOf(store, row),
  kind: (row) => kindTitle(row.kind),
  status: (row) => nameOfState(row),
  agent: (row) => row.agent,
  start: (row) => row.start_ms,
  duration: durationOf,
  input: (row) => row.input_tokens || null,
  output: (row) => row.output_tokens || null,
  cost: (row) => (hasCost(row) ? row.cost : null),
};

export function sortRows(store: Store, rows: readonly Row[], { column, isDescending }: Order): Row[] {
  const valueOf = VALUES[column];
  const keyed = rows.map((row) => ({ row, value: valueOf(row, store) ?? null }));
  // Sorting is stable, so equal values stay in the order in which the spans appeared.
  keyed.sort((a, b) => compareValues(a.value, b.value, isDescending));
  return keyed.map(({ row }) => row);
}

/** Two values of one column; an unknown one comes last, whichever way it is sorted. */
export function compareValues(one: string | number | boolean | null, other: string | number | boolean | null, isDescending: boolean): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  const sign = isDescending ? -1 : 1;
  if (typeof one === "string" || typeof other === "string") return sign * compareTexts(String(one), String(other));
  return sign * (Number(one) - Number(other));
}

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const compareTexts = (a: string, b: string): number => collator.compare(a, b);
