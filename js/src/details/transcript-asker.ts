// Asks the kernel for the transcript of a run as long as somebody reads it, and again once more was said.

import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import { WHOLE_RUN } from "./transcript-model";

const AGAIN_MS = 1000;

export class TranscriptAsker {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #askedAt = -1;

  constructor(readonly store: Store, readonly connection: KernelConnection | null) {}

  /** Asks now for what was never asked for, else soon, where there is more. */
  look(): void {
    const { connection, store } = this;
    if (!connection || connection.isUnreachable.value || this.#timer !== undefined || this.#askedAt === store.n) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#askedAt = store.n;
      connection.post({ kind: "details", span_id: WHOLE_RUN });
    }, this.#askedAt < 0 ? 0 : AGAIN_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
