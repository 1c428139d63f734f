// Holds W22: a span has one name, on its bar and wherever else it is told of.

import { expect, it } from "vitest";
import cases from "../../../tests/wording_cases.json";
import { LayoutBuilder } from "../layout/layout-builder";
import { activitiesOf } from "../store/activities";
import { row, run, stored } from "../testing/runs";
import type { Many, Review, Round, Row, Status } from "../wire/rows";
import { answerOf, causeOf, describeLength, describeRounds, describeSkip, distinctiveEnd, nameOfState, progressOf, reuseOf, savingOf, timesOf, titleOf, verdictOf } from "./labels";

const call = (turn: string, start: number, more: Partial<Row> = {}): Row[] => [
  row({ span_id: `u${turn}`, kind: "turn", parent_id: "t", name: `turn ${turn}`, start_ms: start, end_ms: start + 80, ...more }),
  row({ span_id: `l${turn}`, kind: "llm", parent_id: `u${turn}`, model: "gpt", start_ms: start, end_ms: start + 40 }),
];
const tool = (turn: string, id: string, name: string): Row => row({ span_id: id, kind: "tool", parent_id: `u${turn}`, tool: name, start_ms: 0, end_ms: 1 });

const ROWS: Row[] = [
  row({ span_id: "t", kind: "task", name: "web", agent: "Ana", status: "running", start_ms: 0, attempt: 3 }),
  ...call("1", 0), tool("1", "x1", "search"), tool("1", "x2", "search"), tool("1", "x3", "fetch"),
  ...call("2", 100), tool("2", "x4", "delegate_task"), row({ span_id: "d", kind: "delegation", parent_id: "x4", delegate_to: "Bo", start_ms: 150, end_ms: 160 }),
  ...call("3", 200),
  row({ span_id: "g", kind: "guardrail", parent_id: "t", guardrail: "output", status: "error", start_ms: 290, end_ms: 300 }),
  ...call("4", 300), ...call("5", 400, { is_correction: true }),
  row({ span_id: "r", kind: "review", parent_id: "t", review: { subject: "output", text: "?", verdicts: ["retry"], decision: "retry" }, start_ms: 490, end_ms: 500 }),
  ...call("6", 500).map((one) => ({ ...one, status: "running" as const, end_ms: null })),
];

it("calls a model call by what its reply did, else by its draft or turn, the same as its bar", () => {
  const store = stored({ rows: ROWS, phases: [] });
  const calls = ROWS.filter((one) => one.kind === "llm");
  const titles = calls.map((one) => titleOf(store, one));
  expect(titles).toEqual(["calls search × 2, fetch", "asks Bo", "draft 1", "draft 2", "correction", "draft 3"]);
  const marks = new LayoutBuilder().build(store, new Set()).track("t")?.marks ?? [];
  expect(calls.map((one) => marks.find((mark) => mark.row === one)?.names?.[0])).toEqual(titles);
});

it.each([
  ["summarise[12]", "[12]"], ["style=long/r4", "/r4"], ["style=long/r2 #2", "/r2 #2"], ["r2 #2", " #2"], ["llm=local/row 12", "/row 12"],
  ["gather", ""], ["x", ""], ["/tmp", ""], ["a/which says more than an end", ""], ["[0]", ""],
])("knows the end that tells %s from others", (name, end) => expect(distinctiveEnd(name)).toBe(end));

it("says so of what runs now, too, and names the model only where nothing else is known", () => {
  const active = ROWS.filter((one) => one.status === "running").map(({ span_id, kind, name }) => ({ span_id, kind, name }));
  const store = stored({ rows: ROWS, phases: [], run: run({ active }) });
  expect(activitiesOf(store, run({ active }), 1).shown[0]).toMatchObject({ sign: "◆", doing: "draft 3" });
  expect(titleOf(store, row({ span_id: "z", kind: "llm", parent_id: "t", model_requested: "gpt" }))).toBe("gpt");
});

