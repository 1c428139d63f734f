// Holds W1 and W3: what stands in a row, and how work goes from row to row.

import { describe, expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import type { Review, Row } from "../wire/rows";
import type { Mark } from "./marks";
import { LANE_HEIGHT, PHASE_HEIGHT } from "./sizes";
import { LayoutBuilder } from "./layout-builder";
import type { Layout } from "./tracks";

const review = (more: Partial<Review> = {}): Review => ({ subject: "output", text: "?", verdicts: ["approve"], ...more });

/** A manager that hands work to two workers at once and is refused a third, in a phase. */
const TEAM: Row[] = [
  row({ span_id: "p", kind: "phase", name: "research", start_ms: 0, end_ms: 1000 }),
  row({ span_id: "m", kind: "task", parent_id: "p", name: "manager", agent: "Manager", start_ms: 0, end_ms: 1000 }),
  row({ span_id: "u", kind: "turn", parent_id: "m", start_ms: 0, end_ms: 1000 }),
  row({ span_id: "l", kind: "llm", parent_id: "u", start_ms: 0, end_ms: 100 }),
  row({ span_id: "x1", kind: "tool", parent_id: "u", tool: "delegate_task", start_ms: 100, end_ms: 800 }),
  row({ span_id: "d1", kind: "delegation", parent_id: "x1", delegate_to: "Ana", start_ms: 110, end_ms: 790 }),
  row({ span_id: "w1", kind: "task", parent_id: "d1", name: "ana_1", agent: "Ana", start_ms: 120, end_ms: 780 }),
  row({ span_id: "w1l", kind: "llm", parent_id: "w1", start_ms: 130, end_ms: 700 }),
  row({ span_id: "x2", kind: "tool", parent_id: "u", tool: "delegate_task", lane: 1, start_ms: 100, end_ms: 600 }),
  row({ span_id: "d2", kind: "delegation", parent_id: "x2", delegate_to: "Bo", lane: 1, start_ms: 110, end_ms: 590 }),
  row({ span_id: "w2", kind: "task", parent_id: "d2", name: "bo_1", agent: "Bo", start_ms: 120, end_ms: 580, status: "error" }),
  row({ span_id: "x3", kind: "tool", parent_id: "u", tool: "delegate_task", lane: 2, start_ms: 100, end_ms: 130 }),
  row({ span_id: "d3", kind: "delegation", parent_id: "x3", delegate_to: "Cy", lane: 2, start_ms: 110, end_ms: 120, status: "error" }),
  row({ span_id: "n", kind: "task", parent_id: "p", name: "next", agent: "Ana", status: "pending" }),
];

const arrange = (rows: Row[], closed: string[] = []) => new LayoutBuilder().build(stored({ rows, run: run() }), new Set(closed));
const arrowsOf = (layout: Layout): string[][] =>
  layout.arrowsTo(layout.tracks).map(({ by, from, to }) => [by.row.span_id, from.id, to.id]);
const marksOf = (rows: Row[]): readonly Mark[] => arrange(rows).tracks[0]?.marks ?? [];
const shapes = (rows: Row[]): [string, string][] => marksOf(rows).map((mark) => [mark.shape, mark.row.span_id]);

describe("work that is handed on", () => {
  it("has a row of its own below who handed it on", () => {
    const { tracks } = arrange(TEAM);
    expect(tracks.map((track) => [track.id, track.depth, track.isWorker])).toEqual([
      ["p", 0, false], ["m", 1, false], ["w1", 2, true], ["w2", 2, true], ["n", 1, false],
    ]);
  });

  it("stands in place of the tool by which it was handed on, also when it was refused", () => {
    const marks = arrange(TEAM).tracks[1]?.marks ?? [];
    expect(marks.filter((mark) => mark.shape === "tool")).toEqual([]);
    expect(marks.filter((mark) => mark.shape === "delegation").map((mark) => [mark.row.span_id, mark.row.status])).toEqual([
      ["d1", "ok"], ["d2", "ok"], ["d3", "error"],
    ]);
    expect(arrange(TEAM).tracks[1]?.height).toBe(3 * LANE_HEIGHT + 4);
  });

  it("is drawn the same for a nested run, but for the arrow of one that is the whole task, and for one that a review began", () => {
    const layout = arrange([
      row({ span_id: "p", kind: "phase", name: "research", start_ms: 0, end_ms: 1000 }),
      row({ span_id: "h", kind: "task", parent_id: "p", name: "compose", start_ms: 0, end_ms: 500 }),
      row({ span_id: "r1", kind: "nested", parent_id: "h", name: "haiku", start_ms: 10, end_ms: 490 }),
      row({ span_id: "r1p", kind: "phase", parent_id: "r1", name: "inner", start_ms: 10, end_ms: 490 }),
      row({ span_id: "r1t", kind: "task", parent_id: "r1p", name: "think", agent: "Poet", start_ms: 20, end_ms: 480 }),
      row({ span_id: "v", kind: "review", parent_id: "p", name: "phase", review: review({ subject: "phase" }), start_ms: 500, end_ms: 990 }),
      row({ span_id: "r2", kind: "nested", parent_id: "v", name: "jury", start_ms: 510, end_ms: 980 }),
      row({ span_id: "r2t", kind: "task", parent_id: "r2", name: "judge", agent: "Judge", start_ms: 520, end_ms: 970 }),
    ]);
    const { tracks } = layout;
    expect(tracks.map((track) => [track.id, track.depth, track.isWorker])).toEqual([
      ["p", 0, false], ["h", 1, false], ["r1p", 2, false], ["r1t", 3, true], ["r2t", 1, true],
    ]);
    expect(tracks[1]?.marks.map((mark) => [mark.shape, mark.row.span_id])).toEqual([["task", "h"], ["delegation", "r1"]]);
    expect(arrowsOf(layout)).toEqual([["v", "p", "r2t"]]);
  });

  it("is selected with its phase, found, folded and counted like any other", () => {
    const rows = [
      row({ span_id: "h", kind: "task", name: "compose", start_ms: 0, end_ms: 500 }),
      row({ span_id: "r", kind: "nested", parent_id: "h", start_ms: 10, end_ms: 490 }),
      row({ span_id: "q", kind: "phase", parent_id: "r", name: "inner", status: "error", start_ms: 10, end_ms: 490 }),
      row({ span_id: "v", kind: "review", parent_id: "q", review: review({ subject: "phase" }), start_ms: 300, end_ms: 490 }),
      row({ span_id: "t", kind: "task", parent_id: "q", agent: "Poet", status: "error", start_ms: 20, end_ms: 300 }),
    ];
    const store = stored({ rows, run: run() });
    expect(["q", "v", "t"].map((span) => store.ownerOf(span))).toEqual(["q", "q", "t"]);
    const folded = arrange(rows, ["q"]);
    expect(folded.tracks.map((track) => [track.id, track.errors])).toEqual([["h", 0], ["q", 1]]);
    expect(arrange(rows, ["h"]).tracks.map((track) => [track.id, track.errors])).toEqual([["h", 1]]);
    expect(arrange(rows).tracks[1]?.marks.map((mark) => mark.shape)).toEqual(["phase", "review"]);
  });

  it("leaves the worker's own calls to the worker's row", () => {
    const { tracks } = arrange(TEAM);
    expect(tracks[1]?.marks.some((mark) => mark.row.span_id === "w1l")).toBe(false);
    expect(tracks[2]?.marks.some((mark) => mark.row.span_id === "w1l")).toBe(true);
  });

  it("goes from row to row, and nowhere when it was refused", () => {
    expect(arrowsOf(arrange(TEAM))).toEqual([["d1", "m", "w1"], ["d2", "m", "w2"]]);
  });

  it("can be folded away, and its errors still be seen", () => {
    const layout = arrange(TEAM, ["m"]);
    const { tracks } = layout;
    expect(tracks.map((track) => track.id)).toEqual(["p", "m", "n"]);
    expect(arrowsOf(layout)).toEqual([]);
    expect([arrange(TEAM).tracks[1]?.errors, tracks[1]?.errors]).toEqual([1, 2]);
  });

  it("is in the bars of a closed phase, the workers' calls too", () => {
    const pressed = arrange(TEAM, ["p"]).tracks[0]?.marks.map((mark) => mark.row.span_id);
    for (const span of ["l", "d1", "w1l"]) expect(pressed).toContain(span);
  });

  it("appears when the worker begins, though the row above has not changed", () => {
    const early = TEAM.filter((one) => !one.span_id.startsWith("w"));
    const store = stored({ rows: early, run: run() });
    const builder = new LayoutBuilder();
    builder.build(store, new Set());
    const worker = TEAM.filter((one) => one.span_id === "w1");
    store.fold({ kind: "delta", from: 1, n: 2, run: run(), rows: worker, text: [] }, 0);
    expect(builder.build(store, new Set()).tracks.map((track) => track.id)).toContain("w1");
  });
});

describe("a call that is held back", () => {
  const call = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 900 }),
    row({ span_id: "w", kind: "wait", parent_id: "l", wait_kind: "rate_limit", start_ms: 0, end_ms: 300 }),
    row({ span_id: "a", kind: "attempt", parent_id: "l", attempt: 1, status: "error", backoff_ms: 100, start_ms: 300, end_ms: 400 }),
    row({ span_id: "v", kind: "wait", parent_id: "l", wait_kind: "budget", start_ms: 500, end_ms: 700 }),
    row({ span_id: "b", kind: "attempt", parent_id: "l", attempt: 2, start_ms: 700, end_ms: 900 }),
  ];

  it("shows its waits and attempts, and no wait twice", () => {
    expect(marksOf(call).filter((mark) => mark.shape !== "task").map((mark) => [mark.shape, mark.row.span_id, mark.from, mark.to])).toEqual([
      ["wait", "w", 0, 300], ["attempt", "a", 300, 400], ["backoff", "a", 400, 500], ["wait", "v", 500, 700], ["attempt", "b", 700, 900],
    ]);
  });
});

