// @vitest-environment jsdom
// Holds W28: what a saved copy has only in part is named among what was not searched.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { renderSaved } from "../entry/saved-view";
import { TestPage } from "../testing/page";
import { run, snapshot, wire } from "../testing/runs";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function explain(more: object): Promise<string> {
  page.ends.push(renderSaved(page.place, { ...wire(snapshot({ run: run({ status: "completed" }) })), kind: "saved", details: {}, ...more }));
  const field = page.place.querySelector<HTMLInputElement>(".et-search input") as HTMLInputElement;
  field.value = "no such words";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await vi.dynamicImportSettled();
  await vi.advanceTimersByTimeAsync(300);
  await page.nextFrame();
  return page.place.querySelector(".et-hits .et-none")?.textContent ?? "";
}

it("names texts of which there is only a part, and conversations without their middle", async () => {
  const said = (name?: string): object => ({ messages: [{ role: "user", text: "Look.", name }], output: "Found." });
  const details = { l: { ...said(), lengths: { output: 90_000 } }, x: said("left_out"), y: said() };
  expect(await explain({ details })).toBe("Not searched, since not in the saved copy: the rest of long texts of 2 spans.");
});

it("names spans, texts and the rest of long ones together", async () => {
  const details = { l: { messages: [], lengths: { output: 90_000 } } };
  expect(await explain({ details, rows_left_out: 3, details_left_out: 1 })).toBe(
    "Not searched, since not in the saved copy: 3 spans, the texts of 1 span and the rest of long texts of 1 span.",
  );
});

it("says nothing where all was searched", async () => {
  expect(await explain({ details: { l: { messages: [], output: "Found." } } })).toBe("");
});
