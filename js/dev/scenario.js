// A run as it might have been, with everything that the view can show: phases, concurrent tasks, sub-lanes, a 429 with its
// retries, tools, a failure and what it skips. `stateAt(t)` is what a kernel would know t milliseconds after the start.

import { FOUND, longDetails, MARKDOWN } from "./replies.js";

const MODEL = { model: "gpt-4o-mini", provider: "openai" };
const spans = [];
let seq = 0;

function span(kind, id, parent, name, start, end, more = {}) {
  spans.push({ span_id: id, parent_id: parent, kind, name, start, end, seq: (seq += 1), final: "ok", ...more });
  return id;
}

const phases = [
  { name: "research", span_id: "p1", after: [] },
  { name: "analysis", span_id: "p2", after: ["research"] },
  { name: "publish", span_id: "p3", after: ["analysis"] },
];

function llm(id, parent, task, start, end, input, output, more = {}) {
  span("llm", id, parent, "chat", start, end, {
    ...MODEL, task, input_tokens: input, output_tokens: output, cache_read_tokens: Math.round(input * 0.4),
    cost: (input * 0.15 + output * 0.6) / 1e6, time_to_first_token_ms: 320, finish_reason: "stop", ...more,
  });
  if (!more.attempts) span("attempt", `${id}a1`, id, "attempt 1", start, end, { task, attempt: 1, max_attempts: 5, final: more.final ?? "ok" });
  return id;
}

span("phase", "p1", null, "research", 0, 9400);
span("task", "plan", "p1", "plan", 0, 2600, { agent: "Research Manager", phase: "research", critical: true, description: "Plan the research: three questions worth answering about local language models in notebooks." });
span("turn", "plan.1", "plan", "turn 1", 0, 2600);
llm("plan.l1", "plan.1", "plan", 60, 2550, 1240, 310);
span("task", "web", "p1", "search the web", 2650, 9350, { agent: "Ana Lopez", phase: "research", depends_on: ["plan"], critical: true, description: "Find recent sources for each question." });
span("turn", "web.1", "web", "turn 1", 2650, 6200);
llm("web.l1", "web.1", "web", 2700, 4000, 1830, 96, { finish_reason: "tool_calls" });
span("tool", "web.t1", "web.1", "web_search", 4020, 5600, { tool: "web_search", task: "search the web" });
span("tool", "web.t2", "web.1", "fetch_page", 4030, 6150, { tool: "fetch_page", task: "search the web", lane: 1 });
span("tool", "web.t3", "web.1", "read_pdf", 4040, 5100, { tool: "read_pdf", task: "search the web", lane: 2, final: "error", error_type: "ToolError", error_message: "The file is encrypted." });
span("turn", "web.2", "web", "turn 2", 6200, 9350);
llm("web.l2", "web.2", "web", 6230, 9300, 6420, 742);
span("task", "code", "p1", "read the code", 2650, 9000, { agent: "Bo", phase: "research", depends_on: ["plan"], description: "Look at how three libraries solve it." });
span("turn", "code.1", "code", "turn 1", 2650, 9000);
llm("code.l1", "code.1", "code", 2700, 8950, 2210, 540, { attempts: true });
span("attempt", "code.l1a1", "code.l1", "attempt 1", 2700, 3350, { ...MODEL, attempt: 1, max_attempts: 5, final: "error", retry_reason: "429 Too Many Requests", backoff_ms: 1900, error_type: "RateLimitError", error_message: "429 Too Many Requests" });
span("attempt", "code.l1a2", "code.l1", "attempt 2", 5250, 5800, { ...MODEL, attempt: 2, max_attempts: 5, final: "error", retry_reason: "timeout", backoff_ms: 700, error_type: "ModelTimeoutError", error_message: "No reply within 0.5 s" });
span("attempt", "code.l1a3", "code.l1", "attempt 3", 6500, 8950, { ...MODEL, attempt: 3, max_attempts: 5, input_tokens: 2210, output_tokens: 540 });
span("phase", "p2", null, "analysis", 9450, 14800, { final: "error", depends_on: ["research"] });
span("task", "compare", "p2", "compare findings", 9450, 13200, { agent: "Cy Young", phase: "analysis", critical: true, depends_on: ["search the web", "read the code"] });
span("turn", "compare.1", "compare", "turn 1", 9450, 13200);
llm("compare.l1", "compare.1", "compare", 9500, 13150, 8120, 910);
span("task", "score", "p2", "score", 9450, 10600, { phase: "analysis", description: "A handler: plain Python." });
span("task", "verify", "p2", "verify claims", 9460, 14750, { agent: "Dee", phase: "analysis", final: "error", error_type: "ModelError", error_message: "500 Internal Server Error: <b>the upstream server</b> fell over after three attempts", depends_on: ["search the web"] });
span("turn", "verify.1", "verify", "turn 1", 9460, 14750);
llm("verify.l1", "verify.1", "verify", 9500, 11200, 3120, 120, { finish_reason: "tool_calls" });
span("tool", "verify.t1", "verify.1", "lookup", 11220, 12400, { tool: "lookup", task: "verify claims" });
llm("verify.l2", "verify.1", "verify", 12450, 14700, null, null, { final: "error", error_type: "ModelError", error_message: "500 Internal Server Error", cost: null, cache_read_tokens: null, finish_reason: null });
span("phase", "p3", null, "publish", null, 14850, { final: "skipped", reason: "phase analysis failed", depends_on: ["analysis"] });
span("task", "draft", "p3", "draft the report", null, 14850, { agent: "Cy Young", phase: "publish", final: "skipped", reason: "phase analysis failed" });
span("task", "publish", "p3", "publish", null, 14850, { phase: "publish", final: "skipped", reason: "needs draft the report", depends_on: ["draft the report"] });

