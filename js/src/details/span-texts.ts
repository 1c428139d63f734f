// The texts of one span as the drawer has them: what came with the details, what was loaded since, and how to get the rest.

import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Details } from "../wire/messages";

const WAIT_MS = 30;
const MOST_WAITS = 130;

export interface SpanText {
  readonly text: string;
  /** How long the whole text is. */
  readonly length: number;
  /** Asks for more; absent where there is no more to be had. */
  readonly onMore: (() => void) | undefined;
  /** In place of the rest, where there is no more to be had. */
  readonly restIs: string;
  /** All of it, or as much as can be had. */
  readonly load: () => Promise<string>;
  /** What the marks in it stand for, by digest. */
  readonly pictures: unknown;
}

export class SpanTexts {
  constructor(
    readonly span: string, readonly details: Details | undefined, readonly store: Store, readonly connection: KernelConnection | null,
  ) {}

  /** A text by its field in the details; null where the details have none. */
  of(field: string | null | undefined, beginning: string): SpanText {
    const whole = field ? this.details?.lengths?.[field] : undefined;
    const text = field && whole !== undefined ? this.store.textOf(this.span, field, beginning) : beginning;
    const length = Math.max(whole ?? 0, text.length);
    const { connection } = this;
    const canLoad = connection !== null && !connection.isUnreachable.value && length > text.length && field != null;
    return {
      text,
      length,
      onMore: canLoad ? () => connection.post({ kind: "piece", span_id: this.span, field, from: text.length }) : undefined,
      restIs: connection === null ? "not in the saved copy" : "the kernel is gone",
      pictures: this.details?.pictures ?? this.store.details("*")?.pictures,
      load: async () => (canLoad ? this.#load(field, beginning, length) : text),
    };
  }

  async #load(field: string, beginning: string, length: number): Promise<string> {
    let asked = -1;
    for (let waits = 0; waits < MOST_WAITS; waits += 1) {
      const text = this.store.textOf(this.span, field, beginning);
      if (text.length >= length) return text;
      if (text.length > asked) {
        waits = 0;
        asked = text.length;
        this.connection?.post({ kind: "piece", span_id: this.span, field, from: asked });
      }
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    }
    return this.store.textOf(this.span, field, beginning);
  }
}
