// @vitest-environment jsdom

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";
import { recallShape } from "./opening-shape";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function show(more: Parameters<typeof run>[0] = {}, rows = [row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9 })]): Promise<void> {
  page.kernel.snapshot = wire(snapshot({ run: run({ run_id: "shaped", ...more }), phases: [], rows }));
  page.show();
  await page.nextFrame();
}

const radios = (): HTMLElement[] => [...page.place.querySelectorAll<HTMLElement>("[aria-label='Show the run as'] [role=radio]")];
const chosen = (): string | undefined => radios().find((each) => each.getAttribute("aria-checked") === "true")?.textContent?.trim();

describe("the switch of views", () => {
  it("offers what the run has (W140)", async () => {
    await show();
    expect(radios().map((each) => each.textContent)).toEqual(["Bars", "Graph", "Table"]);
    const call = row({ span_id: "c", kind: "llm", parent_id: "t", model: "m", start_ms: 0, end_ms: 9 });
    await page.close();
    page = new TestPage();
    await show({ task_noun: "row", status: "completed" }, [row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 9 }), call]);
    expect(radios().map((each) => each.textContent)).toEqual(["Bars", "Graph", "Grid", "Messages", "Table"]);
  });

  it.each([["grid", "Grid"], ["messages", "Messages"], ["table", "Table"], ["bars", "Bars"], ["a later one", "Bars"], [null, "Bars"]])("begins with %s as the kernel says (W141)", async (view, name) => {
    await show({ view });
    expect(chosen()).toBe(name);
  });

  it("is one stop of Tab, along which arrows go around (W143)", async () => {
    await show();
    expect(radios().map((each) => each.tabIndex)).toEqual([0, -1, -1]);
    radios()[0]?.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    await page.nextFrame();
    expect([chosen(), radios().map((each) => each.tabIndex), document.activeElement?.textContent]).toEqual(["Table", [-1, -1, 0], "Table"]);
  });

  it("keeps what a person chose for that run alone (W142)", async () => {
    await show({ view: "bars" });
    radios()[2]?.click();
    expect([recallShape("shaped"), recallShape("another")]).toEqual(["table", undefined]);
  });

  it.each([['[["kept", "table"]]', "Table"], ['[["kept", "sideways"], 7, null]', "Grid"], ["{", "Grid"], ["7", "Grid"]])("opens again as the browser keeps it in %s (W142)", async (kept, name) => {
    localStorage.setItem("ensemble-timeline.shapes", kept);
    await show({ run_id: "kept", view: "grid" });
    expect(chosen()).toBe(name);
  });
});
