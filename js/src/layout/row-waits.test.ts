// Holds W19: every wait says its cause, where it was waited and as long as it goes on.

import { describe, expect, it } from "vitest";
import { delta, row, run, stored } from "../testing/runs";
import type { Row } from "../wire/rows";
import { LayoutBuilder } from "./layout-builder";
import { waitAt } from "./row-waits";
import { startupMarks } from "./startup-marks";

const task = row({ span_id: "t", kind: "task", agent: "A", status: "running", start_ms: 0 });
const call = row({ span_id: "l", kind: "llm", parent_id: "t", status: "waiting", start_ms: 100 });
const startup = row({ span_id: "s", kind: "wait", wait_kind: "startup", name: "Starting the local model", status: "running", start_ms: 20 });
const marksOf = (rows: Row[]) => new LayoutBuilder().build(stored({ rows, phases: [] }), new Set()).track("t")?.marks ?? [];
const waitsIn = (rows: Row[]) => marksOf(rows).filter((mark) => mark.shape === "wait").map((mark) => [mark.row.span_id, mark.from, mark.to]);

describe("what a row waits for now", () => {
  it("is a limit, a person, a retry or a model, and since when", () => {
    const limit = row({ span_id: "w", kind: "wait", parent_id: "l", wait_kind: "rate_limit", status: "running", start_ms: 150 });
    const review = row({ span_id: "r", kind: "review", parent_id: "t", status: "waiting", start_ms: 130, review: { subject: "output", text: "?", verdicts: [] } });
    const attempt = row({ span_id: "a", kind: "attempt", parent_id: "l", status: "error", retry_reason: "429 Too Many", backoff_ms: 500, start_ms: 100, end_ms: 200 });
    expect(waitAt(marksOf([task, call, limit]), 300)).toEqual({ cause: "rate limit", since: 150 });
    expect(waitAt(marksOf([task, review]), 300)).toEqual({ cause: "waiting for you", since: 130 });
    expect(waitAt(marksOf([task, call, attempt]), 300)).toEqual({ cause: "retry after HTTP 429", since: 200 });
    expect(waitAt(marksOf([task, startup]), 300)).toEqual({ cause: "waits for its model", since: 20 });
  });

  it("is nothing while any of its calls goes on, or when it is over", () => {
    const limit = row({ span_id: "w", kind: "wait", parent_id: "l", wait_kind: "rate_limit", status: "running", start_ms: 150 });
    const other = row({ span_id: "x", kind: "tool", parent_id: "t", lane: 1, status: "running", start_ms: 160 });
    expect(waitAt(marksOf([task, call, limit, other]), 300)).toBeNull();
    expect(waitAt(marksOf([task, call, { ...limit, status: "ok", end_ms: 200 }]), 300)).toBeNull();
  });
});

describe("a model that is made ready", () => {
  const ready = { ...startup, status: "ok" as const, end_ms: 900 };

  it("stands in the rows of the agents' tasks that did nothing meanwhile, from when they began", () => {
    const late = row({ span_id: "m", kind: "llm", parent_id: "t", start_ms: 910 });
    expect(waitsIn([task, ready, late])).toEqual([["s", 20, 900]]);
    expect(waitsIn([{ ...task, start_ms: 400 }, ready, late])).toEqual([["s", 400, 900]]);
    expect(waitsIn([task, startup])).toEqual([["s", 20, null]]);
  });

  it("stands in no row of a handler, of a task that was at work, or of one that was over", () => {
    expect(waitsIn([{ ...task, agent: "Handler" }, ready])).toEqual([]);
    expect(waitsIn([task, ready, row({ span_id: "m", kind: "llm", parent_id: "t", start_ms: 5 })])).toEqual([]);
    expect(waitsIn([{ ...task, status: "cancelled", end_ms: 10 }, ready])).toEqual([]);
  });

  it("is the model of the agent that took over, where the first one had failed", () => {
    const failed = row({ span_id: "m", kind: "llm", parent_id: "t", status: "error", start_ms: 5, end_ms: 10 });
    const taken = row({ span_id: "n", kind: "llm", parent_id: "t", is_fallback: true, start_ms: 905 });
    expect(waitsIn([{ ...task, is_fallback: true }, ready, failed, taken])).toEqual([["s", 20, 900]]);
  });

  it("ends in the rows of all that waited when it ends", () => {
    const store = stored({ rows: [task, startup], phases: [] });
    const builder = new LayoutBuilder();
    builder.build(store, new Set());
    store.fold(delta(1, 2, { rows: [ready], run: run() }), 0);
    const found = builder.build(store, new Set()).track("t")?.marks.filter((mark) => mark.shape === "wait");
    expect(found?.map((mark) => mark.to)).toEqual([900]);
  });
});

it("shows startups at the same time one after the other in the row of a task", () => {
  const begun = (span_id: string, start_ms: number, end_ms: number): Row => ({ ...startup, span_id, start_ms, end_ms });
  const task = row({ span_id: "t", kind: "task", agent: "Ana", start_ms: 0, end_ms: 3000 });
  const marks = startupMarks(task, [], [begun("s1", 0, 1000), begun("s2", 500, 1500), begun("s3", 600, 1400)]);
  expect(marks.map((mark) => [mark.row.span_id, mark.from, mark.to])).toEqual([["s1", 0, 1000], ["s2", 1000, 1500]]);
});
