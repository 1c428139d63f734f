// Holds W33: what stands in the columns beside the names.

import { expect, it } from "vitest";
import { EMPTY, type Track } from "../layout/tracks";
import { pastOf } from "../store/past-store";
import { row, run, stored } from "../testing/runs";
import { View } from "../view/view";
import type { Row, Run } from "../wire/rows";
import { cellsOf, COLUMNS, columnsFor, keptColumn, wantedColumns } from "./row-columns";
import type { ColumnName, Look } from "./look";

const viewOf = (rows: Row[], more: Partial<Run> = {}): View => new View(stored({ rows, phases: [], run: run({ status: "completed", ...more }) }), new AbortController().signal);
const look = (...columns: ColumnName[]): Look => ({ columns, lane: null, paint: null });
const names = (columns: readonly { name: ColumnName }[]): ColumnName[] => columns.map(({ name }) => name);
const sums = (view: View): Record<string, string> => Object.fromEntries(COLUMNS.map((column) => [column.name, column.sumOf(view, view.store.run.value as Run)]));
const texts = (of: Partial<Row>, track: Partial<Track> = {}): string[] =>
  cellsOf(COLUMNS, undefined, { ...EMPTY, kind: "task", isWorker: false, ...track, row: row({ span_id: "t", kind: "task", ...of }) } as unknown as Track).map(({ children }) => children);

it("says of a row its own tokens, cost, calls and score (W33)", () => {
  expect(texts({ input_tokens: 12_345, output_tokens: 678, cost: 0.0123, currency: "EUR", llm_call_count: 1234, score: 0.5 })).toEqual(["12.3k", "678", "€0.012", "1,234", "0.5"]);
});

it("marks what is known in part as the line of the run does, and says what nobody knows (W33)", () => {
  expect(texts({ input_tokens: 10, output_tokens: 2, lacks_tokens: true, cost: 0.5, currency: "USD", lacks_cost: true, llm_call_count: 2 })).toEqual(["≥ 10", "≥ 2", "≥ $0.500", "2", ""]);
  expect(texts({ lacks_tokens: true, lacks_cost: true, llm_call_count: 1 })).toEqual(["–", "–", "–", "1", ""]);
  const view = viewOf([], { input_tokens: 10, output_tokens: 2, tokens_complete: false, cost: 0.5, cost_complete: false, llm_call_count: 2 });
  expect(sums(view)).toMatchObject({ input: "≥ 10", output: "≥ 2", cost: "≥ $0.500", calls: "2" });
});

it("leaves the cells of handlers, of what has not begun and of rows that stand for others empty (W33)", () => {
  const nothing = ["", "", "", "", ""];
  expect(texts({ input_tokens: 0, output_tokens: 0, cost: 0, currency: "USD", llm_call_count: 0, agent: "Handler" })).toEqual(nothing);
  expect(texts({ status: "pending" })).toEqual(nothing);
  expect(texts({ input_tokens: 9, output_tokens: 9, llm_call_count: 9 }, { kind: "group" })).toEqual(nothing);
});

it("says that the work of a row below another one is counted there, too (W33)", () => {
  const [cell] = cellsOf(COLUMNS, "input", { kind: "task", isWorker: true, row: row({ span_id: "t", kind: "task", input_tokens: 7, output_tokens: 1 }) } as Track);
  expect(cell).toMatchObject({ title: "In: 7, counted in the row above, too", class: "et-amount et-kept et-inner" });
});

it("gives the sums of the run, and of scores the mean (W33)", () => {
  const rows = [row({ span_id: "a", kind: "task", score: 1 }), row({ span_id: "b", kind: "task", score: 0 }), row({ span_id: "c", kind: "task", score: 0.5 }), row({ span_id: "d", kind: "task" })];
  expect(sums(viewOf(rows, { elapsed_ms: 61_000, input_tokens: 5, output_tokens: 6, cost: 0, llm_call_count: 3 }))).toEqual({
    input: "5", output: "6", cost: "$0", calls: "3", score: "⌀ 0.5", time: "1:01",
  });
});

it("gives the mean of the scores that were there at the time that is shown (W33, W35)", () => {
  const view = viewOf([row({ span_id: "a", kind: "task", start_ms: 0, end_ms: 10, score: 1 }), row({ span_id: "b", kind: "task", start_ms: 10, end_ms: 20, score: 0 })], { elapsed_ms: 20 });
  const past = pastOf(view.present);
  const meanAt = (ms: number | null): string | undefined => {
    if (ms !== null) past.goTo(ms);
    view.present.past.value = ms === null ? null : past;
    return sums(view).score;
  };
  expect([null, 5, 15, 5, null].map(meanAt)).toEqual(["⌀ 0.5", "–", "⌀ 1", "–", "⌀ 0.5"]);
});

it("offers only what the run has something for (W33)", () => {
  expect(names(columnsFor(viewOf([row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9 })])))).toEqual(["time"]);
  expect(names(columnsFor(viewOf([row({ span_id: "t", kind: "task", status: "pending" })])))).toEqual([]);
  // Version 0.1.0 counted no calls of tasks.
  expect(names(columnsFor(viewOf([row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9, input_tokens: 1, output_tokens: 1, cost: 0.1 })])))).toEqual(["input", "output", "cost", "time"]);
});

it("has no heads while times stand alone, and where there is room for one, that which was wanted last (W33)", () => {
  expect(wantedColumns(COLUMNS, look("time"))).toEqual([]);
  expect(wantedColumns(COLUMNS, look())).toEqual([]);
  const wanted = look("cost", "time", "input", "calls");
  const some = COLUMNS.filter(({ name }) => name !== "calls");
  expect(names(wantedColumns(some, wanted))).toEqual(["input", "cost", "time"]);
  expect(keptColumn(wantedColumns(some, wanted), wanted)).toBe("input");
});
