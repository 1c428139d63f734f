// The board's connection to the kernel: the rows as the kernel tells of them, questions with their answers, and the
// channels of the timelines that are opened below it. It stands where that of a run's feed would, so it is received, lost
// and found again in the same way.

import { signal } from "@preact/signals";
import type { Bytes } from "../wire/columns";
import { isObject, type JsonObject } from "../wire/guards";
import { type BoardRow, readBoardRows } from "./board-rows";

const FIRST_REPEAT_MS = 500;
const LAST_REPEAT_MS = 16_000;
/** How long a question waits for its answer: a kernel may be busy in a cell. */
const PATIENCE_MS = 60_000;

/** What takes the messages about one run. */
export type FeedListener = (content: unknown, buffers: readonly Bytes[]) => void;

export class BoardConnection {
  readonly rows = signal<readonly BoardRow[]>([]);
  /** Whether the kernel has told of the runs yet. */
  readonly isKnown = signal(false);
  readonly isLost = signal(false);
  /** What is wrong with the store. */
  readonly fault = signal("");
  /** The place of a run's store: whoever shows views asks whether there is anything in them. */
  readonly store = { run: { value: this } };

  readonly #send: (message: JsonObject) => void;
  readonly #waiting = new Map<number, (answer: JsonObject) => void>();
  readonly #feeds = new Map<string, Set<FeedListener>>();
  readonly #prefix = Math.floor(Math.random() * 1e9) * 1000;
  #nonce = 0;
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(send: (message: JsonObject) => void) {
    this.#send = send;
  }

  /** Says hello until there is an answer. */
  catchUp(): void {
    this.#hello(FIRST_REPEAT_MS);
  }

  receive(content: unknown, buffers: readonly Bytes[] = []): void {
    if (!isObject(content)) return;
    this.isLost.value = false;
    if (content.kind === "feed") for (const act of this.#feeds.get(String(content.feed_id)) ?? []) act(content.content, buffers);
    else if (content.kind === "runs") {
      this.#quiet();
      this.isKnown.value = true;
      this.rows.value = readBoardRows(content.rows);
    } else if (content.kind === "changed") this.#change(content);
    else if (content.kind === "fault") this.fault.value = String(content.text);
    else if (content.kind === "failed" && content.nonce === this.#prefix) {
      this.#quiet();
      this.fault.value = String(content.text);
    }
    if (content.kind === "runs" || content.kind === "changed") this.fault.value = "";
    if (typeof content.nonce !== "number") return;
    const answer = this.#waiting.get(content.nonce);
    this.#waiting.delete(content.nonce);
    answer?.(content);
  }

  /** Asks the kernel; throws what it says went wrong. */
  async ask(kind: string, facts: JsonObject): Promise<JsonObject> {
    const nonce = this.#prefix + (this.#nonce += 1);
    const answer = await new Promise<JsonObject>((resolve) => {
      this.#waiting.set(nonce, resolve);
      setTimeout(() => resolve({ kind: "failed", text: "The kernel does not answer. Once it is idle, try again." }), PATIENCE_MS);
      this.#send({ kind, nonce, ...facts });
    });
    this.#waiting.delete(nonce);
    if (answer.kind === "failed") throw new Error(String(answer.text));
    return answer;
  }

  /** Takes part in the feed of a run; gives what sends there. */
  join(feedId: string, listener: FeedListener): { send: (content: unknown) => void; leave: () => void } {
    const listeners = this.#feeds.get(feedId) ?? new Set();
    this.#feeds.set(feedId, listeners.add(listener));
    return {
      send: (content) => this.#send({ kind: "feed", feed_id: feedId, content }),
      leave: () => {
        listeners.delete(listener);
        if (listeners.size > 0) return; // another view in this page has opened it, too
        this.#feeds.delete(feedId);
        this.#send({ kind: "leave", feed_id: feedId });
      },
    };
  }

  markLost(): void {
    this.isLost.value = true;
    this.#quiet();
    for (const answer of this.#waiting.values()) answer({ kind: "failed", text: "The kernel is gone." });
    this.#waiting.clear();
  }

  suspectLoss(): void {
    this.markLost();
    this.catchUp();
  }

  close(): void {
    this.#quiet();
    this.#send({ kind: "bye" });
  }

  #hello(wait: number): void {
    this.#quiet();
    this.#send({ kind: "hello", nonce: this.#prefix });
    this.#timer = setTimeout(() => this.#hello(Math.min(2 * wait, LAST_REPEAT_MS)), wait);
  }

  #quiet(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #change(content: JsonObject): void {
    if (!this.isKnown.value) return; // all of them are on their way
    const changed = new Map(readBoardRows(content.rows).map((row) => [row.run_id, row]));
    const gone = new Set(Array.isArray(content.gone) ? content.gone : []);
    const kept = this.rows.value.filter(({ run_id }) => !gone.has(run_id)).map((row) => {
      const other = changed.get(row.run_id);
      changed.delete(row.run_id);
      return other ?? row;
    });
    this.rows.value = [...changed.values(), ...kept];
  }
}
