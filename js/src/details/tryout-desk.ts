// What a person tries in a view: calls made again, and forks (F4). Asks the kernel, hears of what it has done, and holds the
// connection to the feed of each run that came of it, which goes by that of the run itself.

import type { KernelConnection } from "../kernel/connection";
import { GONE, LATE, LATE_MS } from "../view/tryable";
import type { Bytes } from "../wire/columns";
import { isObject, type JsonObject } from "../wire/guards";

/** A call made again, or a fork, as the kernel tells of it: `Tryout.to_message`. */
export interface Tryout {
  readonly feed_id: string;
  readonly span_id: string;
  /** It begins where the span ends. */
  readonly at_end: boolean;
  readonly changed: readonly string[];
  /** What the notebook calls it. */
  readonly variable: string | null;
  readonly error: string | null;
}

/** What stands at a span: `Tryouts._offer`. */
export interface Offer {
  readonly output: string;
  readonly system_prompt?: string;
  readonly user_prompt?: string;
  /** How much the model was told besides. */
  readonly others?: number;
  readonly model?: string | null;
  readonly cost?: number | null;
  readonly input_tokens?: number | null;
  readonly output_tokens?: number | null;
  readonly currency?: string;
  readonly parameters?: string;
  readonly models?: readonly { readonly name: string; readonly cost: number | null }[];
  readonly scorers?: readonly string[];
}

/** A reply of a call made again: `list_replies`. */
export interface Reply {
  readonly number: number;
  readonly pieces: readonly (readonly ["same" | "removed" | "added", string])[];
  readonly calls: string;
  readonly error: string | null;
  readonly input_tokens: number | null;
  readonly output_tokens: number | null;
  readonly cost: number | null;
  readonly duration_ms: number | null;
  readonly scores: Readonly<Record<string, string>>;
}

/** What comes of asking: more than one of these may come, one after the other. */
export interface Answer {
  readonly offer?: Offer;
  readonly began?: Tryout;
  readonly replies?: readonly Reply[];
  readonly variable?: string | null;
  readonly error?: string;
  /** The span that was marked. */
  readonly marked?: string;
  /** The change as a diff of the cell, which `put-into-cell` reads. */
  readonly source?: unknown;
}

export class Desk {
  /** In the order in which they began. */
  forks: readonly Tryout[] = [];
  /** A person has just asked for one. */
  isForking = false;
  readonly #connection: KernelConnection;
  readonly #redraws = new Set<() => void>();
  readonly #awaited = new Map<number, (answer: Answer) => void>();
  readonly #runs = new Map<string, KernelConnection>();
  readonly #stops: (() => void)[] = [];
  #number = Math.floor(Math.random() * 2 ** 40);

  constructor(connection: KernelConnection) {
    this.#connection = connection;
    this.#stops.push(connection.tryout.subscribe((told) => told && this.#hear(told.tryout, told.buffers as Bytes[])));
    this.#stops.push(connection.isUnreachable.subscribe((isGone) => {
      if (isGone) for (const run of this.#runs.values()) run.markLost();
    }));
  }

  /** Asks the kernel; `hear` is told what comes of it. */
  ask(message: Readonly<Record<string, unknown>>, hear: (answer: Answer) => void): void {
    this.#number += 1;
    const number = this.#number;
    const late = setTimeout(() => hear({ error: LATE }), LATE_MS);
    this.#awaited.set(number, (answer) => {
      clearTimeout(late);
      hear(answer);
    });
    if (!this.#connection.post({ ...message, kind: "tryout", number })) hear({ error: GONE });
  }

  /** The run that came of a tryout. */
  connect(feed: string, prepare: (connection: KernelConnection) => void = () => undefined): KernelConnection {
    const known = this.#runs.get(feed);
    if (known) return known;
    const Connection = this.#connection.constructor as typeof KernelConnection;
    const run = new Connection((content) => {
      // The kernel would answer with what is selected by its own clock.
      if (content.kind !== "selection") this.#connection.post({ kind: "tryout", feed_id: feed, content });
    });
    prepare(run);
    this.#runs.set(feed, run);
    run.catchUp();
    return run;
  }

  /** Calls when there is another fork, or more is known of one; gives back what ends that, and with the last one all. */
  listen(redraw: () => void): () => void {
    this.#redraws.add(redraw);
    return () => {
      this.#redraws.delete(redraw);
      if (this.#redraws.size === 0) this.#end();
    };
  }

  #end(): void {
    desks.delete(this.#connection);
    for (const stop of this.#stops) stop();
    for (const run of this.#runs.values()) run.close();
    this.#awaited.clear();
  }

  #hear(told: JsonObject, buffers: readonly Bytes[]): void {
    if (isObject(told.content)) {
      this.#runs.get(String(told.feed_id))?.receive(told.content, buffers);
      return;
    }
    if (Array.isArray(told.forks)) {
      this.forks = told.forks.filter(isTryout);
      for (const redraw of this.#redraws) redraw();
    }
    if (typeof told.number === "number") this.#awaited.get(told.number)?.(readAnswer(told));
  }
}

const desks = new WeakMap<KernelConnection, Desk>();

/** The one of a connection, for all views of its run. */
export function deskOf(connection: KernelConnection): Desk {
  const desk = desks.get(connection) ?? new Desk(connection);
  desks.set(connection, desk);
  return desk;
}

const isTryout = (value: unknown): value is Tryout =>
  isObject(value) && typeof value.feed_id === "string" && typeof value.span_id === "string" && Array.isArray(value.changed);

const isReply = (value: unknown): value is Reply => isObject(value) && typeof value.number === "number" && Array.isArray(value.pieces) && isObject(value.scores);

function readAnswer(told: JsonObject): Answer {
  return {
    ...(isObject(told.offer) && typeof told.offer.output === "string" && { offer: told.offer as unknown as Offer }),
    ...(isTryout(told.began) && { began: told.began }),
    ...(Array.isArray(told.replies) && { replies: told.replies.filter(isReply) }),
    ...(typeof told.variable === "string" && { variable: told.variable }),
    ...(typeof told.error === "string" && { error: told.error }),
    ...(typeof told.marked === "string" && { marked: told.marked }),
    ...("source" in told && { source: told.source }),
  };
}
