// Reads a `*.trace.json` file, the `ExecutionTrace` that a run leaves, as if it were a saved view: its `spans` are the rows,
// its `taskTraces` hold the texts. What a view shows and the file does not say is worked out here: sums over attempts,
// and the sub-lanes of calls side by side.

import { isObject } from "./guards";
import type { Saved } from "./messages";
import { readSaved } from "./reader";
import { VERSION } from "./rows";
import { traitsOf } from "./traits";

type Json = Record<string, unknown>;

const SUMS = ["input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens", "cost"] as const;
const LONGEST_CHAIN = 64;
/** Kinds whose failure stops nothing around them (E13). */
const CONTAINED: ReadonlySet<unknown> = new Set(["tool"]);

const objectsOf = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const numberOf = (value: unknown): number | null => {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : null;
};

/** The names of columns as the wire has them; there are few, and a file has very many of each. */
const columns = new Map<string, string>();

function columnOf(name: string): string {
  let column = columns.get(name);
  if (column === undefined) {
    column = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (columns.size < 1000) columns.set(name, column);
  }
  return column;
}

/** The saved view that a trace file stands for, or why it can't be shown. */
export function traceToSaved(trace: Json): Saved | { kind: "bad"; why: string } {
  if (!Array.isArray(trace.spans)) return { kind: "bad", why: "the trace has no spans; it was written by another program" };
  const spans = objectsOf(trace.spans).filter((span) => typeof span.spanId === "string");
  const rows = new Map(spans.map((span) => [span.spanId as string, toRow(span)]));
  describeTasks(trace, rows);
  addSums(rows);
  giveLanes(rows);
  const score_names = giveScores(trace, rows);
  const run = spans.find((span) => span.kind === "run" && span.parentId == null);
  const shown = [...rows.values()].filter((row) => row.kind !== "run");
  return readSaved({
    kind: "saved",
    version: VERSION,
    n: 0,
    saved_at: trace.completedAt ?? null,
    run: { ...toRun(trace, run, shown, rows), score_names, ranges: rangesOf(trace) },
    phases: toPhases(trace, shown),
    rows: shown,
    details: toDetails(trace),
    rows_left_out: 0,
    details_left_out: 0,
  });
}

function toRow(span: Json): Json {
  const row: Json = {};
  for (const name of Object.keys(span)) row[columnOf(name)] = span[name];
  const start = numberOf(span.startMs);
  const length = numberOf(span.durationMs);
  row.end_ms = start === null || length === null || span.status === "running" ? null : start + length;
  row.cost = numberOf(span.cost);
  row.lane = 0;
  const more = isObject(span.attributes) ? span.attributes : {};
  if (span.kind === "delegation" || span.kind === "review" || span.kind === "memory") row[span.kind] = more;
  if (span.kind === "guardrail") row.guardrail = more.kind;
  // Not deleted, which would make each row a slow object.
  if (span.kind !== "task") row.duration_ms = null;
  row.attributes = null;
  return row;
}

function describeTasks(trace: Json, rows: Map<string, Json>): void {
  for (const task of allTasks(trace)) {
    const row = rows.get(String((task.metadata as Json | undefined)?.spanId));
    if (row) row.description = task.taskDescription;
  }
}

/** The traces of all tasks, those of workers too. */
function allTasks(trace: Json): Json[] {
  const found = objectsOf(trace.taskTraces);
  for (const task of found) {
    for (const delegation of objectsOf(task.delegations)) if (isObject(delegation.workerTrace)) found.push(delegation.workerTrace);
  }
  return found;
}

/** Gives tokens and cost of attempts to all that is around them (T2). */
function addSums(rows: Map<string, Json>): void {
  for (const leaf of [...rows.values()].filter((row) => row.usage_leaf === true)) {
    let around = rows.get(String(leaf.parent_id));
    for (let steps = 0; around && steps < LONGEST_CHAIN; steps += 1) {
      for (const name of hasTotals(around) ? SUMS : []) {
        const amount = numberOf(leaf[name]);
        if (amount !== null) around[name] = (numberOf(around[name]) ?? 0) + amount;
      }
      if (leaf.cost != null && hasTotals(around)) around.currency ??= leaf.currency;
      around = rows.get(String(around.parent_id));
    }
  }
}

