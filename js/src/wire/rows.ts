// The rows and the run as the kernel sends them: plain declarations with the names of the frames' columns. Nothing here is
// code, so that the file can be made from Python's list of columns; what reads a row that came from elsewhere is in `reader`.

import type { Kind } from "./traits";

export const STATUSES = ["pending", "running", "waiting", "ok", "error", "cancelled", "interrupted", "skipped"] as const;
export const RUN_STATUSES = [
  "pending", "running", "completed", "completed_with_warnings", "failed", "budget_exceeded", "exited_early", "interrupted",
] as const;

export type Status = (typeof STATUSES)[number];
export type RunStatus = (typeof RUN_STATUSES)[number];
export type Verdict = "approve" | "edit" | "retry" | "reject" | "exit_early";

/** What a person is, or was, asked (E45). */
export interface Review {
  subject: string;
  /** The one that is about to be called. */
  tool?: string | null;
  /** What is looked at, shortened; the details have all of it. */
  text: string;
  verdicts: Verdict[];
  /** When `on_timeout` decides, in milliseconds from the start of the run; absent: never. */
  deadline_ms?: number | null;
  on_timeout?: string | null;
  decision?: string | null;
  is_timeout?: boolean | null;
}

/** One span. Times are milliseconds from the start of the run; an absent value is unknown, never zero. */
export interface Row {
  span_id: string;
  parent_id?: string | null;
  kind: Kind;
  name: string;
  status: Status;
  phase?: string | null;
  task?: string | null;
  agent?: string | null;
  description?: string | null;
  depends_on?: string[] | null;
  start_ms?: number | null;
  end_ms?: number | null;
  lane?: number | null;
  seq?: number | null;
  model?: string | null;
  provider?: string | null;
  is_scripted?: boolean | null;
  tool?: string | null;
  tool_call_id?: string | null;
  attempt?: number | null;
  max_attempts?: number | null;
  retry_reason?: string | null;
  backoff_ms?: number | null;
  queue_ms?: number | null;
  time_to_first_token_ms?: number | null;
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_read_tokens?: number | null;
  reasoning_tokens?: number | null;
  cost?: number | null;
  /** Of the cost: there wherever a cost is. */
  currency?: string | null;
  finish_reason?: string | null;
  error_type?: string | null;
  error_message?: string | null;
  reason?: string | null;
  delegate_to?: string | null;
  delegation_id?: string | null;
  is_fallback?: boolean | null;
  delegation?: Delegation | null;
  review?: Review | null;
  /** Why a call waits. */
  wait?: string | null;
  /** What a guardrail looks at: the input or the output of its task. */
  guardrail?: string | null;
  memory?: Memory | null;
  /** How a task was declared, by the names of its fields, where that differs from the defaults. */
  settings?: Record<string, string | number | boolean> | null;
  critical?: boolean | null;
  slack_ms?: number | null;
}

/** How an agent asked another one to work, and what came of it (E23). */
export interface Delegation {
  delegator?: string | null;
  depth?: number | null;
  priority?: string | null;
  status?: string | null;
  errors?: string[] | null;
}

export interface Memory {
  operation: string;
  scope: string;
  count?: number | null;
}

/** Limits, and what of them is spent; `share` is that of the limit that is nearest. */
export interface Budget {
  max_cost?: number | null;
  max_tokens?: number | null;
  max_llm_calls?: number | null;
  cost?: number | null;
  tokens?: number | null;
  llm_calls?: number | null;
  share?: number | null;
  warn_at?: number | null;
  /** Of both costs. */
  currency?: string | null;
}

export interface ActiveSpan {
  span_id: string;
  kind: Kind;
  name: string;
  agent?: string | null;
  since_ms: number;
}

export interface Run {
  run_id: string;
  name: string;
  workflow?: string | null;
  status: RunStatus;
  exit_reason?: string | null;
  started_at?: string | null;
  elapsed_ms: number;
  tasks_total: number;
  tasks_done: number;
  tasks_failed: number;
  tasks_skipped: number;
  phases_now: string[];
  active: ActiveSpan[];
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_read_tokens?: number | null;
  tokens_complete: boolean;
  cost?: number | null;
  cost_complete: boolean;
  currency: string;
  llm_call_count: number;
  tool_call_count: number;
  errors: number;
  retries: number;
  max_concurrency?: number | null;
  is_scripted: boolean;
  warnings: string[];
  /** What is being prepared, e.g. a model that loads. */
  note?: string | null;
  budget?: Budget | null;
  /** The reviews that nobody has answered yet. */
  waiting: string[];
  error?: Failure | null;
}

export interface Phase {
  name: string;
  span_id: string;
  after: string[];
}

export interface Failure {
  type: string;
  message: string;
}
