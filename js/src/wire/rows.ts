// Made by `make wire-types` from ensemble_notebook/trace/tables/timeline_columns.py: change that file.
// Data alone: what reads a message that came from elsewhere is in `reader`.

import type { Kind } from "./traits";

/** Of all that is declared here. A view reads all versions up to this one. */
export const VERSION = 4;

export const STATUSES = [
  "pending", "running", "waiting", "ok", "error", "cancelled", "interrupted", "skipped",
] as const;
export const RUN_STATUSES = [
  "pending", "running", "completed", "completed_with_warnings", "failed", "budget_exceeded", "exited_early",
  "interrupted",
] as const;

export type Status = (typeof STATUSES)[number];
export type RunStatus = (typeof RUN_STATUSES)[number];
export type Verdict = "approve" | "edit" | "retry" | "reject" | "exit_early";

/** One delegation: how an agent asked another one to work, and what came of it. */
export interface Delegation {
  /** role of who asked */
  delegator?: string | null;
  /** 1 for what the agent of a task asks for, 2 for what its worker does, ... */
  depth?: number | null;
  /** as the request says */
  priority?: string | null;
  /** why it was refused or failed */
  errors?: readonly string[] | null;
}

/** One review: what a person is, or was, asked. */
export interface Review {
  /** task, output, tool, question or phase */
  subject: string;
  /** name of the tool, for a tool call */
  tool?: string | null;
  /** what was shown, secrets masked */
  text: string;
  /** what may be answered */
  verdicts: readonly Verdict[];
  /** when on_timeout decides, since the run started; absent: never (ms) */
  deadline_ms?: number | null;
  /** what it decides */
  on_timeout?: string | null;
  /** what was answered */
  decision?: string | null;
  /** who decided: a person, the name of a handler, on_timeout, or nobody_to_ask; NA without an answer */
  by?: string | null;
  /** nobody answered in time */
  is_timeout?: boolean | null;
  /** of a call of a reviewed tool: what happens to it if nobody answers, whatever on_timeout says */
  otherwise?: string | null;
  /** name of the row of a map that it is about; an answer may then serve all rows */
  row?: string | null;
}

/** One round: one go at the work of a phase or task that was sent back. */
export interface Round {
  /** its start, since the run started (ms) */
  start_ms: number;
  /** its end; absent while it lasts (ms) */
  end_ms?: number | null;
  /** what became of it, in words; absent where nobody said */
  verdict?: string | null;
}

/** One part of what a manager saw to: a task as it was written, or work that was handed on. */
export interface Work {
  /** what it is called */
  title: string;
  /** of the task that a worker did, or of a delegation that was refused */
  span_id?: string | null;
  /** who did it */
  agent?: string | null;
  /** why there is no work to be seen, in words */
  note?: string | null;
}

/** One memory operation. */
export interface Memory {
  /** retrieve or store */
  operation: string;
  /** of the memory */
  scope: string;
  /** entries that were found or written */
  count?: number | null;
}

