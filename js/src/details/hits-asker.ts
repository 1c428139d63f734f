// Has the kernel search the texts that this page does not have for what a person looks for (W28), and again as long as they
// grow. Whoever has it tells it when something may have changed.

import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";

/** A person who types asks with the word, not with each letter. */
const TYPING_MS = 120;
/** How often the texts of a run that goes on are searched again. */
const AGAIN_MS = 1000;

export class HitsAsker {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wanted: readonly string[] = [];
  /** What was asked and has no answer: a busy kernel has it in its queue. */
  #asked: readonly string[] | null = null;
  #control: string;

  constructor(readonly view: View, readonly connection: KernelConnection) {
    this.#control = connection.control.value;
  }

  /** Asks soon, where there is something to ask. */
  look(): void {
    const { search, store } = this.view;
    const words = search.texts.value;
    const control = this.connection.control.value;
    store.version.value;
    if (words !== this.#wanted) {
      this.end();
      this.#wanted = words;
    }
    const hits = store.textHits(words);
    if (hits || control !== this.#control) this.#asked = null;
    this.#control = control;
    const isNew = !hits || hits.n < store.n;
    if (this.#timer !== undefined || words.length === 0 || this.connection.isUnreachable.value || this.#asked === words || !isNew) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#asked = words;
      this.connection.post({ kind: "search", words: words });
    }, hits ? AGAIN_MS : TYPING_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