export const END = 14900;
const HIDDEN = new Set(["start", "end", "final"]);
const PLANNED = new Set(["phase", "task"]);
const STREAMED = "## Findings\n\nLocal models in notebooks are useful where data must not leave the machine. Three findings stand out: start-up cost dominates short runs; constrained decoding makes small models dependable; and people want to see what is going on. <script>alert('never')</script> ";

function rowAt(item, t) {
  const isStarted = item.start !== null && item.start <= t;
  const isEnded = item.end <= t;
  if (!isStarted && !isEnded && !PLANNED.has(item.kind)) return null;
  const row = {};
  for (const [key, value] of Object.entries(item)) if (!HIDDEN.has(key)) row[key] = value;
  row.status = isEnded ? item.final : isStarted ? "running" : "pending";
  if (isStarted) row.start_ms = item.start;
  if (isEnded) row.end_ms = item.end;
  if (!isEnded) {
    for (const key of ["input_tokens", "output_tokens", "cache_read_tokens", "cost", "error_type", "error_message", "reason", "finish_reason", "retry_reason", "backoff_ms", "critical"]) delete row[key];
  }
  return row;
}

export function stateAt(t, status = null) {
  const rows = spans.map((item) => rowAt(item, t)).filter(Boolean);
  const tasks = rows.filter((row) => row.kind === "task");
  const calls = rows.filter((row) => row.kind === "llm" && row.end_ms != null);
  const sum = (key) => calls.reduce((total, row) => total + (row[key] ?? 0), 0);
  for (const task of tasks) {
    const own = calls.filter((row) => row.parent_id.startsWith(`${task.span_id}.`));
    if (own.length) for (const key of ["input_tokens", "output_tokens", "cost"]) task[key] = own.reduce((total, row) => total + (row[key] ?? 0), 0);
  }
  const many = (what, is) => what.filter((row) => row.status === is).length;
  const isOver = t >= END || status === "interrupted";
  if (status === "interrupted") for (const row of rows) if (row.status === "running") Object.assign(row, { status: "cancelled", end_ms: t });
  const active = rows.filter((row) => row.status === "running" && (row.kind === "task"));
  return {
    run: {
      run_id: "run-1", name: "research-report", workflow: "phases", status: status ?? (isOver ? "failed" : "running"), exit_reason: null,
      started_at: "2026-11-21T14:03:00Z", elapsed_ms: Math.min(t, END), tasks_total: tasks.length, tasks_done: many(tasks, "ok"),
      tasks_failed: many(tasks, "error"), tasks_skipped: many(tasks, "skipped"),
      phases_now: rows.filter((row) => row.kind === "phase" && row.status === "running").map((row) => row.name),
      active: active.map((row) => ({ span_id: row.span_id, kind: row.kind, name: row.name, agent: row.agent, since_ms: row.start_ms })),
      input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens"), cache_read_tokens: sum("cache_read_tokens"), tokens_complete: true,
      cost: sum("cost"), cost_complete: t < 14700, currency: "USD", llm_call_count: calls.length,
      tool_call_count: many(rows.filter((row) => row.kind === "tool"), "ok"),
      errors: rows.filter((row) => row.status === "error" && row.kind !== "attempt" && row.kind !== "phase").length,
      retries: rows.filter((row) => row.backoff_ms != null).length, max_concurrency: 4, is_scripted: true, capture_mode: globalThis.location?.search.includes("capture=metadata") ? "metadata" : "off", variable: "report",
      warnings: ["The tool read_pdf has no description; the model sees only its name."],
      error: isOver && status === null ? { type: "TaskFailedError", message: "Task 'verify claims' failed: 500 Internal Server Error after 3 attempts." } : null,
    },
    phases,
    rows,
  };
}

