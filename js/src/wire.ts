// The messages between kernel and view, and the guards that let nothing else in. This is the only place where
// TypeScript meets Python: the names are those of the frames' columns. It must not know how anything is shown.

export type Kind = "phase" | "task" | "turn" | "llm" | "attempt" | "tool";
export type Status = "pending" | "running" | "waiting" | "ok" | "error" | "cancelled" | "interrupted" | "skipped";
export type RunStatus = "pending" | "running" | "completed" | "failed" | "interrupted";

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
  finish_reason?: string | null;
  error_type?: string | null;
  error_message?: string | null;
  reason?: string | null;
  critical?: boolean | null;
  slack_ms?: number | null;
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

export interface ToolRequest {
  id?: string | null;
  name: string;
  arguments: unknown;
}

export interface ChatMessage {
  role: string;
  text: string;
  name?: string | null;
  tool_calls?: ToolRequest[] | null;
}

/** What a span was given and gave: loaded when the span is selected. */
export interface Details {
  span_id: string;
  messages: ChatMessage[];
  input?: string | null;
  output?: string | null;
  error?: Failure | null;
}

export interface Snapshot {
  kind: "snapshot";
  n: number;
  run: Run;
  phases: Phase[];
  rows: Row[];
}

export interface Delta {
  kind: "delta";
  from: number;
  n: number;
  run: Run;
  rows: Row[];
  text: [string, string][];
}

/** The content of our MIME type: a snapshot that carries its details, for a page without a kernel. */
export interface Saved extends Omit<Snapshot, "kind"> {
  kind: "saved";
  details: Record<string, Details>;
  saved_at: string | null;
  rows_left_out: number;
  details_left_out: number;
}

export type Incoming =
  | Snapshot
  | Delta
  | { kind: "details"; details: Details }
  | { kind: "pong"; nonce: number }
  | { kind: "bad"; why: string };

export type Outgoing =
  | { kind: "hello"; have: number }
  | { kind: "ping"; nonce: number }
  | { kind: "stop" }
  | { kind: "details"; span_id: string };

export const VERSION = 1;
const KINDS: ReadonlySet<string> = new Set(["phase", "task", "turn", "llm", "attempt", "tool"]);
const STATUSES: ReadonlySet<string> = new Set([
  "pending", "running", "waiting", "ok", "error", "cancelled", "interrupted", "skipped",
]);
const RUN_STATUSES: ReadonlySet<string> = new Set(["pending", "running", "completed", "failed", "interrupted"]);

type Loose = Record<string, unknown>;

const isObject = (value: unknown): value is Loose =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTime = (value: unknown): boolean => value == null || (typeof value === "number" && Number.isFinite(value));
const numberOr = (value: unknown, otherwise: number): number =>
  typeof value === "number" && Number.isFinite(value) ? value : otherwise;
const textOr = (value: unknown, otherwise: string): string => (typeof value === "string" ? value : otherwise);
const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
const nullableNumber = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;

/** The agent that tasks without an agent have: plain code does their work. */
export const HANDLER = "Handler";

export const isHandler = (task: Row): boolean => task.agent == null || task.agent === HANDLER;

/** True for a row that every later step can rely on. */
export function isRow(value: unknown): value is Row {
  return (
    isObject(value) &&
    typeof value.span_id === "string" &&
    typeof value.name === "string" &&
    KINDS.has(value.kind as string) &&
    STATUSES.has(value.status as string) &&
    isTime(value.start_ms) &&
    isTime(value.end_ms)
  );
}

/** Reads any message of the kernel; what is not one comes back as `bad`, with the reason for a person. */
export function readMessage(value: unknown): Incoming {
  if (!isObject(value)) return { kind: "bad", why: "a message is not an object" };
  switch (value.kind) {
    case "snapshot":
      return readSnapshot(value) ?? { kind: "bad", why: whyNot(value) };
    case "delta":
      return readDelta(value) ?? { kind: "bad", why: whyNot(value) };
    case "details":
      return typeof value.span_id === "string"
        ? { kind: "details", details: readDetails(value.span_id, value) }
        : { kind: "bad", why: "details without a span" };
    case "pong":
      return typeof value.nonce === "number"
        ? { kind: "pong", nonce: value.nonce }
        : { kind: "bad", why: "a pong without its number" };
    default:
      return { kind: "bad", why: `a message of unknown kind ${JSON.stringify(value.kind) ?? "(none)"}` };
  }
}

/** Reads the saved MIME payload, or says why it can't be shown. */
export function readSaved(value: unknown): Saved | { kind: "bad"; why: string } {
  if (!isObject(value)) return { kind: "bad", why: "the saved trace is not an object" };
  const snapshot = readSnapshot(value);
  if (!snapshot) return { kind: "bad", why: whyNot(value) };
  const details: Record<string, Details> = {};
  if (isObject(value.details)) {
    for (const [span, content] of Object.entries(value.details)) {
      if (isObject(content)) details[span] = readDetails(span, content);
    }
  }
  return {
    ...snapshot,
    kind: "saved",
    details,
    saved_at: typeof value.saved_at === "string" ? value.saved_at : null,
    rows_left_out: numberOr(value.rows_left_out, 0),
    details_left_out: numberOr(value.details_left_out, 0),
  };
}