/** One span that views show. What is unknown or false is absent; times are milliseconds since the run started. */
export interface Row {
  /** unique in all runs */
  span_id: string;
  /** span_id of the span around it, NA for the run */
  parent_id?: string | null;
  /** as in the list above: run, phase, task, turn, llm, ... */
  kind: Kind;
  /** of the phase, task, model or tool; else its kind and number */
  name: string;
  /** pending, running, waiting, ok, error, cancelled, interrupted or skipped */
  status: Status;
  /** name of the phase, NA in a flat ensemble */
  phase?: string | null;
  /** name of the task */
  task?: string | null;
  /** role of the agent, 'Handler' for a handler */
  agent?: string | null;
  /** a fallback agent is at work; of a task: one took over */
  is_fallback?: boolean | null;
  /** resolved, secrets masked */
  description?: string | null;
  /** names of the tasks that it waited for */
  depends_on?: readonly string[] | null;
  /** of such a task: for how many items it runs */
  item_count?: number | null;
  /** why it was reused, or ran all the same; NA where nobody asked */
  reuse_reason?: string | null;
  /** what it took in that run: input and output; NA where it was not reused (tokens) */
  saved_tokens?: number | null;
  /** the same of its cost, in currency; NA where that is unknown */
  saved_cost?: number | null;
  /** the same of its duration (ms) */
  saved_ms?: number | null;
  /** names of the tasks whose outputs it was given */
  context?: readonly string[] | null;
  /** of a task: length of what it gave (characters) */
  output_characters?: number | null;
  /** start, since the run started (ms) */
  start_ms?: number | null;
  /** end, since the run started; absent while it runs (ms) */
  end_ms?: number | null;
  /** of what never began: when it was settled that it would not, since the run started (ms) */
  settled_ms?: number | null;
  /** of a task: its own time, which is less than from start to end where it was over in between, or waited for a model to be made ready (ms) */
  duration_ms?: number | null;
  /** number of the sub-lane inside its task, for calls side by side */
  lane?: number | null;
  /** of a phase or task that was sent back: each go at its work, in order */
  rounds?: readonly Round[] | null;
  /** of a row of a map: its number there, from 0: the same under each variant */
  line?: number | null;
  /** of a row of a map: the variant that it runs under */
  variant?: string | null;
  /** of a row of a map: the number of the repeat, from 1 */
  repeat?: number | null;
  /** of a task in which a map runs: how many of its rows have begun */
  map_rows?: number | null;
  /** what a task is called whose name nobody chose: its first words, or the name of its item */
  title?: string | null;
  /** of a manager: what stands below it, in order */
  work?: readonly Work[] | null;
  /** of a task that answers the review of a phase: span_id of that */
  review_id?: string | null;
  /** on the longest chain; NA before the run has ended */
  critical?: boolean | null;
  /** how much later it could have ended without delaying the run (ms) */
  slack_ms?: number | null;
  /** a task was ready and waited for a free place (ms) */
  queue_ms?: number | null;
  /** the wait after a failed attempt (ms) */
  backoff_ms?: number | null;
  /** of an LLM call that streamed (ms) */
  time_to_first_token_ms?: number | null;
  /** what a wait waits for: rate_limit, budget, connection or startup */
  wait_kind?: string | null;
  /** class of the error, where status is error */
  error_type?: string | null;
  /** its text, secrets masked */
  error_message?: string | null;
  /** why it was skipped or refused */
  reason?: string | null;
  /** of what was skipped: declined, exited early, or settled */
  outcome?: string | null;
  /** its number, from 1; of an LLM call or of a task sent back, how many there were */
  attempt?: number | null;
  /** how many were allowed */
  max_attempts?: number | null;
  /** why another attempt followed */
  retry_reason?: string | null;
  /** who serves the model */
  provider?: string | null;
  /** name as asked for */
  model_requested?: string | null;
  /** name as the provider gave it */
  model?: string | null;
  /** a script answered for the model */
  is_scripted?: boolean | null;
  /** why the model stopped, as the provider says */
  finish_reason?: string | null;
  /** cached ones included; known part (tokens) */
  input_tokens?: number | null;
  /** the part read from the provider's cache; known part (tokens) */
  cache_read_tokens?: number | null;
  /** reasoning ones included; known part (tokens) */
  output_tokens?: number | null;
  /** the part spent on reasoning; known part (tokens) */
  reasoning_tokens?: number | null;
  /** known part, in currency */
  cost?: number | null;
  /** of the cost: there wherever a cost is */
  currency?: string | null;
  /** its first score that is a number; 1 or 0 where it passed or failed */
  score?: number | null;
  /** all that it was scored, in the order of the run's score_names; the last ones may be missing */
  scores?: readonly (number | boolean | string | null)[] | null;
  /** of a task or phase: model calls */
  llm_call_count?: number | null;
  /** of a task or phase: the tokens of a request are unknown */
  lacks_tokens?: boolean | null;
  /** of a task or phase: the price of a request is unknown */
  lacks_cost?: boolean | null;
  /** of a task, a call or a review: an earlier run had done it */
  reused?: boolean | null;
  /** name of the tool */
  tool?: string | null;
  /** of a delegation: role of the worker */
  delegate_to?: string | null;
  /** of the innermost delegation that it is a part of */
  delegation_id?: string | null;
  /** of a delegation */
  delegation?: Delegation | null;
  /** of a review */
  review?: Review | null;
  /** of a memory operation */
  memory?: Memory | null;
  /** what a guardrail looks at: input or output */
  guardrail?: string | null;
  /** of a turn: the reply before was not of the output type */
  is_correction?: boolean | null;
  /** what its code has said last of how far it is */
  progress?: string | null;
  /** of a task in a view of two runs: how much more it took in the second one, in words */
  delta?: string | null;
  /** how a task was declared, by the names of its fields, where that differs from the defaults */
  settings?: Readonly<Record<string, string | number | boolean>> | null;
}

