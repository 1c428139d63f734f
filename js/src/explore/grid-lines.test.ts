// Holds W37 and W152: which lines and cells a map and items have.

import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { findCell, type GridTable, indexCells, tabulate, tabulateAnswers } from "./grid-lines";

const task = (span_id: string, name: string, parent_id: string | null, more: Partial<Row> = {}): Row => row({ span_id, name, parent_id, kind: "task", start_ms: 0, end_ms: 10, ...more });
const nested = (span_id: string, parent_id: string): Row => row({ span_id, parent_id, kind: "nested", start_ms: 0 });
const idsOf = ({ lines }: GridTable): [string, ...(string | undefined)[]][] => lines.map(({ name, cells }) => [name, ...cells.map((each) => each?.span_id)]);
const map = (rows: Row[]) => stored({ run: run({ task_noun: "row" }), phases: [], rows });

it("has a line for each row of a map, and a cell for the row and each of its tasks", () => {
  const table = tabulate(map([
    task("r0", "row 0", "run", { description: "city: Paris" }), task("r1", "row 1", "run", { status: "pending" }),
    nested("n0", "r0"), task("a", "find", "n0"), row({ span_id: "p", kind: "phase", parent_id: "n0" }), task("b", "write", "p"),
    row({ span_id: "d", kind: "delegation", parent_id: "a" }), task("w", "asked", "d"),
  ]));
  expect([table.noun, table.columns]).toEqual(["row", ["row", "find", "write"]]);
  expect(idsOf(table)).toEqual([["row 0 · city: Paris", "r0", "a", "b"], ["row 1", "r1", undefined, undefined]]);
});

it("puts rows in the order of the result, whenever they came", () => {
  const lines = tabulate(map([task("r1", "row 1", "run", { line: 1 }), task("r0", "row 0", "run", { line: 0, repeat: 2 }), task("r2", "row 0", "run", { line: 0, repeat: 1 })]));
  expect(idsOf(lines).map(([, id]) => id)).toEqual(["r2", "r0", "r1"]);
});

it("takes a row with one task for that task, and leaves out what judges did", () => {
  const table = tabulate(map([
    task("r0", "row 0", "run"), nested("n0", "r0"), task("a", "find", "n0"),
    row({ span_id: "s", kind: "score", parent_id: "r0" }), nested("j", "s"), task("judge", "judge", "j"),
  ]));
  expect([table.columns, idsOf(table)]).toEqual([["find"], [["row 0", "r0"]]]);
});

it("puts side by side what was done of the same list, also of items that have not begun", () => {
  const list = (span_id: string, name: string, source: string, count: number): Row => task(span_id, name, null, { item_count: count, settings: { for_each: source } });
  const store = stored({ phases: [], rows: [
    list("f", "find", "{cities}", 3), task("f1", "find[1]", "f"), task("f0", "find[0]", "f"), list("g", "rate", "{cities}", 3), task("g0", "rate[0]", "g"),
    nested("n", "f0"), task("i", "look", "n"), list("h", "other", "{ports}", 1), task("h0", "other[0]", "h"),
  ] });
  const table = tabulate(store);
  expect([table.noun, table.columns]).toEqual(["item", ["find", "look", "rate", "other"]]);
  expect(idsOf(table)).toEqual([
    ["find[0]", "f0", "i", "g0", undefined], ["find[1]", "f1", undefined, undefined, undefined],
    ["find[2]", undefined, undefined, undefined, undefined], ["other[0]", undefined, undefined, undefined, "h0"],
  ]);
});

it("is there for maps and items alone", () => {
  expect([stored(), map([]), stored({ rows: [task("f", "find", null, { item_count: 0 })] })].map((store) => store.hasGrid)).toEqual([false, true, true]);
});

it("goes on where a damaged file names items that there can't be", () => {
  const store = stored({ phases: [], rows: [task("f", "find", null, { item_count: 1 }), task("x", "find[7]", "f"), task("y", "find", "f")] });
  expect(idsOf(tabulate(store))).toEqual([["find[0]", undefined]]);
  expect(tabulate(map([])).lines).toEqual([]);
});

it("finds the cell that a span is in: that of its task, or where a row has one task, that of the row", () => {
  const store = map([
    task("r0", "row 0", "run"), nested("n0", "r0"), task("a", "find", "n0"), task("b", "write", "n0"), row({ span_id: "l", kind: "llm", parent_id: "b" }),
    row({ span_id: "s", kind: "score", parent_id: "r0" }), task("r1", "row 1", "run"),
  ]);
  const index = indexCells(tabulate(store).lines);
  expect(["r0", "b", "l", "s", "r1", "gone"].map((span) => findCell(store, index, span))).toEqual([
    { line: 0, column: 0 }, { line: 0, column: 2 }, { line: 0, column: 2 }, { line: 0, column: 0 }, { line: 1, column: 0 }, null,
  ]);

  const single = map([task("r0", "row 0", "run"), nested("n0", "r0"), task("a", "find", "n0"), row({ span_id: "l", kind: "llm", parent_id: "a" })]);
  expect(findCell(single, indexCells(tabulate(single).lines), "l")).toEqual({ line: 0, column: 0 });
});

it("has a line for each row and repeat, and a cell for each variant, in the order of the rows (W152)", () => {
  const at = (span_id: string, variant: string, line: number, repeat: number): Row => task(span_id, `${variant}/row ${line} #${repeat}`, "run", { variant, line, repeat });
  const rows = [at("b1", "b", 1, 1), at("a0", "a", 0, 1), at("a1", "a", 1, 1), at("a1r", "a", 1, 2), at("b0", "b", 0, 1)];
  const table = tabulateAnswers(stored({ run: run({ task_noun: "run" }), phases: [], rows }));
  expect([table.columns, table.isCompared, table.noun]).toEqual([["b", "a"], true, "row"]);
  expect(idsOf(table)).toEqual([["row 0 #1", "b0", "a0"], ["row 1 #1", "b1", "a1"], ["row 1 #2", undefined, "a1r"]]);
});

it("has of one variant, of variants of one row and of older files what all runs have (W152)", () => {
  const of = (task_noun: string, rows: Row[]) => tabulateAnswers(stored({ run: run({ task_noun }), phases: [], rows }));
  expect(idsOf(of("variant", [task("a", "a", "run", { variant: "a", line: 0 }), task("b", "b", "run", { variant: "b", line: 0 })]))).toEqual([["a", "a"], ["b", "b"]]);
  expect(idsOf(of("run", [task("a", "a/row 0", "run", { variant: "a", line: 0 })]))).toEqual([["a/row 0", "a"]]);
  expect(idsOf(of("run", [task("a", "a/row 0", "run"), task("b", "b/row 0", "run")]))).toEqual([["a/row 0", "a"], ["b/row 0", "b"]]);
});
