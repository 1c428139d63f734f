// Holds W152: what the cells of a table are marked by.

import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { listMeasures, sayValue, valueOf } from "./measures";

const task = (span_id: string, more: Partial<Row> = {}): Row => row({ span_id, kind: "task", start_ms: 0, end_ms: 10, ...more });

it("offers cost and scores where there are any (W152)", () => {
  expect(listMeasures(stored({ run: run({ task_noun: "row" }) })).map(([, name]) => name)).toEqual(["Status", "Time"]);
  const scored = stored({ run: run({ task_noun: "row", cost: 1, score_names: ["share"] }), phases: [], rows: [task("a", { cost: 1, scores: [0.5] })] });
  expect(listMeasures(scored)).toEqual([["status", "Status"], ["time", "Time"], ["cost", "Cost"], ["score share", "share"]]);
  expect(["status", "cost", "score share"].map((measure) => sayValue(scored, valueOf(scored, scored.row("a") as Row, measure), measure))).toEqual(["10 ms", "$1.00", "0.5"]);
});
