// The connection to the kernel: hello, ping and pong, stop, answers to reviews, details. There is one for each run's feed,
// and every view of the run reads its store. A message to a kernel that is busy in a cell may wait until the cell ends,
// so nothing here relies on an answer: what has none is shown as such (W13).

import { batch, signal } from "@preact/signals";
import { Store } from "../store/store";
import type { Bytes } from "../wire/columns";
import type { AnswerMore, Incoming, Outgoing } from "../wire/messages";
import { readMessage } from "../wire/reader";
import type { Verdict } from "../wire/rows";
import { PacedQueue } from "./paced-queue";
import { SelectionSync } from "./selection-sync";

/** Whether the kernel answers while it works: only then may a button promise something. */
export type Control = "asking" | "live" | "silent";

type Timer = ReturnType<typeof setTimeout>;

/** What the store folds, and when it came, by the clock of this page. */
interface Arrival {
  message: Parameters<Store["fold"]>[0];
  at: number;
}

const PONG_MS = 1500;
// A first message may reach a kernel before it can answer beside a busy cell, so it is asked again, ever more rarely.
const FIRST_REPEAT_MS = 250;
const LAST_REPEAT_MS = 60_000;
const DETAILS_MS = 2000;
const HELLO_APART_MS = 1000;

export class KernelConnection {
  readonly store = new Store();
  readonly control = signal<Control>("asking");
  readonly isStopping = signal(false);
  /** The review that was answered here last: its end is still to come, or has come. */
  readonly answeredReview = signal<string | null>(null);
  /** True when the comm died during the run: nothing more will come. */
  readonly isLost = signal(false);
  /** True when nobody answers any more, also about a run that is over. */
  readonly isUnreachable = signal(false);
  /** True when it was lost because the kernel was restarted. */
  readonly isRestarted = signal(false);
  /** The span whose details were asked for and did not come in time. */
  readonly overdueDetails = signal<string | null>(null);
  /** What was told last of calls made again and of forks (F4). */
  readonly tryout = signal<Extract<Incoming, { kind: "tryout" }> | null>(null);

  readonly #send: (message: Outgoing) => void;
  readonly #clock: () => number;
  readonly #timers = new Set<Timer>();
  readonly #arrivals: PacedQueue<Arrival>;
  readonly #selection = new SelectionSync(this.store.selection, (message) => this.post(message));
  #nonce = 0;
  #isAsking = false;
  #helloAt = -Infinity;
  #nextHello: Timer | null = null;
  #awaitsState = false;
  #asked = new Map<string, string>();

