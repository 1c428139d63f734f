// Holds W10: the table of spans can be sorted by each of its columns.

import { expect, it } from "vitest";
import { row, ROWS, stored } from "../testing/runs";
import { type ColumnKey, sortRows } from "./span-order";

const CALLS = [
  row({ span_id: "a", kind: "llm", model: "m10", start_ms: 0, end_ms: 10, input_tokens: 9, cost: 0.2 }),
  row({ span_id: "b", kind: "llm", model: "m9", start_ms: 5, end_ms: 6, input_tokens: 100 }),
  row({ span_id: "c", kind: "llm", model: "m9", start_ms: null, cost: 0.1 }),
];
const sorted = (column: ColumnKey, isDescending = false): string =>
  sortRows(stored(), CALLS, { column, isDescending }).map((one) => one.span_id).join("");

it("sorts numbers as numbers, texts as people read them, and keeps what is equal as it was", () => {
  expect([sorted("input"), sorted("input", true), sorted("duration")]).toEqual(["abc", "bac", "bac"]);
  expect([sorted("name"), sorted("name", true), sorted("kind")]).toEqual(["bca", "abc", "abc"]);
});

it("puts what is unknown last, whichever way", () => {
  expect([sorted("start"), sorted("start", true), sorted("cost"), sorted("cost", true)]).toEqual(["abc", "bac", "cab", "acb"]);
});

it("leaves the rows that it was given as they were", () => {
  const before = [...ROWS];
  sortRows(stored(), ROWS, { column: "duration", isDescending: true });
  expect(ROWS).toEqual(before);
});
