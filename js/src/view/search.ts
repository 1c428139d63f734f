// What a person looks for (W28): words, kinds and a status, and the spans that fit. No DOM. What does not fit is hidden, or
// dimmed where a person wants to see where in the run it happened. What finds is loaded with the first search.

import { computed, signal } from "@preact/signals";
import type { Store } from "../store/store";
import { isTask } from "../wire/predicates";
import type { Row, Status } from "../wire/rows";
import type * as finding from "./finder";

/** What can be asked for by kind: the kinds of spans behind each word. */
export const KIND_FILTERS = {
  llm: ["llm"],
  tool: ["tool"],
  delegation: ["delegation", "nested"],
  review: ["review"],
} as const satisfies Record<string, readonly string[]>;

export type KindFilter = keyof typeof KIND_FILTERS;
export type Finder = Pick<typeof finding, "find" | "parseQuery">;

export class Search {
  readonly words = signal("");
  /** Somebody has gone into the field: what narrows the words is shown. */
  readonly isOpen = signal(false);
  /** The kinds asked for; none means all. */
  readonly kinds = signal<ReadonlySet<KindFilter>>(new Set());
  readonly status = signal<Status | "">("");
  /** True where what does not fit is dimmed, and not hidden. */
  readonly isDimming = signal(false);
  /** What finds; null until it is loaded. */
  readonly finder = signal<Finder | null>(null);
  readonly #query = computed(() => this.finder.value?.parseQuery(this.words.value) ?? null);
  /** The words that have to stand in a text or a name, in lower case. */
  readonly texts = computed<readonly string[]>(() => this.#query.value?.words ?? []);
  /** What fits; null as long as nothing is looked for. */
  readonly result = computed<finding.Found | null>(() => (this.isActive ? this.#find() : null));
  /** The rows that fit, in the order of time. */
  readonly found = computed<readonly Row[] | null>(() => this.result.value?.rows ?? null);
  /** What stands out: the spans that fit, and of a task found by its words what it did. */
  readonly spans = computed<ReadonlySet<string> | null>(() => {
    const found = this.found.value;
    if (!found) return null;
    const spans = new Set(found.map((row) => row.span_id));
    if (this.isNarrowed) return spans;
    for (const task of found.filter(isTask)) {
      for (const row of this.store.descendants(task.span_id, isTask)) if (!isTask(row)) spans.add(row.span_id);
    }
    return spans;
  });
  /** The rows that something that fits is in, with those around them, and those in a task that fits; null: all of them. */
  readonly shownRows = computed<ReadonlySet<string> | null>(() => {
    const found = this.found.value;
    if (!found || this.isDimming.value) return null;
    const shown = new Set<string>();
    for (const row of found) {
      for (let at: string | null | undefined = row.span_id; at && !shown.has(at); at = this.store.row(at)?.parent_id) shown.add(at);
    }
    for (const row of found) {
      if (isTask(row) || (row.kind === "phase" && !this.isNarrowed)) for (const inside of this.store.descendants(row.span_id)) shown.add(inside.span_id);
    }
    return shown;
  });

  /** `of`: what is searched, which may be another store later. */
  constructor(readonly of: { readonly store: Store }) {}

  get store(): Store {
    return this.of.store;
  }

  get isActive(): boolean {
    return this.words.value.trim() !== "" || this.isFiltering;
  }

  /** True where kinds or a status are asked for. */
  get isFiltering(): boolean {
    return this.kinds.value.size > 0 || this.status.value !== "";
  }

  /** True where more is asked than that some words stand somewhere. */
  get isNarrowed(): boolean {
    return this.isFiltering || (this.#query.value?.conditions.length ?? 0) > 0;
  }

  /** How many of the outermost tasks something that fits is in. */
  countOutermost(): number {
    const outermost = new Set<string>();
    for (const row of this.found.value ?? []) {
      let [at, task]: [Row | undefined, string | null] = [row, null];
      for (; at; at = this.store.row(at.parent_id ?? "")) if (isTask(at)) task = at.span_id;
      if (task) outermost.add(task);
    }
    return outermost.size;
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

  #find(): finding.Found | null {
    this.store.version.value;
    const [finder, query] = [this.finder.value, this.#query.value];
    if (!finder || !query) return null;
    const kinds = new Set([...this.kinds.value].flatMap((kind): readonly string[] => KIND_FILTERS[kind]));
    const status = this.status.value;
    const fits = (row: Row): boolean => (kinds.size === 0 || kinds.has(row.kind)) && (!status || row.status === status);
    return finder.find(this.store, query, [fits], this.store.textHits(query.words));
  }
}