function whyNot(value: Loose): string {
  if (value.kind !== "delta" && value.version !== VERSION) {
    return `the trace has version ${JSON.stringify(value.version) ?? "(none)"}, and this view reads version ${VERSION}`;
  }
  if (!isObject(value.run)) return "the message says nothing about the run";
  if (!Array.isArray(value.rows)) return "the message has no rows";
  return `the ${value.kind === "delta" ? "update" : "trace"} is incomplete`;
}

function readSnapshot(value: Loose): Snapshot | null {
  const run = readRun(value.run);
  if (value.version !== VERSION || !run || !Array.isArray(value.rows)) return null;
  const phases = Array.isArray(value.phases) ? value.phases.filter(isObject) : [];
  return {
    kind: "snapshot",
    n: numberOr(value.n, 0),
    run,
    phases: phases.map((phase) => ({
      name: textOr(phase.name, "phase"),
      span_id: textOr(phase.span_id, ""),
      after: textsOf(phase.after),
    })),
    rows: value.rows.filter(isRow),
  };
}

function readDelta(value: Loose): Delta | null {
  const run = readRun(value.run);
  if (!run || !Array.isArray(value.rows) || typeof value.from !== "number" || typeof value.n !== "number") return null;
  const text = Array.isArray(value.text) ? value.text : [];
  return {
    kind: "delta",
    from: value.from,
    n: value.n,
    run,
    rows: value.rows.filter(isRow),
    text: text.filter(
      (pair): pair is [string, string] =>
        Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === "string",
    ),
  };
}

function readRun(value: unknown): Run | null {
  if (!isObject(value) || typeof value.run_id !== "string" || !RUN_STATUSES.has(value.status as string)) return null;
  const error = isObject(value.error) ? value.error : null;
  return {
    run_id: value.run_id,
    name: textOr(value.name, "ensemble"),
    workflow: textOr(value.workflow, ""),
    status: value.status as RunStatus,
    exit_reason: typeof value.exit_reason === "string" ? value.exit_reason : null,
    started_at: typeof value.started_at === "string" ? value.started_at : null,
    elapsed_ms: numberOr(value.elapsed_ms, 0),
    tasks_total: numberOr(value.tasks_total, 0),
    tasks_done: numberOr(value.tasks_done, 0),
    tasks_failed: numberOr(value.tasks_failed, 0),
    tasks_skipped: numberOr(value.tasks_skipped, 0),
    phases_now: textsOf(value.phases_now),
    active: Array.isArray(value.active) ? value.active.filter(isActive) : [],
    input_tokens: nullableNumber(value.input_tokens),
    output_tokens: nullableNumber(value.output_tokens),
    cache_read_tokens: nullableNumber(value.cache_read_tokens),
    tokens_complete: value.tokens_complete !== false,
    cost: nullableNumber(value.cost),
    cost_complete: value.cost_complete !== false,
    currency: textOr(value.currency, "USD"),
    llm_call_count: numberOr(value.llm_call_count, 0),
    tool_call_count: numberOr(value.tool_call_count, 0),
    errors: numberOr(value.errors, 0),
    retries: numberOr(value.retries, 0),
    max_concurrency: nullableNumber(value.max_concurrency),
    is_scripted: value.is_scripted === true,
    warnings: textsOf(value.warnings),
    note: typeof value.note === "string" ? value.note : null,
    error: error ? { type: textOr(error.type, "Error"), message: textOr(error.message, "") } : null,
  };
}

function isActive(value: unknown): value is ActiveSpan {
  return (
    isObject(value) &&
    typeof value.span_id === "string" &&
    typeof value.name === "string" &&
    KINDS.has(value.kind as string) &&
    typeof value.since_ms === "number"
  );
}

function readDetails(span_id: string, value: Loose): Details {
  const messages = Array.isArray(value.messages) ? value.messages.filter(isObject) : [];
  const error = isObject(value.error) ? value.error : null;
  return {
    span_id,
    messages: messages.map((message) => ({
      role: textOr(message.role, "user"),
      text: textOr(message.text, ""),
      name: typeof message.name === "string" ? message.name : null,
      tool_calls: Array.isArray(message.tool_calls)
        ? message.tool_calls.filter(isObject).map((call) => ({
            id: typeof call.id === "string" ? call.id : null,
            name: textOr(call.name, "tool"),
            arguments: call.arguments,
          }))
        : null,
    })),
    input: typeof value.input === "string" ? value.input : null,
    output: typeof value.output === "string" ? value.output : null,
    error: error ? { type: textOr(error.type, "Error"), message: textOr(error.message, "") } : null,
  };
}
