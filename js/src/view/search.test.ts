// Holds W9: what is looked for is found by its words, kind and status, and stands out.

import { beforeEach, expect, it } from "vitest";
import type { Store } from "../store/store";
import { delta, row, stored } from "../testing/runs";
import { View } from "./view";

let store: Store;
let view: View;

beforeEach(() => {
  store = stored();
  view = new View(store, new AbortController().signal);
});

const find = (words: string): string[] | undefined => {
  view.search.words.value = words;
  return view.search.found.value?.map((one) => one.span_id);
};

it("looks for nothing until asked, and lets all stand alike", () => {
  expect([view.search.found.value, view.highlighted.value, view.highlightedRows.value]).toEqual([null, null, null]);
});

it("finds names, agents, kinds, models, statuses and causes, all words of them, in the order of time", () => {
  expect(find("ana")).toEqual(["t"]);
  expect(find("tool call")).toEqual(["x", "y"]);
  expect(find("tool failed")).toEqual(["y"]);
  expect(find("GPT")).toEqual(["l"]);
  expect(find("429")).toEqual(["a1"]);
  expect(find("no such thing")).toEqual([]);
});

it("finds a model call by what it did", () => {
  expect(find("calls search")).toEqual(["l"]);
});

it("lists no turn, and an attempt only where it tells more than its call", () => {
  expect(find("attempt")).toEqual(["a1", "a2"]);
  expect(find("turn")).toEqual([]);
});

it("finds the texts that were loaded", () => {
  expect(find("high tide")).toEqual([]);
  store.keepDetails({ span_id: "l", messages: [{ role: "assistant", text: "At high Tide." }] });
  expect(find("high tide")).toEqual(["l"]);
});

it("filters by kind and status, alone or together", () => {
  view.search.toggleKind("tool");
  expect(view.search.found.value?.length).toBe(2);
  view.search.status.value = "error";
  expect(find("")).toEqual(["y"]);
  view.search.toggleKind("tool");
  view.search.toggleKind("llm");
  expect(find("")).toEqual([]);
  view.search.clear();
  expect(view.search.isActive).toBe(false);
});

it("finds what comes while it is looked for", () => {
  find("fetch");
  const more = row({ span_id: "z", kind: "tool", parent_id: "u", tool: "fetch", lane: 2, start_ms: 950 });
  store.fold(delta(1, 2, { rows: [more] }), 0);
  expect(view.search.found.value?.map((one) => one.span_id)).toEqual(["l", "y", "z"]);
});

it("lets what was found stand out, with its rows, and steps around", () => {
  find("tool call");
  expect([...(view.highlighted.value ?? [])]).toEqual(["x", "y"]);
  expect([...(view.highlightedRows.value ?? [])]).toEqual(["t"]);
  expect([view.search.next(null), view.search.next("x"), view.search.next("y"), view.search.next("x", -1)]).toEqual(["x", "y", "x", "y"]);
});

it("lets all that a task did stand out with it, and none of it where a kind or status is asked for", () => {
  find("ana");
  expect(view.highlighted.value?.has("y")).toBe(true);
  view.search.status.value = "running";
  expect([...(view.highlighted.value ?? [])]).toEqual(["t"]);
});

it("lets the critical path stand out once it is known", () => {
  view.isCriticalShown.value = true;
  expect(view.highlighted.value).toBeNull();
  store.fold(delta(1, 2, { rows: [row({ span_id: "x", kind: "tool", parent_id: "u", critical: true, start_ms: 500, end_ms: 800 })] }), 0);
  expect([...(view.highlighted.value ?? [])]).toEqual(["x"]);
});
