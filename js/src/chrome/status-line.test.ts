// @vitest-environment jsdom

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import type { Run } from "../wire/rows";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function show(state: Partial<Run>): Promise<void> {
  page.kernel.snapshot = wire(snapshot({ run: run(state) }));
  page.show();
  await page.nextFrame();
}

describe("the budget", () => {
  const limits = { max_cost: 1, max_tokens: 20_000, cost: 0.218, tokens: 12_400, share: 0.62, warn_at: 0.8, currency: "USD" };
  const shown = (): HTMLElement | null => page.place.querySelector(".et-budget");

  it("shows the limit that is nearest, and the cost beside it", async () => {
    await show({ budget: limits, cost: 0.218 });
    expect(shown()?.textContent).toBe("12.4k of 20k tok");
    expect(shown()?.querySelector('[role="meter"]')?.getAttribute("aria-valuenow")).toBe("62");
    expect(page.place.querySelector(".et-cost")?.textContent).toBe("$0.218");
  });

  it("is worded in its own currency", async () => {
    await show({ budget: { ...limits, max_tokens: null, currency: "EUR" }, currency: "EUR" });
    expect(shown()?.textContent).toBe("€0.218 of €1.00");
  });

  it("does not say the cost twice, and warns in colour and sign", async () => {
    await show({ budget: { ...limits, max_tokens: null, cost: 0.9 }, cost: 0.9 });
    expect(shown()?.textContent).toBe("⚠ $0.900 of $1.00");
    expect(shown()?.dataset.level).toBe("near");
    expect(page.place.querySelector(".et-cost")).toBeNull();
  });
});

it.each<[string, boolean[], string]>([
  ["a script alone", [true], "scripted model"],
  ["a script and a model", [true, false], "scripted and real models"],
])("says in its badge whose replies they are, of %s", async (_, calls, words) => {
  const task = row({ span_id: "t", kind: "task", start_ms: 0 });
  const rows = calls.map((is_scripted, k) => row({ span_id: `l${k}`, kind: "llm", parent_id: "t", is_scripted, start_ms: k, end_ms: k + 1 }));
  page.kernel.snapshot = wire(snapshot({ run: run({ is_scripted: true }), rows: [task, ...rows] }));
  page.show();
  await page.nextFrame();
  expect([...page.place.querySelectorAll(".et-badge")].map((badge) => badge.textContent)).toContain(words);
});

it.each([["row", "3/1,000 rows"], ["variant", "3/1,000 variants"], ["task", "3/1,000 tasks"]])("counts what a run is of: %s", async (noun, words) => {
  await show({ task_noun: noun, tasks_done: 3, tasks_total: 1000 });
  expect(page.place.querySelector(".et-tasks")?.textContent).toBe(words);
  expect(page.place.querySelector("[role=progressbar]")?.getAttribute("aria-valuetext")).toBe(words.replace("/", " of ") + " done");
});

it("labels a replayed run", async () => {
  await show({ replayed_from: "night.yaml" });
  const badge = page.place.querySelector<HTMLElement>(".et-badge");
  expect([badge?.textContent, badge?.title]).toEqual(["replayed", "No model was asked: night.yaml answered"]);
});

it("says of a demo in one badge that a scripted team was recorded (C101)", async () => {
  await show({ replayed_from: "demo report", is_scripted: true });
  const badges = [...page.place.querySelectorAll<HTMLElement>(".et-badge")];
  expect(badges.map((badge) => [badge.textContent, badge.title])).toEqual([["recorded from a scripted team", "No model was asked: demo report answered"]]);
});

it("labels no other run as replayed", async () => {
  await show({});
  expect(page.place.textContent).not.toContain("replayed");
});

it.each([
  ["completed_with_warnings", "Completed with warnings", ""],
  ["budget_exceeded", "Budget exceeded", "too little for the next model call. 2 tasks did not run"],
  ["exited_early", "Ended early", "nothing new started"],
] as const)("has a state for %s", async (status, word, note) => {
  await show({ status, tasks_skipped: 2 });
  expect(page.place.querySelector(".et-word")?.textContent).toBe(word);
  expect(page.place.textContent).toContain(note);
});

