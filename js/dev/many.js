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

const ANSWERS = ["Paris is the capital of France, on the Seine, and has been since the year 987.", "Yes.", "I would say that it depends: some of the bridges are older than the harbour, and the harbour is what the town is known for.", "42 bridges"];

/** What the kernel says of the cells of `mapOf`. */
export const repliesOf = (span_ids) => ({ kind: "cells", cells: span_ids.map((span) => [span, wordsOf(span).output, Number(span.replace(/\D/g, "")), []]) });

/** A map of so many rows under so many variants, of which the last cells have not run once `done` rows are over: each with an answer and scores. */
export function variantsOf(rows, variants, done = rows) {
  const names = ["tersely", "with sources", "as a guide", "translated"].slice(0, variants);
  const found = names.flatMap((variant, v) => Array.from({ length: rows }, (_, k) => {
    const state = k >= done + 4 ? "pending" : k >= done ? "running" : k % 53 === 11 || (v === 2 && k % 5 === 0) ? "error" : k % 97 === 50 ? "skipped" : "ok";
    const isOk = state === "ok";
    return { span_id: `v${v}.${k}`, parent_id: "run", kind: "task", name: `${variant}/row ${k}`, line: k, variant, status: state, start_ms: state === "pending" || state === "skipped" ? null : k * 20, end_ms: isOk || state === "error" ? k * 20 + 300 + ((k * 37 + v * 90) % 700) : null,
      cost: isOk ? 0.0001 * (1 + ((k + v) % 9)) : null, currency: "USD", input_tokens: isOk ? 90 : null, output_tokens: isOk ? 40 : null, error_type: state === "error" ? "ValueError" : null, error_message: state === "error" ? "no such city: <img src=x onerror='window.hacked=1'>" : null,
      reason: state === "skipped" ? "the budget is used up" : null, reused: k % 31 === 7, ...(isOk ? { scores: [(k * 7 + v * 3) % 10 > 2 + v, ((k * 13 + v * 29) % 100) / 100, k % 3 ? "warm" : "cool"] } : {}) };
  }));
  const over = done >= rows;
  const heads = names.map((variant, v) => ({ variant, title: variant, score: "right", rows: done, mean: 0.86 - v / 5, low: 0.78 - v / 5, high: 0.91 - v / 5, kind: "95% of all such intervals hold it", is_share: true }));
  const standing = { heads, sentence: "tersely is better (0.86 beside 0.66; +0.06 to +0.34)", reason: "by right, over the rows of both" };
  const run = { ...stateAt(END).run, run_id: crypto.randomUUID(), name: "cities", task_noun: "run", status: over ? "completed" : "running", elapsed_ms: rows * 20, error: null, active: [], waiting: [],
    tasks_total: found.length, tasks_done: found.filter(({ status }) => status === "ok").length, tasks_failed: 0, cost: 1.2, score_names: ["right", "share", "tone"], row_inputs: ["city", "population", "expected", "notes"], standing };
  return { kind: "snapshot", version: 4, n: 1, run, phases: [], rows: found };
}

/** What the kernel says of the cells of `variantsOf`. */
export const cellsOf = (span_ids) => ({ kind: "cells", cells: span_ids.map((span) => {
  const [variant, row] = span.slice(1).split(".").map(Number);
  const answer = ANSWERS[(row + (row % 4 ? 0 : variant)) % ANSWERS.length];
  return [span, `${answer}`, ANSWERS.indexOf(answer), [`City ${row}`, row * 1000, "a city by the sea", null]];
}) });
