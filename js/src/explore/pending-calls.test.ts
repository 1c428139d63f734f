// @vitest-environment jsdom

// Holds W166: what a run has left waiting, and the code that answers it.

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { ROWS, run, snapshot, wire } from "../testing/runs";
import type { PendingCall, Run } from "../wire/rows";

const HOSTILE = "<img src=x onerror=alert(1)>";
const calls = (count: number): PendingCall[] =>
  Array.from({ length: count }, (_, k) => ({ id: `r.${k}`, span_id: "x", text: `refund(order="${HOSTILE}")`, since: "2026-11-21T14:03:00Z", agent: "Ana", task: "web" }));

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function show(pending: unknown, more: Partial<Run> = {}): Promise<HTMLElement | null> {
  page.kernel.snapshot = wire(snapshot({ run: run({ status: "exited_early", pending: pending as Run["pending"], ...more }), rows: ROWS }));
  page.show();
  await page.nextFrame();
  return page.place.querySelector(".et-pending");
}

const CODE = "report.ensemble.run(resume=report, answers={})";
const code = (): string => page.place.querySelector(".et-pending p code")?.textContent ?? "";

async function choose(place: number, answer: string): Promise<void> {
  const select = page.place.querySelectorAll<HTMLSelectElement>(".et-pending select")[place] as HTMLSelectElement;
  select.value = answer;
  select.dispatchEvent(new Event("change", { bubbles: true }));
  await page.nextFrame();
}

it("is listed as text, and the code has the answers that were chosen", async () => {
  const panel = await show({ count: 2, calls: calls(2), code: CODE });
  expect(panel?.textContent).toContain("2 calls wait for an answer");
  expect(panel?.textContent).toContain(HOSTILE);
  expect(panel?.querySelector("img")).toBeNull();
  expect(code()).toBe('report.ensemble.run(resume=report, answers={"r.0": "approve"})');
  await choose(1, "reject");
  expect(code()).toBe('report.ensemble.run(resume=report, answers={"r.0": "approve", "r.1": "reject"})');
  await choose(0, "");
  await choose(1, "");
  expect(page.place.querySelector(".et-pending")?.textContent).toContain("Choose an answer");
});

it("says how many more there are than stand here", async () => {
  const panel = await show({ count: 300, calls: calls(100), code: CODE });
  expect(panel?.textContent).toContain("300 calls wait for an answer");
  expect(panel?.textContent).toContain("and 200 more: report.pending");
});

it.each([[null], ["odd"], [{ count: 1, calls: "odd", code: 5 }], [{ count: 1, calls: [5, { id: 5 }] }]])("shows nothing of %j", async (pending) => {
  expect(await show(pending)).toBeNull();
  expect(page.place.querySelector(".et-gutter")).not.toBeNull();
});

it("is not there while the run goes on", async () => {
  expect(await show({ count: 1, calls: calls(1), code: CODE }, { status: "running" })).toBeNull();
});
