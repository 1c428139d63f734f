// Holds W28: what is looked for is found by its words in names and texts, narrowed by fields, kind and status; what does not
// fit is hidden, or dimmed.

import { beforeEach, expect, it } from "vitest";
import type { Store } from "../store/store";
import { delta, row, stored } from "../testing/runs";
import * as finder from "./finder";
import { View } from "./view";

let store: Store;
let view: View;

beforeEach(() => {
  store = stored();
  view = new View(store, new AbortController().signal);
  view.search.finder.value = finder;
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

it("finds the texts of this page where they arose, with what is around them", () => {
  expect(find("high tide")).toEqual([]);
  const asked = { role: "user", text: "When is it?" };
  store.keepDetails({ span_id: "l", messages: [asked, { role: "assistant", text: "At high Tide." }] });
  store.keepDetails({ span_id: "t", messages: [asked, { role: "assistant", text: "At high Tide." }], output: "At high Tide." });
  expect(find("high tide")).toEqual(["l"]);
  expect(view.search.result.value?.snippets.get("l")).toBe("At high Tide.");
  expect(find("\"when is it\"")).toEqual(["t"]);
});

it("finds what the kernel has found, word by word", () => {
  expect(find("vendor lookup")).toEqual([]);
  const spans = new Map([["x", { words: [0, 1], snippet: "…the vendor lookup…" }], ["y", { words: [0], snippet: "vendor" }]]);
  store.keepHits({ words: ["vendor", "lookup"], n: 1, spans });
  expect(find("vendor lookup")).toEqual(["x"]);
  expect(view.search.result.value?.snippets.get("x")).toBe("…the vendor lookup…");
  expect(find("vendor fetch")).toEqual([]);
});

it("is narrowed by fields and amounts, and one that is being written asks for nothing", () => {
  expect(find("tool:fetch")).toEqual(["y"]);
  expect(find("kind:tool status:failed")).toEqual(["y"]);
  expect(find('agent:"ana lopez"')).toEqual(["t"]);
  expect(find("time>=0.39")).toEqual(["l", "y"]);
  expect(find("time<0.2")).toEqual(["a2"]);
  expect(find("cost>0.01")).toEqual([]);
  expect(find("tool:")?.length).toBe(view.search.result.value?.total);
  expect(find("http://tides.example")).toEqual([]);
});

it("hides the rows without a hit, and the bars that are none, and dims them where a person wants that", () => {
  const rows = (): string[] => view.layout.value.tracks.map((track) => track.id);
  const bars = (): string[] => view.layout.value.tracks.flatMap((track) => track.marks.map((mark) => mark.row.span_id));
  expect(rows()).toEqual(["p", "t", "g"]);
  find("tool:fetch");
  expect(rows()).toEqual(["p", "t"]);
  expect(bars()).toEqual(["p", "t", "y"]);
  view.search.isDimming.value = true;
  expect(rows()).toEqual(["p", "t", "g"]);
  view.search.isDimming.value = false;
  view.goTo("g");
  expect([view.search.isDimming.value, rows()]).toEqual([true, ["p", "t", "g"]]);
});

it("opens what is folded where something in it fits, and folds it again", () => {
  view.toggle("p");
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["p"]);
  find("tool:fetch");
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["p", "t"]);
  view.toggle("p");
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["p"]);
  view.search.clear();
  expect(view.layout.value.tracks.map((track) => track.id)).toEqual(["p"]);
});

it("filters by kind and status, alone or together", () => {
  view.search.kinds.value = new Set(["tool"]);
  expect(view.search.found.value?.length).toBe(2);
  view.search.status.value = "error";
  expect(find("")).toEqual(["y"]);
  view.search.kinds.value = new Set(["llm"]);
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
