/// <reference types="vite/client" />
// Holds W14: a trace file shows what the saved view of the same run shows, which Python made.

import { describe, expect, it } from "vitest";
import type { Saved } from "./messages";
import { readSaved } from "./reader";
import { isTraceFile } from "./guards";
import { traceToSaved } from "./trace-file";

const files = import.meta.glob<string>("../../../tests/fixtures/0.1.0/*.json", { query: "?raw", import: "default", eager: true });
const load = (file: string): Record<string, unknown> => JSON.parse(files[`../../../tests/fixtures/0.1.0/${file}`] as string);
const saved = (value: unknown): Saved => {
  const found = isTraceFile(value) ? traceToSaved(value) : readSaved(value);
  if (found.kind === "bad") throw new Error(found.why);
  return found;
};

describe.each(["report", "kitchen", "storm", "slow"])("the trace file of %s", (name) => {
  const [trace, view] = [saved(load(`${name}.trace.json`)), saved(load(`${name}.view.json`)["application/vnd.ensemble.trace+json"])];
  const byId = new Map(trace.rows.map((row) => [row.span_id, row]));

  it("has the rows of the view, in their places and with their times", () => {
    const part = (rows: Saved["rows"]) => rows.map(({ span_id, parent_id, kind, name, status, task, agent, lane }) =>
      ({ span_id, parent_id, kind, name, status, task, agent, lane: lane ?? 0 }));
    const shared = view.rows.map((row) => byId.get(row.span_id)).filter((row) => row !== undefined);
    expect(part(shared)).toEqual(part(view.rows));
    for (const row of view.rows) {
      expect(byId.get(row.span_id)?.start_ms ?? null).toBeCloseToOrNull(row.start_ms);
      expect(byId.get(row.span_id)?.end_ms ?? null).toBeCloseToOrNull(row.end_ms);
    }
  });

  it("has its sums", () => {
    for (const row of view.rows) {
      const found = byId.get(row.span_id);
      expect([row.span_id, found?.input_tokens ?? 0, found?.output_tokens ?? 0])
        .toEqual([row.span_id, row.input_tokens ?? 0, row.output_tokens ?? 0]);
      expect(found?.cost ?? 0).toBeCloseToOrNull(row.cost ?? 0);
    }
  });

  it("says of the run what the view says", () => {
    const part = ({ run }: Saved) => {
      const { status, name, tasks_total, tasks_done, tasks_failed, tasks_skipped, input_tokens, output_tokens,
        llm_call_count, tool_call_count, error_count, retry_count, is_scripted, currency, warnings } = run;
      return { status, name, tasks_total, tasks_done, tasks_failed, tasks_skipped, input_tokens, output_tokens,
        llm_call_count, tool_call_count, error_count, retry_count, is_scripted, currency, warnings };
    };
    expect(part(trace)).toEqual(part(view));
    expect(trace.phases).toEqual(view.phases);
  });

  it("has the conversations of its tasks", () => {
    for (const row of view.rows.filter((each) => each.kind === "task")) {
      const [of, found] = [view.details[row.span_id], trace.details[row.span_id]];
      if (!of?.messages.length) continue;
      expect(found?.messages.map(({ role, text }) => ({ role, text }))).toEqual(of.messages.map(({ role, text }) => ({ role, text })));
    }
  });
});

it("says why a trace of another program can't be shown", () => {
  expect(traceToSaved({ schemaVersion: "1.1", taskTraces: [] })).toMatchObject({ kind: "bad" });
  expect(traceToSaved({ schemaVersion: "1.1", spans: [null, 3, { spanId: 1 }, { spanId: "a", parentId: "a" }] })).toMatchObject({ kind: "bad" });
});

expect.extend({
  toBeCloseToOrNull(found: unknown, wanted: unknown) {
    const close = wanted == null ? found == null : typeof found === "number" && Math.abs(found - (wanted as number)) < 0.01;
    return { pass: close, message: () => `${String(found)} is not ${String(wanted)}` };
  },
});

declare module "vitest" {
  interface Assertion {
    toBeCloseToOrNull(wanted: unknown): void;
  }
}

it("has the times that a person has named, the newest of each name (W135)", () => {
  const score = (more: object) => ({ runId: "m", name: "label", fromMs: 1, toMs: 3, ...more });
  const { run } = saved({
    schemaVersion: "1.3", ensembleId: "m", status: "COMPLETED", spans: [],
    scores: [score({ label: "slow" }), score({ label: "too slow", reason: "why", replaces: true }), score({ name: "mark", passed: false, value: 0 }), score({ runId: "other" }), score({ fromMs: null })],
  });
  expect(run.ranges).toMatchObject([{ from_ms: 1, to_ms: 3, name: "label", value: "too slow", reason: "why" }, { name: "mark", value: false }]);
  expect(saved({ schemaVersion: "1.3", ensembleId: "m", status: "COMPLETED", spans: [] }).run.ranges).toBeNull();
});

it("has the scores of the rows of a map, the newest of each name", () => {
  const span = (spanId: string, kind: string, parentId: string | null, more = {}) => ({ spanId, kind, parentId, name: spanId, status: "ok", startMs: 0, durationMs: 5, ...more });
  const score = (runId: string, name: string, more: object) => ({ runId, mapRunId: "m", name, ...more });
  const found = saved({
    schemaVersion: "1.3", ensembleId: "m", status: "COMPLETED", events: [{ type: "RunStarted", taskNoun: "row" }],
    spans: [span("m", "run", null), span("m.1", "task", "m"), span("r", "nested", "m.1"), span("r.1", "task", "r"), span("m.2", "task", "m"), span("q", "nested", "m.2")],
    scores: [
      score("r", "right", { passed: false, value: 0 }), score("r", "right", { passed: true, value: 1, replaces: true }), score("q", "tone", { label: "warm" }),
      score("r", "share", { value: 0.5 }), score("gone", "right", { value: 1 }), { name: 5 }, score("r", "tone", { spanId: "r.1", value: 2 }),
    ],
  });
  expect(found.run.score_names).toEqual(["right", "tone", "share"]);
  expect(found.rows.filter((row) => row.scores).map((row) => [row.span_id, row.score, row.scores])).toEqual([
    ["m.1", 1, [true, null, 0.5]], ["r.1", 2, [null, 2, null]], ["m.2", null, [null, "warm"]],
  ]);
});
