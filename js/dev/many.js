// A made-up map of many rows, each with the same tasks, and what they were scored: what the grid is looked at with, and measured.

import { END, stateAt } from "./scenario.js";

const NAMES = ["find", "write", "check", "translate", "summarise"];

/** A map of so many rows and tasks: of every 53rd row the second task failed, and those after `done` have not begun. */
export function mapOf(rows, tasks, done = rows) {
  const found = [];
  for (let k = 0; k < rows; k += 1) {
    const isBegun = k < done;
    const failed = isBegun && k % 53 === 11;
    const isRunning = isBegun && done < rows && k >= done - 8;
    const start = k * 20;
    const lengths = Array.from({ length: tasks }, (_, t) => 60 + ((k * 37 + t * 91) % 400) * (k % 29 === 3 ? 9 : 1));
    const whole = lengths.reduce((sum, each) => sum + each, 0);
    const scores = isBegun && !failed && !isRunning ? { score: k % 7 === 2 ? 0 : 1, scores: [k % 7 !== 2, ((k * 13) % 100) / 100, k % 3 ? "warm" : "cool"] } : {};
    found.push({ span_id: `r${k}`, parent_id: "run", kind: "task", name: `row ${k}`, description: `city: City ${k}`, status: !isBegun ? "pending" : failed ? "error" : isRunning ? "running" : "ok",
      start_ms: isBegun ? start : null, end_ms: isBegun && !isRunning ? start + whole : null, cost: isBegun ? whole / 1e6 : null, currency: "USD", input_tokens: isBegun ? 900 : null, output_tokens: isBegun ? 80 : null,
      error_type: failed ? "ValueError" : null, error_message: failed ? "no such city" : null, output_characters: failed ? null : 40, ...scores });
    if (!isBegun) continue;
    found.push({ span_id: `r${k}.n`, parent_id: `r${k}`, kind: "nested", name: "report", status: failed ? "error" : isRunning ? "running" : "ok", start_ms: start, end_ms: isRunning ? null : start + whole });
    let at = start;
    for (let t = 0; t < tasks; t += 1) {
      const isLast = isRunning && t === k % tasks;
      const status = failed && t === 1 ? "error" : failed && t > 1 ? "skipped" : isLast ? "running" : isRunning && t > k % tasks ? "pending" : "ok";
      const hasRun = status === "ok" || status === "error";
      found.push({ span_id: `r${k}.t${t}`, parent_id: `r${k}.n`, kind: "task", name: NAMES[t] ?? `task ${t}`, agent: "Ana", status, start_ms: hasRun || isLast ? at : null, end_ms: hasRun ? at + lengths[t] : null,
        cost: hasRun ? lengths[t] / 1e6 : null, currency: "USD", input_tokens: hasRun ? 300 : null, output_tokens: hasRun ? 30 : null, output_characters: hasRun ? 60 : null,
        error_message: status === "error" ? "no such city" : null, error_type: status === "error" ? "ValueError" : null, reason: status === "skipped" ? "write failed" : null });
      at += lengths[t];
    }
  }
  const over = done >= rows;
  const run = { ...stateAt(END).run, run_id: crypto.randomUUID(), name: "cities", task_noun: "row", status: over ? "completed" : "running", elapsed_ms: rows * 20, error: null, active: [], waiting: [],
    tasks_total: rows, tasks_done: done, tasks_failed: 0, score_names: ["is_right", "share", "tone"] };
  return { kind: "snapshot", version: 4, n: 1, run, phases: [], rows: found };
}

export const wordsOf = (span_id) => ({ kind: "details", span_id, messages: [], input: null, output: `The reply of ${span_id}: a city by the sea, with a harbour, two bridges and a great many steps.`, error: null, lengths: {}, handovers: [] });