/** One phase of the plan. */
export interface Phase {
  /** of the phase */
  name: string;
  /** of its span */
  span_id: string;
  /** names of its predecessors */
  after: readonly string[];
}

/** One span at work. */
export interface ActiveSpan {
  /** of the span */
  span_id: string;
  /** as in the list above: run, phase, task, turn, llm, ... */
  kind: Kind;
  /** of the span */
  name: string;
}

/** One limit of the run. */
export interface Budget {
  /** limit of the cost, in currency */
  max_cost?: number | null;
  /** limit of input and output together (tokens) */
  max_tokens?: number | null;
  /** limit of physical requests */
  max_llm_calls?: number | null;
  /** spent of it, in currency */
  cost?: number | null;
  /** spent of them (tokens) */
  tokens?: number | null;
  /** spent of them */
  llm_calls?: number | null;
  /** what is spent of the limit that is nearest, 0 to 1 and more */
  share?: number | null;
  /** the share at which there is a warning */
  warn_at?: number | null;
  /** of both costs */
  currency?: string | null;
}

/** One work on many, while it goes on. */
export interface Many {
  /** how many items, or rows */
  total: number;
  /** of them that completed */
  done: number;
  /** of them that ended otherwise */
  failed: number;
  /** when the first of them could begin (ms) */
  start_ms: number;
}

/** One variant of a map under a score. */
export interface Head {
  /** its name, as rows have it; null where there are no variants */
  variant?: string | null;
  /** as short as it is told apart */
  title: string;
  /** name of the score; of a label, with the word */
  score: string;
  /** that count by now */
  rows: number;
  /** over these rows; of what passes, a share of one */
  mean?: number | null;
  /** end of its interval */
  low?: number | null;
  /** the other end */
  high?: number | null;
  /** of which kind the interval is, in words */
  kind: string;
  /** the score passes or fails */
  is_share: boolean;
}

/** One word on how the variants of a map stand by now. */
export interface Standing {
  /** of each score, those of all variants */
  heads: readonly Head[];
  /** the verdict by now, in short; null where nothing is compared */
  sentence?: string | null;
  /** what it rests on, a line for each comparison */
  reason?: string | null;
}

/** One error. */
export interface Failure {
  /** its class */
  type: string;
  /** its text, secrets masked */
  message: string;
}

/** One time of a run of which a person has said something. */
export interface Range {
  /** its begin, since the start of the run (ms) */
  from_ms: number;
  /** its end, since the start of the run (ms) */
  to_ms: number;
  /** of the score */
  name: string;
  /** whether it is good, a number, or a word */
  value?: boolean | number | string | null;
  /** why, in words */
  reason?: string | null;
  /** who said so */
  author?: string | null;
}

/** One call of a reviewed tool that waits until somebody answers. */
export interface PendingCall {
  /** by which an answer names it */
  id: string;
  /** of the call */
  span_id: string;
  /** the tool and its arguments, shortened */
  text: string;
  /** the instant when it was asked about first */
  since: string;
  /** role of who asks for it */
  agent?: string | null;
  /** that it is in */
  task?: string | null;
  /** name of the row that it is in, in a map */
  row?: string | null;
  /** it was begun once before, and nobody knows whether it was done */
  is_unknown?: boolean | null;
}

/** One what of a run waits for answers. */
export interface Pending {
  /** how many calls */
  count: number;
  /** the first of them */
  calls: readonly PendingCall[];
  /** the line that goes on, with {} for the answers by the ids of calls */
  code: string;
}