it.each([
  ["retry", "ok", 300, "kept: no retry left"], ["retry", "ok", 205, "kept: no retry left"], ["retry", "error", 300, "failed"], ["approve", "ok", 300, "approved"],
] as const)("calls the last bar of who reviews a phase by the verdict of its round, which ends after the review (W23): %s, %s", (decision, status, end, said) => {
  const verdict = { retry: status === "ok" ? "kept: no retry left" : "failed", approve: "approved" }[decision];
  const rounds = [{ start_ms: 0, end_ms: 100, verdict: 'sent back: "shorter"' }, { start_ms: 100, end_ms: end, verdict }];
  const review = (id: string, from: number, answer: typeof decision): Row[] => [
    row({ span_id: `r${id}`, kind: "review", parent_id: "p", review: { subject: "phase", text: "?", verdicts: [], decision: answer }, start_ms: from, end_ms: from + 20 }),
    row({ span_id: `t${id}`, kind: "task", parent_id: "p", review_id: `r${id}`, start_ms: from, end_ms: from + 15 }),
    row({ span_id: `u${id}`, kind: "turn", parent_id: `t${id}`, start_ms: from, end_ms: from + 15 }),
    row({ span_id: `l${id}`, kind: "llm", parent_id: `u${id}`, start_ms: from, end_ms: from + 15 }),
  ];
  const phase = row({ span_id: "p", kind: "phase", status, start_ms: 0, end_ms: end, attempt: 2, rounds });
  const named = (rows: Row[]): string[] => rows.filter((one) => one.kind === "llm").map((one) => titleOf(stored({ phases: [], rows }), one));
  expect(named([phase, ...review("1", 75, "retry"), ...review("2", 182, decision)])).toEqual(['sent back: "shorter"', said]);
});

it("calls the review of a phase that may not be sent back at all the same, where its work is kept (W23)", () => {
  const review = row({ span_id: "r", kind: "review", parent_id: "p", review: { subject: "phase", text: "?", verdicts: [], decision: "retry" }, start_ms: 10, end_ms: 20 });
  const phase = (more: Partial<Row>): Row => row({ span_id: "p", kind: "phase", start_ms: 0, end_ms: 25, ...more });
  expect(verdictOf(phase({}), [], review)).toBe("kept: no retry left");
  expect(verdictOf(phase({ status: "running", end_ms: null }), [], review)).toBeNull();
});

// Python's tests read the same table.
const task = (more: object): Row => row({ span_id: "t", kind: "task", ...more });

it.each(cases.skips as [string | null, string][])("says in one clause why a task never ran: %s", (reason, words) =>
  expect(describeSkip(reason)).toBe(words));

it.each(cases.outcomes as [string | null, string | null, string][])("says what became of what a person declined or left: %s, %s", (reason, outcome, words) =>
  expect(describeSkip(reason, nameOfState(row({ span_id: "t", kind: "tool", status: "skipped", outcome })))).toBe(words));

it.each(cases.times as [object, string][])("tells how often a task runs, also where nobody knows yet for how many items (E53): %j", (more, words) =>
  expect(timesOf(task(more))).toBe(words));

it.each(cases.lengths as [object, string][])("says how long a row took, and of how long: %j", (more, words) => expect(describeLength(task(more))).toBe(words));

it.each(cases.rounds as unknown as [string, Round[], string[]][])("says what became of each round of a %s (W23): %j", (kind, rounds, words) =>
  expect(describeRounds(row({ span_id: "p", kind, rounds }))).toEqual(words));

it.each(cases.redoings as [object, string][])("says why a task was done again: %j", (more, words) => expect(causeOf(task(more))).toBe(words));

it.each(cases.reuses as [object, string][])("says why a task was reused or ran, where somebody asked (C34): %j", (more, words) =>
  expect(reuseOf(task(more))).toBe(words));

it.each(cases.savings as [object, string][])("says what was saved, and leaves out what is nothing or unknown (C34): %j", (more, words) => {
  expect(savingOf(task(more))).toBe(words);
  expect(savingOf(task(more), "reused: ")).toBe(words && `reused: ${words}`);
});

it.each(cases.answers as [Review, Status | null, string][])("says what came of the review %j that is %s", (review, status, words) =>
  expect(answerOf(row({ span_id: "r", kind: "review", start_ms: 0, end_ms: status && 1, status: status ?? "waiting", review }))).toBe(words));

it.each(cases.progress as [Many, number, string][])("says of %j after %s ms: %s (W25)", (many, elapsed, text) =>
  expect(progressOf(many, elapsed)).toBe(text));
