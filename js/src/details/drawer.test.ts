// @vitest-environment jsdom

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

it("lists how a task was declared, whatever its fields are called", async () => {
  const settings = { timeout: "90 s", max_output_retries: 0, priority: true };
  const rows = [row({ span_id: "t", kind: "task", name: "draft", start_ms: 0, end_ms: 900, settings })];
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows }));
  page.show();
  await page.nextFrame();
  page.place.querySelector<HTMLElement>(".et-row")?.click();
  await page.nextFrame();
  const facts = [...page.place.querySelectorAll(".et-facts-list > div")].map((fact) => fact.textContent);
  expect(facts).toEqual(expect.arrayContaining(["Timeout90 s", "Max output retries0", "Prioritytrue"]));
});

it("words money in the currency of the run, in its head, its facts and its tables", async () => {
  const rows = [
    row({ span_id: "t", kind: "task", name: "draft", start_ms: 0, end_ms: 900, cost: 0.75, currency: "EUR", input_tokens: 4100 }),
    row({ span_id: "a", kind: "llm", parent_id: "t", model: "gpt", start_ms: 0, end_ms: 400, cost: 0.25, currency: "EUR" }),
    row({ span_id: "b", kind: "llm", parent_id: "t", model: "gpt", start_ms: 400, end_ms: 900, cost: 0.5, currency: "EUR" }),
  ];
  page.kernel.snapshot = wire(snapshot({ run: run({ currency: "EUR" }), phases: [], rows }));
  page.show();
  await page.nextFrame();
  page.place.querySelector<HTMLElement>(".et-row")?.click();
  await page.nextFrame();
  const drawer = (): string => page.place.querySelector(".et-drawer")?.textContent ?? "";
  expect(page.place.querySelector(".et-drawer-facts")?.textContent).toContain("€0.750");
  expect(drawer()).toContain("Σ €0.750");
  page.button("Tokens & cost")?.click();
  await page.nextFrame();
  for (const amount of ["€0.250", "€0.500", "€0.750"]) expect(page.place.querySelector("table")?.textContent).toContain(amount);
  expect(page.place.textContent).not.toContain("$");
});
