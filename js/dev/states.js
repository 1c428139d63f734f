// Every state that a view can be in (W15), each as a message that brings it about: what `shots.py` photographs and the
// browser tests look at.

import { GATES_END, gatesAt } from "./gates.js";
import { crowd, END, detailsOf, stateAt } from "./scenario.js";

const SAVED_AT = "2026-11-21T14:03:00Z";
const FAILED = "Failed after 15 s in verify claims (ModelError); 5 of 8 tasks done, 1 failed, 2 skipped";
const NOW = 6900;

const snapshot = ({ run, phases, rows }, more = {}) => ({ kind: "snapshot", version: 3, n: 1, run: { ...upgraded(run), ...more }, phases, rows });
const upgraded = ({ errors, retries, ...run }) => ({ error_count: errors, retry_count: retries, tasks_cancelled: 0, ...run });
const saved = (message, more = {}) => ({ ...message, kind: "saved", saved_at: SAVED_AT, details: {}, ...more });
const report = (more) => snapshot(stateAt(END), { sentence: FAILED, variable: "report", ...more });
const gates = (at, status, more) => snapshot(gatesAt(at, status), { variable: "report", ...more });

function stopped() {
  const found = stateAt(8000, "interrupted");
  for (const row of found.rows) if (row.status === "pending") Object.assign(row, { status: "skipped", reason: "the run was stopped" });
  const count = (status) => found.rows.filter((row) => row.kind === "task" && row.status === status).length;
  return snapshot(found, {
    tasks_cancelled: count("cancelled"), tasks_skipped: count("skipped"), active: [], phases_now: [],
    sentence: `Stopped after 8.0 s; ${count("ok")} of 8 tasks done, ${count("cancelled")} cancelled, ${count("skipped")} skipped`,
  });
}

function large() {
  const { kind: _, ...message } = crowd(25, 20);
  const sentence = "500 tasks in 2.0 s, 16:40 of work side by side";
  const run = { ...upgraded(message.run), tasks_total: 500, tasks_done: 500, tasks_failed: 0, tasks_skipped: 0, llm_call_count: 7000, tool_call_count: 3000, sentence, variable: "report" };
  return saved({ ...message, version: 3, run }, { kept: { task: [25, 500], llm: [350, 7000], tool: [150, 3000] }, rows_left_out: 9975, details_left_out: 0 });
}

/** A call of a reviewed tool that is asked about: its row, and what the kernel says of it when it is asked. */
const OTHERWISE = "the call is not made, and waits for an answer";
const ASKED = {
  fields: [
    { name: "to", kind: "text", text: "everybody@example.org", about: "Who gets it.", is_required: true },
    { name: "subject", kind: "text", text: "Local models, at last", is_required: true },
    { name: "copies", kind: "number", text: "340", about: "How many are printed." },
    { name: "priority", kind: "choice", text: "high", choices: ["low", "normal", "high"] },
    { name: "is_draft", kind: "choice", text: null, choices: ["true", "false"] },
    { name: "attachments", kind: "json", text: '[{"file": "brief.pdf", "pages": 4}]' },
  ],
  is_unknown: false,
};

const FAULTS = { copies: "A number is needed, such as 12 or 0.5." };

function call() {
  const found = gatesAt(28000);
  for (const { review } of found.rows) if (review) Object.assign(review, { subject: "tool", tool: "send_mail", otherwise: OTHERWISE, verdicts: ["approve", "edit", "reject", "exit_early"] });
  return snapshot(found, { variable: "report" });
}

const FEW = ["everybody@example.org", "the-editor@example.org"];