  constructor(send: (message: Outgoing) => void, clock: () => number = () => performance.now()) {
    this.#send = send;
    this.#clock = clock;
    this.#arrivals = new PacedQueue((arrivals) => batch(() => {
      this.store.heldAt = null;
      arrivals.forEach((each) => this.#fold(each));
    }), clock);
  }

  /** A view came: ask for what is missing until there is an answer, and whether somebody answers. */
  catchUp(): void {
    this.#hello(FIRST_REPEAT_MS);
    this.#selection.repeat();
    if (!this.store.isOver) this.#ask();
  }

  /** Takes anything the kernel sends. */
  receive(content: unknown, buffers: readonly Bytes[] = []): void {
    const message = readMessage(content, buffers);
    this.isUnreachable.value = this.isRestarted.value = false;
    if (this.isLost.value) this.#revive();
    switch (message.kind) {
      case "bad":
        this.store.fault.value = message.why;
        return;
      case "ended":
        return;
      case "pong":
        this.control.value = "live";
        return;
      case "details":
        if (this.overdueDetails.value === message.details.span_id) this.overdueDetails.value = null;
        this.#asked.delete(message.details.span_id);
        this.store.keepDetails(message.details);
        return;
      case "found":
        this.store.keepHits(message.hits);
        return;
      case "graph":
        this.store.graphs.value = message.graphs;
        return;
      case "cells":
        this.store.keepCells(message.cells);
        return;
      case "selection":
        this.#selection.receive(message.selected);
        return;
      case "tryout":
        this.tryout.value = message;
        return;
      case "piece":
        this.store.keepPiece(message.piece);
        return;
      default: {
        const at = this.#clock();
        this.store.heldAt ??= at;
        this.#arrivals.add({ message, at });
      }
    }
  }

  stop(): void {
    if (this.control.value !== "live" || this.isStopping.value || this.store.isOver) return;
    this.isStopping.value = true;
    this.post({ kind: "stop" });
  }

  /** Answers a review; what the engine asks next is another one. */
  review(span: string, verdict: Verdict, text: string, more: AnswerMore): void {
    if (this.control.value !== "live" || this.answeredReview.value === span || this.store.isOver) return;
    this.answeredReview.value = span;
    this.post({ kind: "review", span_id: span, verdict, text, ...more });
  }

  /** Asks for the details of a span, unless they are here, or were asked for when it was as far as it is now. */
  wantDetails(span: string): void {
    if (!this.store.hasStaleDetails(span)) return;
    const progress = this.store.progress(span);
    if (this.#asked.get(span) === progress) return;
    this.#asked.set(span, progress);
    if (!this.post({ kind: "details", span_id: span })) return;
    this.#later(DETAILS_MS, () => {
      if (this.#asked.has(span)) this.overdueDetails.value = span;
    });
  }

  /**
   * The comm closed or lost its kernel: during the run that means the kernel is gone, unless it answers once more. What
   * was asked for does not come then, also of a run that is over.
   */
  markLost(isRestart = false): void {
    this.#arrivals.flush();
    this.isUnreachable.value = true;
    if (isRestart) this.isRestarted.value = true;
    if (this.store.isOver || this.isLost.value) return;
    this.isLost.value = true;
    this.control.value = "silent";
    this.store.freeze(this.#clock());
  }

  /** Something happened to the comm: take the kernel for gone until it answers. */
  suspectLoss(): void {
    this.markLost();
    // After the run one question is enough, since nothing is left that could be stopped.
    if (this.store.isOver) this.post({ kind: "ping", nonce: (this.#nonce += 1) });
    else this.#ask();
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#isAsking = false;
  }

  #fold({ message, at }: Arrival): void {
    const outcome = this.store.fold(message, at);
    if (outcome === "folded") this.store.fault.value = null;
    if (outcome !== "gap") this.#forgetHello();
    else if (this.#clock() - this.#helloAt > HELLO_APART_MS) this.#hello(FIRST_REPEAT_MS);
    if (this.store.isOver) this.close();
  }

  #revive(): void {
    this.isLost.value = false;
    this.control.value = "silent";
    this.store.thaw();
    this.#ask();
  }

  /** Says what is here, and says it again after `wait`, unless there is an answer: it may have come before anybody listened. */
  #hello(wait: number): void {
    this.#forgetHello();
    this.#awaitsState = !this.store.isOver;
    this.#helloAt = this.#clock();
    const isSent = this.post({ kind: "hello", have: this.store.n });
    if (isSent && this.#awaitsState && wait <= LAST_REPEAT_MS) this.#nextHello = this.#later(wait, () => this.#hello(wait * 2));
  }

  #forgetHello(): void {
    if (this.#nextHello !== null) this.#cancel(this.#nextHello);
    this.#nextHello = null;
    this.#awaitsState = false;
  }

  #ask(): void {
    if (this.#isAsking || this.control.value === "live") return;
    this.#isAsking = true;
    this.#ping(FIRST_REPEAT_MS);
    this.#later(PONG_MS, () => {
      if (this.control.value === "asking") this.control.value = "silent";
    });
  }

  #ping(wait: number): void {
    this.#isAsking = this.control.value !== "live" && wait <= LAST_REPEAT_MS;
    if (!this.#isAsking) return;
    this.#nonce += 1;
    if (this.post({ kind: "ping", nonce: this.#nonce })) this.#later(wait, () => this.#ping(wait * 2));
    else this.#isAsking = false;
  }

  /** Sends a message; false where there is no way any more. */
  post(message: Outgoing): boolean {
    try {
      this.#send(message);
      return true;
    } catch {
      // The widget manager throws when the kernel's connection is disposed.
      this.markLost();
      return false;
    }
  }

  #later(ms: number, act: () => void): Timer {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      act();
    }, ms);
    this.#timers.add(timer);
    return timer;
  }

  #cancel(timer: Timer): void {
    clearTimeout(timer);
    this.#timers.delete(timer);
  }
}
