// @vitest-environment jsdom
// Holds W7: a marked range and a selection of several spans in numbers, edges that can be moved, expressions to copy.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { delta, run, snapshot, wire } from "../testing/runs";
import { TestPage } from "../testing/page";

let page: TestPage;
let runs = 0; // what was left of one is taken over by the next view of it

beforeEach(async () => {
  page = new TestPage();
  page.kernel.snapshot = wire(snapshot({ run: run({ run_id: `run ${(runs += 1)}`, status: "completed", elapsed_ms: 1000 }) }));
  page.show();
  await page.nextFrame();
});
afterEach(() => page.close());

const all = (selector: string): HTMLElement[] => [...page.place.querySelectorAll<HTMLElement>(selector)];
const texts = (selector: string): string[] => all(selector).map((element) => element.textContent ?? "");
const told = (content: object): void => page.kernel.post({ kind: "selection", selection: [], range: null, ...content });
const press = (element: HTMLElement, key: string): boolean => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const lastTold = () => page.kernel.sent.filter(({ kind }) => kind === "selection").at(-1);
async function settle(): Promise<void> {
  await vi.dynamicImportSettled();
  await page.nextFrame();
}

it("shows what a range holds that the kernel set, and its expression", async () => {
  told({ range: [0, 300] });
  await settle();
  expect(texts(".et-summary-head b")).toEqual(["0 s – 300 ms"]);
  expect(texts(".et-summary-table tbody th")).toEqual(["▪1 task", "◆1 model call"]);
  expect(texts(".et-summary-facts div").at(-1)).toBe("Side by side0.7×");
  const written: string[] = [];
  vi.stubGlobal("navigator", { clipboard: { writeText: (text: string) => Promise.resolve(written.push(text)) } });
  page.button("pandas")?.click();
  await page.nextFrame();
  expect(written).toEqual(['report.frames.spans.query("start_ms < 300 and start_ms + duration_ms > 0")']);
});

it("tells the kernel when an edge was moved by a key, and lets go by Escape", async () => {
  told({ range: [200, 300] });
  await settle();
  const [start] = all(".et-range-handle") as [HTMLElement];
  press(start, "ArrowRight");
  await settle();
  const [from, to] = lastTold()?.range as [number, number];
  expect([from > 200, to]).toEqual([true, 300]);
  press(start, "Escape");
  await settle();
  expect(lastTold()?.range).toBeNull();
  expect(all(".et-summary, .et-range-handle")).toEqual([]);
});

it("shows several spans that are selected", async () => {
  told({ selection: ["x"] });
  await settle();
  expect(all(".et-summary")).toEqual([]);
  told({ selection: ["x", "y"] });
  await settle();
  expect(texts(".et-summary-head b")).toEqual(["2 spans selected"]);
  expect(texts(".et-summary-table tbody tr")).toEqual(["▪2 tool calls345 ms381 ms390 ms"]);
});

it("selects also with ctrl, and all spans of a row with shift", async () => {
  const [, row] = all(".et-row") as [HTMLElement, HTMLElement];
  const click = (more: MouseEventInit): boolean => row.dispatchEvent(new MouseEvent("click", { bubbles: true, ...more }));
  const last = (): unknown => lastTold()?.selection;
  told({ selection: ["x"] });
  click({ ctrlKey: true });
  await settle();
  expect(last()).toEqual(["x", "t"]);
  click({ ctrlKey: true });
  await settle();
  expect(last()).toEqual(["x"]);
  click({ shiftKey: true });
  await settle();
  expect(last()).toEqual(["a1", "a2", "x", "y", "t"]);
});

it("counts the spans of a large run once a drag rests", async () => {
  const tool = { kind: "tool", name: "look", status: "ok", parent_id: "u", start_ms: 100, end_ms: 200 } as const;
  page.kernel.post(wire(delta(1, 2, { run: run({ run_id: `run ${runs}`, status: "completed" }), rows: Array.from({ length: 3000 }, (_, k) => ({ ...tool, span_id: `many ${k}` })) })));
  told({ range: [0, 300] });
  await vi.dynamicImportSettled();
  await vi.advanceTimersByTimeAsync(40);
  expect(texts(".et-none")).toEqual(["Counting…"]);
  told({ range: [0, 400] });
  await settle();
  await settle();
  expect(texts(".et-summary-table tbody th").at(-1)).toBe("▪3,000 tool calls");
  expect(texts(".et-summary-head b")).toEqual(["0 s – 400 ms"]);
});

it("is told of by no word more than it was set", async () => {
  told({ selection: ["x"], range: [1, 2] });
  await settle();
  expect(page.kernel.sent.filter(({ kind }) => kind === "selection")).toEqual([]);
});
