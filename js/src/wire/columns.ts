// Reads rows that come as columns: in a binary buffer, as the kernel sends them, or as short texts, as saved views have
// them. Which lists a column has is told in ensemble_notebook/trace/timeline/row_columns.py. Nothing here trusts
// what it reads: a list that is too short, a number that points nowhere or a name that is no column's is found out.

import { isObject, isRow, type JsonObject } from "./guards";
import { type Holds, ROW_COLUMNS, type Row } from "./rows";

/** A buffer as transports hand it out. */
export type Bytes = ArrayBuffer | ArrayBufferView;

type Numbers = ArrayLike<number>;

/** More rows than any view could show: a number above it was made up. */
const MOST_ROWS = 1_000_000;
const UNKNOWN = -(2 ** 31);

class Unreadable extends Error {}

/** The rows of a message or a saved view; null where its columns can't be read. A row that could not be shown is dropped. */
export function readColumns(message: JsonObject, buffers: readonly Bytes[] = []): Row[] | null {
  const { count, columns } = message;
  if (!isCount(count) || count > MOST_ROWS || !Array.isArray(columns)) return null;
  try {
    return new ColumnReader(count, columns.filter(isObject), bytesOf(buffers[0])).read();
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}

/** Columns of numbers that were written as texts, by name, as a saved view has them of what is no row; null where they can't be read. */
export function readNumbers(value: unknown): Readonly<Record<string, Numbers>> | null {
  if (!isObject(value) || !isCount(value.count) || value.count > MOST_ROWS || !Array.isArray(value.columns)) return null;
  try {
    const reader = new ColumnReader(value.count, [], bytesOf(undefined));
    return Object.fromEntries(value.columns.filter(isObject).map((spec) => [spec.name, reader.list(spec, "numbers", reader.count)]));
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}

/** The rows of another table, by what its columns hold; null where they can't be read. Whoever reads them looks at each. */
export function readTable(message: unknown, holds: Readonly<Record<string, Holds>>): JsonObject[] | null {
  if (!isObject(message) || !isCount(message.count) || message.count > MOST_ROWS || !Array.isArray(message.columns)) return null;
  try {
    return new ColumnReader(message.count, message.columns.filter(isObject), new Uint8Array(), holds).readPlain();
  } catch (error) {
    if (error instanceof Unreadable) return null;
    throw error;
  }
}

class ColumnReader {
  #ids: readonly (string | null)[] = [];
  #kinds: Numbers = [];
  #starts: Numbers | null = null;

  constructor(
    readonly count: number,
    readonly specs: readonly JsonObject[],
    readonly bytes: Uint8Array,
    readonly holds: Readonly<Record<string, Holds>> = ROW_COLUMNS,
  ) {}

  readPlain(): JsonObject[] {
    const kind = this.specs.find((spec) => spec.name === "kind");
    if (kind) this.#kinds = this.list(kind, "codes", this.count);
    const rows = Array.from({ length: this.count }, (): JsonObject => ({}));
    for (const spec of this.specs) this.#fill(rows, spec);
    return rows;
  }

  read(): Row[] {
    if (this.count === 0) return [];
    const [id, kind, name, status] = ["span_id", "kind", "name", "status"].map((each) => this.#find(each));
    this.#kinds = this.list(kind as JsonObject, "codes", this.count);
    this.#ids = this.#texts(id as JsonObject);
    const [kinds, names, statuses] = [kind, name, status].map((each) => this.#texts(each as JsonObject));
    // Each row has room for all columns from the start: to grow row by row and column by column took most of the time.
    const blank = Object.fromEntries(["span_id", "kind", "name", "status", ...this.specs.map((spec) => spec.name).filter((name) => this.#isColumn(name))].map((each) => [each, undefined]));
    const rows = this.#ids.map((span_id, k): JsonObject => ({ ...blank, span_id, kind: kinds?.[k], name: names?.[k], status: statuses?.[k] }));
    const filled = new Set<unknown>(["span_id", "kind", "name", "status"]);
    for (const spec of this.specs) {
      if (!filled.has(spec.name)) this.#fill(rows, spec);
      filled.add(spec.name);
    }
    return (rows as unknown[]).filter(isRow);
  }

  #find(name: string): JsonObject {
    return this.specs.find((spec) => spec.name === name) ?? fail();
  }

  /** Own names only, since `constructor` is none. */
  #isColumn(name: unknown): name is string {
    return typeof name === "string" && Object.hasOwn(this.holds, name);
  }

  /** Puts the values of a column into the rows; one that this view does not know stays out. */
  #fill(rows: JsonObject[], { name, ...spec }: JsonObject): void {
    if (!this.#isColumn(name)) return;
    const holds = this.holds[name];
    if (holds === "record") return this.#fillRecords(rows, name, spec);
    if (holds === "text") {
      const texts = this.#texts(spec);
      for (let k = 0; k < rows.length; k += 1) if (texts[k] !== null) (rows[k] as JsonObject)[name] = texts[k];
      return;
    }
    if ((spec.type === "flag") !== (holds === "flag") || (holds === "number" && spec.type !== "int" && spec.type !== "float")) return fail();
    const numbers = this.list(spec, "numbers", this.count);
    if (name === "start_ms") this.#starts = numbers;
    for (let k = 0; k < rows.length; k += 1) {
      const value = numbers[k] as number;
      if (holds === "flag" ? value === 1 : Number.isFinite(value) && value !== UNKNOWN) (rows[k] as JsonObject)[name] = holds === "flag" || value;
    }
  }

  #fillRecords(rows: JsonObject[], name: string, { at, values }: JsonObject): void {
    if (!Array.isArray(values)) return fail();
    const places = typeof at === "string" ? addUp(parse(at, values.length)) : at;
    if (!Array.isArray(places) && !(places instanceof Float64Array)) return fail();
    if (places.length !== values.length) return fail();
    values.forEach((value: unknown, k) => {
      const row = rows[places[k] as number] ?? fail();
      if (typeof value === "object" && value !== null) row[name] = value;
    });
  }

  /** The texts of a column; unknown ones are null. */
  #texts(spec: JsonObject): (string | null)[] {
    const words = Array.isArray(spec.words) && spec.words.every((word) => typeof word === "string") ? (spec.words as string[]) : fail();
    const numbers = this.list(spec, spec.type === "word" ? "codes" : "numbers", this.count);
    const texts = new Array<string | null>(this.count);
    if (spec.type === "word") {
      for (let k = 0; k < this.count; k += 1) {
        const code = numbers[k] as number;
        texts[k] = code >= 0 ? wordAt(words, code) : null;
      }
    } else if (spec.type === "id") {
      const codes = this.list(spec, "codes", this.count);
      for (let k = 0; k < this.count; k += 1) {
        const number = numbers[k] as number;
        texts[k] = isCount(number) ? wordAt(words, codes[k] as number) + number : fail();
      }
    } else if (spec.type === "row") {
      for (let k = 0; k < this.count; k += 1) {
        const place = numbers[k] as number;
        texts[k] = place >= 0 ? wordAt(this.#ids, place) : place < -1 ? wordAt(words, -2 - place) : null;
      }
    } else return fail();
    return texts;
  }

  /** One list of a column, as long as there are rows; a number that is unknown is NaN, or what stands for it. */
  list(spec: JsonObject, field: "codes" | "numbers", count: number): Numbers {
    const list = spec[field];
    if (typeof list === "number") return view(this.bytes, list, count, field === "codes" ? "int" : spec.type);
    if (typeof list !== "string") return fail();
    const told = this.#rowsOf(spec.kinds);
    const numbers = parse(list, told === null ? count : told.length);
    if (spec.differences === true && field === "numbers") addUp(numbers);
    const all = told === null ? numbers : spread(numbers, told, count);
    if (spec.from === "start_ms") for (let k = 0; k < count; k += 1) all[k] = (all[k] as number) + Math.round(1000 * (this.#starts?.[k] ?? NaN) || 0);
    if (spec.thousandths === true) for (let k = 0; k < count; k += 1) all[k] = (all[k] as number) / 1000;
    return all;
  }

  /** The places of the rows of these kinds; null for all rows. */
  #rowsOf(kinds: unknown): number[] | null {
    if (kinds === undefined) return null;
    const told = new Set(Array.isArray(kinds) ? kinds : fail());
    const places: number[] = [];
    for (let k = 0; k < this.count; k += 1) if (told.has(this.#kinds[k])) places.push(k);
    return places;
  }
}

function fail(): never {
  throw new Unreadable();
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

function wordAt(words: readonly (string | null)[], place: number): string {
  return words[place] ?? fail();
}

function bytesOf(buffer: Bytes | undefined): Uint8Array {
  if (buffer === undefined) return new Uint8Array();
  return ArrayBuffer.isView(buffer) ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength) : new Uint8Array(buffer);
}

/** A list in a buffer: looked at in place, or copied where it does not begin at a multiple of its size. */
function view(bytes: Uint8Array, offset: number, count: number, type: unknown): Numbers {
  const List = type === "float" ? Float64Array : type === "flag" ? Uint8Array : Int32Array;
  const size = count * List.BYTES_PER_ELEMENT;
  if (!isCount(offset) || offset + size > bytes.length) return fail();
  const start = bytes.byteOffset + offset;
  if (start % List.BYTES_PER_ELEMENT === 0) return new List(bytes.buffer as ArrayBuffer, start, count);
  return new List(bytes.slice(offset, offset + size).buffer, 0, count);
}

/** A list that was written as a text: `1,,7*3` is 1, unknown, 7, 7, 7. */
function parse(text: string, count: number): Float64Array {
  const numbers = new Float64Array(count);
  if (count === 0) return text === "" ? numbers : fail();
  let at = 0;
  for (const item of text.split(",")) {
    const star = item.indexOf("*");
    const [word, times] = star < 0 ? [item, 1] : [item.slice(0, star), Number(item.slice(star + 1))];
    const value = word === "" ? NaN : Number(word);
    if (!isCount(times) || at + times > count || (word !== "" && !Number.isFinite(value))) return fail();
    numbers.fill(value, at, at + times);
    at += times;
  }
  return at === count ? numbers : fail();
}

/** Adds up differences, in place; what is unknown is passed over. */
function addUp(numbers: Float64Array): Float64Array {
  let last = 0;
  for (let k = 0; k < numbers.length; k += 1) {
    const step = numbers[k] as number;
    if (!Number.isNaN(step)) numbers[k] = last += step;
  }
  return numbers;
}

function spread(numbers: Float64Array, places: readonly number[], count: number): Float64Array {
  const all = new Float64Array(count).fill(NaN);
  places.forEach((place, k) => (all[place] = numbers[k] as number));
  return all;
}