/** The streamed text that every running model call has so far. */
export function textAt(t) {
  const texts = {};
  for (const item of spans) {
    if (item.kind !== "llm" || item.start + 320 > t || item.end <= t) continue;
    const letters = Math.floor((t - item.start - 320) / 9);
    texts[item.span_id] = STREAMED.repeat(Math.ceil(letters / STREAMED.length)).slice(0, letters);
  }
  return texts;
}

export function detailsOf(id, t = END) {
  if (id === "compare.l1" && t >= END) return longDetails(id);
  const row = spans.find((item) => item.span_id === id);
  if (row?.kind === "tool") {
    return {
      kind: "details", span_id: id, messages: [], input: JSON.stringify({ query: "local language models in notebooks 2026", limit: 5 }),
      output: row.final === "error" ? null : JSON.stringify(FOUND),
      error: row.final === "error" ? { type: row.error_type, message: row.error_message } : null,
    };
  }
  const messages = [
    { role: "system", text: "You are Ana Lopez, a careful researcher.\n\nGoal: find sources that hold up.\n" + "Background: you have worked with libraries for twenty years, and you never cite what you have not read.\n".repeat(12) },
    { role: "user", text: "Find recent sources for each of these questions:\n1. What does start-up cost?\n2. When is a small model enough?\n3. What do people look at?" },
  ];
  if (id === "web.l2" || id === "web") {
    messages.push(
      { role: "assistant", text: "", tool_calls: [{ id: "c1", name: "web_search", arguments: { query: "local language models in notebooks 2026", limit: 5 } }] },
      { role: "tool", name: "web_search", text: JSON.stringify(FOUND) },
    );
  }
  if (row?.final !== "error" && row?.end <= t) messages.push({ role: "assistant", text: MARKDOWN });
  return {
    kind: "details", span_id: id, messages, input: null, output: row?.final === "error" || row?.end > t ? null : MARKDOWN,
    handovers: id === "web" ? [{ kind: "context", from: "plan", to: "web", characters: 1810 }, { kind: "context", from: "web", to: "compare", characters: 4212 }] : [],
    error: row?.final === "error" ? { type: row.error_type, message: row.error_message } : null,
  };
}

/**
 * Many spans, for measuring: `tasks` rows with `calls` calls each. Each time a run of its own, since a view takes over from
 * one of the same run that went just now, its window too.
 */
export function crowd(tasks, calls) {
  const rows = [];
  for (let k = 0; k < tasks; k += 1) {
    rows.push({ span_id: `t${k}`, parent_id: null, kind: "task", name: `task ${k}`, agent: "Ana", status: "ok", start_ms: 0, end_ms: calls * 100, input_tokens: 600 * calls, output_tokens: 53 * calls, llm_call_count: calls });
    for (let c = 0; c < calls; c += 1) {
      const kind = c % 3 === 2 ? "tool" : "llm";
      rows.push({ span_id: `t${k}.${c}`, parent_id: `t${k}`, kind, name: "x", model: "gpt-4o-mini", tool: "search", status: c % 97 === 96 ? "error" : "ok", start_ms: c * 100, end_ms: c * 100 + 40 + ((c * 37) % 60), input_tokens: 900, output_tokens: 80 });
    }
  }
  const run = { ...stateAt(END).run, run_id: crypto.randomUUID(), name: "crowd", status: "completed", elapsed_ms: calls * 100, error: null };
  return { kind: "snapshot", version: 1, n: 1, run, phases: [], rows };
}
