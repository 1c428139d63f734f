// @vitest-environment jsdom

// Holds W32 for the graph in the page of a run that goes on.

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { RECORDED } from "../testing/recorded";

let page: TestPage;

beforeEach(() => void (page = new TestPage()));
afterEach(() => page.close());

it("has the times of what goes on grow also while nothing is heard of it", async () => {
  const report = RECORDED.find(({ name }) => name === "report");
  if (!report) throw new Error("no such run");
  const { snapshot, deltas, saved } = report;
  page.kernel.snapshot = snapshot;
  page.show();
  await page.nextFrame();
  page.kernel.post(deltas[0]);
  page.kernel.post(deltas[1]);
  await page.nextFrame();
  page.button("Graph")?.click();
  await page.nextFrame();
  page.kernel.post({ kind: "graph", n: 1, graphs: saved.graphs });
  const figures = (): string[] => [...page.place.querySelectorAll('.et-node[data-status="running"] .et-node-figures')].map((each) => each.textContent ?? "");
  await page.nextFrame();
  await page.nextFrame();
  const before = figures();
  expect(before.length).toBeGreaterThan(0);
  for (let k = 0; k < 12; k += 1) await page.nextFrame();
  expect(figures()).not.toEqual(before);
});
