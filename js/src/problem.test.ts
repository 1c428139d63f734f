import { expect, it } from "vitest";
import { activitiesOf } from "./activity";
import { row, run, stored } from "./fixture";
import { newFrom } from "./message";
import { nextProblem } from "./problem";

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

it("names each task at work once, with what it is at", () => {
  const rows = [
    row({ span_id: "t", kind: "task", name: "web", status: "running", start_ms: 100 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", tool: "search", status: "running" }),
    row({ span_id: "y", kind: "tool", parent_id: "t", tool: "fetch", status: "running" }),
    row({ span_id: "h", kind: "task", name: "score", status: "running", start_ms: 200 }),
  ];
  const active = rows.map(({ span_id, kind, name }) => ({ span_id, kind, name, since_ms: 0 }));
  const store = stored({ rows, run: run({ active }) });
  expect(activitiesOf(store, run({ active }), 9)).toEqual({
    total: 2,
    shown: [
      { span: "x", name: "web", means: "▪ search +1", began: 100 },
      { span: "h", name: "score", means: "", began: 200 },
    ],
  });
  expect(activitiesOf(store, run({ active }), 1)).toMatchObject({ total: 2, shown: [{ name: "web" }] });
});

it("opens a conversation at what its last call added", () => {
  const say = (role: string) => ({ role, text: "" });
  expect(newFrom([say("system"), say("user"), say("assistant")])).toBe(0);
  expect(newFrom([say("system"), say("user"), say("assistant"), say("tool"), say("assistant")])).toBe(3);
  expect(newFrom([])).toBe(0);
});