const hasTotals = (row: Json): boolean => row.kind === "run" || traitsOf(String(row.kind)).hasTotals;

/** Gives each call of a task the lowest sub-lane that is free when it starts (W1), and what is inside it the same. */
function giveLanes(rows: Map<string, Json>): void {
  const calls = [...rows.values()].filter((row) => row.kind === "llm" || row.kind === "tool");
  calls.sort((a, b) => (numberOf(a.start_ms) ?? 0) - (numberOf(b.start_ms) ?? 0));
  const ends = new Map<unknown, number[]>();
  for (const call of calls) {
    const lanes = ends.get(call.task_id) ?? [];
    ends.set(call.task_id, lanes);
    const start = numberOf(call.start_ms) ?? 0;
    const free = lanes.findIndex((end) => end <= start);
    const lane = free < 0 ? lanes.length : free;
    lanes[lane] = numberOf(call.end_ms) ?? Infinity;
    call.lane = lane;
  }
  for (const row of rows.values()) {
    if (row.kind === "llm" || row.kind === "tool" || row.kind === "task" || row.kind === "phase" || row.kind === "turn") continue;
    row.lane = rows.get(String(row.parent_id))?.lane ?? 0;
  }
}

/** Gives each row what it was scored, and says the names of the scores; the run of a row of a map is in that row (V9). */
function giveScores(trace: Json, rows: Map<string, Json>): string[] {
  const names: string[] = [];
  for (const { name, spanId, runId, passed, value, label } of objectsOf(trace.scores)) {
    const scored = rows.get(String(spanId ?? runId));
    const row = scored?.kind === "nested" ? rows.get(String(scored.parent_id)) : scored;
    if (!row || typeof name !== "string") continue;
    if (!names.includes(name)) names.push(name);
    const known = (row.scores ?? []) as unknown[];
    row.scores = names.map((each, k) => (each === name ? (passed ?? numberOf(value) ?? label ?? null) : (known[k] ?? null)));
    row.score = (row.scores as unknown[]).map((each) => (typeof each === "boolean" ? Number(each) : each)).find((each) => typeof each === "number") ?? null;
  }
  return names;
}

/** The times of the run of which a person has said something; null where there are none. */
function rangesOf(trace: Json): Json[] | null {
  const ranges: Json[] = [];
  for (const { runId, fromMs, toMs, name, passed, value, label, reason, author, replaces } of objectsOf(trace.scores)) {
    const range = { from_ms: numberOf(fromMs), to_ms: numberOf(toMs), name, value: passed ?? numberOf(value) ?? label ?? null, reason, author };
    if (runId !== trace.ensembleId || range.from_ms === null) continue;
    const earlier = ranges.findIndex((each) => each.name === name && each.from_ms === range.from_ms && each.to_ms === range.to_ms);
    ranges.splice(replaces === true && earlier >= 0 ? earlier : ranges.length, 1, range);
  }
  return ranges.length > 0 ? ranges : null;
}

function toRun(trace: Json, run: Json | undefined, shown: Json[], rows: Map<string, Json>): Json {
  const metrics = isObject(trace.metrics) ? trace.metrics : {};
  const tasks = shown.filter((row) => row.kind === "task" && row.parent_id !== undefined && !isWorker(row, rows));
  const count = (...statuses: string[]): number => tasks.filter((row) => statuses.includes(String(row.status))).length;
  const total = run === undefined ? {} : rows.get(String(run.spanId)) ?? {};
  const reason = typeof trace.exitReason === "string" ? trace.exitReason.toLowerCase() : null;
  const attempts = shown.filter((row) => row.usage_leaf === true);
  return {
    ...Object.fromEntries(SUMS.map((name) => [name, total[name] ?? null])),
    run_id: trace.ensembleId,
    name: trace.name ?? null,
    status: String(trace.status ?? "").toLowerCase(),
    exit_reason: reason,
    elapsed_ms: total.end_ms ?? 0,
    task_noun: objectsOf(trace.events).find((event) => event.type === "RunStarted")?.taskNoun ?? "task",
    tasks_total: tasks.length,
    tasks_done: count("ok"),
    tasks_failed: count("error"),
    tasks_skipped: count("skipped"),
    tasks_cancelled: count("cancelled") + count("interrupted"),
    phases_now: [],
    active: [],
    waiting: [],
    tokens_complete: attempts.every((row) => row.input_tokens != null && row.output_tokens != null),
    cost_complete: attempts.every((row) => row.cost != null),
    currency: total.currency ?? "USD",
    llm_call_count: numberOf(metrics.totalLlmCallCount) ?? 0,
    tool_call_count: numberOf(metrics.totalToolCalls) ?? 0,
    error_count: countErrors([...rows.values()]),
    retry_count: attempts.filter((row) => row.retry_reason != null).length,
    is_scripted: shown.some((row) => row.is_scripted === true),
    capture_mode: typeof trace.captureMode === "string" ? trace.captureMode.toLowerCase() : null,
    warnings: trace.warnings,
    error: run?.errorType == null ? null : { type: run.errorType, message: run.errorMessage ?? "" },
  };
}

