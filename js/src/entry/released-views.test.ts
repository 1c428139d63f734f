// @vitest-environment jsdom
/// <reference types="vite/client" />
// Views that released versions have saved in notebooks still open. What made them is in tests/fixtures/README.md.

import type { Row } from "../wire/rows";
import { nameOf } from "../wording/labels";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { readSaved } from "../wire/reader";
import { renderSaved } from "./saved-view";

interface Released {
  run: { name: string };
  rows: Row[];
  details: Record<string, unknown>;
}

const files = import.meta.glob<string>("../../../tests/fixtures/*/*.view.json", { query: "?raw", import: "default", eager: true });
const views = Object.entries(files).map(([path, text]): [string, Released] => [
  path.split("/").slice(-2).join("/"),
  (JSON.parse(text) as Record<string, Released>)["application/vnd.ensemble.trace+json"] as Released,
]);

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

it("knows the views of 0.1.0", () => {
  expect(views.map(([name]) => name)).toContain("0.1.0/report.view.json");
});

describe.each(views)("%s", (_, view) => {
  it("is read whole: no row and no details are lost", () => {
    const saved = readSaved(view);
    expect(saved).toMatchObject({ kind: "saved", run: { name: view.run.name } });
    if (saved.kind !== "saved") return;
    expect(saved.rows.map((row) => row.span_id)).toEqual(view.rows.map((row) => row.span_id));
    // Under "*" stands the log of the whole run, which these views do not have.
    expect(Object.keys(saved.details).filter((key) => key !== "*")).toEqual(Object.keys(view.details));
  });

  it("shows its run and its tasks", async () => {
    renderSaved(page.place, view);
    await page.nextFrame();
    const text = page.place.textContent ?? "";
    expect(text).toContain(view.run.name);
    for (const row of view.rows.filter((each) => each.kind === "task")) expect(text).toContain(nameOf(row));
  });
});

/** The view with `share` of its rows in other rows, whichever: in themselves, in what is in them, a phase in a call. */
function entangle(view: Released, seed: number, share: number): Released {
  let state = seed;
  const draw = (below: number): number => ((state = (state * 48271) % 2147483647) / 2147483647) * below;
  const ids = view.rows.map((row) => row.span_id);
  return { ...view, rows: view.rows.map((row) => (draw(1) < share ? { ...row, parent_id: ids[Math.floor(draw(ids.length))] } : row)) };
}

it("shows views whose rows are in each other, and goes on to the next", () => {
  const entangled = Array.from({ length: 72 }, (_, k) => entangle((views[k % views.length] as [string, Released])[1], k + 1, [0.05, 0.2, 1][k % 3] as number));
  for (const view of entangled) {
    const end = renderSaved(page.place, view);
    expect(page.place.textContent).toContain(view.run.name);
    end();
    page.place.replaceChildren();
  }
});

it("leaves out what is not of the type that its column holds", () => {
  const [, view] = views.find(([name]) => name.endsWith("report.view.json")) as [string, Released];
  const saved = readSaved({ ...view, rows: view.rows.map((row) => ({ ...row, agent: 1e308, reason: {}, depends_on: "all", lane: "2" })) });
  if (saved.kind !== "saved") throw new Error(saved.why);
  for (const row of saved.rows) expect([row.agent, row.reason, row.depends_on, row.lane]).toEqual([undefined, undefined, undefined, undefined]);
});
