// Made by `make wire-types` from ensemble_notebook/trace/tables/timeline_columns.py: change that file.
// Data alone: loaded with the playhead.

/** One point of a run: what it had come to at a time (W35). */
export interface Point {
  /** since the run started (ms) */
  at_ms: number;
  /** of the requests that had ended; known part (tokens) */
  input_tokens: number;
  /** of the requests that had ended; known part (tokens) */
  output_tokens: number;
  /** of the requests that had ended, in currency; known part */
  cost: number;
  /** tasks of the plan that had completed */
  done: number;
  /** tasks of the plan that had failed */
  failed: number;
  /** tasks of the plan that had been skipped */
  skipped: number;
  /** tasks of the plan that had been cancelled or interrupted */
  cancelled: number;
  /** tasks of the plan that were at work */
  running: number;
  /** model calls that had been made */
  llm_calls: number;
  /** requests that had been made for them */
  requests: number;
  /** tool calls that had been executed */
  tool_calls: number;
  /** failures, each counted once */
  errors: number;
  /** attempts that were followed by another one */
  retries: number;
}

export const POINT_COLUMNS = [
  "at_ms", "input_tokens", "output_tokens", "cost", "done", "failed", "skipped", "cancelled", "running",
  "llm_calls", "requests", "tool_calls", "errors", "retries",
] as const;

/** The columns of a row that say something before it begins, and as soon as it has. */
export const KNOWN_BEFORE = [
  "span_id", "parent_id", "kind", "name", "phase", "task", "agent", "description", "depends_on", "item_count",
  "line", "variant", "repeat", "title", "work", "review_id", "delegation_id", "delta", "settings",
] as const;
const MORE_AT_START = [
  "context", "start_ms", "lane", "queue_ms", "wait_kind", "max_attempts", "provider", "model_requested",
  "is_scripted", "tool", "delegate_to", "guardrail", "is_correction",
] as const;
export const KNOWN_AT_START = [...KNOWN_BEFORE, ...MORE_AT_START] as const;

/** The kinds of spans that wait as long as they are open. */
export const WAITS = [
  "wait", "review",
] as const;
