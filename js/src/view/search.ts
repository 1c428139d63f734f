// What a person looks for (W9): words, kinds and a status, and the spans that fit. No DOM. What does not fit is dimmed
// and not hidden, because where something happened in a run is half of what is to be seen.

import { computed, signal } from "@preact/signals";
import type { Store } from "../store/store";
import { isTask } from "../wire/predicates";
import type { Details } from "../wire/messages";
import type { Row, Status } from "../wire/rows";
import { kindTitle, modelNameOf, STATUS_NAMES, titleOf, waitOf } from "../wording/labels";

/** What can be asked for by kind: the kinds of spans behind each word. */
export const KIND_FILTERS = {
  llm: ["llm"],
  tool: ["tool"],
  delegation: ["delegation", "nested"],
  review: ["review"],
} as const satisfies Record<string, readonly string[]>;

export type KindFilter = keyof typeof KIND_FILTERS;

/**
 * True for what stands for itself in a list of spans: turns only frame what is in them, and an attempt that succeeded at once
 * is its call over again.
 */
export const isListed = (row: Row): boolean =>
  row.kind !== "turn" && (row.kind !== "attempt" || row.status !== "ok" || (row.attempt ?? 1) > 1);

export class Search {
  readonly words = signal("");
  /** The kinds asked for; none means all. */
  readonly kinds = signal<ReadonlySet<KindFilter>>(new Set());
  readonly status = signal<Status | "">("");
  /** The rows that fit, in the order of time; null as long as nothing is looked for. */
  readonly found = computed<readonly Row[] | null>(() => (this.isActive ? this.#find() : null));
  /** What stands out: the spans that fit, and of a task found by its words what it did. */
  readonly spans = computed<ReadonlySet<string> | null>(() => {
    const found = this.found.value;
    if (!found) return null;
    const spans = new Set(found.map((row) => row.span_id));
    if (this.kinds.value.size > 0 || this.status.value !== "") return spans;
    for (const task of found.filter(isTask)) {
      for (const row of this.store.descendants(task.span_id, isTask)) if (!isTask(row)) spans.add(row.span_id);
    }
    return spans;
  });

  // Rows and details are replaced whole, never changed, so what was read of one stays true of it.
  readonly #texts = new WeakMap<Row, string>();
  readonly #detailTexts = new WeakMap<Details, string>();

  constructor(readonly store: Store) {}

  get isActive(): boolean {
    return this.words.value.trim() !== "" || this.kinds.value.size > 0 || this.status.value !== "";
  }

  toggleKind(kind: KindFilter): void {
    const kinds = new Set(this.kinds.value);
    if (!kinds.delete(kind)) kinds.add(kind);
    this.kinds.value = kinds;
  }

  clear(): void {
    this.words.value = "";
    this.kinds.value = new Set();
    this.status.value = "";
  }

  /** The next span that fits after `span` in time, around to the first; before it where `step` is -1. */
  next(span: string | null, step: 1 | -1 = 1): string | null {
    const found = this.found.value ?? [];
    if (found.length === 0) return null;
    const at = found.findIndex((row) => row.span_id === span);
    const next = at < 0 ? (step > 0 ? 0 : -1) : at + step;
    return found.at(next % found.length)?.span_id ?? null;
  }

  #find(): Row[] {
    this.store.version.value;
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kinds = new Set([...this.kinds.value].flatMap((kind): readonly string[] => KIND_FILTERS[kind]));
    const status = this.status.value;
    const found: Row[] = [];
    for (const row of this.store.rows()) {
      if (!isListed(row) || (kinds.size > 0 && !kinds.has(row.kind)) || (status && row.status !== status)) continue;
      // What a model call is called hangs on the rows around it, so it is not kept.
      const title = words.length > 0 ? titleOf(this.store, row).toLowerCase() : "";
      const texts = [title, this.#textOf(row), this.#detailTextOf(row)];
      if (words.every((word) => texts.some((text) => text.includes(word)))) found.push(row);
    }
    return found.sort((a, b) => (a.start_ms ?? Infinity) - (b.start_ms ?? Infinity));
  }

  #textOf(row: Row): string {
    const known = this.#texts.get(row);
    if (known !== undefined) return known;
    const parts = [
      row.name, kindTitle(row.kind), STATUS_NAMES[row.status], row.agent, row.tool, row.delegate_to, modelNameOf(row),
      row.provider, row.description, row.reason, row.error_type, row.error_message, row.retry_reason, row.review?.text,
      row.kind === "wait" ? waitOf(row) : null,
    ];
    const text = parts.filter(Boolean).join("\n").toLowerCase();
    this.#texts.set(row, text);
    return text;
  }

  /** The texts of a span as far as they were loaded. */
  #detailTextOf(row: Row): string {
    const details = this.store.details(row.span_id);
    if (!details) return "";
    const known = this.#detailTexts.get(details);
    if (known !== undefined) return known;
    const messages = details.messages.map((message) => message.text);
    const text = [...messages, details.input, details.output, details.error?.message].filter(Boolean).join("\n").toLowerCase();
    this.#detailTexts.set(details, text);
    return text;
  }
}
