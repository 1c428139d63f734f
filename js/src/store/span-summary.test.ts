// Holds W7: what the view says of a range is what pandas says of the same run (`tests/support/span_summaries.py`).

import { describe, expect, it } from "vitest";
import ranges from "../../../tests/fixtures/ranges.json";
import { readRecorded, RECORDED } from "../testing/recorded";
import { row, ROWS, stored } from "../testing/runs";
import { quantile, rowsInside, rowsOfSpans, summarize } from "./span-summary";
import { Store } from "./store";

interface Expected {
  from: number;
  to: number;
  kinds: Record<string, (number | null)[]>;
  used: (number | null)[];
  work_ms: number;
}

describe.each(RECORDED.map((one) => [one.name, one] as const))("%s", (name, recorded) => {
  const store = new Store();
  store.fold(readRecorded(recorded.final), 0);
  const now = store.run.value?.elapsed_ms ?? 0;

  it.each((ranges as unknown as Record<string, Expected[]>)[name] ?? [])("from $from ms to $to ms", (expected) => {
    const found = summarize(rowsInside(store.rows(), expected, now), expected, now);
    const kinds = found.kinds.map(({ kind, count, p50, p90, most }) => [kind, [count, p50, p90, most].map(rounded)] as const);
    expect(Object.fromEntries(kinds)).toEqual(Object.fromEntries(Object.entries(expected.kinds).map(([kind, numbers]) => [kind, numbers.map(rounded)])));
    expect([found.inputTokens, found.outputTokens, found.cost].map(rounded)).toEqual(expected.used.map(rounded));
    expect(found.workMs).toBeCloseTo(expected.work_ms, 6);
  });
});

const rounded = (value: number | null): number | null => value && Math.round(value * 1e6) / 1e6;

it("knows a range of each recorded run", () => {
  expect(Object.keys(ranges).sort()).toEqual(RECORDED.map(({ name }) => name).sort());
});

it("counts what runs until now, and what has not begun not at all", () => {
  const rows = [
    row({ span_id: "a", kind: "tool", status: "running", start_ms: 100 }),
    row({ span_id: "b", kind: "tool", start_ms: 0, end_ms: 100 }),
    row({ span_id: "c", kind: "task", status: "pending" }),
  ];
  const inside = rowsInside(rows, { from: 100, to: 400 }, 300);
  expect(inside.map(({ span_id }) => span_id)).toEqual(["a"]);
  expect(summarize(inside, { from: 100, to: 400 }, 300)).toEqual({
    kinds: [{ kind: "tool", count: 1, p50: null, p90: null, most: null }], inputTokens: null, outputTokens: null, cost: null, workMs: 200,
  });
});

it("counts what the requests inside selected spans took, each once", () => {
  const store = stored({
    rows: ROWS.map((one) => (one.kind === "attempt" ? { ...one, input_tokens: 10, output_tokens: 1, cost: 0.5 } : one.kind === "llm" ? { ...one, input_tokens: 20 } : one)),
  });
  const { rows, withInside } = rowsOfSpans(store, ["l", "t", "nobody"]);
  const summary = summarize(rows, { from: 0, to: 1000 }, 1000, withInside);
  expect([summary.inputTokens, summary.outputTokens, summary.cost]).toEqual([20, 2, 1]);
  expect(summary.kinds.map(({ kind, count }) => [kind, count])).toEqual([["llm", 1], ["task", 1]]);
});

it("finds quantiles between two values as pandas does", () => {
  expect([quantile([], 0.5), quantile([4], 0.9), quantile([1, 2], 0.5), quantile([0, 10, 20, 30], 0.9)]).toEqual([null, 4, 1.5, 27]);
});
