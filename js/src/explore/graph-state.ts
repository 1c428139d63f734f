// How a node of the graph stands, in words and numbers: pure, from the rows that it stands for, so that rows as they were at
// an earlier time give the node as it was then.

import type { Row, Status } from "../wire/rows";
import { STATUS_NAMES, UNKNOWN_WORKER } from "../wire/words";
import { causeOf, describeSkip, modelNameOf, nameOfState, stateOfMany } from "../wording/labels";
import { formatCount, formatDuration, formatExactCount, formatGrowingDuration, formatMoney, pluralize } from "../wording/numbers";
import type { Node } from "./graph-model";

/** The rows of a run at a time. */
export interface RowsThen {
  row(span: string): Row | undefined;
  /** The direct children of a span. */
  children(span: string): readonly Row[];
  /** Milliseconds since the run started. */
  readonly now: number;
  /** Time goes on: in the run, or while it is played. */
  readonly isMoving: boolean;
  /** The last words of the call that a task is in; empty where none streams. */
  words(task: string): string;
  /** What a task waits for, and how long by now; empty where it does not. */
  wait(task: string): string;
  /** Of what is in a task how much failed, and how often a call was tried again. */
  troubles(task: string): { readonly errors: number; readonly retries: number };
}

export interface NodeState {
  readonly status: Status;
  /** In words: `running`, `9 done, 1 failed`. */
  readonly name: string;
  readonly title: string;
  readonly about: string;
  /** Who does it, where that is always the same one. */
  readonly agent: string;
  /** Time, tokens and cost; while words or an error stand in their place, the time alone. */
  readonly figures: string;
  /** What it writes, waits for, or failed by. */
  readonly said: string;
  readonly isSaid: "words" | "wait" | "error" | "note" | "";
  /** How much of it is done, of items or many. */
  readonly done: number | null;
  readonly failed: number;
  /** What went wrong inside it, though it may be done, and whether another agent took over. */
  readonly errors: number;
  readonly retries: number;
  readonly isFallback: boolean;
}

/** Of more in one node, what they have been through is not added up each time. */
const MOST_LOOKED_AT = 200;
const FINAL = new Set<Status>(["ok", "error", "cancelled", "interrupted", "skipped"]);

