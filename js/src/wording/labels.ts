// What spans are called: one vocabulary for bars, tooltips, drawer and status line. Pure; words only.
//
// Saved pictures say the same (`ensemble_notebook/trace/spans/timeline_wording.py`): the words are in one table, `wire/words`, and
// `tests/wording_cases.json` is read by the tests of both.

import type { KnownKind } from "../wire/kinds";
import { durationOf, roundAt } from "../wire/predicates";
import type { Many, Round, Row, Run, Status } from "../wire/rows";
import { entryOf, type Kind, traitsOf } from "../wire/traits";
import { ANSWERS, IN_REVIEW, NO_RETRY_LEFT, STATUS_NAMES, SUBJECTS, UNDECIDED, WAITING_FOR_YOU } from "../wire/words";
import { formatCount, formatDuration, formatExactCount, formatMoney, formatRate, formatRoughly, pluralize } from "./numbers";

const FEW = 5;

/** What is done, and then what a person must know first. */
const WORST_FIRST: readonly Status[] = ["ok", "error", "waiting", "interrupted", "cancelled", "running", "pending", "skipped"];

/** Of many together: the worst state that one of them is in, and how many are in each, `980 done, 3 failed`. */
export function stateOfMany(rows: readonly Row[]): { status: Status; name: string } {
  const counts: Record<string, [place: number, count: number]> = { [STATUS_NAMES.ok]: [0, 0] };
  for (const row of rows) (counts[nameOfState(row)] ??= [WORST_FIRST.indexOf(row.status), 0])[1] += 1;
  const found = Object.entries(counts).sort(([, [one]], [, [other]]) => one - other);
  return { status: WORST_FIRST[found[1]?.[1][0] ?? 0] as Status, name: found.map(([name, [, count]]) => `${formatExactCount(count)} ${name}`).join(", ") };
}

/** So many tasks of a run, by what they are called: `3 tasks`, of a map `3 rows`. */
export const countTasks = (run: Run, amount: number): string => pluralize(amount, run.task_noun);

/** How far a run had come that had not ended, or was broken off: `4 of 8 tasks`, `18 s`, `$0.021`. */
export function standingOf(run: Run): string[] {
  const said = [`${formatExactCount(run.tasks_done)} of ${countTasks(run, run.tasks_total)}`];
  const { many } = run;
  if (many && run.task_noun === "task") said.push(`${formatExactCount(many.done + many.failed)} of ${pluralize(many.total, "item")}`);
  said.push(formatDuration(run.elapsed_ms));
  return run.cost ? [...said, `${run.cost_complete ? "" : "at least "}${formatMoney(run.cost, run.currency)}`] : said;
}

/** So many items, or rows of a map. */
export const countMany = (run: Run, { total }: Many): string => (run.task_noun === "task" ? pluralize(total, "item") : countTasks(run, total));

/**
 * How far work on many has come, and how it goes on if it goes on so: `151 of 1,700 · 38/s · about 40 s left`. How fast it
 * is can be said of a few that have ended, and of a second.
 */
export function progressOf({ total, done, failed, start_ms }: Many, elapsed_ms: number): string {
  const ended = done + failed;
  const took = (elapsed_ms - start_ms) / 1000;
  const said = `${formatExactCount(ended)} of ${formatExactCount(total)}`;
  if (ended < FEW || took < 1) return said;
  const paced = `${said} · ${formatRate(ended / took)}`;
  return ended >= total ? paced : `${paced} · about ${formatRoughly(((total - ended) * took) / ended)} left`;
}

