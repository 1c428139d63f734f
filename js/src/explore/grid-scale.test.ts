// Holds W37: what colours the cells, and the legend that names each look.

import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { tabulate } from "./grid-lines";
import { coloursOf, makeScale, sayValue, valueOf } from "./grid-scale";

const task = (span_id: string, more: Partial<Row> = {}): Row => row({ span_id, kind: "task", start_ms: 0, end_ms: 10, ...more });

function scaled(rows: Row[], colour: string, score_names: string[] = []) {
  const store = stored({ run: run({ task_noun: "row", score_names }), phases: [], rows });
  const scale = makeScale(store, tabulate(store).lines, colour);
  return { store, looks: rows.map(scale.lookOf), legend: scale.legend.map(({ look, words }) => [look, words]) };
}

it("shows states as they are, with counts", () => {
  const { looks, legend } = scaled([task("a"), task("b", { status: "error" }), task("c", { status: "running", end_ms: null }), task("d", { reused: true }), task("e")], "status");
  expect(looks).toEqual(["ok", "error", "running", "reused", "ok"]);
  expect(legend).toEqual([["ok", "done 2"], ["error", "failed 1"], ["running", "running 1"], ["reused", "reused 1"]]);
});

it("puts times into five steps of as many cells, and says of a failed cell that it failed", () => {
  const { looks, legend } = scaled([...[100, 900, 200, 5000, 300].map((end_ms, k) => task(`t${k}`, { end_ms })), task("x", { status: "error" })], "time");
  expect(looks).toEqual([0, 3, 1, 4, 2, "error"]);
  expect(legend.map(([, words]) => words)).toEqual(["≤ 100 ms", "≤ 200 ms", "≤ 300 ms", "≤ 900 ms", "≤ 5.0 s", "failed 1"]);
});

it("has as many steps as there are values, and of one value one", () => {
  const cost = { currency: "EUR", input_tokens: 1 };
  expect(scaled([task("a", { cost: 0.5, ...cost }), task("b", { cost: 0.25, ...cost })], "cost").legend).toEqual([[0, "≤ $0.250"], [4, "≤ $0.500"]]);
  expect(scaled([task("a", { cost: 0.5, ...cost }), task("b")], "cost").legend).toEqual([[4, "≤ $0.500"], ["none", "no value 1"]]);
});

it("tells what passed from what did not, and words by how common they are", () => {
  const names = ["right", "tone"];
  const rows = [task("a", { scores: [true, "warm"] }), task("b", { scores: [false, "cool"] }), task("c", { scores: [null, "warm"] }), task("d", { status: "error" })];
  expect(scaled(rows, "score right", names)).toMatchObject({ looks: ["passed", "failed", "none", "error"], legend: [["passed", "passed 1"], ["failed", "not passed 1"], ["none", "no value 1"], ["error", "failed 1"]] });
  expect(scaled(rows, "score tone", names)).toMatchObject({ looks: [0, 4, 0, "error"], legend: [[0, "warm"], [4, "cool"], ["error", "failed 1"]] });
});

it("offers cost and scores where there are any", () => {
  const { store } = scaled([task("a")], "status");
  expect(coloursOf(store, tabulate(store).lines).map(([, name]) => name)).toEqual(["Status", "Time"]);
  const scored = scaled([task("a", { cost: 1, scores: [0.5] })], "status", ["share"]).store;
  expect(coloursOf(scored, tabulate(scored).lines)).toEqual([["status", "Status"], ["time", "Time"], ["cost", "Cost"], ["score share", "share"]]);
  expect(["status", "cost", "score share"].map((colour) => sayValue(scored, valueOf(scored, scored.row("a") as Row, colour), colour))).toEqual(["10 ms", "$1.00", "0.5"]);
});

it("has one look for all words that are rare", () => {
  const { looks, legend } = scaled(["a", "a", "b", "b", "c", "c", "d", "d", "e", "e", "f"].map((word, k) => task(`t${k}`, { scores: [word] })), "score tone", ["tone"]);
  expect(looks.at(-1)).toBe(looks[8]);
  expect(legend.map(([, words]) => words)).toEqual(["a", "b", "c", "d", "e and others"]);
});