/** Words without the signs of Markdown, in one line. */
export const toPlain = (words: string): string => words.replace(/\*\*|`+|#+ /g, "").replace(/\s+/g, " ").trim();

/** A row as it was in one of the goes at its work. */
function rowInGo(row: Row, go: number | null): Row {
  const round = go === null ? undefined : row.rounds?.[go - 1];
  if (!round) return row;
  const isLast = go === row.rounds?.length;
  // Of one go alone nobody knows tokens and cost.
  const alone = { ...row, start_ms: round.start_ms, end_ms: round.end_ms, duration_ms: null, input_tokens: null, output_tokens: null, cost: null };
  return isLast ? alone : { ...alone, status: "ok", error_message: null, reason: null };
}

export function stateOf(node: Node, then: RowsThen): NodeState {
  const rows = node.members.flatMap(({ span, go }) => {
    const row = then.row(span);
    return row ? [rowInGo(row, go)] : [];
  });
  const first = rows[0];
  const tasks = node.kind === "review" ? rows.filter((row) => row.kind === "task") : rows;
  const shown = tasks.length ? tasks : rows;
  const latest = shown.at(-1);
  const items = shown.length === 1 && first?.item_count != null ? then.children(first.span_id).filter((row) => row.kind === "task") : [];
  const many = items.length ? items : node.kind === "review" ? [] : shown.length > 1 ? shown : [];
  const total = items.length ? Math.max(items.length, first?.item_count ?? 0) : many.length;
  const worst = many.length && !items.length ? stateOfMany(many) : null;
  const status = worst?.status ?? latest?.status ?? untoldOf(node, then) ?? insideOf(node, then);
  const ended = many.filter((row) => FINAL.has(row.status));
  const failed = many.filter((row) => row.status === "error").length;
  const looked = node.kind === "review" ? [] : tasks.filter((row) => row.kind === "task").slice(0, MOST_LOOKED_AT);
  const troubles = looked.map(({ span_id }) => then.troubles(span_id));
  const isRefused = shown.length > 0 && shown.every((row) => row.kind === "delegation");
  const said = saidOf(node, shown, then, items.length ? `${formatExactCount(ended.length)} of ${formatExactCount(total)}` : "");
  return {
    status,
    name: worst?.name ?? (latest ? nameOfState(latest) : STATUS_NAMES[status]),
    title: `${(shown.length === 1 && first && node.members[0]?.go === null && first.title) || node.title}${timesOf(node, total, items.length > 0)}`,
    about: agentOf(shown, node, then) || node.agent || "",
    agent: shown.length ? (shown.every((row) => row.agent === latest?.agent) && !isRefused && latest?.agent) || "" : (node.agent ?? ""),
    figures: isRefused ? "" : figuresOf(shown, then, node.kind === "review", said.isSaid === "words" || said.isSaid === "error"),
    ...said,
    done: total > 1 ? ended.length / total : null,
    failed: total > 1 ? failed / total : 0,
    errors: status === "error" ? 0 : troubles.reduce((count, { errors }) => count + errors, 0),
    retries: troubles.reduce((count, { retries }) => count + retries, 0),
    isFallback: tasks.some((row) => row.is_fallback),
  };
}

/** Who did it, where that is always the same one, and with which model in place of whom, where that is a fallback. */
function agentOf(rows: readonly Row[], node: Node, then: RowsThen): string {
  const [first] = rows.filter((row) => row.kind !== "delegation");
  if (!first) return rows.length ? "refused" : "";
  const { agent } = first;
  if (!agent || !rows.every((row) => row.agent === agent || row.kind === "delegation")) return "";
  if (!rows.every((row) => row.is_fallback)) return agent;
  const call = then.children(first.span_id).filter((row) => row.is_fallback).flatMap((turn) => then.children(turn.span_id)).find(modelNameOf);
  return [agent, call && modelNameOf(call), node.agent && `in place of ${node.agent}`].filter(Boolean).join(", ");
}

/** By what a fallback had to take over: the last failure before it, and how often it was tried; of many how many it were. */
function describeFallback(rows: readonly Row[], then: RowsThen): string {
  const fell = rows.filter((row) => row.is_fallback);
  const [only] = fell;
  if (!only || rows.length > 1) return only ? `${formatExactCount(fell.length)} of ${formatExactCount(rows.length)} by the fallback` : "";
  const turn = then.children(only.span_id).filter((row) => row.status === "error" && !row.is_fallback).at(-1);
  const tries = turn ? Math.max(1, ...then.children(turn.span_id).map((row) => row.attempt ?? 1)) : 1;
  return [`fell back${tries > 1 ? ` after ${pluralize(tries, "attempt")}` : ""}`, turn?.error_message].filter(Boolean).join(": ");
}

/** Of a task that a manager was given, and of which nobody knows who did it, what became of the manager; null of all else. */
function untoldOf(node: Node, then: RowsThen): Status | null {
  const manager = node.kind === "written" ? node.around?.members.map(({ span }) => then.row(span)).at(-1) : undefined;
  return manager?.end_ms == null ? null : manager.status;
}

/** Of a box or a node without rows of its own, how what is in it stands. */
function insideOf(node: Node, then: RowsThen): Status {
  const statuses = node.inside.map((each) => stateOf(each, then).status);
  if (statuses.length === 0 || statuses.every((status) => status === "pending")) return "pending";
  if (statuses.every((status) => FINAL.has(status))) return statuses.includes("error") ? "error" : "ok";
  return statuses.includes("waiting") && !statuses.includes("running") ? "waiting" : "running";
}

function timesOf(node: Node, total: number, hasItems: boolean): string {
  const count = hasItems || total > 1 ? total : node.count;
  return count != null && count > 1 ? ` x ${formatExactCount(count)}` : node.is_many && count == null ? " x ?" : "";
}

/** Time, tokens and cost; of many the sums, and the time from the first start to the last end, or how long they took one by one. */
function figuresOf(rows: readonly Row[], then: RowsThen, isOneByOne: boolean, isTimeAlone: boolean): string {
  const begun = rows.filter((row) => row.start_ms != null);
  if (begun.length === 0) return "";
  const isOpen = begun.some((row) => row.end_ms == null);
  const from = Math.min(...begun.map((row) => row.start_ms as number));
  const to = isOpen ? then.now : Math.max(...begun.map((row) => row.end_ms as number));
  const own = begun.length === 1 || isOneByOne ? sum(begun, (row) => row.duration_ms ?? null) : null;
  const tokens = sum(begun, (row) => (row.input_tokens == null && row.output_tokens == null ? null : (row.input_tokens ?? 0) + (row.output_tokens ?? 0)));
  const cost = sum(begun, (row) => row.cost ?? null);
  const currency = begun.find((row) => row.currency)?.currency;
  const took = isOpen ? formatGrowingDuration(to - from) : formatDuration(own ?? to - from);
  return isTimeAlone ? took : [
    took,
    tokens ? `${formatCount(tokens)} tok` : "",
    cost ? formatMoney(cost, currency) : "",
  ].filter(Boolean).join(" · ");
}

function sum(rows: readonly Row[], read: (row: Row) => number | null): number | null {
  const known = rows.flatMap((row) => read(row) ?? []);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}

function saidOf(node: Node, rows: readonly Row[], then: RowsThen, progress: string): Pick<NodeState, "said" | "isSaid"> {
  const open = rows.filter((row) => row.status === "running" || row.status === "waiting");
  for (const { span_id, progress: told } of open) {
    const wait = then.wait(span_id);
    if (wait) return { said: wait, isSaid: "wait" };
    const words = then.words(span_id) || (told ?? "");
    if (words) return { said: words, isSaid: "words" };
  }
  if (progress) return { said: progress, isSaid: "note" };
  const wrong = rows.find((row) => row.status === "error" && row.error_message);
  if (wrong) return { said: wrong.error_message as string, isSaid: "error" };
  const [row] = rows;
  if (row?.status === "skipped") return { said: describeSkip(row.reason, nameOfState(row)), isSaid: "note" };
  if (row?.reason && row.kind === "delegation") return { said: row.reason, isSaid: "error" };
  if (row?.reused) return { said: "reused", isSaid: "note" };
  if (row?.retry_reason && (row.attempt ?? 1) > 1) return { said: `again: ${causeOf(row)}`, isSaid: "note" };
  const fallback = describeFallback(rows, then);
  if (fallback) return { said: fallback, isSaid: "note" };
  if (rows.length === 0 && untoldOf(node, then)) return { said: UNKNOWN_WORKER, isSaid: "note" };
  const planned = rows.length === 0 || row?.start_ms == null;
  const said = (planned && node.settings) || (planned || node.inside.length ? "" : node.model) || "";
  return { said, isSaid: said ? "note" : "" };
}

/** What stands on a loop: how often it was gone through, and the last verdict, or how it was declared. */
export function loopWords(node: Node, then: RowsThen, declared: string | null | undefined): string {
  const row = then.row(node.members[0]?.span ?? "");
  const rounds = row?.rounds ?? [];
  if (rounds.length < 2) return declared ?? "";
  const noun = node.kind === "phase" ? "round" : "draft";
  const last = [...rounds].reverse().find((round) => round.verdict)?.verdict;
  return [pluralize(rounds.length, noun), last].filter(Boolean).join(" · ");
}

/** How wide an edge is: the more characters were handed over, the wider, from 1.5 to 6 pixels; thin as long as nobody knows. */
export function widthOfEdge(characters: number | null | undefined): number {
  return characters == null || characters <= 0 ? 1.5 : Math.min(6, 1.5 + Math.max(0, Math.log10(characters / 30)));
}
