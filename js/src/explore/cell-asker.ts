// Asks the kernel for what stands in the cells that are seen (W153), in pages, and again once they are over. A view without a
// kernel has what was saved. Whoever shows cells says which ones, each time it draws.

import { type Picture, pictureOf } from "../elements/pictures";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Row } from "../wire/rows";

export type Given = string | number | boolean | null;

export interface CellText {
  /** The first words of the answer; null where there is none yet. */
  readonly answer: string | null;
  /** The same number where answers are the same. */
  readonly digest: number | null;
  /** What the row was given, in the order of the run's inputs. */
  readonly inputs: readonly Given[];
  /** The pictures in them, by their places among the inputs, and that of the answer as `answer`. */
  readonly pictures: Readonly<Record<string, Picture>>;
}

/** Cells of one question, and how long it waits: a scroll passes many rows. */
const PAGE = 400;
const SOON_MS = 40;
/** After so long without an answer it is asked again: a busy kernel keeps all questions until it has time. */
const WAIT_MS = 5000;
const EMPTY: CellText = { answer: null, digest: null, inputs: [], pictures: {} };

export class CellAsker {
  readonly #known = new Map<string, CellText>();
  readonly #pictures: Record<string, unknown> = {};
  /** How far each span was when its cell was asked for. */
  readonly #asked = new Map<string, string>();
  #wanted: readonly Row[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #open: readonly Row[] = [];
  #read = 0;
  /** Grows whenever cells have come. */
  version = 0;

  constructor(readonly store: Store, readonly connection: KernelConnection | null) {}

  /** Whether nobody can be asked. */
  get isAlone(): boolean {
    return this.connection === null || this.connection.isUnreachable.value;
  }

  /** What is known of a cell by now. */
  textOf(row: Row): CellText {
    const known = this.#known.get(row.span_id);
    if (known) return known;
    const output = this.store.details(row.span_id)?.output;
    return output == null ? EMPTY : { ...EMPTY, answer: output };
  }

  /** Asks for the cells of these rows, as far as they are not here, and no more for others. */
  want(rows: readonly Row[]): void {
    this.#wanted = rows.filter((row) => this.#asked.get(row.span_id) !== stageOf(row));
    if (this.#timer === undefined && this.#wanted.length > 0 && !this.isAlone) this.#timer = setTimeout(() => this.#ask(), SOON_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #ask(): void {
    this.#timer = undefined;
    this.#open = this.#wanted.slice(0, PAGE);
    this.#wanted = this.#wanted.slice(PAGE);
    for (const row of this.#open) this.#asked.set(row.span_id, stageOf(row));
    if (this.#open.length === 0 || !this.connection?.post({ kind: "cells", span_ids: this.#open.map((row) => row.span_id) })) return;
    this.#timer = setTimeout(() => {
      for (const row of this.#open) this.#asked.delete(row.span_id);
      this.#wanted = [...this.#open, ...this.#wanted];
      this.#ask();
    }, WAIT_MS);
  }

  /** Reads what has come since. */
  take(): void {
    const { cells } = this.store;
    if (this.#read > cells.length) this.#read = 0; // another run
    const hasCome = this.#read < cells.length;
    for (; this.#read < cells.length; this.#read += 1) {
      const page = cells[this.#read];
      for (const cell of Array.isArray(page) ? page : []) {
        if (Array.isArray(cell)) this.#keep(cell);
        else Object.assign(this.#pictures, cell); // before the cells that name them
      }
    }
    if (!hasCome) return;
    this.version += 1;
    this.end();
    this.#open = [];
  }

  #keep(cell: readonly unknown[]): void {
    if (typeof cell[0] !== "string") return;
    const [span, answer, digest, inputs, shown] = cell as [string, ...unknown[]];
    const pictures: Record<string, Picture> = {};
    for (const [place, name] of Object.entries(Object(shown))) {
      const picture = pictureOf(this.#pictures, `${name}`) ?? pictureOf(this.store.details("*")?.pictures, `${name}`);
      if (picture) pictures[place] = picture;
    }
    this.#known.set(span, {
      answer: typeof answer === "string" ? answer : null,
      digest: typeof digest === "number" ? digest : null,
      inputs: Array.isArray(inputs) ? inputs.map((each: unknown) => (typeof each === "string" || typeof each === "number" || typeof each === "boolean" ? each : null)) : [],
      pictures,
    });
  }
}

const stageOf = (row: Row): string => `${row.end_ms ?? row.settled_ms ?? ""}`;
