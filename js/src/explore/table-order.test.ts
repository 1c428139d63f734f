// Holds W154: which lines a filter leaves, by what they are sorted, and what is said of what is no filter.

import { describe, expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import type { CellText, Given } from "./cell-asker";
import { tabulateAnswers } from "./grid-lines";
import { arrange, meanOf, type Order, readFilter, type Sight } from "./table-order";

const TEXTS = new Map<string, CellText>();

function cell(variant: string, line: number, text: [answer: string | null, digest: number | null, ...inputs: Given[]], more: Partial<Row> = {}): Row {
  const span_id = `${variant}${line}`;
  TEXTS.set(span_id, { answer: text[0], digest: text[1], inputs: text.slice(2) as Given[], pictures: {} });
  return row({ span_id, kind: "task", parent_id: "run", name: `${variant}/row ${line}`, variant, line, start_ms: 0, end_ms: 100 * (line + 1), ...more });
}

const rows = [
  cell("a", 0, ["Yes.", 1, "Paris", 10], { scores: [true, 0.9] }), cell("b", 0, ["Yes.", 1, "Paris", 10], { scores: [true, 0.4] }),
  cell("a", 1, ["No.", 2, "Rome", 9], { scores: [false, 0.2] }), cell("b", 1, ["Never.", 3, "Rome", 9], { scores: [false, 0.1] }),
  cell("a", 2, [null, null, "bern", 100], { status: "error" }), cell("b", 2, ["10 of them", 4, "bern", 100], { scores: [null, 0.7], reused: true }),
  cell("a", 3, [null, null, null, null], { status: "pending", end_ms: null }),
];
const store = stored({ run: run({ task_noun: "run", score_names: ["right", "a share"], row_inputs: ["city", "n"] }), phases: [], rows });
const sightOf = (measure: string): Sight => ({ store, measure, textOf: ({ span_id }) => TEXTS.get(span_id) as CellText });
const { lines } = tabulateAnswers(store);

function show(text: string, order: Order | null = null, measure = "score right"): number[] {
  const sight = sightOf(measure);
  return arrange(lines, readFilter(text, sight), order, null, sight).map((line) => lines.indexOf(line));
}

describe("a filter", () => {
  it.each<[string, number[]]>([
    ["", [0, 1, 2, 3]], ["failed", [2]], [" Failed , ", [2]], ["pending", [3]], ["reused", [2]], ["done", [0, 1, 2]], ["differs", [1]],
    ["score < 0.5", [1]], ["right = passed", [0]], ["right=not passed", [1]], ["a share >= 0.7", [0, 2]], ["a share differs", [0, 1]], ["A SHARE<0.2", [1]],
    ["city = paris", [0]], ["n > 9", [0, 2]], ["n != 9", [0, 2]], ["time > 0.15", [1, 2]], ["failed, n > 9", [2]], ["done and right < 1", [1]], ["score <", []],
  ])("%j leaves these lines (W154)", (text, left) => {
    expect(readFilter(text, sightOf("score right")).fault).toBeNull();
    expect(show(text)).toEqual(left);
  });

  it("says of what is none what can be written (W154)", () => {
    expect(readFilter("failed, rigth < 1", sightOf("status")).fault).toBe("“rigth < 1” is no filter: write failed, differs, or right, a share, time, cost, city, n with <, > or = and a value.");
    expect(readFilter("constructor", sightOf("status")).fault).toContain("“constructor” is no filter");
    expect(show("rigth < 1")).toEqual([0, 1, 2, 3]);
  });

  it("looks at texts only where it has to (W153)", () => {
    expect(["failed", "right < 1", "differs", "city = x"].map((text) => readFilter(text, sightOf("status")).needsTexts)).toEqual([false, false, true, true]);
  });
});

it("is sorted by inputs, by what cells are marked by, and by answers, what is unknown last (W154)", () => {
  const by = (more: Partial<Order>): Order => ({ by: "cell", at: 0, isDescending: false, ...more });
  expect(show("", by({ by: "input", at: 0 }))).toEqual([2, 0, 1, 3]);
  expect(show("", by({ by: "input", at: 1, isDescending: true }))).toEqual([2, 0, 1, 3]);
  expect(show("", by({ isDescending: true }), "score a share")).toEqual([0, 1, 2, 3]);
  expect(show("", by({ at: 1 }), "score a share")).toEqual([1, 0, 2, 3]);
  expect(show("", by({ at: 1 }), "status")).toEqual([2, 1, 0, 3]);
});

it("has means of numbers and of what passed, of the cells that are over (W156)", () => {
  expect(meanOf(lines, 0, sightOf("score right"))).toEqual({ mean: 0.5, count: 2, isShare: true });
  expect(meanOf(lines, 1, sightOf("score a share"))).toMatchObject({ count: 3, isShare: false });
  expect([meanOf(lines, 0, sightOf("status")), meanOf([], 0, sightOf("time"))]).toEqual([null, null]);
});
