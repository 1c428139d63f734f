// @vitest-environment jsdom

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function showTasks(count: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, k) => row({ span_id: `t${k}`, kind: "task", start_ms: k, end_ms: k + 1 }));
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows }));
  page.show();
  await page.nextFrame();
}

const press = (key: string): unknown => page.place.querySelector(".et-gutter")?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const height = (): number => Number.parseInt(page.place.querySelector<HTMLElement>(".et-chart")?.style.height ?? "", 10);

it("is as high as its rows, with room for two, and ends at 500 pixels", async () => {
  await showTasks(1);
  expect(height()).toBe(86);
  await page.close();
  page = new TestPage();
  await showTasks(4);
  const four = height();
  expect(four).toBeGreaterThan(100);
  expect(four).toBeLessThan(180);
  await page.close();
  page = new TestPage();
  await showTasks(60);
  expect(height()).toBe(500);
});

it("has room for a table of a few rows while that is shown, and none left over afterwards", async () => {
  await showTasks(2);
  press("t");
  await page.nextFrame();
  expect(height()).toBe(230);
  press("t");
  await page.nextFrame();
  expect(height()).toBe(86);
});

it("says once what a startup is that has a row of its own", async () => {
  const wait = row({ span_id: "w", kind: "wait", name: "Starting a model", wait_kind: "startup", status: "running", start_ms: 0 });
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows: [row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9 }), wait] }));
  page.show();
  await page.nextFrame();
  expect([...page.place.querySelectorAll(".et-row")].map((one) => one.textContent).join().match(/Starting a model/g)).toHaveLength(1);
});

it("says in the table whose call a call is", async () => {
  const rows = [
    row({ span_id: "c", kind: "llm", name: "gpt", model: "gpt", task: "gather", start_ms: 0, end_ms: 9 }),
    row({ span_id: "t", kind: "task", name: "gather", task: "gather", start_ms: 1, end_ms: 9 }),
  ];
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows }));
  page.show();
  await page.nextFrame();
  press("t");
  await page.nextFrame();
  const name = (): string | null | undefined => page.place.querySelector('.et-grid-body [data-column="name"]')?.textContent;
  expect(name()).toBe("◆gptgather");
  page.button("Start")?.click();
  await page.nextFrame();
  expect(name()).toBe("▪gather");
});
