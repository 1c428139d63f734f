// What a person does with rows of a map that are selected (W157): asks the kernel, and holds what goes on and what came of it, also
// while other rows are selected.

import { signal } from "@preact/signals";
import type { KernelConnection } from "../kernel/connection";
import { GONE, LATE, LATE_MS } from "../view/tryable";
import { isObject, type JsonObject } from "../wire/guards";

/** What can be done with the rows: `Tryouts._offer_rows`. */
export interface RowOffer {
  readonly count: number;
  /** Those that did not run, in words. */
  readonly lacking: string;
  /** Where they can be run again from. */
  readonly tasks: readonly string[];
  readonly models: readonly { readonly name: string; readonly cost: number | null }[];
  readonly judges: readonly string[];
  /** What they took. */
  readonly cost: number | null;
  readonly currency: string;
}

export interface Job {
  readonly number: number;
  readonly act: string;
  /** How far it is; empty where there is nothing to say. */
  readonly text: string;
  readonly state: "going" | "over" | "failed";
  /** What is sent to end it. */
  readonly stop?: JsonObject;
}

const OFFER = "offer_rows";

export class RowDesk {
  /** Of the rows that were asked about last. */
  readonly offer = signal<RowOffer | null>(null);
  /** What goes on, and what has ended since the last one began. */
  readonly jobs = signal<readonly Job[]>([]);
  #number = Math.floor(Math.random() * 2 ** 40);

  constructor(readonly connection: KernelConnection) {
    connection.tryout.subscribe((told) => told && this.#hear(told.tryout));
    connection.post({ kind: "tryout", act: "tell_row_acts" }); // which went on before this page was there
  }

  /** Asks what can be done with the rows in which these spans are. */
  ask(spans: readonly string[]): void {
    this.offer.value = null;
    this.begin(OFFER, spans, "Asking the kernel…");
  }

  /** Has something done with them. */
  begin(act: string, spans: readonly string[], text: string, more?: JsonObject): void {
    this.#number += 1;
    const number = this.#number;
    const job: Job = this.connection.post({ ...more, act, spans, kind: "tryout", number }) ? { number, act, text, state: "going" } : { number, act, text: GONE, state: "failed" };
    this.jobs.value = [...this.jobs.value.filter((each) => each.state === "going" && each.act !== OFFER), job];
    setTimeout(() => this.#change(number, (each) => each.text === text && { text: LATE }), LATE_MS);
  }

  stop({ stop }: Job): void {
    this.connection.post({ ...stop, kind: "tryout" });
  }

  #change(number: unknown, change: (job: Job) => Partial<Job> | false): void {
    this.jobs.value = this.jobs.value.map((job) => (job.number === number ? { ...job, ...change(job) } : job));
  }

  #hear({ number, row_act, rows, began, progress, said, variable, error }: JsonObject): void {
    const known = this.jobs.value;
    if (row_act && !known.some((each) => each.number === number)) this.jobs.value = [...known, { number: Number(number), act: String(row_act), text: "", state: "going" }];
    this.#change(number, ({ act }) => {
      if (isOffer(rows)) this.offer.value = rows;
      if (error) return { text: String(error), state: "failed" };
      if (said) return { text: variable ? `${said} In the notebook: ${variable}` : String(said), state: "over" };
      if (isObject(began)) return { text: "They run again, as drawn below.", stop: { feed_id: began.feed_id, content: { kind: "stop" } } };
      return progress ? { text: String(progress), stop: { act: "stop", of: number } } : act === OFFER && { text: "", state: "over" };
    });
  }
}

const isOffer = (value: unknown): value is RowOffer => isObject(value) && [value.tasks, value.models, value.judges].every(Array.isArray);

const desks = new WeakMap<KernelConnection, RowDesk>();

/** The one of a connection, for all views of its run. */
export function rowDeskOf(connection: KernelConnection): RowDesk {
  const desk = desks.get(connection) ?? new RowDesk(connection);
  desks.set(connection, desk);
  return desk;
}
