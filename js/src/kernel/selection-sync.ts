// Keeps the selection of this page and that of the kernel the same (W7). What was changed here last wins over what comes
// until the kernel has answered it, so that a quick hand never sees its selection jump back.

import { batch, effect } from "@preact/signals";
import { areSameRanges, areSameSpans, isOfSpan, type Selection } from "../store/selection";
import type { Outgoing, Selected } from "../wire/messages";

/** A drag changes the range with every move: so long is waited between two messages. */
const APART_MS = 100;

export class SelectionSync {
  readonly #selection: Selection;
  readonly #post: (message: Outgoing) => void;
  /** What the kernel has, as far as it was told or has told. */
  #known: Omit<Selected, "nonce"> = { spans: [], range: null, time: null };
  /** The number of the message that it has not answered yet: unlike those of other pages. */
  #awaited: number | null = null;
  #nonce = Math.floor(Math.random() * 2 ** 40);
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(selection: Selection, post: (message: Outgoing) => void) {
    this.#selection = selection;
    this.#post = post;
    effect(() => this.#tell(selection.spans.value.filter(isOfSpan), selection.range.value, selection.time.value));
  }

  /** What is selected here, as far as the kernel can know it. */
  get #spans(): readonly string[] {
    return this.#selection.spans.peek().filter(isOfSpan);
  }

  /** Takes over what is selected elsewhere. */
  receive(selected: Selected): void {
    if (this.#awaited !== null && selected.nonce !== this.#awaited) return;
    this.#awaited = null;
    const { spans, range, time } = this.#selection;
    const isUntold = !areSameSpans(this.#spans, this.#known.spans) || !areSameRanges(range.peek(), this.#known.range) || time.peek() !== this.#known.time;
    this.#known = selected;
    if (isUntold) return;
    batch(() => {
      if (!areSameSpans(this.#spans, selected.spans)) spans.value = selected.spans;
      if (!areSameRanges(range.peek(), selected.range)) range.value = selected.range;
      time.value = selected.time;
    });
  }

  /** Says again what was not answered: the line to the kernel was down. */
  repeat(): void {
    if (this.#awaited === null) return;
    this.#send({ selection: this.#spans, range: rangeOnWire(this.#selection.range.peek()), time: this.#selection.time.peek() });
  }

  #tell(spans: Selected["spans"], range: Selected["range"], time: number | null): void {
    if (this.#timer !== null) return;
    const changed = {
      ...(areSameSpans(spans, this.#known.spans) ? {} : { selection: spans }),
      ...(areSameRanges(range, this.#known.range) ? {} : { range: rangeOnWire(range) }),
      ...(time === this.#known.time ? {} : { time }),
    };
    if (Object.keys(changed).length === 0) return;
    this.#known = { spans, range, time };
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#tell(this.#spans, this.#selection.range.peek(), this.#selection.time.peek());
    }, APART_MS);
    this.#send(changed);
  }

  #send(changed: { selection?: readonly string[]; range?: readonly [number, number] | null; time?: number | null }): void {
    this.#nonce += 1;
    this.#awaited = this.#nonce;
    this.#post({ kind: "selection", nonce: this.#nonce, ...changed });
  }
}

const rangeOnWire = (range: Selected["range"]): readonly [number, number] | null => range && [range.from, range.to];