describe("a review", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 });

  it("stands in the lane of the call that it is about, else in the first", () => {
    const rows = [
      task,
      row({ span_id: "x", kind: "tool", parent_id: "t", lane: 1, start_ms: 0, end_ms: 50 }),
      row({ span_id: "r1", kind: "review", parent_id: "x", start_ms: 5, end_ms: 40, review: review() }),
      row({ span_id: "r2", kind: "review", parent_id: "t", start_ms: 60, review: review() }),
    ];
    const [first, second] = marksOf(rows).filter((mark) => mark.shape === "review");
    expect((first?.top ?? 0) - (second?.top ?? 0)).toBe(LANE_HEIGHT);
    expect(second?.to).toBeNull();
  });

  it("of a tool call parts the bar of the call, which it never covers, whether or not it is answered", () => {
    const tool = row({ span_id: "x", kind: "tool", parent_id: "t", start_ms: 0, end_ms: 90 });
    const asked = row({ span_id: "r", kind: "review", parent_id: "x", start_ms: 5, end_ms: 40, review: review({ subject: "tool" }) });
    const bars = (...rows: Row[]): unknown[] => marksOf([task, ...rows]).filter((mark) => mark.shape !== "task").map((mark) => [mark.row.span_id, mark.from, mark.to]);
    expect(bars(tool, asked)).toEqual([["x", 0, 5], ["r", 5, 40], ["x", 40, 90]]);
    expect(bars({ ...tool, end_ms: null }, { ...asked, end_ms: null })).toEqual([["x", 0, 5], ["r", 5, null]]);
    expect(bars({ ...tool, end_ms: null }, asked)).toEqual([["x", 0, 5], ["r", 5, 40], ["x", 40, null]]);
    expect(bars(tool, { ...asked, start_ms: 0, end_ms: 90 })).toEqual([["x", 0, 0], ["r", 0, 90]]);
  });

  it("that sent work back leaves a notch with the number of the next attempt", () => {
    const back = (span_id: string, end_ms: number): Row =>
      row({ span_id, kind: "review", parent_id: "t", start_ms: end_ms - 10, end_ms, review: review({ decision: "retry" }) });
    const turns = [0, 100, 200].map((start_ms) => row({ span_id: `u${start_ms}`, kind: "turn", parent_id: "t", start_ms, end_ms: start_ms + 90 }));
    const notches = marksOf([{ ...task, attempt: 3 }, ...turns, back("r1", 100), back("r2", 200)]).filter((mark) => mark.shape === "notch");
    expect(notches.map((mark) => [mark.from, mark.label])).toEqual([[100, "2"], [200, "3"]]);
  });

  it("of a phase stands in the row of the phase, and its reviewer below", () => {
    const rows = [
      row({ span_id: "p", kind: "phase", start_ms: 0, end_ms: 500 }),
      row({ span_id: "a", kind: "task", parent_id: "p", agent: "A", start_ms: 0, end_ms: 100 }),
      row({ span_id: "r", kind: "review", parent_id: "p", start_ms: 100, end_ms: 300, review: review({ decision: "retry", subject: "phase" }) }),
      row({ span_id: "c", kind: "task", parent_id: "r", agent: "Critic", start_ms: 110, end_ms: 290 }),
    ];
    const { tracks } = arrange(rows);
    expect(tracks.map((track) => track.id)).toEqual(["p", "a", "c"]);
    expect(tracks[0]?.marks.map((mark) => mark.shape)).toEqual(["phase", "review"]);
    expect(tracks[0]?.height).toBe(PHASE_HEIGHT);
    expect(stored({ rows, run: run() }).ownerOf("r")).toBe("p");
  });
});

