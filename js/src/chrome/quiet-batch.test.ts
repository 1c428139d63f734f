// @vitest-environment jsdom
// What a batch costs the page: nothing is written into it but what changed.

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { delta, row, wire } from "../testing/runs";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

/** What of the page is written while a batch of these rows comes. */
async function writesOf(n: number, rows: ReturnType<typeof row>[]): Promise<string[]> {
  const found: MutationRecord[] = [];
  const observer = new MutationObserver((records) => found.push(...records));
  observer.observe(page.place, { subtree: true, childList: true, attributes: true, characterData: true });
  page.kernel.post(wire(delta(n, n + 1, { rows })));
  await page.nextFrame();
  found.push(...observer.takeRecords());
  observer.disconnect();
  return found.map(({ type, target, attributeName }) => `${type} ${target.parentElement?.className} ${attributeName ?? target.nodeValue}`);
}

it("writes nothing where only bars changed", async () => {
  page.show();
  await page.nextFrame();
  const tool = row({ span_id: "z", kind: "tool", parent_id: "t", tool: "search", status: "running", start_ms: 950 });
  await writesOf(1, [tool]);
  const isClock = (write: string): boolean => /et-(time|clock)/.test(write);
  expect((await writesOf(2, [{ ...tool, status: "ok", end_ms: 990 }])).filter((write) => !isClock(write))).toEqual([]);
});

it("says what a task waits for as soon as that is known, though nothing else of its row changed", async () => {
  page.show();
  await page.nextFrame();
  const wait = row({ span_id: "w", kind: "wait", parent_id: "t", name: "rate limit", wait_kind: "rate_limit", status: "running", start_ms: 950 });
  await writesOf(1, [wait]);
  const cause = (): string | undefined => page.place.querySelector(".et-waits .et-hidden")?.textContent?.trim() ?? undefined;
  expect(cause()).toBe("rate limit");
  await writesOf(2, [{ ...wait, status: "ok", end_ms: 960 }]);
  expect(cause()).toBeUndefined();
});
