import { expect, it } from "vitest";
import { row, stored } from "../testing/runs";
import { nextProblem } from "./problems";

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
