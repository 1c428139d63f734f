// @vitest-environment jsdom

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { run, snapshot, wire } from "../testing/runs";
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

it("labels a replayed run", async () => {
  await show({ replayed_from: "night.yaml" });
  const badge = page.place.querySelector<HTMLElement>(".et-badge");
  expect([badge?.textContent, badge?.title]).toEqual(["replayed", "No model was asked: night.yaml answered"]);
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
