// A second run: a manager that hands work on, one refusal, waits for a limit, a fallback agent, guardrails and memory, work
// that a review sent back, and a person who is asked. `gatesAt(t)` is what a kernel would know t milliseconds after the start.

const MODEL = { model: "gpt-4o-mini", provider: "openai" };
const spans = [];
let seq = 0;

function span(kind, id, parent, start, end, more = {}) {
  spans.push({ span_id: id, parent_id: parent, kind, name: more.name ?? id, start, end, seq: (seq += 1), final: "ok", ...more });
}

function llm(id, parent, start, end, more = {}) {
  const tokens = { input_tokens: 1400, output_tokens: 220 };
  span("llm", id, parent, start, end, { ...MODEL, ...tokens, cost: 0.0118, ...more });
  if (!more.hasAttempts) span("attempt", `${id}.a`, id, start, end, { attempt: 1, ...MODEL });
}

function review(id, parent, subject, start, end, text, more = {}) {
  const verdicts = more.verdicts ?? ["approve", "edit", "retry", "reject", "exit_early"];
  span("review", id, parent, start, end, {
    name: subject, review: { subject, text, verdicts, deadline_ms: start + 300_000, on_timeout: "exit_early", tool: more.tool ?? null },
    decision: more.decision, agent: more.agent, task: more.task, phase: more.phase, lane: more.lane ?? 0,
  });
}

const DRAFT = "Local models in a notebook pay off where data must not leave the machine.\n\n1. Start-up dominates short runs.\n" +
  "2. Constrained decoding makes small models dependable.\n3. People want to see what is going on. <img src=x onerror=alert(1)>";
const phases = [
  { name: "research", span_id: "p1", after: [] },
  { name: "write", span_id: "p2", after: ["research"] },
];

