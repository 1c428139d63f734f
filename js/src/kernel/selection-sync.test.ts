// Holds W7: what is selected here is told to the kernel, and what is selected elsewhere shows here.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Selection } from "../store/selection";
import type { Outgoing, Selected } from "../wire/messages";
import { SelectionSync } from "./selection-sync";

let selection: Selection;
let sync: SelectionSync;
let sent: (Outgoing & { kind: "selection" })[];

beforeEach(() => {
  vi.useFakeTimers();
  sent = [];
  selection = new Selection();
  sync = new SelectionSync(selection, (message) => sent.push(message as never));
});
afterEach(() => void vi.useRealTimers());

const told = () => sent.map(({ kind: _kind, nonce: _nonce, ...changed }) => changed);
const heard = (more: Partial<Selected>): void => sync.receive({ spans: [], range: null, time: null, ...more });
const answer = (): void => heard({ spans: selection.spans.value, range: selection.range.value, time: selection.time.value, nonce: sent.at(-1)?.nonce ?? null });
const later = (): void => void vi.advanceTimersByTime(100);

it("tells only what has changed", () => {
  selection.spans.value = ["a"];
  later();
  answer();
  selection.range.value = { from: 1, to: 2 };
  expect(told()).toEqual([{ selection: ["a"] }, { range: [1, 2] }]);
  expect(new Set(sent.map(({ nonce }) => nonce)).size).toBe(2);
});

it("tells a drag at once, then at most ten times a second, and its end", () => {
  for (let to = 1; to <= 50; to += 1) {
    selection.range.value = { from: 0, to };
    vi.advanceTimersByTime(10);
  }
  later();
  expect(sent.length).toBeLessThanOrEqual(7);
  expect([sent[0]?.range, sent.at(-1)?.range]).toEqual([[0, 1], [0, 50]]);
});

it("shows what is selected elsewhere, and does not tell it back", () => {
  heard({ spans: ["b", "c"], range: { from: 3, to: 4 } });
  later();
  expect([selection.spans.value, selection.range.value, sent]).toEqual([["b", "c"], { from: 3, to: 4 }, []]);
});

it("keeps what was selected here while older news come, until the kernel has answered", () => {
  selection.spans.value = ["mine"];
  heard({ spans: ["older"] });
  heard({ spans: ["from another page"], nonce: 3 });
  expect(selection.spans.value).toEqual(["mine"]);
  answer();
  heard({ spans: ["newer"] });
  expect(selection.spans.value).toEqual(["newer"]);
});

it("keeps what was selected here since then, too", () => {
  selection.spans.value = ["first"];
  const { nonce } = sent[0] as { nonce: number };
  selection.spans.value = ["second"];
  heard({ spans: ["first"], nonce });
  expect(selection.spans.value).toEqual(["second"]);
  later();
  expect(told()).toEqual([{ selection: ["first"] }, { selection: ["second"] }]);
});

it("takes over what the kernel made of it", () => {
  selection.spans.value = ["known", "unknown"];
  heard({ spans: ["known"], nonce: sent[0]?.nonce ?? null });
  later();
  expect([selection.spans.value, sent.length]).toEqual([["known"], 1]);
});

it("says again what was not answered when the line is back, and nothing else", () => {
  sync.repeat();
  expect(sent).toEqual([]);
  selection.spans.value = ["a"];
  sync.repeat();
  expect(told()).toEqual([{ selection: ["a"] }, { selection: ["a"], range: null, time: null }]);
  answer();
  sync.repeat();
  expect(sent.length).toBe(2);
});

it("has no timer once it has told all", () => {
  selection.spans.value = ["a"];
  later();
  later();
  expect(vi.getTimerCount()).toBe(0);
});

it("keeps a row that stands for many, of which the kernel knows nothing", () => {
  selection.spans.value = ["a"];
  later();
  answer();
  selection.spans.value = ["rows:"];
  later();
  expect(told()).toEqual([{ selection: ["a"] }, { selection: [] }]);
  heard({ nonce: sent.at(-1)?.nonce ?? null });
  expect(selection.spans.value).toEqual(["rows:"]);
  heard({ spans: ["b"] });
  expect(selection.spans.value).toEqual(["b"]);
});

it("tells of no row that only this page knows: a strip of many, and a written task that nobody is told to have done", () => {
  selection.spans.value = ["rows:", "done:p", "work:m:1"];
  later();
  expect(told()).toEqual([]);
  selection.spans.value = ["work:m:1", "a"];
  later();
  expect(told()).toEqual([{ selection: ["a"] }]);
});

it("tells at which time the run is shown, and shows it at that of others", () => {
  selection.time.value = 1500;
  later();
  expect(told()).toEqual([{ time: 1500 }]);
  answer();
  heard({ time: 500 });
  expect(selection.time.value).toBe(500);
  heard({ time: null });
  expect([selection.time.value, sent.length]).toEqual([null, 1]);
});