it("says settled, and not skipped, of rows that were not needed", async () => {
  await show({ status: "completed", task_noun: "run", tasks_skipped: 5, tasks_settled: 3, sentence: null });
  expect(page.place.querySelector(".et-now")?.textContent).toBe("2 skipped · 3 settled");
});

it("says how many tasks are done as long as no sentence says it", async () => {
  await show({});
  expect(page.place.querySelector(".et-tasks")?.textContent).toBe("0/2 tasks");
  page.kernel.post(wire(delta(1, 2, { run: run({ status: "completed", sentence: "2 tasks in 6.5 s" }) })));
  await page.nextFrame();
  expect(page.place.querySelector(".et-facts")?.textContent).toBe("2 tasks in 6.5 s");
});

it("says aloud whose timeline it is, what runs without its sign, and how far the run is (W10)", async () => {
  await show({});
  const tool = row({ span_id: "x", kind: "tool", parent_id: "u", tool: "search", status: "running", start_ms: 500 });
  page.kernel.post(wire(delta(1, 2, { rows: [tool], run: run({ active: [tool], tasks_done: 1 }) })));
  await page.nextFrame();
  const said = (selector: string, attribute = "aria-label") => page.place.querySelector(selector)?.getAttribute(attribute);
  expect(page.place.querySelector("header")).toBeNull(); // it would be the banner of the whole page
  expect(said(".ensemble-timeline")).toBe("Timeline of report");
  const button = page.place.querySelector(".et-now button")?.cloneNode(true) as Element;
  for (const unsaid of button.querySelectorAll("[aria-hidden]")) unsaid.remove();
  expect(button.textContent).toBe("web search");
  expect(said(".et-progress", "aria-valuetext")).toBe("1 of 2 tasks done");
  const label = page.place.querySelector(".et-row-task .et-label")?.cloneNode(true) as Element;
  for (const unsaid of label.querySelectorAll("[aria-hidden]")) unsaid.remove();
  expect(label.textContent).toBe("web, Ana Lopez");
});

it("says how far the run had come when the kernel went, and of rows that nothing is known of them since (W15, W24)", async () => {
  const task = { span_id: "t", kind: "task", name: "web" } as const;
  await show({ active: [{ ...task }] });
  expect(page.place.querySelector('.et-row[data-status="running"]')).not.toBeNull();
  for (const act of page.kernel.acts.get("comm:close") ?? []) act();
  await page.nextFrame();
  expect(page.place.querySelector(".et-now")?.textContent).toMatch(/^interrupted, \d+:\d\d [AP]M · 0 of 2 tasks · 1\.\d s$/);
  expect(page.place.querySelectorAll('.et-row[data-status="running"], .et-icon-running').length).toBe(0);
  expect(page.place.querySelectorAll('.et-row[data-status="unknown"]').length).toBe(2);
});

it("counts the items that are at work, by which the bar is filled, those that failed beside it (W25)", async () => {
  await show({ tasks_done: 1, tasks_total: 2, elapsed_ms: 3974, many: { total: 1700, done: 148, failed: 3, start_ms: 0 } });
  expect(page.place.querySelector(".et-tasks")?.textContent).toMatch(/^151 of 1,700 · \d\d\/s · about 40 s left$/);
  const bar = page.place.querySelector("[role=progressbar]");
  expect(bar?.getAttribute("aria-valuetext")).toBe("148 of 1,700 items done");
  const parts = [...page.place.querySelectorAll<HTMLElement>(".et-progress i")].map((part) => [part.dataset.part, parseFloat(part.style.width).toFixed(1)]);
  expect(parts).toEqual([["done", "8.7"], ["failed", "0.2"]]);
});

it.each([[true, 1], [null, 1], [false, 0]])("offers to resume where the store has the run, or nobody said: %s (W30)", async (is_resumable, count) => {
  await show({ status: "failed", is_resumable, tasks_done: 4, tasks_total: 8, cost: 0.021 });
  const offers = [...page.place.querySelectorAll(".et-resume")].map((each) => each.textContent);
  expect(offers).toEqual(Array(count).fill("Resume with %ensemble resume r1 -o report4 of 8 done, $0.021 kept"));
});

it("says nothing of money where none was spent", async () => {
  await show({ status: "interrupted", tasks_done: 4, tasks_total: 8, cost: 0 });
  expect(page.place.querySelector(".et-keeps")?.textContent).toBe("4 of 8 done");
});