span("phase", "p1", null, 0, 15_600, { name: "research" });
span("task", "manager", "p1", 0, 13_600, { name: "manager", agent: "Manager", critical: true });
span("memory", "m1", "manager", 20, 60, { name: "sources", memory: { operation: "retrieve", scope: "sources", count: 3 } });
span("guardrail", "g1", "manager", 70, 90, { name: "no_personal_data", guardrail: "input" });
span("turn", "mt1", "manager", 100, 9500);
llm("ml1", "mt1", 120, 1900, { finish_reason: "tool_calls" });
span("tool", "md0", "mt1", 1900, 2050, { tool: "delegate_task", final: "error" });
span("delegation", "d0", "md0", 1910, 2040, { name: "Critic", delegate_to: "Critic", delegation_id: "c3", final: "error", error_type: "DelegationRefused", error_message: "The global limit of 2 delegations is reached", reason: "The global limit of 2 delegations is reached", delegation: { delegator: "Manager", depth: 1, priority: "normal", status: "failure", errors: ["The global limit of 2 delegations is reached"] } });
span("tool", "md1", "mt1", 2100, 9400, { tool: "delegate_task" });
span("delegation", "d1", "md1", 2120, 9380, { name: "Researcher", delegate_to: "Researcher", delegation_id: "5a1", delegation: { delegator: "Manager", depth: 1, priority: "high", status: "success", errors: [] } });
span("task", "w1", "d1", 2160, 9300, { name: "researcher_1", agent: "Researcher", description: "Find three sources about local models." });
span("turn", "w1t", "w1", 2180, 9250);
llm("w1l", "w1t", 2200, 5600, { hasAttempts: true });
span("wait", "w1w", "w1l", 2200, 4300, { name: "rate_limit", wait: "rate_limit" });
span("attempt", "w1la", "w1l", 4300, 5600, { attempt: 1, ...MODEL });
span("tool", "w1x", "w1t", 5650, 7100, { tool: "web_search" });
llm("w1m", "w1t", 7150, 9200);
span("tool", "md2", "mt1", 2100, 8400, { tool: "delegate_task", lane: 1 });
span("delegation", "d2", "md2", 2120, 8380, { name: "Analyst", delegate_to: "Analyst", delegation_id: "5a2", lane: 1, delegation: { delegator: "Manager", depth: 1, priority: "normal", status: "success", errors: [] } });
span("task", "w2", "d2", 2160, 8300, { name: "analyst_1", agent: "Analyst" });
span("turn", "w2t", "w2", 2180, 4600, { final: "error" });
llm("w2l", "w2t", 2200, 4600, { final: "error", error_type: "ModelError", error_message: "500 Internal Server Error", cost: null, input_tokens: null, output_tokens: null });
span("turn", "w2f", "w2", 4700, 8250, { is_fallback: true });
llm("w2m", "w2f", 4750, 8200, { model: "llama-3.2-3b", is_fallback: true, agent: "Stand-in" });
span("turn", "mt2", "manager", 9450, 13_500);
llm("ml2", "mt2", 9500, 13_300);
span("guardrail", "g2", "manager", 13_320, 13_350, { name: "has_sources", guardrail: "output" });
span("memory", "m2", "manager", 13_380, 13_420, { name: "sources", memory: { operation: "store", scope: "sources", count: 1 } });
span("task", "skim", "p1", null, 13_700, { name: "skim the archive", agent: "Researcher", depends_on: ["manager"], final: "skipped", reason: "condition not met: manager contains 'archive'" });
review("rp", "p1", "phase", 13_700, 15_500, "Three sources and a table.", { decision: "approve", phase: "research" });
span("phase", "p2", null, 15_700, 31_000, { name: "write" });
span("task", "draft", "p2", 15_750, 23_000, { name: "draft", agent: "Writer" });
span("turn", "dt1", "draft", 15_800, 18_700);
llm("dl1", "dt1", 15_850, 18_650);
review("rd", "draft", "output", 18_700, 20_600, DRAFT, { decision: "retry", agent: "Writer", task: "draft" });
span("turn", "dt2", "draft", 20_650, 22_950);
llm("dl2", "dt2", 20_700, 22_900);
span("task", "check", "p2", 15_750, 19_800, { name: "check claims", agent: "Checker" });
span("turn", "ct1", "check", 15_800, 19_700);
llm("cl1", "ct1", 15_850, 17_000, { finish_reason: "tool_calls" });
span("tool", "cx1", "ct1", 17_050, 19_600, { tool: "human_input" });
review("rq", "cx1", "question", 17_080, 19_500, "Which of the two numbers do you trust: 22 ms or 30 ms?", { decision: "edit", verdicts: ["edit", "exit_early"], agent: "Checker", task: "check claims", tool: "human_input" });
span("task", "publish", "p2", 23_050, 31_000, { name: "publish", agent: "Editor", depends_on: ["draft"] });
span("turn", "pt1", "publish", 23_080, 30_900);
llm("pl1", "pt1", 23_100, 25_900, { finish_reason: "tool_calls" });
review("rt", "publish", "output", 26_000, 30_500, DRAFT, { agent: "Editor", task: "publish", decision: "approve" });
span("task", "announce", "p2", null, 31_000, { name: "announce", agent: "Editor", depends_on: ["publish"], final: "skipped", reason: "the budget is used up" });

export const GATES_END = 31_100;
const LATE = ["input_tokens", "output_tokens", "cost", "error_type", "error_message", "reason", "finish_reason", "critical"];
const HIDDEN = new Set(["start", "end", "final", "decision", "hasAttempts"]);

