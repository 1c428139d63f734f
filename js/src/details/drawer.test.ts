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

it("lists what a row was scored", async () => {
  const rows = [row({ span_id: "t", kind: "task", name: "draft", start_ms: 0, end_ms: 900, score: 1, scores: [true, "warm"] })];
  page.kernel.snapshot = wire(snapshot({ run: run({ score_names: ["is_right", "tone"] }), phases: [], rows }));
  page.show();
  await page.nextFrame();
  page.place.querySelector<HTMLElement>(".et-row")?.click();
  await page.nextFrame();
  const facts = [...page.place.querySelectorAll(".et-facts-list > div")].map((fact) => fact.textContent);
  expect(facts).toEqual(expect.arrayContaining(["Score: is_rightpassed", "Score: tonewarm"]));
});

it("tells of no tokens and no price where plain code did the work", async () => {
  const rows = [
    row({ span_id: "h", kind: "task", name: "chop", agent: "Handler", start_ms: 0, end_ms: 900, input_tokens: 0, output_tokens: 0, cost: 0 }),
    row({ span_id: "m", kind: "task", name: "taste", agent: "Cook", start_ms: 0, end_ms: 900, input_tokens: 9, output_tokens: 2, cost: 0 }),
  ];
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows }));
  page.show();
  await page.nextFrame();
  const told = async (place: number): Promise<string> => {
    page.place.querySelectorAll<HTMLElement>(".et-row")[place]?.click();
    await page.nextFrame();
    return page.place.querySelector(".et-drawer")?.textContent ?? "";
  };
  const [plain, model] = [await told(0), await told(1)];
  for (const word of ["Tokens in", "Cost", "0 out", "$"]) expect(plain).not.toContain(word);
  for (const word of ["Tokens in", "Cost", "9 in · 2 out", "$0"]) expect(model).toContain(word);
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
  expect(drawer()).toContain("€0.750, all attempts");
  page.button("Tokens & cost")?.click();
  await page.nextFrame();
  for (const amount of ["€0.250", "€0.500", "€0.750"]) expect(page.place.querySelector("table")?.textContent).toContain(amount);
  expect(page.place.textContent).not.toContain("$");
});

it("calls a model call by what it did, in its head, its path, its links and the tables (W22)", async () => {
  page.show();
  await page.nextFrame();
  page.place.querySelectorAll<HTMLElement>(".et-row")[1]?.click();
  await page.nextFrame();
  const rows = page.place.querySelector<HTMLElement>(".et-gutter");
  rows?.focus();
  for (const key of ["ArrowRight", "ArrowRight"]) rows?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  await page.nextFrame();
  const steps = (): (string | null)[] => [...page.place.querySelectorAll(".et-path .et-step")].map((step) => step.textContent);
  expect(steps()).toEqual(["research", "web", "calls search, fetch", "attempt 2"]);
  page.place.querySelectorAll<HTMLElement>(".et-path button")[2]?.click();
  await page.nextFrame();
  expect(page.place.querySelector(".et-drawer")?.getAttribute("aria-label")).toBe("Details of calls search, fetch");
  page.button("Tokens & cost")?.click();
  await page.nextFrame();
  expect(page.place.querySelector(".et-drawer td button")?.textContent).toBe("calls search, fetch");
});

it("tells no tokens of a handler, which asks no model", async () => {
  const rows = [row({ span_id: "h", kind: "task", name: "score", agent: "Handler", start_ms: 0, end_ms: 900, input_tokens: 0, output_tokens: 0, cost: 0 })];
  page.kernel.snapshot = wire(snapshot({ run: run({ input_tokens: 0, output_tokens: 0 }), phases: [], rows }));
  page.show();
  await page.nextFrame();
  page.place.querySelector<HTMLElement>(".et-row")?.click();
  await page.nextFrame();
  expect(page.place.querySelector(".et-drawer-facts")?.textContent).toBe("900 ms");
  expect(page.place.querySelector(".et-drawer")?.textContent).not.toMatch(/Tokens|Cost/);
  expect(page.place.querySelector(".et-tokens")).toBeNull();
});

it("folds the reasoning before a reply, and shows it as it is", async () => {
  const messages = [{ role: "user", text: "Add" }, { role: "assistant", text: "It is 7.", reasoning: "<think>6? **no**</think>" }];
  const rows = [row({ span_id: "t", kind: "task", name: "add", start_ms: 0, end_ms: 900 }), row({ span_id: "c", kind: "llm", parent_id: "t", model: "m", start_ms: 0, end_ms: 900 })];
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows }));
  page.show();
  await page.nextFrame();
  page.place.querySelector<HTMLElement>(".et-row")?.click();
  await page.nextFrame();
  page.kernel.post({ kind: "details", span_id: "t", messages });
  await page.nextFrame();
  page.place.querySelector<HTMLElement>("[data-tab=messages]")?.click();
  await page.nextFrame();
  const folded = page.place.querySelector("details");
  expect([folded?.open, folded?.textContent]).toEqual([false, "Reasoning, no part of the reply<think>6? no</think>"]);
});

it.each([[null, ["task", "tool", "llm"]], ["langchain", ["llm"]]])("offers at a run of %s what can be tried with it", async (framework, offered) => {
  const rows = (["task", "tool", "llm"] as const).map((kind) => row({ span_id: kind, kind, name: kind, status: "ok", start_ms: 0, end_ms: 900 }));
  page.kernel.snapshot = wire(snapshot({ run: run({ status: "completed", framework }), phases: [], rows }));
  page.show();
  await page.nextFrame();
  const found: string[] = [];
  for (const [place, { kind }] of rows.entries()) {
    page.place.querySelectorAll<HTMLElement>(".et-row")[place]?.click();
    await page.nextFrame();
    if (page.place.querySelector(".et-drawer .et-try:not(.et-marks)")) found.push(kind);
  }
  expect(found).toEqual(offered);
});
