// Holds W33: what the lane under the axis shows.

import { describe, expect, it } from "vitest";
import { readRecorded, RECORDED } from "../testing/recorded";
import { row, run, stored } from "../testing/runs";
import { Store } from "../store/store";
import { costOf } from "./lane";
import { costSteps, largestIn, requestSteps, tokenSteps, valueAt, workSteps } from "./lane-series";

const request = (span_id: string, start_ms: number, end_ms: number | null, more = {}) => row({ span_id, kind: "attempt", start_ms, end_ms, ...more });

describe.each(RECORDED.map((one) => [one.name, one] as const))("of the recorded run %s", (_name, recorded) => {
  const store = new Store();
  store.fold(readRecorded(recorded.final), 0);

  it("the cost ends at that of the run (W33)", () => {
    expect(costSteps(store.rows()).values.at(-1) ?? 0).toBeCloseTo(store.run.value?.cost ?? 0, 9);
  });

  it("the cost is that of all requests where a saved view left them out (W33)", () => {
    const saved = new Store();
    saved.fold(readRecorded(recorded.final), 0);
    saved.leftOut.value = { rows: 3, details: 0 };
    saved.series = (recorded.saved as { series?: unknown }).series ?? null;
    expect(saved.series).not.toBeNull();
    expect(costOf(saved).values.at(-1) ?? 0).toBeCloseTo(saved.run.value?.cost ?? 0, 9);
    expect(costOf(saved).times).not.toEqual(costSteps(saved.rows()).times);
  });

  it("the tokens a second add up to those of the run (W33)", () => {
    const { times, values } = tokenSteps(store.rows());
    const written = times.reduce((sum, at, k) => sum + (((values[k] ?? 0) * ((times[k + 1] ?? at) - at)) / 1000), 0);
    expect(written).toBeCloseTo(store.run.value?.output_tokens ?? 0, 6);
    expect(values.at(-1) ?? 0).toBeCloseTo(0, 9);
  });

  it("nothing is at work before it and after it (W33)", () => {
    const steps = workSteps(store);
    expect(valueAt(steps, -1)).toBe(0);
    expect(steps.values.at(-1)).toBe(0);
    expect(Math.min(...steps.values)).toBe(0);
  });
});

it("adds a cost when its request has ended, and leaves out what nobody knows (W33)", () => {
  const rows = [request("b", 50, 300, { cost: 2 }), request("a", 0, 100, { cost: 1 }), request("c", 0, 200, { cost: null }), request("d", 0, null, { cost: 9 }), row({ span_id: "l", kind: "llm", start_ms: 0, end_ms: 300, cost: 3 })];
  const steps = costSteps(rows);
  expect([0, 99, 100, 250, 300, 900].map((at) => valueAt(steps, at))).toEqual([0, 0, 1, 1, 3, 3]);
});

it("counts a request until the time of the rate limit is over (W33)", () => {
  const steps = requestSteps([request("a", 0, 5), request("b", 400, 410), request("c", 1000, null)], 1000);
  expect([0, 400, 999, 1000, 1400, 2000].map((at) => valueAt(steps, at))).toEqual([1, 2, 2, 2, 1, 0]);
});

it("counts tasks of the run that have a place, items in place of the task around them, and none that was handed on (W33)", () => {
  const store = stored({
    run: run(), phases: [],
    rows: [
      row({ span_id: "p", kind: "phase", start_ms: 0, end_ms: 900 }),
      row({ span_id: "a", kind: "task", parent_id: "p", start_ms: 0, end_ms: 500 }),
      row({ span_id: "d", kind: "delegation", parent_id: "a", start_ms: 100, end_ms: 400 }),
      row({ span_id: "w", kind: "task", parent_id: "d", delegation_id: "d1", start_ms: 100, end_ms: 400 }),
      row({ span_id: "n", kind: "nested", parent_id: "a", start_ms: 100, end_ms: 400 }),
      row({ span_id: "inner", kind: "task", parent_id: "n", start_ms: 100, end_ms: 400 }),
      row({ span_id: "each", kind: "task", parent_id: "p", item_count: 2, start_ms: 200, end_ms: 900 }),
      row({ span_id: "i1", kind: "task", parent_id: "each", start_ms: 300, end_ms: 600 }),
      row({ span_id: "i2", kind: "task", parent_id: "each", start_ms: 300, end_ms: 700 }),
    ],
  });
  const steps = workSteps(store);
  expect([50, 250, 350, 550, 650, 800, 950].map((at) => valueAt(steps, at))).toEqual([1, 2, 3, 2, 1, 1, 0]);
});

it("leaves out the time until a task was begun again, and goes on with what has not ended (W33)", () => {
  const rounds = [{ start_ms: 0, end_ms: 100, verdict: "sent back" }, { start_ms: 300, end_ms: null, verdict: null }];
  const steps = workSteps(stored({ run: run(), phases: [], rows: [row({ span_id: "t", kind: "task", status: "running", start_ms: 0, rounds })] }));
  expect([50, 200, 350, 1e9].map((at) => valueAt(steps, at))).toEqual([1, 0, 1, 1]);
});

it("shows the largest value of each part of the screen, however short it was (W33)", () => {
  const steps = { times: [10, 11, 12, 50], values: [1, 7, 1, 3] };
  expect(largestIn(steps, [0, 25, 50, 75, 100])).toEqual([7, 1, 3, 3]);
  expect(largestIn(steps, [11, 12, 13])).toEqual([7, 1]);
  expect(largestIn({ times: [], values: [] }, [0, 5, 10])).toEqual([0, 0]);
});
