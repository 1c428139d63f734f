// Holds W22: a span has one name, on its bar and wherever else it is told of.

import { describe, expect, it } from "vitest";
import { LayoutBuilder } from "../layout/layout-builder";
import { activitiesOf } from "../store/activities";
import { row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { describeSkip, distinctiveEnd, reuseOf, savingOf, timesOf, titleOf } from "./labels";

const call = (turn: string, start: number, more: Partial<Row> = {}): Row[] => [
  row({ span_id: `u${turn}`, kind: "turn", parent_id: "t", name: `turn ${turn}`, start_ms: start, end_ms: start + 80, ...more }),
  row({ span_id: `l${turn}`, kind: "llm", parent_id: `u${turn}`, model: "gpt", start_ms: start, end_ms: start + 40 }),
];
const tool = (turn: string, id: string, name: string): Row => row({ span_id: id, kind: "tool", parent_id: `u${turn}`, tool: name, start_ms: 0, end_ms: 1 });

const ROWS: Row[] = [
  row({ span_id: "t", kind: "task", name: "web", agent: "Ana", status: "running", start_ms: 0 }),
  ...call("1", 0), tool("1", "x1", "search"), tool("1", "x2", "search"), tool("1", "x3", "fetch"),
  ...call("2", 100), tool("2", "x4", "delegate_task"), row({ span_id: "d", kind: "delegation", parent_id: "x4", delegate_to: "Bo", start_ms: 150, end_ms: 160 }),
  ...call("3", 200),
  row({ span_id: "g", kind: "guardrail", parent_id: "t", guardrail: "output", status: "error", start_ms: 290, end_ms: 300 }),
  ...call("4", 300), ...call("5", 400, { is_correction: true }),
  row({ span_id: "r", kind: "review", parent_id: "t", review: { subject: "output", text: "?", verdicts: ["retry"], decision: "retry" }, start_ms: 490, end_ms: 500 }),
  ...call("6", 500).map((one) => ({ ...one, status: "running" as const, end_ms: null })),
];

it("calls a model call by what its reply did, else by its draft or turn, the same as its bar", () => {
  const store = stored({ rows: ROWS, phases: [] });
  const calls = ROWS.filter((one) => one.kind === "llm");
  const titles = calls.map((one) => titleOf(store, one));
  expect(titles).toEqual(["calls search × 2, fetch", "asks Bo", "turn 3", "draft 2", "correction", "draft 3"]);
  const marks = new LayoutBuilder().build(store, new Set()).track("t")?.marks ?? [];
  expect(calls.map((one) => marks.find((mark) => mark.row === one)?.names?.[0])).toEqual(titles);
});

it.each([
  ["summarise[12]", "[12]"], ["style=long/r4", "/r4"], ["style=long/r2 #2", "/r2 #2"], ["r2 #2", " #2"], ["llm=local/row 12", "/row 12"],
  ["gather", ""], ["x", ""], ["/tmp", ""], ["a/which says more than an end", ""], ["[0]", ""],
])("knows the end that tells %s from others", (name, end) => expect(distinctiveEnd(name)).toBe(end));

it("says so of what runs now, too, and names the model only where nothing else is known", () => {
  const active = ROWS.filter((one) => one.status === "running").map(({ span_id, kind, name }) => ({ span_id, kind, name }));
  const store = stored({ rows: ROWS, phases: [], run: run({ active }) });
  expect(activitiesOf(store, run({ active }), 1).shown[0]?.doing).toBe("◆ draft 3");
  expect(titleOf(store, row({ span_id: "z", kind: "llm", parent_id: "t", model_requested: "gpt" }))).toBe("gpt");
});

it.each([
  ["not started: the budget is used up", "skipped: the budget is used up"], ["phase 'sell' was skipped", "skipped, since phase 'sell' was skipped"],
  ["needs 'bake', which was skipped", "skipped: needs 'bake', which was skipped"],
  ["'a' failed", "skipped: 'a' failed"], ["condition not met", "condition not met"], [null, "skipped"],
])("says in one clause why a task never ran: %s", (reason, words) => expect(describeSkip(reason)).toBe(words));

it.each<[Partial<Row>, string]>([
  [{}, ""], [{ item_count: 1200, settings: { for_each: "plan" } }, " x 1,200"], [{ item_count: 0 }, " x 0"],
  [{ settings: { for_each: "plan" } }, " x ?"], [{ settings: { priority: true } }, ""],
])("tells how often a task runs, also where nobody knows yet for how many items (E53): %j", (more, words) => {
  expect(timesOf(row({ span_id: "t", kind: "task", ...more }))).toBe(words);
});

describe("reuse (C34)", () => {
  it("says what was saved, and leaves out what is nothing or unknown", () => {
    const whole = row({ span_id: "t", kind: "task", reused: true, saved_cost: 0.0123, saved_tokens: 4120, saved_ms: 12_000, currency: "USD" });
    expect(savingOf(whole, "reused: ")).toBe("reused: $0.012, 4.1k tokens and 12 s saved");
    expect(savingOf(row({ span_id: "t", kind: "task", reused: true, saved_cost: 0, saved_tokens: 0, saved_ms: 812 }))).toBe("812 ms saved");
    expect(savingOf(row({ span_id: "t", kind: "task", reused: true }))).toBe("");
  });

  it("says why a task was reused or ran, where somebody asked", () => {
    expect(reuseOf(row({ span_id: "t", kind: "task", reused: true, reuse_reason: "unchanged since run a1" }))).toBe("reused: unchanged since run a1");
    expect(reuseOf(row({ span_id: "t", kind: "task", reuse_reason: "the description changed" }))).toBe("not reused: the description changed");
    expect(reuseOf(row({ span_id: "t", kind: "task" }))).toBe("");
  });
});
