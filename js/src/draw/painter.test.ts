// @vitest-environment jsdom

// Holds W2, W3 and W22: each meaning by shape as well as by colour, work between rows, names by what was done.

import { beforeAll, describe, expect, it } from "vitest";
import { paint, silenceCanvas, theme } from "../testing/painting";
import { row, ROWS, stored } from "../testing/runs";
import { LayoutBuilder } from "../layout/layout-builder";
import { Links } from "../layout/task-links";
import { PALETTES } from "../theme/palette";
import type { Row } from "../wire/rows";
import type { Scene } from "./scene";

beforeAll(silenceCanvas);

it("writes in the colours of words alone, and on bars in those that fit their hues (W2)", () => {
  const rows = [
    ...ROWS,
    row({ span_id: "x", kind: "task", agent: "A", start_ms: 0, end_ms: 1500 }),
    row({ span_id: "l", kind: "llm", parent_id: "x", start_ms: 0, end_ms: 1500 }),
    row({ span_id: "w", kind: "wait", parent_id: "l", wait_kind: "rate_limit", start_ms: 0, end_ms: 400 }),
    row({ span_id: "a", kind: "attempt", parent_id: "l", attempt: 1, status: "error", retry_reason: "429", backoff_ms: 500, start_ms: 400, end_ms: 500 }),
    row({ span_id: "b", kind: "attempt", parent_id: "l", attempt: 2, start_ms: 1000, end_ms: 1200 }),
    row({ span_id: "v", kind: "wait", parent_id: "l", wait_kind: "budget", start_ms: 1200 }),
    row({ span_id: "q", kind: "task", status: "skipped", reason: "phase a failed", end_ms: 500 }),
    row({ span_id: "r", kind: "review", parent_id: "x", status: "waiting", start_ms: 600 }),
  ];
  const labelColors = { llm: "on llm", tool: "on tool", error: "on error", wait: "on wait", idle: "on idle" };
  const { places } = paint(rows, { theme: { ...theme, labelColors } });
  expect(places.map(({ text }) => text).join()).toMatch(/rate limit.*429/);
  const words = new Set([theme.text, theme.muted, theme.background, ...Object.values(labelColors)]);
  expect(places.filter(({ style }) => !words.has(style as string))).toEqual([]);
});

it("says in a row without a bar what it waits for, and no longer what is done", () => {
  expect(paint(ROWS).texts).toContain("after web");
  const done = ROWS.map((one) => (one.span_id === "t" ? { ...one, status: "ok" as const, end_ms: 900 } : one));
  expect(paint(done).texts).toContain("waits for a free place");
  const closed = done.map((one) => (one.span_id === "p" ? { ...one, status: "pending" as const, start_ms: null } : one));
  expect(paint(closed).texts).toContain("pending");
});

it("says why a row has no bar when it never got one", () => {
  const skipped = row({ span_id: "s", kind: "task", status: "skipped", reason: "phase a failed", end_ms: 500 });
  expect(paint([skipped]).texts).toContain("skipped, since phase a failed");
  const planned = row({ span_id: "s", kind: "task", status: "pending" });
  expect(paint([planned], { isRunning: false, isOver: true }).texts).toContain("never began");
});

it("outlines what may still come with dots, and what won't with dashes", () => {
  const pending = paint([row({ span_id: "s", kind: "task", status: "pending" })]).dashes[0] ?? [];
  const skipped = paint([row({ span_id: "s", kind: "task", status: "skipped" })]).dashes[0] ?? [];
  expect(pending[0]).toBeLessThan(2);
  expect(skipped[0]).toBeGreaterThan(4);
});