it("marks where a fallback agent took over", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, is_fallback: true }),
    row({ span_id: "u", kind: "turn", parent_id: "t", start_ms: 0, end_ms: 90 }),
    row({ span_id: "f", kind: "turn", parent_id: "t", start_ms: 100, is_fallback: true }),
    row({ span_id: "l", kind: "llm", parent_id: "f", start_ms: 110, is_fallback: true }),
  ];
  expect(marksOf(rows).filter((mark) => mark.shape === "notch").map((mark) => [mark.from, mark.label])).toEqual([[100, "↳"]]);
});

it("marks where a guardrail sent the work back, unless a fallback agent took over", () => {
  const objection = (id: string, at: number) =>
    row({ span_id: id, kind: "guardrail", parent_id: "t", guardrail: "output", status: "error", start_ms: at, end_ms: at });
  const rows = [
    row({ span_id: "t", kind: "task", agent: "B", start_ms: 0, is_fallback: true, attempt: 2 }),
    row({ span_id: "u", kind: "turn", parent_id: "t", start_ms: 0, end_ms: 90 }),
    objection("g", 90),
    row({ span_id: "v", kind: "turn", parent_id: "t", start_ms: 90, end_ms: 180 }),
    objection("h", 180),
    row({ span_id: "f", kind: "turn", parent_id: "t", start_ms: 200, end_ms: 300, is_fallback: true }),
  ];
  expect(marksOf(rows).filter((mark) => mark.shape === "notch").map((mark) => [mark.from, mark.label])).toEqual([[90, "2"], [200, "↳"]]);
});

