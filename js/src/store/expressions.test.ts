// Holds W7 and W27: what is copied gives the sums of a task, where all that is selected are tasks of the run.

import { expect, it } from "vitest";
import { row, ROWS, run, stored } from "../testing/runs";
import { spanExpression, spansExpression } from "./expressions";

const inside = [
  row({ span_id: "d", kind: "delegation", parent_id: "u", start_ms: 0 }),
  row({ span_id: "w", kind: "task", parent_id: "d", start_ms: 0 }),
];
const store = stored({ rows: [...ROWS, ...inside] });

it("takes tasks of the run from the frame that has their sums, and all else from the spans", () => {
  expect(spanExpression(store, "t")).toBe('report.frames.tasks.loc["t"]');
  expect(spansExpression(store, ["t", "g"])).toBe('report.frames.tasks.loc[["t", "g"]]');
  expect(spansExpression(store, ["t", "l"])).toBe('report.frames.spans.loc[["t", "l"]]');
  expect(["p", "l"].map((span) => spanExpression(store, span))).toEqual(["p", "l"].map((span) => `report.frames.spans.loc["${span}"]`));
});

it("takes work that was handed on from the frame of delegations, which has its sums", () => {
  expect(["w", "d"].map((span) => spanExpression(store, span))).toEqual(['report.frames.delegations.loc["d"]', 'report.frames.delegations.loc["d"]']);
  expect(spansExpression(store, ["d", "w"])).toBe('report.frames.delegations.loc[["d"]]');
  expect(spansExpression(store, ["t", "w"])).toBe('report.frames.spans.loc[["t", "w"]]');
});

it("takes rows of a map by their labels, and one alone from the spans, since frames.tasks has what is done in them", () => {
  const map = stored({ run: run({ task_noun: "row", variable: "res" }), rows: [row({ span_id: "r0", kind: "task" }), row({ span_id: "r1", kind: "task" })] });
  expect(spansExpression(map, ["r0", "r1"])).toBe("res.frame.loc[res.selection]");
  expect(spanExpression(map, "r0")).toBe('res.frames.spans.loc["r0"]');
});
