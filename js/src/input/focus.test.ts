// @vitest-environment jsdom

import { afterEach, beforeEach, expect, it } from "vitest";
import { holdFocus } from "./focus";

let end: AbortController;
let rows: HTMLElement;
let stop: HTMLElement;

const later = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

beforeEach(() => {
  document.body.innerHTML = '<button id="cell"></button><div id="view"><div id="rows" tabindex="0"></div><p><button id="stop"></button></p></div>';
  const [view, found, button] = ["view", "rows", "stop"].map((id) => document.getElementById(id) as HTMLElement) as [HTMLElement, HTMLElement, HTMLElement];
  [rows, stop, end] = [found, button, new AbortController()];
  holdFocus(view, () => rows, end.signal);
});
afterEach(() => end.abort());

it("gives the focus to the rows when the button that has it goes, also long after it was pressed", async () => {
  stop.focus();
  await later();
  expect(document.activeElement).toBe(stop);
  stop.parentElement?.remove();
  await later();
  expect(document.activeElement).toBe(rows);
});

it("leaves the focus to a person who went elsewhere", async () => {
  stop.focus();
  document.getElementById("cell")?.focus();
  await later();
  stop.remove();
  await later();
  expect(document.activeElement?.id).toBe("cell");
  document.getElementById("cell")?.blur();
  await later();
  expect(document.activeElement).toBe(document.body);
});

it("takes nothing back from a person who let go of it", async () => {
  stop.focus();
  stop.blur();
  await later();
  stop.remove();
  await later();
  expect(document.activeElement).toBe(document.body);
});
