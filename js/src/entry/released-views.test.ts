// @vitest-environment jsdom
/// <reference types="vite/client" />
// Views that released versions have saved in notebooks still open. What made them is in tests/fixtures/README.md.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { readSaved } from "../wire/reader";
import { renderSaved } from "./saved-view";

interface Released {
  run: { name: string };
  rows: { span_id: string; kind: string; name: string }[];
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
    expect(Object.keys(saved.details)).toEqual(Object.keys(view.details));
  });

  it("shows its run and its tasks", async () => {
    renderSaved(page.place, view);
    await page.nextFrame();
    const text = page.place.textContent ?? "";
    expect(text).toContain(view.run.name);
    for (const row of view.rows.filter((each) => each.kind === "task")) expect(text).toContain(row.name);
  });
});