function rowAt(item, t) {
  const isStarted = item.start !== null && item.start <= t;
  const isEnded = item.end <= t;
  const isPlanned = item.kind === "phase" || (item.kind === "task" && !item.parent_id.startsWith("d"));
  if (!isStarted && !isEnded && !isPlanned) return null;
  const row = Object.fromEntries(Object.entries(item).filter(([key]) => !HIDDEN.has(key)));
  row.status = isEnded ? item.final : isStarted ? (item.kind === "review" || item.kind === "wait" ? "waiting" : "running") : "pending";
  if (isStarted) row.start_ms = item.start;
  if (isEnded) row.end_ms = item.end;
  else for (const key of LATE) delete row[key];
  if (isEnded && item.review) row.review = { ...item.review, decision: item.decision ?? "approve", is_timeout: false };
  return row;
}

export function gatesAt(t, status = null, ask = {}) {
  const rows = spans.map((item) => rowAt(item, t)).filter(Boolean);
  if (ask.subject) {
    // Another question in the same place.
    for (const row of rows) if (row.span_id === "rt") Object.assign(row.review, { subject: ask.subject, tool: "send_mail", ...(ask.subject === "question" ? { text: "To whom shall I send it?", verdicts: ["edit", "exit_early"] } : ask.subject === "tool" ? { text: '{"to": "everybody@example.org", "subject": "Local models"}' } : {}) });
  }
  const tasks = rows.filter((row) => row.kind === "task" && !row.parent_id.startsWith("d"));
  const calls = rows.filter((row) => row.kind === "llm" && row.end_ms != null);
  const sum = (key) => calls.reduce((total, row) => total + (row[key] ?? 0), 0);
  const many = (what, is) => what.filter((row) => row.status === is).length;
  const isOver = t >= GATES_END;
  const active = rows.filter((row) => ["running", "waiting"].includes(row.status) && ["llm", "tool", "review"].includes(row.kind));
  const tokens = sum("input_tokens") + sum("output_tokens");
  return {
    run: {
      run_id: "run-2", name: "guided-report", workflow: "hierarchical", status: isOver ? (status ?? "completed_with_warnings") : "running",
      exit_reason: null, started_at: "2026-11-21T14:03:00Z", elapsed_ms: Math.min(t, GATES_END), tasks_total: tasks.length,
      tasks_done: many(tasks, "ok"), tasks_failed: 0, tasks_skipped: many(tasks, "skipped"),
      phases_now: rows.filter((row) => row.kind === "phase" && row.status === "running").map((row) => row.name),
      active: active.map((row) => ({ span_id: row.span_id, kind: row.kind, name: row.name, agent: row.agent, since_ms: row.start_ms })),
      waiting: rows.filter((row) => row.kind === "review" && row.status === "waiting").map((row) => row.span_id),
      input_tokens: sum("input_tokens"), output_tokens: sum("output_tokens"), cache_read_tokens: 0, tokens_complete: true,
      cost: sum("cost"), cost_complete: true, currency: "USD", llm_call_count: calls.length, tool_call_count: 4, errors: 2, retries: 0,
      budget: ask.limit === "tokens"
        ? { max_cost: null, max_tokens: 20_000, max_llm_calls: null, cost: sum("cost"), tokens, llm_calls: calls.length, share: tokens / 20_000, warn_at: 0.8 }
        : { max_cost: 0.125, max_tokens: 100_000, max_llm_calls: null, cost: sum("cost"), tokens, llm_calls: calls.length, share: sum("cost") / 0.125, warn_at: 0.8 },
      max_concurrency: 4, is_scripted: false, warnings: [], note: null, error: null,
    },
    phases,
    rows,
  };
}

export function gateDetailsOf(id) {
  const item = spans.find((one) => one.span_id === id);
  const base = { kind: "details", span_id: id, messages: [], input: null, output: null, error: null };
  if (item?.review) return { ...base, input: item.review.text, output: item.decision === "retry" ? "Shorter, please, and with a source for each claim." : null };
  if (item?.kind === "delegation") return { ...base, input: "Find three sources about local models.", output: item.final === "ok" ? "1. Small models, big notebooks\n2. What a run costs\n3. Seeing is believing" : null, error: item.error_type ? { type: item.error_type, message: item.error_message } : null };
  return base;
}
