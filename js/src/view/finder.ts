// What fits a search (W28): the words of a query, and the spans of a store in which they stand, each with the place where
// they do. Pure, and loaded when something is looked for the first time. It searches the texts that the page has; where the
// words stand in those that it does not, the kernel has said.

import type { Details, TextHits } from "../wire/messages";
import { durationOf, isListed, isTask } from "../wire/predicates";
import type { Row, Status } from "../wire/rows";
import { kindTitle, modelNameOf, nameOfState, titleOf, waitOf } from "../wording/labels";
import type { Store } from "../store/store";

type Condition = (row: Row) => boolean;

export interface Query {
  /** What has to stand somewhere in the names or texts of a span, in lower case. */
  readonly words: readonly string[];
  readonly conditions: readonly Condition[];
}

export interface Found {
  /** In the order of time. */
  readonly rows: readonly Row[];
  /** By span, the words around what was found in a text of it. */
  readonly snippets: ReadonlyMap<string, string>;
  /** How many spans there are to be found. */
  readonly total: number;
}

/** What can be asked for by kind: the kinds of spans behind each word. */
const KIND_FILTERS = {
  llm: ["llm"],
  tool: ["tool"],
  delegation: ["delegation", "nested"],
  review: ["review"],
} as const satisfies Record<string, readonly string[]>;

export type KindFilter = keyof typeof KIND_FILTERS;

/** What can be asked of a span by the words `agent:Writer`, and whether a value fits it. */
const FIELDS: Record<string, (row: Row) => string | null | undefined> = {
  agent: (row) => row.agent,
  tool: (row) => row.tool,
  task: (row) => (isTask(row) ? row.name : row.task),
  phase: (row) => (row.kind === "phase" ? row.name : row.phase),
  model: modelNameOf,
  kind: (row) => `${row.kind} ${kindTitle(row.kind)}`,
  status: (row) => `${row.status} ${nameOfState(row)}`,
};

/** What can be asked of it by `cost>0.01`: dollars or what else the run costs, tokens in and out together, seconds. */
const AMOUNTS: Record<string, (row: Row) => number | null | undefined> = {
  cost: (row) => row.cost,
  tokens: (row) => (row.input_tokens == null && row.output_tokens == null ? null : (row.input_tokens ?? 0) + (row.output_tokens ?? 0)),
  time: (row) => (durationOf(row) == null ? null : (durationOf(row) as number) / 1000),
};

const COMPARISONS: Record<string, (one: number, other: number) => boolean> = {
  ">": (one, other) => one > other, ">=": (one, other) => one >= other, "<": (one, other) => one < other, "<=": (one, other) => one <= other,
};