/** One run, as of the latest event. What is unknown is null. */
export interface Run {
  /** unique */
  run_id: string;
  /** its own, else that of the variable with its output, else the number of its cell */
  name?: string | null;
  /** how the run ended, or stands */
  status: RunStatus;
  /** why it ended */
  exit_reason?: string | null;
  /** what happened, in one sentence; null before the end */
  sentence?: string | null;
  /** since the start; of a run that is over, its length (ms) */
  elapsed_ms: number;
  /** the instant of its end; null before */
  ended_at?: string | null;
  /** what a task is called: task, row, variant or run */
  task_noun: string;
  /** tasks of the plan */
  tasks_total: number;
  /** tasks of the plan that completed */
  tasks_done: number;
  /** tasks of the plan that failed */
  tasks_failed: number;
  /** tasks of the plan that were skipped */
  tasks_skipped: number;
  /** tasks of the plan that were cancelled or interrupted */
  tasks_cancelled: number;
  /** of those that were skipped, rows of a map that were not needed; null where there are none */
  tasks_settled?: number | null;
  /** names of the phases that run */
  phases_now: readonly string[];
  /** what is at work, the longest running first */
  active: readonly ActiveSpan[];
  /** span_id of the reviews that nobody has answered yet */
  waiting: readonly string[];
  /** what waits for answers after its end; null where nothing does */
  pending?: Pending | null;
  /** the view it opens in: bars, graph, grid, messages or table */
  view?: string | null;
  /** the items or rows that are at work; null where there are none */
  many?: Many | null;
  /** cached ones included; known part (tokens) */
  input_tokens?: number | null;
  /** the part read from the provider's cache; known part (tokens) */
  cache_read_tokens?: number | null;
  /** reasoning ones included; known part (tokens) */
  output_tokens?: number | null;
  /** False when the tokens of a request are unknown */
  tokens_complete: boolean;
  /** known part, in currency */
  cost?: number | null;
  /** False when the price of a request is unknown */
  cost_complete: boolean;
  /** of the cost */
  currency: string;
  /** model calls */
  llm_call_count: number;
  /** tool calls that were executed */
  tool_call_count: number;
  /** failures, each counted once */
  error_count: number;
  /** attempts that were followed by another one */
  retry_count: number;
  /** limits, and what is spent of them; null without one */
  budget?: Budget | null;
  /** a script answered for a model */
  is_scripted: boolean;
  /** the limit of tasks at the same time */
  max_concurrency?: number | null;
  /** how many model requests it lets through in rate_limit_ms; null without a limit */
  rate_limit?: number | null;
  /** the time in which so many may be sent (ms) */
  rate_limit_ms?: number | null;
  /** metadata, off, standard or full */
  capture_mode?: string | null;
  /** the notebook's variable that has its output */
  variable?: string | null;
  /** a line of the notebook can go on with it; null: nobody knows */
  is_resumable?: boolean | null;
  /** false where a view can't stop it, as a run of another framework */
  is_stoppable?: boolean | null;
  /** what told of it, where another framework ran it; null: an ensemble's */
  framework?: string | null;
  /** the recording that answered in place of models */
  replayed_from?: string | null;
  /** names of the scores of its spans */
  score_names: readonly string[];
  /** names of what the rows of a map are given */
  row_inputs: readonly string[];
  /** of a map with scores: how its variants stand; null of others */
  standing?: Standing | null;
  /** its times that a person has named; null where there are none */
  ranges?: readonly Range[] | null;
  /** the latest warnings */
  warnings: readonly string[];
  /** what is being prepared, e.g. a model that loads */
  note?: string | null;
  /** what ended the run */
  error?: Failure | null;
}

/** One node of the graph of a run, or a box around others. */
export interface GraphNode {
  /** identifies it in this graph, as long as the run goes on */
  key: string;
  /** phase, round or rows, which are boxes; else a node */
  kind: string;
  /** place of the box around it among the nodes, before it */
  parent?: number | null;
  /** what it is called */
  title: string;
  /** role of who is to do it */
  agent?: string | null;
  /** by which model */
  model?: string | null;
  /** how it was declared, in words */
  settings?: string | null;
  /** how many it stands for */
  count?: number | null;
  /** it runs for each item of a list */
  is_many?: boolean | null;
  /** its left side, in pixels from that of the graph */
  x: number;
  /** its top, in pixels from that of the graph */
  y: number;
  /** of all of it, in pixels */
  width: number;
  /** of all of it, in pixels */
  height: number;
}