it("shows guardrails and memory as beads, which make no handler an agent", () => {
  const rows = [
    row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 50 }),
    row({ span_id: "g", kind: "guardrail", parent_id: "t", guardrail: "input", start_ms: 0, end_ms: 0 }),
    row({ span_id: "m", kind: "memory", parent_id: "t", memory: { operation: "store", scope: "s" }, start_ms: 50, end_ms: 50 }),
  ];
  expect(shapes(rows)).toEqual([["work", "t"], ["bead", "g"], ["bead", "m"]]);
});

it("counts an error where it arose, once", () => {
  const rows = [
    row({ span_id: "t", kind: "task", status: "error", start_ms: 0, end_ms: 50 }),
    row({ span_id: "u", kind: "turn", parent_id: "t", status: "error", start_ms: 0, end_ms: 50 }),
    row({ span_id: "l", kind: "llm", parent_id: "u", status: "error", start_ms: 0, end_ms: 50 }),
    row({ span_id: "a", kind: "attempt", parent_id: "l", status: "error", start_ms: 0, end_ms: 50 }),
  ];
  expect(arrange(rows).tracks[0]?.errors).toBe(1);
  expect(arrange(rows.slice(0, 1)).tracks[0]?.errors).toBe(1);
});

describe("a task that was reused (C34)", () => {
  it("has a mark of its own, whoever did it then", () => {
    for (const agent of ["Ana", "Handler"]) {
      expect(shapes([row({ span_id: "t", kind: "task", name: "gather", agent, start_ms: 0, end_ms: 1, reused: true })])).toEqual([["reused", "t"]]);
    }
  });
});