/** Words stand by themselves or, several as one, in quotes; what begins with the name of a field and a sign narrows. */
const TOKEN = /([a-z]+)(:|[<>]=?)("[^"]*"?|\S*)|"([^"]*)"?|\S+/gi;
/** Of a text so much is shown before and after what was found: in a narrow view only the beginning is seen. */
const [BEFORE, AFTER] = [24, 96];

export function parseQuery(text: string): Query {
  const words: string[] = [];
  const conditions: Condition[] = [];
  for (const [token, name = "", sign = "", given = "", quoted] of text.matchAll(TOKEN)) {
    const value = given.replace(/"/g, "").toLowerCase();
    const [field, amount, compare] = [own(FIELDS, name), own(AMOUNTS, name), own(COMPARISONS, sign)];
    if (sign === ":" && field) {
      // One that is still being written asks for nothing.
      if (value) conditions.push((row) => (field(row) ?? "").toLowerCase().includes(value));
    } else if (compare && amount) {
      const than = value === "" ? NaN : Number(value.replace(/^\$|s$/g, ""));
      if (!Number.isNaN(than)) conditions.push((row) => amount(row) != null && compare(amount(row) as number, than));
    } else {
      const word = (quoted ?? token).toLowerCase().trim();
      if (word) words.push(word);
    }
  }
  return { words, conditions };
}

const own = <T>(table: Record<string, T>, name: string): T | undefined => {
  const key = name.toLowerCase();
  return Object.hasOwn(table, key) ? table[key] : undefined;
};

/**
 * The spans that fit a query, and the kinds and the status asked for beside it, where some are; `hits` is what the kernel has
 * found of its words, if it has.
 */
export function find(store: Store, { words, conditions }: Query, asked: ReadonlySet<KindFilter>, status: Status | "", hits: TextHits | undefined): Found {
  const kinds = new Set([...asked].flatMap((kind): readonly string[] => KIND_FILTERS[kind]));
  const rows: Row[] = [];
  const snippets = new Map<string, string>();
  const texts = words.length > 0 ? textsOf(store) : new Map<string, Text[]>();
  let total = 0;
  for (const row of store.rows()) {
    if (!isListed(row)) continue;
    total += 1;
    if ((kinds.size > 0 && !kinds.has(row.kind)) || (status && row.status !== status) || !conditions.every((fits) => fits(row))) continue;
    if (words.length > 0) {
      const known = hits?.spans.get(row.span_id);
      const own = texts.get(row.span_id) ?? [];
      // What a model call is called hangs on the rows around it, so it is not kept.
      const names = `${titleOf(store, row).toLowerCase()}\n${namesOf(row)}`;
      const isIn = (word: string, k: number): boolean => names.includes(word) || known?.words.includes(k) === true || own.some(({ lower }) => lower.includes(word));
      if (!words.every(isIn)) continue;
      const snippet = known?.snippet ?? snippetOf([...own, ...longTexts(row)], words);
      if (snippet) snippets.set(row.span_id, snippet);
    }
    rows.push(row);
  }
  rows.sort((a, b) => (a.start_ms ?? Infinity) - (b.start_ms ?? Infinity));
  return { rows, snippets, total };
}

// Rows are replaced whole, never changed, so what was read of one stays true of it.
const names = new WeakMap<Row, string>();

/** What a row says of itself, in lower case. */
function namesOf(row: Row): string {
  const known = names.get(row);
  if (known !== undefined) return known;
  const parts = [
    row.name, kindTitle(row.kind), nameOfState(row), row.agent, row.tool, row.delegate_to, modelNameOf(row),
    row.provider, row.description, row.reason, row.error_type, row.error_message, row.retry_reason, row.review?.text,
    row.kind === "wait" ? waitOf(row) : null,
  ];
  const text = parts.filter(Boolean).join("\n").toLowerCase();
  names.set(row, text);
  return text;
}

const longTexts = (row: Row): Text[] =>
  [row.error_message, row.review?.text, row.description, row.reason].filter((text) => text != null).map(textOf);

/** A text, and the same in lower case. */
interface Text {
  readonly text: string;
  readonly lower: string;
}

const textOf = (text: string): Text => ({ text, lower: text.toLowerCase() });

/** What is around one of `words` in the text that has most of them; empty where none has any. */
function snippetOf(texts: readonly Text[], words: readonly string[]): string {
  let [best, most]: [Text | null, number] = [null, 0];
  for (const text of texts) {
    const count = words.filter((word) => text.lower.includes(word)).length;
    if (count > most) [best, most] = [text, count];
  }
  if (best === null) return "";
  const { text, lower } = best;
  const word = words.find((each) => lower.includes(each)) as string;
  const at = lower.indexOf(word);
  const [start, end] = [Math.max(0, at - BEFORE), Math.min(text.length, at + word.length + AFTER)];
  return `${start > 0 ? "…" : ""}${text.slice(start, end).replace(/\s+/g, " ").trim()}${end < text.length ? "…" : ""}`;
}

const found = new WeakMap<Store, { version: number; texts: Map<string, Text[]> }>();

/**
 * The texts that this page has, by the span where each arose, as the kernel finds them: of a conversation what a person or a
 * system prompt says belongs to its task, a reply to the first call that has it, and a tool's result to the tool.
 */
function textsOf(store: Store): Map<string, Text[]> {
  const known = found.get(store);
  if (known?.version === store.version.value) return known.texts;
  const texts = new Map<string, Text[]>();
  const seen = new Map<string, Set<string>>();
  const add = (span: string, text: string | null | undefined): void => {
    if (!text) return;
    const owner = store.ownerOf(span);
    const inTask = seen.get(owner) ?? new Set<string>();
    if (inTask.has(text)) return;
    seen.set(owner, inTask.add(text));
    texts.set(span, [...(texts.get(span) ?? []), textOf(text)]);
  };
  const rows = [...store.rows()].map((row) => [row, store.details(row.span_id)] as const).filter((pair): pair is readonly [Row, Details] => pair[1] !== undefined);
  // What a task has, and a turn or an attempt, is mostly what a call has.
  const rank = (row: Row): number => (row.kind === "turn" || row.kind === "attempt" ? 2 : isTask(row) ? 1 : 0);
  rows.sort(([one], [other]) => rank(one) - rank(other));
  for (const [row, { messages, input, output, error }] of rows) {
    const task = store.ownerOf(row.span_id);
    const own = rank(row) === 2 ? task : row.span_id;
    for (const { role, text } of messages) add(role === "assistant" ? own : task, text);
    for (const text of [input, output, error?.message]) add(own, text);
  }
  found.set(store, { version: store.version.value, texts });
  return texts;
}

/** What stands out of what was found: its spans, and unless more than words was asked for, what the tasks among them did. */
export function spansOf(store: Store, found: readonly Row[], isNarrowed: boolean): Set<string> {
  const spans = new Set(found.map((row) => row.span_id));
  if (isNarrowed) return spans;
  for (const task of found.filter(isTask)) {
    for (const row of store.descendants(task.span_id, isTask)) if (!isTask(row)) spans.add(row.span_id);
  }
  return spans;
}

/** What was found with all that is around it, and what is in tasks that were. */
export function rowsAround(store: Store, found: readonly Row[], isNarrowed: boolean): Set<string> {
  const shown = new Set<string>();
  for (const row of found) {
    for (let at: string | null | undefined = row.span_id; at && !shown.has(at); at = store.row(at)?.parent_id) shown.add(at);
  }
  for (const row of found) {
    if (isTask(row) || (row.kind === "phase" && !isNarrowed)) for (const inside of store.descendants(row.span_id)) shown.add(inside.span_id);
  }
  return shown;
}

/** How many of the outermost tasks something that was found is in. */
export function countOutermost(store: Store, found: readonly Row[]): number {
  const outermost = new Set<string>();
  for (const row of found) {
    let [at, task]: [Row | undefined, string | null] = [row, null];
    for (; at; at = store.row(at.parent_id ?? "")) if (isTask(at)) task = at.span_id;
    if (task) outermost.add(task);
  }
  return outermost.size;
}

/** The one that fits after `span`, around to the first; before it where `step` is -1. */
export function nextOf(found: readonly Row[], span: string | null, step: 1 | -1): string | null {
  if (found.length === 0) return null;
  const at = found.findIndex((row) => row.span_id === span);
  const next = at < 0 ? (step > 0 ? 0 : -1) : at + step;
  return found.at(next % found.length)?.span_id ?? null;
}
