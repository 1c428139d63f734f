// Holds W5 and W8: which rows are brought into sight, and ways from span to span.

import { describe, expect, it } from "vitest";
import { LayoutBuilder } from "../layout/layout-builder";
import type { Layout } from "../layout/tracks";
import { row, stored } from "../testing/runs";
import type { Row, Status } from "../wire/rows";
import { nextInTime, nextRunning, nextSlowest, scrollToRunning } from "./walk";

const ROW = 28;
const layoutOf = (rows: Row[]): Layout => new LayoutBuilder().build(stored({ rows, phases: [] }), new Set());

/** Tasks one below the other, in these states. */
const tasks = (...states: Status[]): Layout => layoutOf(states.map((status, k) =>
  row({ span_id: `t${k}`, kind: "task", status, start_ms: status === "pending" ? null : k, end_ms: status === "ok" ? k + 1 : null })));

const fill = (length: number, running: number[]): Layout =>
  tasks(...Array.from({ length }, (_, k): Status => (running.includes(k) ? "running" : "ok")));

describe("rows that run now", () => {
  it("are scrolled into sight, with the row above them", () => {
    expect(scrollToRunning(fill(30, [20, 21]), 0, 5 * ROW)).toBe(19 * ROW);
    expect(scrollToRunning(fill(30, [2]), 20 * ROW, 5 * ROW)).toBe(1 * ROW);
  });

  it("move nothing as long as as many of them are in sight as can be", () => {
    expect(scrollToRunning(fill(30, [20, 22]), 18 * ROW, 5 * ROW)).toBe(18 * ROW);
    expect(scrollToRunning(fill(30, []), 7, 5 * ROW)).toBe(7);
  });

  it("are shown where most of them stand together", () => {
    expect(scrollToRunning(fill(38, [1, 20, 21, 22, 35]), 0, 5 * ROW)).toBe(19 * ROW);
  });

  it("are stepped through, around to the first", () => {
    const layout = fill(9, [3, 5]);
    const next = (k?: number): string | undefined => nextRunning(layout, k === undefined ? undefined : layout.tracks[k])?.id;
    expect([next(), next(3), next(5), next(1)]).toEqual(["t3", "t5", "t3", "t3"]);
    expect(nextRunning(fill(3, []), undefined)).toBeUndefined();
  });
});

const CALLS = [
  row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 900 }),
  row({ span_id: "u", kind: "task", agent: "A", start_ms: 0, end_ms: 900 }),
  row({ span_id: "a", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 100 }),
  row({ span_id: "b", kind: "tool", parent_id: "u", start_ms: 50, end_ms: 500 }),
  row({ span_id: "c", kind: "tool", parent_id: "t", start_ms: 200, end_ms: 210 }),
];

it("the next span in time may stand in any row, and there is none after the last", () => {
  const layout = layoutOf(CALLS);
  expect([nextInTime(layout, null, 1), nextInTime(layout, "a", 1), nextInTime(layout, "b", 1), nextInTime(layout, "c", 1)])
    .toEqual(["a", "b", "c", undefined]);
  expect([nextInTime(layout, "c", -1), nextInTime(layout, null, -1)]).toEqual(["b", "c"]);
});

it("the slowest comes first, then the next slower one", () => {
  const layout = layoutOf(CALLS);
  expect([nextSlowest(layout, null), nextSlowest(layout, "b"), nextSlowest(layout, "c")]).toEqual(["b", "a", "b"]);
});