/** A run that ended with so many calls that wait. */
const left = (count) => gates(GATES_END, "exited_early", {
  exit_reason: "nobody_to_ask", is_resumable: true, sentence: "Nobody could be asked, and the run ended early after 31 s; 4 of 5 tasks done, 1 skipped",
  pending: {
    count, code: "report.ensemble.run(resume=report, answers={})",
    calls: Array.from({ length: Math.min(count, 100) }, (_, k) => ({ id: `5f0c1a.${k}`, span_id: k ? "" : "rt", text: `send_mail(to="${FEW[k] ?? `reader-${k}@example.org`}", subject="Local models, at last", copies=340)`, since: SAVED_AT, agent: "Editor", task: "publish" })),
  },
});

const LIVE = {
  pending: () => snapshot({ ...stateAt(0), rows: stateAt(0).rows.filter((row) => ["phase", "task"].includes(row.kind)).map(({ start_ms: _, ...row }) => ({ ...row, status: "pending" })) }, { status: "pending", active: [], phases_now: [] }),
  empty: () => snapshot({ ...stateAt(END), rows: [], phases: [] }, { status: "completed", tasks_total: 0, tasks_done: 0, tasks_failed: 0, tasks_skipped: 0, error_count: 0, retry_count: 0, llm_call_count: 0, tool_call_count: 0, input_tokens: 0, output_tokens: 0, cost: 0, error: null, elapsed_ms: 3, sentence: "There was nothing to do", warnings: [] }),
  running: () => snapshot(stateAt(NOW)),
  waiting: () => gates(28000),
  call,
  left: () => left(2),
  "many-left": () => left(300),
  completed: () => gates(GATES_END, "completed", { sentence: "5 tasks in 31 s, 42 s of work side by side; 39% of the time: compare", error_count: 0, retry_count: 0 }),
  warned: () => gates(GATES_END, null, { sentence: "4 of 5 tasks in 31 s, 1 skipped; 39% of the time: compare", warnings: ["The guardrail of compare failed, and was left out."] }),
  error: () => report(),
  timeout: () => report({ exit_reason: "timeout", error: { type: "DeadlineExceededError", message: "The run took longer than it was given." }, sentence: "Out of time after 15 s in verify claims; 5 of 8 tasks done, 1 failed, 2 skipped" }),
  interrupted: stopped,
  budget: () => gates(GATES_END, "budget_exceeded", { sentence: "Budget used up after 31 s; 4 of 5 tasks done, 1 skipped" }),
  early: () => gates(GATES_END, "exited_early", { sentence: "Ended by a review after 31 s; 4 of 5 tasks done, 1 skipped" }),
  metadata: () => report({ capture_mode: "metadata", error: { type: "TaskFailedError", message: "" } }),
};

export const SAVED = {
  saved: () => saved(report(), { details: { "web.l2": detailsOf("web.l2") }, details_left_out: 3, kept: { task: [8, 8], llm: [7, 7], tool: [4, 4] } }),
  large,
  bad: () => ({ ...saved(report()), version: 99 }),
};
const LOST = ["gone", "restarted"];
export const STATES = [...Object.keys(LIVE), ...LOST, ...Object.keys(SAVED), "waiting-for-data"];

/** Shows a state in `place` by the module of the JupyterLab extension, which can do all that a view can. */
export function showState(name, place, module, change = (message) => message) {
  if (SAVED[name]) return void module.showSaved(place, change(SAVED[name]()));
  let isThere = true;
  const connection = module.connect((message) => {
    if (!isThere) return;
    if (message.kind === "ping") setTimeout(() => connection.receive({ kind: "pong", nonce: message.nonce }), 5);
    if (message.kind === "details") setTimeout(() => connection.receive(change({ ...detailsOf(message.span_id, END), ...(name === "call" && { call: ASKED }) })), 5);
    if (message.changes) setTimeout(() => connection.receive({ ...detailsOf(message.span_id, END), call: { ...ASKED, faults: FAULTS } }), 5);
  });
  connection.catchUp();
  if (name !== "waiting-for-data") connection.receive(change((LIVE[name] ?? LIVE.running)()));
  module.showLive(place, connection);
  if (LOST.includes(name)) setTimeout(() => {
    isThere = false;
    connection.markLost(name === "restarted");
  }, 60);
}
