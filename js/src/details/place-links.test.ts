// @vitest-environment jsdom

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(async () => {
  location.hash = "";
  await page.close();
});

function show(id: string): void {
  page.kernel.snapshot = wire(snapshot({
    run: run({ run_id: id }), phases: [],
    rows: [row({ span_id: `${id}.1`, kind: "task", name: "draft", start_ms: 0, end_ms: 900 }), row({ span_id: `${id}.2`, kind: "task", name: "polish", start_ms: 900, end_ms: 1800 })],
  }));
  page.show();
}

const selected = (): string | undefined => page.place.querySelector(".et-drawer .et-step:last-child")?.textContent ?? undefined;

async function follow(hash: string): Promise<void> {
  location.hash = hash;
  for (let frame = 0; frame < 4; frame += 1) await page.nextFrame();
}

it("leads to the span that the address of the page names, and to the next one that it names (W126)", async () => {
  location.hash = "#run-span=r1.2";
  show("r1");
  await follow("#run-span=r1.2");
  expect(selected()).toContain("polish");
  await follow("#run-span=r1.1");
  expect(selected()).toContain("draft");
});

it("marks the time that the address names, in the run that it is of (W126)", async () => {
  show("r2");
  await follow("#run-range=r1:100-300");
  expect(page.place.querySelector(".et-range-handle")).toBeNull();
  await follow("#run-range=r2:100-300");
  const marked = [...page.place.querySelectorAll(".et-range-handle")].map((handle) => handle.getAttribute("aria-valuenow"));
  expect(marked).toEqual(["100", "300"]);
});

it("passes over the headings of a page and spans of other runs (W126)", async () => {
  show("r3");
  await follow("#Results");
  await follow("#run-span=r7.1");
  expect(selected()).toBeUndefined();
});
