// What a person looks for (W28): words, kinds and a status, and the spans that fit. No DOM. What does not fit is hidden, or
// dimmed where a person wants to see where in the run it happened. What finds is loaded with the first search.

import { computed, signal } from "@preact/signals";
import type { Store } from "../store/store";
import type { Row, Status } from "../wire/rows";
import type * as finding from "./finder";

export type Finder = typeof finding;

export class Search {
  readonly words = signal("");
  /** Somebody has gone into the field: what narrows the words is shown. */
  readonly isOpen = signal(false);
  /** The kinds asked for; none means all. */
  readonly kinds = signal<ReadonlySet<finding.KindFilter>>(new Set());
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
    return found && (this.finder.value?.spansOf(this.store, found, this.isNarrowed) ?? null);
  });
  /** The rows that something that fits is in, with those around them, and those in a task that fits; null: all of them. */
  readonly shownRows = computed<ReadonlySet<string> | null>(() => {
    const found = this.found.value;
    return !found || this.isDimming.value ? null : (this.finder.value?.rowsAround(this.store, found, this.isNarrowed) ?? null);
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
    return this.finder.value?.countOutermost(this.store, this.found.value ?? []) ?? 0;
  }

  clear(): void {
    this.words.value = "";
    this.kinds.value = new Set();
    this.status.value = "";
  }

  /** The next span that fits after `span` in time, around to the first; before it where `step` is -1. */
  next(span: string | null, step: 1 | -1 = 1): string | null {
    return this.finder.value?.nextOf(this.found.value ?? [], span, step) ?? null;
  }

  #find(): finding.Found | null {
    this.store.version.value;
    const [finder, query] = [this.finder.value, this.#query.value];
    if (!finder || !query) return null;
    return finder.find(this.store, query, this.kinds.value, this.status.value, this.store.textHits(query.words));
  }
}
