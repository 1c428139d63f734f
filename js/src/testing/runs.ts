// Small runs for the tests beside the modules; never bundled, because no entry imports it.

import { Store } from "../store/store";
import type { Delta, Snapshot } from "../wire/messages";
import { type Row, type Run, VERSION } from "../wire/rows";

export function run(more: Partial<Run> = {}): Run {
  return {
    run_id: "r1", name: "report", status: "running", exit_reason: null, elapsed_ms: 1000, task_noun: "task",
    tasks_total: 2, tasks_done: 0, tasks_failed: 0, tasks_skipped: 0, tasks_cancelled: 0, tasks_settled: null, sentence: null, view: null, phases_now: [], active: [], input_tokens: null,
    output_tokens: null, cache_read_tokens: null, tokens_complete: true, cost: null, cost_complete: true, currency: "USD",
    llm_call_count: 0, tool_call_count: 0, error_count: 0, retry_count: 0, is_scripted: false, replayed_from: null,
    warnings: [], note: null, capture_mode: "off", variable: "report", budget: null, waiting: [], error: null, ended_at: null, is_resumable: null, is_stoppable: null, framework: null,
    many: null, score_names: [], row_inputs: [], ranges: null, max_concurrency: null, rate_limit: null, rate_limit_ms: null, ...more,
  };
}

export const row = (more: Partial<Row> & Pick<Row, "span_id" | "kind">): Row => ({ name: more.span_id, status: "ok", ...more });

/** A task with a turn, a retried model call and two tools side by side, in a phase, and one more task to come. */
export const ROWS: Row[] = [
  row({ span_id: "p", kind: "phase", name: "research", status: "running", start_ms: 0 }),
  row({ span_id: "t", kind: "task", parent_id: "p", name: "web", agent: "Ana Lopez", status: "running", start_ms: 0 }),
  row({ span_id: "u", kind: "turn", parent_id: "t", start_ms: 0, end_ms: 900 }),
  row({ span_id: "l", kind: "llm", parent_id: "u", model: "gpt", start_ms: 0, end_ms: 500 }),
  row({ span_id: "a1", kind: "attempt", parent_id: "l", attempt: 1, status: "error", backoff_ms: 100, retry_reason: "429", start_ms: 0, end_ms: 200 }),
  row({ span_id: "a2", kind: "attempt", parent_id: "l", attempt: 2, start_ms: 310, end_ms: 500 }),
  row({ span_id: "x", kind: "tool", parent_id: "u", tool: "search", start_ms: 500, end_ms: 800 }),
  row({ span_id: "y", kind: "tool", parent_id: "u", tool: "fetch", lane: 1, status: "error", start_ms: 510, end_ms: 900 }),
  row({ span_id: "g", kind: "task", parent_id: "p", name: "draft", agent: "Bo", status: "pending", depends_on: ["web"] }),
];

export const PHASES = [{ name: "research", span_id: "p", after: [] }];

export const snapshot = (more: Partial<Snapshot> = {}): Snapshot => ({
  kind: "snapshot", n: 1, run: run(), phases: PHASES, rows: ROWS, ...more,
});

export const delta = (from: number, n: number, more: Partial<Delta> = {}): Delta => ({
  kind: "delta", from, n, run: run(), rows: [], text: [], ...more,
});

/** The same as the kernel would send it. */
export const wire = (message: Snapshot | Delta): Record<string, unknown> => ({ version: VERSION, ...message });

export function stored(more: Partial<Snapshot> = {}, now = 1000): Store {
  const store = new Store();
  store.fold(snapshot(more), now);
  return store;
}
