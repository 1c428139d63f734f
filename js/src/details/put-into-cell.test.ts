// @vitest-environment jsdom
import { h, render } from "preact";
import { act } from "preact/test-utils";
import { expect, it } from "vitest";
import type { View } from "../view/view";
import { PutIntoCell, type SourceAnswer } from "./put-into-cell";

const EDIT = {
  where: "goal of agent 'Critic'", source: "%%ensemble\n- b", change: { cell_id: "c", options: "", before: "- a", after: "- b" },
  lines: [["-", [["- ", false], ["<b>a</b>", true]]], ["+", [["- ", false], ["b", true]]]], notes: [],
};

async function press(writeBelow: View["writeBelow"], answer: SourceAnswer): Promise<HTMLElement> {
  const place = document.createElement("div");
  document.body.append(place);
  await act(() => render(h(PutIntoCell, { view: { writeBelow } as View, ask: (hear) => hear(answer) }), place));
  await act(() => place.querySelector("button")?.click());
  return place;
}

const button = (place: HTMLElement, name: string) => [...place.querySelectorAll("button")].find((each) => each.textContent === name);

it("writes nothing before a person has seen the diff, and shows what a cell says as text", async () => {
  const written: unknown[] = [];
  const place = await press((source, change) => (written.push([source, change]), "changed"), { source: EDIT });
  expect(place.querySelector("[data-sign=removed] mark")?.textContent).toBe("<b>a</b>");
  expect(written).toEqual([]);
  await act(() => button(place, "Apply")?.click());
  expect(written).toEqual([["%%ensemble\n- b", EDIT.change]]);
  expect(place.textContent).toContain("The cell is changed.");
  expect(button(place, "Apply")).toBeUndefined();
});

it("gives the text to copy where the page has no cells", async () => {
  const place = await press(null, { source: EDIT });
  expect(button(place, "Apply")).toBeUndefined();
  expect(place.textContent).toContain("This page can't change cells");
  expect(button(place, "Copy")).toBeDefined();
});

it.each([
  [{ source: { refusal: "reply= has no place" } }, "reply= has no place"],
  [{ error: "The kernel is gone" }, "The kernel is gone"],
  [{}, "The kernel gave no text."],
])("says why there is none: %j", async (answer, why) => {
  const place = await press(() => "below", answer);
  expect(place.querySelector("[role=alert]")?.textContent).toBe(why);
  expect(button(place, "Apply")).toBeUndefined();
  await act(() => button(place, "Close")?.click());
  expect(place.querySelector("section")).toBe(null);
});

it("says that a notebook that can't be changed was not", async () => {
  const place = await press(() => null, { source: EDIT });
  await act(() => button(place, "Apply")?.click());
  expect(place.textContent).toContain("Nothing was written");
});

it("asks once while the kernel has not answered, and shows nothing of what it was asked before another call was made", async () => {
  const place = document.createElement("div");
  const heard: ((answer: SourceAnswer) => void)[] = [];
  const show = (feed: string) => act(() => render(h(PutIntoCell, {
    key: feed, view: { writeBelow: () => "changed" } as unknown as View, ask: (hear) => void heard.push(hear),
  }), place));
  const ask = () => act(() => place.querySelector("button")?.click());
  await show("first");
  await ask();
  await ask();
  expect(heard.length).toBe(1);
  await show("second");
  await act(() => heard[0]?.({ source: EDIT }));
  expect(place.querySelector("section")).toBe(null);
  await ask();
  await act(() => heard[1]?.({ source: { ...EDIT, where: "of the second" } }));
  expect(place.querySelector("h4")?.textContent).toContain("of the second");
});