/** One edge of the graph of a run. */
export interface GraphEdge {
  /** place of the node that it comes from, among the nodes */
  source: number;
  /** place of the node that it goes to, among the nodes */
  target: number;
  /** context, items, condition, order, delegation, loop or round */
  kind: string;
  /** what is said of it */
  words?: string | null;
  /** what a manager was answered */
  answer?: string | null;
  /** the points that it goes through: x, y, x, y, ... */
  way: readonly number[];
}

/** One span that a node of the graph stands for. */
export interface GraphMember {
  /** of the span */
  span_id: string;
  /** place of the node among the nodes */
  node: number;
  /** which go at its work, from 1; absent for all of it */
  go?: number | null;
}

// The numbers of a run and of its budget, for who reads them one by one.
export const RUN_COUNTS = [
  "elapsed_ms", "tasks_total", "tasks_done", "tasks_failed", "tasks_skipped", "tasks_cancelled", "llm_call_count",
  "tool_call_count", "error_count", "retry_count",
] as const;
export const RUN_AMOUNTS = [
  "tasks_settled", "input_tokens", "cache_read_tokens", "output_tokens", "cost", "max_concurrency", "rate_limit",
  "rate_limit_ms",
] as const;
export const MANY_COUNTS = [
  "total", "done", "failed", "start_ms",
] as const;
export const BUDGET_AMOUNTS = [
  "max_cost", "max_tokens", "max_llm_calls", "cost", "tokens", "llm_calls", "share", "warn_at",
] as const;

/** What a column of rows holds. What comes under another name, or holds something else, is left out. */
export type Holds = "text" | "number" | "flag" | "record";
export const ROW_COLUMNS = {
  span_id: "text", parent_id: "text", kind: "text", name: "text", status: "text", phase: "text", task: "text",
  agent: "text", is_fallback: "flag", description: "text", depends_on: "record", item_count: "number",
  reuse_reason: "text", saved_tokens: "number", saved_cost: "number", saved_ms: "number", context: "record",
  output_characters: "number", start_ms: "number", end_ms: "number", settled_ms: "number", duration_ms: "number",
  lane: "number", rounds: "record", line: "number", variant: "text", repeat: "number", map_rows: "number",
  title: "text", work: "record", review_id: "text", critical: "flag", slack_ms: "number", queue_ms: "number",
  backoff_ms: "number", time_to_first_token_ms: "number", wait_kind: "text", error_type: "text",
  error_message: "text", reason: "text", outcome: "text", attempt: "number", max_attempts: "number",
  retry_reason: "text", provider: "text", model_requested: "text", model: "text", is_scripted: "flag",
  finish_reason: "text", input_tokens: "number", cache_read_tokens: "number", output_tokens: "number",
  reasoning_tokens: "number", cost: "number", currency: "text", score: "number", scores: "record",
  llm_call_count: "number", lacks_tokens: "flag", lacks_cost: "flag", reused: "flag", tool: "text",
  delegate_to: "text", delegation_id: "text", delegation: "record", review: "record", memory: "record",
  guardrail: "text", is_correction: "flag", progress: "text", delta: "text", settings: "record",
} as const satisfies Partial<Record<keyof Row, Holds>>;
export const GRAPH_NODE_COLUMNS: Readonly<Record<string, Holds>> = {
  key: "text", kind: "text", parent: "number", title: "text", agent: "text", model: "text", settings: "text",
  count: "number", is_many: "flag", x: "number", y: "number", width: "number", height: "number",
};
export const GRAPH_EDGE_COLUMNS: Readonly<Record<string, Holds>> = {
  source: "number", target: "number", kind: "text", words: "text", answer: "text", way: "record",
};
export const GRAPH_MEMBER_COLUMNS: Readonly<Record<string, Holds>> = {
  span_id: "text", node: "number", go: "number",
};