/** What tells an item or a row from others with the same beginning: `[12]`, `/r4`, ` #2`; empty where a name has no such end. */
export const distinctiveEnd = (name: string): string => /(?:\/[^/]{1,10}?)?(?:\[\d+\]| #\d+)?$/.exec(name.slice(1))?.[0] ?? "";

/** How often a task runs, behind its name: ` x 12`, ` x ?` as long as nobody knows for how many items; empty for once. */
export function timesOf(row: Row): string {
  if (row.item_count != null) return ` x ${formatExactCount(row.item_count)}`;
  return row.settings?.for_each == null ? "" : " x ?";
}

const OPERATIONS: Record<string, string> = { retrieve: "recall", store: "remember" };

/** The sign that a span has in front of its name; empty where it has none. */
export function signOf(row: Row): string {
  const { sign } = traitsOf(row.kind);
  return sign === "◆" && row.is_fallback ? "↳" : sign;
}

/** The model that answered, or as long as nobody knows, the one that was asked; null where there is none. */
export const modelNameOf = (row: Row): string | null => row.model ?? row.model_requested ?? null;

export const modelOf = (row: Row): string => modelNameOf(row) ?? row.name;

/** The rows of a run: what a name has to know of what is around a span. */
export interface RowsAround {
  row(span: string): Row | undefined;
  /** The direct children of a span in order of first appearance. */
  children(span: string): readonly Row[];
  /** How often the work that a span is part of was begun when that span began: once more each time it was sent back; 0 where it never was. */
  draftOf(span: Row): number;
}

const LONGEST_TITLE = 32;
const wordsOf = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

/** What a task or phase is called: by its first words where nobody chose its name, as which earlier versions have `writer_1`. */
export function nameOf(row: Row): string {
  if (row.title != null || row.kind !== "task" || !row.agent || !row.description) return row.title ?? row.name;
  const stem = /(?:^|\.)([^.]+?)_\d+(?:_\d+)?$/.exec(row.name)?.[1];
  return stem !== undefined && wordsOf(stem) === wordsOf(row.agent) ? firstWords(row.description) : row.name;
}

/** The first words of a text: `Describe the tide in one…`. */
export function firstWords(text: string): string {
  const words = text.split(/\s+/).filter(Boolean);
  let count = Math.min(1, words.length);
  while (count < words.length && words.slice(0, count + 1).join(" ").length <= LONGEST_TITLE) count += 1;
  const title = words.slice(0, count).join(" ").slice(0, LONGEST_TITLE + 10);
  return count === words.length ? title : `${title.replace(/[.,;:]+$/, "")}…`;
}

/** What a span is called where its row is not beside it; the kinds that are not here go by their names. */
const TITLES: Partial<Record<KnownKind, (row: Row) => string>> = {
  task: (row) => nameOf(row),
  attempt: (row) => `attempt ${row.attempt ?? ""}`,
  tool: (row) => row.tool ?? row.name,
  delegation: (row) => row.delegate_to ?? row.name,
  review: (row) => SUBJECTS[row.review?.subject ?? ""] ?? row.name,
  wait: (row) => waitTitle(row),
  memory: (row) => row.memory ? `${OPERATIONS[row.memory.operation] ?? row.memory.operation} ${row.memory.scope}` : row.name,
};

/** The same everywhere, a model call as on its bar: by what it did, and not by the model that all of them share (W22). */
export const titleOf = (rows: RowsAround, row: Row): string =>
  row.kind === "llm" ? (namesOfCall(rows, row)[0] as string) : (entryOf(TITLES, row.kind)?.(row) ?? row.name);

/**
 * What a model call may be called, the fullest first: `asks Ana`, `calls search, fetch`, `correction`, `draft 2`, of who reviews
 * a phase the verdict, `turn 1` where nothing better is known, and the model where there is no turn.
 */
export function namesOfCall(rows: RowsAround, call: Row): string[] {
  const turn = call.parent_id == null ? undefined : rows.row(call.parent_id);
  if (turn?.kind !== "turn") return [modelOf(call)];
  const tools = followers(rows.children(turn.span_id), call);
  const workers = tools.flatMap((tool) => rows.children(tool.span_id).flatMap((row) => (row.kind === "delegation" ? [row.delegate_to ?? row.name] : [])));
  if (workers.length) return [`asks ${list(workers)}`];
  const asked = list(tools.map((tool) => tool.tool ?? tool.name));
  if (tools.length > 1) return [`calls ${asked}`, `calls ${tools.length} tools`];
  if (tools.length) return [`calls ${asked}`];
  const verdict = verdictOfReviewer(rows, rows.row(turn.parent_id ?? ""));
  if (verdict.length) return verdict;
  if (turn.is_correction) return ["correction"];
  const draft = rows.draftOf(call);
  return [draft > 0 ? `draft ${draft}` : turn.name];
}

/** What a task has come to that answers the review of a phase, the fullest words first; none for any other, and as long as it looks. */
function verdictOfReviewer(rows: RowsAround, task: Row | undefined): string[] {
  const review = task?.review_id == null ? undefined : rows.row(task.review_id);
  if (!review || review.end_ms == null) return [];
  const work = rows.row(review.parent_id ?? "");
  return [verdictOf(work, work?.rounds ?? [], review) ?? answerOf(review)];
}

/**
 * What came of the work that a review wanted done again: why it was sent back, or that it was kept; null where the answer says
 * all. Some time lies between an answer and the end of its round, so the round is the one in which the review began.
 */
export function verdictOf(work: Row | undefined, rounds: readonly Round[], { review, start_ms }: Row): string | null {
  if (review?.decision !== "retry") return null;
  return rounds[roundAt(rounds, start_ms ?? 0) - 1]?.verdict ?? (work?.end_ms != null && work.status === "ok" ? NO_RETRY_LEFT : null);
}

/** The tool calls after a model call, up to the next one. */
function followers(inTurn: readonly Row[], call: Row): Row[] {
  const after = inTurn.slice(inTurn.findIndex((row) => row.span_id === call.span_id) + 1);
  const next = after.findIndex((row) => row.kind === "llm");
  return (next < 0 ? after : after.slice(0, next)).filter((row) => row.kind === "tool");
}

function list(names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} × ${count}` : name)).join(", ");
}

/** What a call waits for, or the run: `rate limit`, `budget`, `connection`, `startup`. */
export const waitOf = (row: Row): string => (row.wait_kind ?? row.name).replace(/_/g, " ");

/** The same in full: a startup says what is being made ready. */
export const waitTitle = (row: Row): string => (row.wait_kind === "startup" ? row.name : waitOf(row));

/** How a row stands, in a word or two. */
export const nameOfState = (row: Row): string => row.outcome ?? STATUS_NAMES[row.status];

/** Why a task or phase never ran, or did not go on; that it did not is `said` once. */
export function describeSkip(reason: string | null | undefined, said = "skipped"): string {
  if (!reason || /^(condition|settled)/.test(reason)) return reason || said;
  const why = reason.replace(/^not started: /, "");
  return said + (why.startsWith("phase ") ? ", since " : ": ") + why;
}

/** Why a task or phase was done again. */
export function causeOf(row: Row): string {
  const reason = row.retry_reason ?? "review";
  return reason === "review" || reason === "guardrail" ? `a ${reason} sent it back` : reason;
}

/** What became of each go at the work of a phase or task that was sent back: `round 1 · sent back: "shorter"`. */
export const describeRounds = (row: Row, rounds: readonly Round[] = row.rounds ?? []): string[] =>
  rounds.map(({ verdict }, k) => [`${row.kind === "phase" ? "round" : "draft"} ${k + 1}`, verdict].filter(Boolean).join(" · "));

/** How long a row that is over took, and from start to end where that is more: `7.8 s of 14 s`. */
export function describeLength(row: Row): string {
  const [own, whole] = [formatDuration(durationOf(row)), row.start_ms == null || row.end_ms == null ? "" : formatDuration(row.end_ms - row.start_ms)];
  return whole === "" || own === whole ? own : `${own} of ${whole}`;
}

/** What came of a review, in a word or two. */
export function answerOf(row: Row): string {
  const { review } = row;
  // Phases are looked at by tasks and functions, everything else by a person.
  if (row.end_ms == null) return review?.subject === "phase" ? IN_REVIEW : WAITING_FOR_YOU;
  const undecided = review?.is_timeout ? UNDECIDED.on_timeout : review?.by === "nobody_to_ask" ? UNDECIDED.nobody_to_ask : "";
  if (!review?.decision) return undecided || (row.status === "cancelled" ? STATUS_NAMES.cancelled : UNDECIDED.on_timeout);
  const answer = review.subject === "question" && review.decision === "edit" ? "answered" : (ANSWERS[review.decision] ?? review.decision);
  return undecided ? `${undecided}: ${answer}` : answer;
}

/** What a reused task saved, after `before`: `$0.012, 4.1k tokens and 12 s saved`; empty where nothing is known of it. */
export function savingOf(row: Row, before = ""): string {
  const parts = [
    row.saved_cost ? formatMoney(row.saved_cost, row.currency) : "",
    row.saved_tokens ? `${formatCount(row.saved_tokens)} tokens` : "",
    row.saved_ms != null && row.saved_ms >= 1 ? formatDuration(row.saved_ms) : "",
  ].filter(Boolean);
  if (parts.length === 0) return "";
  const [first, last] = [parts.slice(0, -1).join(", "), parts.at(-1)];
  return `${before}${first ? `${first} and ` : ""}${last} saved`;
}

/** Why a task was reused, or ran although somebody asked for reuse; empty where nobody did. */
export const reuseOf = (row: Row): string =>
  row.reuse_reason ? `${row.reused ? "reused" : "not reused"}: ${row.reuse_reason}` : "";

/** A field of a definition as a person reads it: `max_output_retries` is "Max output retries". */
export const fieldLabel = (field: string): string => {
  const words = field.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** What a person calls a kind; one that only a later version knows goes by its own name. */
export const kindTitle = (kind: Kind): string => traitsOf(kind).title || fieldLabel(kind) || "Span";
