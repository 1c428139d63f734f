// @vitest-environment jsdom

// Holds W2 and W3: each meaning by shape as well as by colour, work between rows.

import { beforeAll, expect, it } from "vitest";
import { paint, silenceCanvas } from "../testing/painting";
import { row, ROWS } from "../testing/runs";
import { PALETTES } from "../theme/palette";

beforeAll(silenceCanvas);

it("says in a row without a bar what it waits for, and no longer what is done", () => {
  expect(paint(ROWS).texts).toContain("after web");
  const done = ROWS.map((one) => (one.span_id === "t" ? { ...one, status: "ok" as const, end_ms: 900 } : one));
  expect(paint(done).texts).toContain("pending");
});

it("says why a row has no bar when it never got one", () => {
  const skipped = row({ span_id: "s", kind: "task", status: "skipped", reason: "phase a failed", end_ms: 500 });
  expect(paint([skipped]).texts).toContain("skipped: phase a failed");
  const planned = row({ span_id: "s", kind: "task", status: "pending" });
  expect(paint([planned], { isRunning: false, isOver: true }).texts).toContain("never began");
});

it("outlines what may still come with dots, and what won't with dashes", () => {
  const pending = paint([row({ span_id: "s", kind: "task", status: "pending" })]).dashes[0] ?? [];
  const skipped = paint([row({ span_id: "s", kind: "task", status: "skipped" })]).dashes[0] ?? [];
  expect(pending[0]).toBeLessThan(2);
  expect(skipped[0]).toBeGreaterThan(4);
});

it("writes into a bar what fits: name and tokens, the name, or nothing", () => {
  const call = row({ span_id: "l", kind: "llm", parent_id: "t", model: "gpt-4", input_tokens: 1200, output_tokens: 34, start_ms: 0 });
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 });
  const said = (end_ms: number): string[] => paint([task, { ...call, end_ms }]).texts.filter((text) => text.startsWith("gpt"));
  expect([said(500), said(60), said(20)]).toEqual([["gpt-4  1.2k → 34"], ["gpt-4"], []]);
});

it("labels a wait between attempts with its cause and length", () => {
  const rows = [
    row({ span_id: "t", kind: "task", agent: "A", start_ms: 0 }),
    row({ span_id: "l", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 900 }),
    row({ span_id: "a", kind: "attempt", parent_id: "l", status: "error", retry_reason: "429 Too Many Requests", start_ms: 0, end_ms: 100 }),
    row({ span_id: "b", kind: "attempt", parent_id: "l", start_ms: 700, end_ms: 900 }),
  ];
  expect(paint(rows).texts).toContain("429 · 600 ms");
});

it("draws as much as there are pixels, not spans, and still every error", () => {
  const task = row({ span_id: "t", kind: "task", agent: "A", start_ms: 0, end_ms: 1000 });
  const calls = Array.from({ length: 20_000 }, (_, k) =>
    row({ span_id: `l${k}`, kind: "llm", parent_id: "t", start_ms: k / 20, end_ms: (k + 1) / 20, status: k === 7777 ? "error" : "ok" }));
  const { rects } = paint([task, ...calls], { isRunning: false });
  const bars = rects.filter(({ style }) => style === PALETTES.light.llm);
  expect(bars.length).toBeGreaterThan(400);
  expect(bars.length).toBeLessThanOrEqual(1000);
  const [error] = rects.filter(({ style }) => style === PALETTES.light.error);
  expect(error?.x).toBeCloseTo(7777 / 20, 0);
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
