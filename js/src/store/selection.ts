// What is selected of a run, in all views of it and in the kernel: spans, a stretch of time (W7), and the time at which the run is
// shown (W35). No DOM.

import { signal } from "@preact/signals";
import type { TimeRange } from "../wire/messages";

export class Selection {
  /** The ids of the spans in the order in which they were selected: the last one is that whose details are shown. */
  readonly spans = signal<readonly string[]>([]);
  /** In milliseconds since the start of the run. */
  readonly range = signal<TimeRange | null>(null);
  /** In milliseconds since the start of a run that is over, which is shown as it was then; null: as it is. */
  readonly time = signal<number | null>(null);

  get isEmpty(): boolean {
    return this.spans.value.length === 0 && this.range.value === null;
  }

  clear(): void {
    if (this.spans.value.length > 0) this.spans.value = [];
    this.range.value = this.time.value = null;
  }
}

/** False for the id of a row that stands for many others, which is known on this page alone. */
export const isOfSpan = (id: string): boolean => !/^(?:rows|done|work|by):/.test(id);

export const areSameSpans = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((span, k) => span === other[k]);

export const areSameRanges = (one: TimeRange | null, other: TimeRange | null): boolean =>
  one === other || (one !== null && other !== null && one.from === other.from && one.to === other.to);