/** Three turns of an agent: one that asks for tools, one that hands work on, one whose reply is put right. */
const TURNS: Row[] = [
  row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
  row({ span_id: "u1", kind: "turn", parent_id: "t", name: "turn 1", start_ms: 0, end_ms: 400 }),
  row({ span_id: "l1", kind: "llm", parent_id: "u1", model: "gpt-4", input_tokens: 1200, output_tokens: 34, start_ms: 0, end_ms: 300 }),
  row({ span_id: "x", kind: "tool", parent_id: "u1", tool: "search", start_ms: 300, end_ms: 350 }),
  row({ span_id: "y", kind: "tool", parent_id: "u1", tool: "search", start_ms: 350, end_ms: 400 }),
  row({ span_id: "u2", kind: "turn", parent_id: "t", name: "turn 2", start_ms: 400, end_ms: 900 }),
  row({ span_id: "l2", kind: "llm", parent_id: "u2", model: "gpt-4", start_ms: 400, end_ms: 600 }),
  row({ span_id: "z", kind: "tool", parent_id: "u2", tool: "delegate", start_ms: 600, end_ms: 900 }),
  row({ span_id: "d", kind: "delegation", parent_id: "z", delegate_to: "Ana", start_ms: 600, end_ms: 900 }),
  row({ span_id: "u3", kind: "turn", parent_id: "t", name: "turn 3", is_correction: true, start_ms: 900, end_ms: 1200 }),
  row({ span_id: "l3", kind: "llm", parent_id: "u3", model: "gpt-4", start_ms: 900, end_ms: 1200 }),
];

it("names a call by what it did, and not by the model that all share (W22)", () => {
  const { texts } = paint(TURNS);
  expect(texts).toEqual(expect.arrayContaining(["calls search × 2  1.2k → 34 tok", "asks Ana", "correction"]));
  expect(texts.join()).not.toContain("gpt");
});

it("names a draft by its number once a guardrail or a person sent the work back (W22)", () => {
  const review = { subject: "output", text: "?", verdicts: [], decision: "retry" };
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, attempt: 2 }),
    row({ span_id: "u", kind: "turn", parent_id: "t", name: "turn 1", start_ms: 0, end_ms: 200 }),
    row({ span_id: "l", kind: "llm", parent_id: "u", start_ms: 0, end_ms: 200 }),
    row({ span_id: "r", kind: "review", parent_id: "t", review, start_ms: 200, end_ms: 400 }),
    row({ span_id: "v", kind: "turn", parent_id: "t", name: "turn 1", start_ms: 400, end_ms: 600 }),
    row({ span_id: "m", kind: "llm", parent_id: "v", start_ms: 400, end_ms: 600 }),
  ];
  expect(paint(rows).texts).toEqual(expect.arrayContaining(["draft 1", "draft 2"]));
});

it("writes into a bar what fits: what was done and tokens, what was done, less of it, or nothing", () => {
  const said = (end_ms: number): string[] =>
    paint(TURNS.map((one) => (one.span_id === "l1" ? { ...one, end_ms } : one))).texts.filter((text) => text.startsWith("calls"));
  expect([said(300), said(150), said(110), said(70), said(20)]).toEqual(
    [["calls search × 2  1.2k → 34 tok"], ["calls search × 2"], ["calls 2 tools"], ["calls…"], []]);
});

it("cuts a name between characters, with an ellipsis, however many code points a character has", () => {
  const named = (tool: string): Row[] => [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", tool, start_ms: 0, end_ms: 100 }),
  ];
  expect(paint(named("a_tool_with_a_long_name")).texts).toContain("a_tool_with…");
  const family = "👩‍👩‍👧‍👦";
  const cut = paint(named(family.repeat(9))).texts.find((text) => text.endsWith("…")) ?? "";
  expect(cut.replaceAll(family, "")).toMatch(/^…?$/);
});

it("has no label that begins left of the chart or ends right of it", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", tool: "search", start_ms: 0, end_ms: 900 }),
  ];
  const { places } = paint(rows, { window: { from: 500, to: 2000 }, isRunning: false });
  const [place] = places.filter(({ text }) => text === "search");
  expect(place?.x).toBeGreaterThanOrEqual(0);
});

