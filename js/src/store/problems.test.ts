import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Row, Run } from "../wire/rows";
import { listWarnings, nextProblem } from "./problems";

it("goes from error to error in the order of time, and around", () => {
  const store = stored({ rows: [
    row({ span_id: "t", kind: "task", status: "error", start_ms: 0 }),
    row({ span_id: "late", kind: "tool", parent_id: "t", status: "error", start_ms: 9 }),
    row({ span_id: "early", kind: "tool", parent_id: "t", status: "error", start_ms: 2 }),
  ] });
  expect(nextProblem(store, "error", null)).toBe("early");
  expect(nextProblem(store, "error", "early")).toBe("late");
  expect(nextProblem(store, "error", "late")).toBe("early");
  expect(nextProblem(store, "retry", null)).toBeNull();
});

it("names a failed task itself when nothing inside it failed", () => {
  const store = stored({ rows: [row({ span_id: "t", kind: "task", status: "error", start_ms: 0 })] });
  expect(nextProblem(store, "error", null)).toBe("t");
});

it("finds the attempts that were followed by a wait", () => expect(nextProblem(stored(), "retry", null)).toBe("a1"));

it("lists for what a run completed with warnings, whether or not a warning was given (W15)", () => {
  const task = (more: Partial<Row>): Row => row({ span_id: more.name ?? "t", kind: "task", agent: "Bo", start_ms: 0, end_ms: 5, ...more });
  const warnings = (rows: Row[], more: Partial<Run> = {}): string[] =>
    listWarnings(stored({ rows, run: run({ status: "completed_with_warnings", ...more }) }));
  expect(warnings([task({ name: "fall", is_fallback: true }), task({ name: "burn", status: "error", error_type: "ValueError" })], { warnings: ["Careful."] }))
    .toEqual(["Careful.", "In fall the fallback Bo took over.", "The task burn failed: ValueError."]);
  expect(warnings([task({ name: "fine" })])).toEqual(["A phase went on although its review would have sent it back."]);
  expect(warnings([task({ name: "fine" })], { status: "completed" })).toEqual([]);
});

it("tells many failures as one, and not what is inside them (W25)", () => {
  const rows = Array.from({ length: 30 }, (_, k) => [
    row({ span_id: `r${k}`, kind: "task", name: `row ${k}`, status: "error" }),
    row({ span_id: `n${k}`, kind: "nested", parent_id: `r${k}`, status: "error" }),
    row({ span_id: `t${k}`, kind: "task", name: "say", parent_id: `n${k}`, status: "error" }),
  ]).flat();
  const told = (more: object): string[] => listWarnings(stored({ rows, run: run({ status: "completed_with_warnings", task_noun: "row", ...more }) }));
  expect(told({})).toEqual(["30 rows failed."]);
  expect(told({ warnings: ["Careful."] })).toEqual(["Careful.", "30 rows failed."]);
});