/** Failures, each counted once: of a call and not of its attempts, and not again of what failed by one inside it. */
function countErrors(rows: Json[]): number {
  const failed = rows.filter((row) => row.status === "error" && row.kind !== "attempt");
  const handedOn = new Set(failed.filter((row) => !CONTAINED.has(row.kind)).map((row) => row.parent_id));
  return failed.filter((row) => row.kind === "llm" || !handedOn.has(row.span_id)).length;
}

/** True for the task of a worker: it is inside a delegation, and no task of the plan. */
function isWorker(row: Json, rows: Map<string, Json>): boolean {
  let around = rows.get(String(row.parent_id));
  for (let steps = 0; around && steps < LONGEST_CHAIN; steps += 1) {
    if (around.kind === "task") return true;
    around = rows.get(String(around.parent_id));
  }
  return false;
}

function toPhases(trace: Json, shown: Json[]): Json[] {
  return objectsOf(trace.phases).map((phase) => ({
    name: phase.name,
    span_id: shown.find((row) => row.kind === "phase" && row.name === phase.name)?.span_id ?? "",
    after: phase.after,
  }));
}

/** Texts by span: of tasks the whole conversation and the output, of calls and tools what they were given and gave. */
function toDetails(trace: Json): Record<string, Json> {
  const details: Record<string, Json> = {};
  const add = (owner: Json, content: Json): void => {
    const span = (owner.metadata as Json | undefined)?.spanId ?? owner.spanId;
    if (typeof span === "string") details[span] = { messages: [], input: null, output: null, error: null, ...content };
  };
  for (const task of allTasks(trace)) {
    let messages: Json[] = [];
    let latest: Json[] = [];
    for (const call of objectsOf(task.llmInteractions)) {
      const own = objectsOf(call.messages);
      // By capture mode a call has what it added, or all of its conversation by then.
      const isMore = latest.length > 0 && latest.length < own.length && latest.every((each, k) => isSameMessage(each, own[k] as Json));
      messages = [...messages, ...own.slice(isMore ? latest.length : 0)];
      latest = own;
      add(call, { messages: messages.map(toMessage), output: call.responseText });
      for (const tool of objectsOf(call.toolCalls)) add(tool, { input: tool.arguments, output: tool.result });
    }
    if (!messages.length) messages = promptsOf(task);
    add(task, { messages: messages.map(toMessage), output: task.finalOutput });
  }
  return details;
}

/** What a task was given that asked no model. */
function promptsOf(task: Json): Json[] {
  const prompts = isObject(task.prompts) ? task.prompts : {};
  const found = [["system", prompts.systemPrompt], ["user", prompts.userPrompt]] as const;
  return found.filter(([, content]) => typeof content === "string" && content !== "").map(([role, content]) => ({ role, content }));
}

const isSameMessage = (a: Json, b: Json): boolean => a.role === b.role && a.content === b.content;

const toMessage = (message: Json): Json => ({
  role: message.role,
  text: message.content,
  reasoning: message.reasoning,
  name: message.toolName,
  tool_calls: objectsOf(message.toolCalls).length ? message.toolCalls : null,
});
