// Rows that come as columns: what can't be read is told as such, and never throws (W16).

import { describe, expect, it } from "vitest";
import { bytesOf, RECORDED, type Recorded } from "../testing/recorded";
import { readMessage, readSaved } from "./reader";

const report = RECORDED.find((one) => one.name === "report") as Recorded;
const bytes = bytesOf(report.packed.buffers[0] as string);
type Spec = Record<string, unknown> & { name: string; type: string };
const head = () => structuredClone(report.packed.head) as Record<string, unknown> & { columns: Spec[]; count: number };
const saved = () => structuredClone(report.saved) as Record<string, unknown> & { columns: Spec[]; count: number };
const column = (message: { columns: Spec[] }, name: string): Spec => message.columns.find((spec) => spec.name === name) as Spec;
const ids = (rows: readonly { span_id: string }[]): string[] => rows.map((row) => row.span_id);
const all = ids(report.final.rows as { span_id: string }[]);

/** Numbers that look random, the same each time. */
function* dice(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

it("reads a buffer wherever it begins in its memory, as any kind of view", () => {
  for (const shift of [0, 1, 4, 8]) {
    const memory = new Uint8Array(bytes.length + shift);
    memory.set(bytes, shift);
    for (const part of [memory.subarray(shift), new DataView(memory.buffer, shift)]) {
      expect(readMessage(head(), [part])).toMatchObject({ kind: "snapshot", rows: report.final.rows });
    }
  }
  expect(readMessage(head(), [bytes.slice().buffer])).toMatchObject({ rows: report.final.rows });
});

it("reads a delta whose rows come as columns", () => {
  const message = { ...head(), kind: "delta", from: 1 };
  expect(readMessage(message, [bytes])).toMatchObject({ kind: "delta", from: 1, rows: report.final.rows });
});

it("has no rows where there are none", () => {
  expect(readMessage({ ...head(), count: 0, columns: [] }, [])).toMatchObject({ kind: "snapshot", rows: [] });
});

describe("what can't be read", () => {
  it.each<[string, (message: ReturnType<typeof head>) => void]>([
    ["no count", (message) => Object.assign(message, { count: "7" })],
    ["a count that is too large", (message) => Object.assign(message, { count: 1e12 })],
    ["a negative count", (message) => Object.assign(message, { count: -1 })],
    ["more rows than the buffer has", (message) => Object.assign(message, { count: message.count + 1000 })],
    ["no list of columns", (message) => Object.assign(message, { columns: { length: 3 } })],
    ["no names", (message) => message.columns.splice(message.columns.indexOf(column(message, "name")), 1)],
    ["an offset behind the end", (message) => (column(message, "start_ms").numbers = 1e9)],
    ["a negative offset", (message) => (column(message, "start_ms").numbers = -8)],
    ["an offset between two bytes", (message) => (column(message, "start_ms").numbers = 0.5)],
    ["too few words", (message) => (column(message, "name").words as string[]).splice(1)],
    ["words that are none", (message) => (column(message, "name").words = [1, 2, 3])],
    ["a record of a row that is not there", (message) => ((column(message, "depends_on").at as number[])[0] = 1e6)],
    ["more records than places", (message) => (column(message, "depends_on").values as unknown[]).push({})],
    ["texts under the name of a number", (message) => Object.assign(column(message, "start_ms"), { type: "word", words: ["a"] })],
    ["numbers under the name of a text", (message) => (column(message, "agent").type = "int")],
  ])("%s", (_, spoil) => {
    const message = head();
    spoil(message);
    expect(readMessage(message, [bytes]).kind).toBe("bad");
  });

  it.each<[string, (message: ReturnType<typeof saved>) => void]>([
    ["too many items", (message) => (column(message, "status").codes = `0*${message.count + 1}`)],
    ["too few items", (message) => (column(message, "status").codes = `0*${message.count - 1}`)],
    ["items without end", (message) => (column(message, "status").codes = "0*1e300")],
    ["half an item", (message) => (column(message, "status").codes = `0*${message.count - 0.5}`)],
    ["items that are no numbers", (message) => (column(message, "status").codes = `x*${message.count}`)],
    ["endless numbers", (message) => (column(message, "start_ms").numbers = `Infinity*${message.count}`)],
    ["words that are not there", (message) => (column(message, "status").codes = `99*${message.count}`)],
    ["kinds that are no list", (message) => (column(message, "tool").kinds = 5)],
    ["an offset without a buffer", (message) => (column(message, "status").codes = 0)],
  ])("a saved view with %s", (_, spoil) => {
    const message = saved();
    spoil(message);
    expect(readSaved(message).kind).toBe("bad");
  });

  it("is never more than what was asked for, wherever the buffer ends or a byte is wrong", () => {
    const roll = dice(7);
    const next = () => roll.next().value as number;
    for (let k = 0; k < 300; k += 1) {
      const broken = k % 2 ? bytes.slice(0, Math.floor(next() * bytes.length)) : bytes.slice();
      if (k % 2 === 0) for (let times = 0; times < 9; times += 1) broken[Math.floor(next() * broken.length)] = Math.floor(next() * 256);
      const read = readMessage(head(), [broken]);
      expect(["bad", "snapshot"]).toContain(read.kind);
      if (read.kind === "snapshot") expect(read.rows.length).toBeLessThanOrEqual(all.length);
    }
  });
});

it("takes no column that is none of a row's", () => {
  const message = saved();
  message.columns.push({ name: "__proto__", type: "record", at: "0", values: [{ polluted: true }] });
  message.columns.push({ name: "constructor", type: "record", at: "0", values: [{}] });
  const read = readSaved(message);
  if (read.kind === "bad") throw new Error(read.why);
  expect(ids(read.rows)).toEqual(all);
  expect((read.rows[0] as unknown as Record<string, unknown>).polluted).toBeUndefined();
  expect(Object.hasOwn(read.rows[0] as object, "constructor")).toBe(false);
});

it("drops the rows that could not be shown and keeps the rest", () => {
  const message = head();
  const statuses = column(message, "status").words as string[];
  statuses[statuses.indexOf("error")] = "odd";
  const read = readMessage(message, [bytes]);
  const wrong = (report.final.rows as { status: string }[]).filter((row) => row.status === "error").length;
  expect(wrong).toBeGreaterThan(0);
  expect(read.kind === "snapshot" && read.rows.length).toBe(all.length - wrong);
});