it("underlines a handler that is on the critical path, as it does the task of an agent", () => {
  const line = (critical: boolean, agent: string | null): number =>
    paint([row({ span_id: "h", kind: "task", agent, critical, start_ms: 0, end_ms: 500 })], { isRunning: false })
      .rects.filter(({ style, h, x }) => style === "#111" && h === 2 && x === 0).length;
  for (const agent of [null, "Handler", "Ana"]) expect([line(true, agent), line(false, agent)]).toEqual([1, 0]);
});

it("says in the bar how far the code of a tool or a handler is, as long as it runs", () => {
  const rows = (end_ms: number | null): Row[] => [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", tool: "search", progress: "page 3 · 25%", start_ms: 0, end_ms }),
    row({ span_id: "h", kind: "task", agent: "Handler", progress: "half done", start_ms: 0, end_ms }),
  ];
  expect(paint(rows(null)).texts).toEqual(expect.arrayContaining(["search · page 3 · 25%", "half done"]));
  expect(paint(rows(900)).texts.join()).not.toMatch(/page 3|half done/);
});

describe("streamed text", () => {
  const streaming = [
    row({ span_id: "t", kind: "task", agent: "A", status: "running", start_ms: 0 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", status: "running", start_ms: 900 }),
  ];
  const words = "once upon a time there was a lighthouse on a cliff ".repeat(5) + "and it\nsang";

  it("stands in the row while it comes, its last words in sight (W19)", () => {
    const said = paint(streaming, { tailOf: () => words }).texts.filter((text) => text.endsWith("and it sang"));
    expect(said.length).toBeGreaterThan(0);
    expect(said[0]).toMatch(/^…/);
    expect((said[0] ?? "").length * 6).toBeLessThanOrEqual(420);
  });

  it("has no signs of Markdown in its line of words", () => {
    const { texts } = paint(streaming, { tailOf: () => "# Tides\n\n- **two** a `day`, __high__ and low" });
    expect(texts).toContain("Tides two a day, high and low");
    expect(texts.join()).not.toMatch(/[*_`#]/);
  });

  it("is gone when the call has ended, and when the run has", () => {
    const ended = streaming.map((one) => (one.span_id === "l" ? { ...one, status: "ok" as const, end_ms: 990 } : one));
    expect(paint(ended, { tailOf: () => words }).texts.join()).not.toContain("sang");
    expect(paint(streaming, { tailOf: () => words, isRunning: false }).texts.join()).not.toContain("sang");
  });
});

it("labels a wait for a model or for a free place in the row of the task that waited (W19)", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", queue_ms: 300, start_ms: 300 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 900, end_ms: 1200 }),
    row({ span_id: "s", kind: "wait", wait_kind: "startup", name: "Starting the local model", start_ms: 300, end_ms: 900 }),
  ];
  expect(paint(rows).texts).toEqual(expect.arrayContaining(["no free place · 300 ms", "Starting the local model · 600 ms", "waits for its model · 600 ms"]));
});

it("shows nothing as if it went on once the kernel is lost, and says since when (W15)", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", status: "running", start_ms: 0 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", status: "running", start_ms: 0, end_ms: null }),
    row({ span_id: "g", kind: "task", agent: "B", status: "pending" }),
  ];
  const [live, lost] = [paint(rows), paint(rows, { lostAt: "2026-11-21T14:03:00Z" })];
  expect(live.texts).toEqual(expect.arrayContaining(["0:01", "waits for a free place"]));
  expect(lost.texts.filter((text) => text.startsWith("unknown since "))).toHaveLength(1);
  expect(lost.texts).not.toEqual(expect.arrayContaining(["waits for a free place"]));
  expect([live, lost].map(({ dashes }) => dashes.some(([first]) => first === 4))).toEqual([false, true]);
});

it("labels every tick of the axis, the last one on its left where there is no room right of it", () => {
  const { places } = paint([row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9 })], { window: { from: 0, to: 1010 }, width: 1010, isRunning: false });
  const ticks = places.filter(({ text }) => /^\d.* m?s$/.test(text));
  expect(ticks.map(({ text }) => text)).toEqual(["0 s", ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((k) => `${k}00 ms`), "1.0 s"]);
  expect(ticks.at(-1)?.x).toBeLessThan(1000);
});

it("labels a wait between attempts with its cause and length", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 900 }),
    row({ span_id: "a", kind: "attempt", parent_id: "l", status: "error", retry_reason: "429 Too Many Requests", start_ms: 0, end_ms: 100 }),
    row({ span_id: "b", kind: "attempt", parent_id: "l", start_ms: 700, end_ms: 900 }),
  ];
  expect(paint(rows).texts).toContain("too many requests (HTTP 429) · 600 ms");
});

it("draws as much as there are pixels, not spans, and still every error", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 1000 });
  const calls = Array.from({ length: 20_000 }, (_, k) =>
    row({ span_id: `l${k}`, kind: "llm", parent_id: "t", start_ms: k / 20, end_ms: (k + 1) / 20, status: k === 7777 ? "error" : "ok" }));
  const { rects } = paint([task, ...calls], { isRunning: false });
  const bars = rects.filter(({ style }) => style === PALETTES.light.llm);
  expect(bars.length).toBeLessThanOrEqual(1000);
  expect(Math.min(...bars.map(({ x }) => x))).toBeCloseTo(0, 0);
  expect(bars.reduce((sum, { w }) => sum + w, 0)).toBeGreaterThan(990);
  const [error] = rects.filter(({ style }) => style === PALETTES.light.error);
  expect(error?.x).toBeCloseTo(7777 / 20, 0);
});

it("keeps apart thin bars that are a pixel or more from each other", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 1000 });
  const calls = Array.from({ length: 200 }, (_, k) => row({ span_id: `l${k}`, kind: "llm", parent_id: "t", start_ms: k * 5, end_ms: k * 5 + 3 }));
  const bars = paint([task, ...calls], { isRunning: false }).rects.filter(({ style }) => style === PALETTES.light.llm);
  expect(bars.map(({ x }) => x)).toEqual(calls.map((call) => call.start_ms));
});

it("sets the colour of bars that have a shape and no words once for many", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 1000 });
  const calls = Array.from({ length: 60 }, (_, k) =>
    row({ span_id: `c${k}`, kind: k % 3 === 0 ? "tool" : "llm", parent_id: "t", start_ms: k * 15, end_ms: k * 15 + 10, status: k === 30 ? "error" : "ok" }));
  const alone = paint([task], { isRunning: false });
  const all = paint([task, ...calls], { isRunning: false });
  expect(all.roundRects - alone.roundRects).toBe(60);
  // Those of models, those of tools, and twice for the error that is hatched.
  expect(all.styles - alone.styles).toBeLessThan(6);
});

it("draws a cancelled call in the hue of what was cut short, also where it is too thin for a shape", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 1000 });
  const call = row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 500, end_ms: 500.5 });
  const huesOf = (status: "ok" | "cancelled"): unknown[] =>
    paint([task, { ...call, status }], { isRunning: false }).rects.filter(({ x }) => x > 499 && x < 502).map(({ style }) => style);
  expect(huesOf("ok")).toContain(PALETTES.light.llm);
  expect(huesOf("cancelled")).toContain(PALETTES.light.idle);
  expect(huesOf("cancelled")).not.toContain(PALETTES.light.llm);
});

it("shows the clock at the line of now only while the run goes on", () => {
  expect(paint(ROWS).texts).toContain("0:01");
  expect(paint(ROWS, { isRunning: false, isOver: true }).texts).not.toContain("0:01");
});

it("says of a wait what for, of a review what came of it, and of an open one how long", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 });
  const call = row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 300 });
  const wait = row({ span_id: "w", kind: "wait", parent_id: "l", wait_kind: "rate_limit", start_ms: 0, end_ms: 300 });
  expect(paint([task, call, wait]).texts).toContain("rate limit · 300 ms");
  const review = { subject: "output", text: "?", verdicts: [] };
  const asked = row({ span_id: "r", kind: "review", parent_id: "t", status: "waiting", start_ms: 300, review });
  expect(paint([task, asked], { now: 1400 }).texts).toContain("waiting for you 0:01");
  const answeredReview = { ...asked, status: "ok" as const, end_ms: 900, review: { ...review, decision: "retry" } };
  expect(paint([task, answeredReview]).texts).toContain("sent back · 600 ms");
  const ended = { start_ms: 0, end_ms: 900, verdict: 'sent back: "shorter, and name the vendor"' };
  const sentBack = { ...task, attempt: 2, rounds: [ended, { start_ms: 900, end_ms: null }] };
  expect(paint([sentBack, answeredReview], { width: 750 }).texts).toContain('sent back: "shorter, and name the vendor"');
  expect(paint([sentBack, answeredReview], { width: 450 }).texts.find((text) => text.startsWith("sent back: "))).toMatch(/^sent back: "sho.*…$/);
  expect(paint([sentBack, answeredReview], { width: 300 }).texts).toContain("sent back");
  const overdueDetails = { ...answeredReview, review: { ...review, decision: "approve", is_timeout: true } };
  expect(paint([task, overdueDetails]).texts).toContain("no answer: approved · 600 ms");
});

it("names the worker in the bar of a delegation, and a condition that was not met in full", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "x", kind: "tool", parent_id: "t", start_ms: 0, end_ms: 500 }),
    row({ span_id: "d", kind: "delegation", parent_id: "x", delegate_to: "Researcher", start_ms: 0, end_ms: 500 }),
    row({ span_id: "s", kind: "task", status: "skipped", reason: "condition not met", end_ms: 500 }),
  ];
  expect(paint(rows).texts).toEqual(expect.arrayContaining(["Researcher", "condition not met"]));
});

describe("who waits for whom (W3)", () => {
  const rows = [
    row({ span_id: "a", kind: "task", name: "find", agent: "A", critical: true, output_characters: 1234, start_ms: 0, end_ms: 300 }),
    row({ span_id: "b", kind: "task", name: "sort", agent: "B", start_ms: 0, end_ms: 200 }),
    row({ span_id: "c", kind: "task", name: "write", agent: "C", critical: true, depends_on: ["find", "sort"], context: ["find"], start_ms: 310, end_ms: 600 }),
    row({ span_id: "d", kind: "task", name: "print", agent: "D", depends_on: ["write"], start_ms: 620, end_ms: 700 }),
    row({ span_id: "e", kind: "task", name: "alone", agent: "E", start_ms: 300, end_ms: 310 }),
  ];
  const curves = (more: Partial<Scene>): number => paint(rows, { isRunning: false, ...more }).curves;

  it("is shown one step around what is selected or under the pointer, by what the rows say and not by their times", () => {
    expect(curves({})).toBe(0);
    expect([curves({ current: "c" }), curves({ hoveredRow: "a" }), curves({ current: "e" })]).toEqual([3, 1, 0]);
  });

  it("is shown of all rows on request, and of the critical path with it", () => {
    expect([curves({ areArrowsShown: true }), curves({ isCriticalShown: true })]).toEqual([3, 1]);
  });

  it("tells the size of what was handed over, a line of dashes where nothing was", () => {
    const { texts, dashes } = paint(rows, { isRunning: false, current: "c" });
    expect(texts.filter((text) => text.endsWith("characters"))).toEqual(["output: 1.2k characters"]);
    expect(dashes.filter(([first]) => first === 4).length).toBe(2);
  });

  it("tells the size of an output once, however many it went to, where it would stand in one place", () => {
    const readers = ["c", "d", "e"].map((span_id) => row({ span_id, kind: "task", agent: "C", depends_on: ["find"], context: ["find"], start_ms: 310, end_ms: 600 }));
    const { texts, curves: lines } = paint([rows[0] as Row, ...readers], { isRunning: false, current: "a" });
    expect([lines, texts.filter((text) => text.startsWith("output: "))]).toEqual([3, ["output: 1.2k characters"]]);
  });

  it("tells that size left of the beginning of what followed where there is no room right of the end", () => {
    const two = [
      row({ span_id: "a", kind: "task", name: "find", agent: "A", output_characters: 1200, start_ms: 0, end_ms: 1430 }),
      row({ span_id: "b", kind: "task", name: "write", agent: "B", context: ["find"], depends_on: ["find"], start_ms: 1440, end_ms: 1490 }),
    ];
    const size = (window: { from: number; to: number }): number =>
      paint(two, { isRunning: false, current: "b", window }).places.find(({ text }) => text.startsWith("output"))?.x ?? NaN;
    expect(size({ from: 0, to: 3000 })).toBeGreaterThan(715);
    expect(size({ from: 0, to: 1500 })).toBeLessThan(1440 - "output: 1.2k characters".length * 6);
  });

  it("leads from a startup to the rows that waited for it, and to where they went on", () => {
    const startup = row({ span_id: "s", kind: "wait", wait_kind: "startup", name: "Starting", start_ms: 0, end_ms: 80 });
    const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 10, end_ms: 200 });
    const call = row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 80, end_ms: 190 });
    const layout = new LayoutBuilder().build(stored({ rows: [startup, task, call], phases: [] }), new Set());
    expect(new Links(layout).all.map(({ from, to, resumedAt }) => [from.id, to.id, resumedAt])).toEqual([["s", "t", 80]]);
    const shown = (more: Partial<Scene>): number => paint([startup, task, call], { isRunning: false, ...more }).curves;
    expect([shown({}), shown({ hoveredRow: "s" }), shown({ hoveredRow: "t" })]).toEqual([0, 1, 1]);
  });

  it("leads to the closed phase that holds the task", () => {
    const phased = [
      row({ span_id: "p", kind: "phase", name: "research", start_ms: 0, end_ms: 300 }),
      { ...(rows[0] as Row), parent_id: "p" },
      row({ span_id: "q", kind: "phase", name: "text", start_ms: 310, end_ms: 600 }),
      { ...(rows[2] as Row), parent_id: "q", depends_on: ["find"] },
    ];
    const layout = new LayoutBuilder().build(stored({ rows: phased, phases: [] }), new Set(["p"]));
    expect(new Links(layout).all.map(({ from, to, source }) => [from.id, to.id, source.span_id])).toEqual([["p", "c", "a"]]);
  });
});

it.each([2, 12, 13, 1700])("draws no lines to %d items at rest: that they stand below their task says it (W3)", (count) => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", item_count: count, start_ms: 0, end_ms: 900 }),
    ...Array.from({ length: count }, (_, k) => row({ span_id: `i${k}`, kind: "task", parent_id: "t", start_ms: k / 2, end_ms: 900 })),
  ];
  const layout = new LayoutBuilder().build(stored({ rows, phases: [] }), new Set(count > 12 ? ["t"] : []));
  expect(layout.tracks).toHaveLength(count + 1);
  expect(layout.arrowsTo(layout.tracks)).toHaveLength(count);
  const linesOf = (more: Partial<Scene>): number => paint([], { layout, isRunning: false, isOver: true, height: 40 * count + 80, ...more }).lines;
  expect(linesOf({})).toBe(0);
  expect([linesOf({ selected: "t" }) > 0, linesOf({ hovered: "t" }) > 0]).toEqual(count > 12 ? [false, false] : [true, true]); // more would lie on each other
  expect(linesOf({ selected: "i1" })).toBeGreaterThan(0); // that of one is shown
});
