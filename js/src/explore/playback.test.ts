// @vitest-environment jsdom

// Holds W35 for a view: the handle, the keys, what plays a run, and what the kernel says.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { renderSaved } from "../entry/saved-view";
import { FakeKernel, TestPage } from "../testing/page";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import type { Run } from "../wire/rows";

let page: TestPage;
let place: HTMLElement;
let kernel: FakeKernel;
/** A view of the same run would go on where the one before it was left. */
let runs = 0;

beforeEach(() => {
  runs += 1;
  page = new TestPage();
  ({ kernel, place } = page);
});
afterEach(() => page.close());

const ROWS = [
  row({ span_id: "t", kind: "task", name: "look", agent: "Ana", start_ms: 0, end_ms: 4000 }),
  row({ span_id: "a", kind: "attempt", parent_id: "t", attempt: 1, start_ms: 0, end_ms: 1000, input_tokens: 7, output_tokens: 3 }),
  row({ span_id: "u", kind: "task", name: "write", agent: "Bo", start_ms: 4000, end_ms: 8000, depends_on: ["look"] }),
];
const over = (more: Partial<Run> = {}): Run => run({ run_id: `r${runs}`, status: "completed", elapsed_ms: 8000, tasks_done: 2, input_tokens: 7, output_tokens: 3, sentence: "2 tasks in 8.0 s", ...more });
const saved = (more: object = {}): Record<string, unknown> => ({ ...wire(snapshot({ run: over(), rows: ROWS, phases: [] })), kind: "saved", saved_at: "2026-11-21T14:03:00Z", details: {}, ...more });

const showSaved = (more: object = {}): void => void page.ends.push(renderSaved(place, saved(more)));
const named = (name: string): HTMLElement | null => place.querySelector(`[aria-label="${name}"]`);
const slider = (): HTMLElement | null => place.querySelector('[role="slider"][aria-label="Playhead"]');
const state = (): string => place.querySelector(".et-word")?.textContent ?? "";
const statuses = (): (string | undefined)[] => [...place.querySelectorAll<HTMLElement>('[role="row"]')].map((each) => each.dataset.status);

async function press(key: string, target: Element | null = place.querySelector(".et-gutter")): Promise<void> {
  target?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  for (let k = 0; k < 4; k += 1) await page.nextFrame();
}

async function click(element: HTMLElement | null | undefined): Promise<void> {
  element?.click();
  for (let k = 0; k < 4; k += 1) await page.nextFrame();
}

async function open(): Promise<void> {
  await click(named("Playhead"));
}

describe("the playhead of a saved view", () => {
  it("is in the head, stands at the end, and goes back by keys", async () => {
    showSaved();
    await open();
    expect(slider()?.getAttribute("aria-valuetext")).toBe("8.0 s of 8.0 s, 2 of 2 tasks done");
    expect([state(), statuses()]).toEqual(["Completed", ["ok", "ok"]]);
    await press("Home", slider());
    expect([state(), statuses()]).toEqual(["As it was", ["running", "pending"]]);
    expect(slider()?.getAttribute("aria-valuenow")).toBe("0");
    for (let k = 0; k < 6; k += 1) await press("PageUp", slider());
    expect(statuses()).toEqual(["ok", "running"]);
    expect(place.querySelector(".et-tokens")?.textContent).toContain("7 in");
    expect(place.textContent).not.toContain("2 tasks in 8.0 s");
    await press("End", slider());
    expect([state(), statuses()]).toEqual(["Completed", ["ok", "ok"]]);
  });

  it("is dragged along the axis", async () => {
    showSaved();
    await open();
    const track = place.querySelector<HTMLElement>(".et-playhead-track") as HTMLElement;
    track.getBoundingClientRect = () => new DOMRect(0, 0, 600, 28);
    track.setPointerCapture = () => undefined;
    track.dispatchEvent(new PointerEvent("pointerdown", { button: 0, clientX: 435, pointerId: 1, bubbles: true }));
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect(slider()?.getAttribute("aria-valuenow")).toBe("6000");
    expect(statuses()).toEqual(["ok", "running"]);
  });

  it("goes away with its button, and the run is as it ended", async () => {
    showSaved();
    await open();
    await press("Home", slider());
    await click(named("Put the playhead away"));
    expect([slider(), state(), statuses()]).toEqual([null, "Completed", ["ok", "ok"]]);
  });

  it("says that the rows here are not all, and whose the sums are", async () => {
    showSaved({ rows_left_out: 997 });
    await open();
    await press("Home", slider());
    expect(place.querySelector(".et-play-notes")?.textContent).toBe("Bars are those of 3 of 1,000 spans kept here, and so are the sums.");
  });
});

describe("space", () => {
  it("plays a run from its beginning to its end, and stops in between", async () => {
    showSaved();
    await press(" ");
    expect(named("Pause")).not.toBeNull();
    const first = Number(slider()?.getAttribute("aria-valuenow"));
    await page.nextFrame();
    const later = Number(slider()?.getAttribute("aria-valuenow"));
    expect(later).toBeGreaterThan(first);
    expect(later).toBeLessThan(8000);
    await press(" ");
    const stopped = slider()?.getAttribute("aria-valuenow");
    expect(named("Play")).not.toBeNull();
    await page.nextFrame();
    expect(slider()?.getAttribute("aria-valuenow")).toBe(stopped);
    await click(page.button("16x"));
    await press(" ");
    for (let k = 0; k < 10; k += 1) await page.nextFrame();
    expect([state(), slider()?.getAttribute("aria-valuenow")]).toEqual(["Completed", "8000"]);
    expect(named("Play")).not.toBeNull();
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect(page.frames.size).toBe(0);
  });

  it("stops at once: the frame that comes next moves nothing", async () => {
    showSaved();
    await press(" ");
    await page.nextFrame();
    const stopped = slider()?.getAttribute("aria-valuenow");
    place.querySelector(".et-gutter")?.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true, cancelable: true }));
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect(slider()?.getAttribute("aria-valuenow")).toBe(stopped);
  });

  it("opens no details: Enter does", async () => {
    showSaved();
    await press("ArrowDown");
    await press(" ");
    await press(" ");
    expect(place.querySelector(".et-drawer")).toBeNull();
    await press("Enter");
    expect(place.querySelector(".et-drawer")).not.toBeNull();
  });
});

describe("no playhead", () => {
  it("is there for a run that goes on", async () => {
    page.show();
    await press(" ");
    expect([named("Playhead"), slider(), named("Play")]).toEqual([null, null, null]);
    kernel.post({ kind: "selection", selection: [], range: null, time: 500 });
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect(state()).toBe("Running");
  });

  it.each([["without a length", { elapsed_ms: 0 }, ROWS], ["without times", {}, [row({ span_id: "t", kind: "task" })]]])("is there for a run %s", async (_, more, rows) => {
    showSaved({ run: over(more), rows });
    await press(" ");
    expect([named("Playhead"), slider(), named("Play")]).toEqual([null, null, null]);
  });
});

describe("a view with a kernel", () => {
  beforeEach(async () => {
    kernel.snapshot = wire(snapshot({ run: over(), rows: ROWS, phases: [] }));
    page.show();
    await page.nextFrame();
  });
  const told = (): unknown[] => kernel.sent.filter(({ kind }) => kind === "selection").map(({ time }) => time);

  it("shows the run at the time that Python says, and as it is again", async () => {
    kernel.post({ kind: "selection", selection: [], range: null, time: 4000 });
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect([state(), statuses()]).toEqual(["As it was", ["ok", "running"]]);
    expect(slider()?.getAttribute("aria-valuenow")).toBe("4000");
    kernel.post({ kind: "selection", selection: [], range: null, time: null });
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect([state(), slider(), told()]).toEqual(["Completed", null, []]);
  });

  it("shows the run as it is at its end, also where that is said as a time", async () => {
    kernel.post({ kind: "selection", selection: [], range: null, time: 8000 });
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect([state(), statuses()]).toEqual(["Completed", ["ok", "ok"]]);
  });

  it("plays nothing as long as no times are known, and forgets that it was asked to", async () => {
    kernel.post(delta(1, 2, { run: over(), rows: ROWS.map((each) => ({ ...each, start_ms: null, end_ms: null })) }));
    await press(" ");
    kernel.post(delta(2, 3, { run: over(), rows: ROWS }));
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect([slider(), told(), state(), statuses()]).toEqual([null, [], "Completed", ["ok", "ok"]]);
  });

  it("tells Python where the playhead stands", async () => {
    await open();
    await press("Home", slider());
    expect(told()).toEqual([0]);
    await press("End", slider());
    expect(told()).toEqual([0, null]);
  });

  it("shows it in all views of the run at once, and offers nothing that only a run can do that goes on", async () => {
    const other = document.body.appendChild(document.createElement("div"));
    page.show(other);
    await open();
    await press("Home", slider());
    expect([place, other].map((each) => each.querySelector(".et-word")?.textContent)).toEqual(["As it was", "As it was"]);
    expect(page.button("Stop")).toBeUndefined();
    other.remove();
  });

  it("takes in what is told late", async () => {
    await open();
    await press("Home", slider());
    kernel.post(delta(1, 2, { run: over({ warnings: ["The trace could not be exported."] }) }));
    for (let k = 0; k < 4; k += 1) await page.nextFrame();
    expect([state(), statuses()]).toEqual(["As it was", ["running", "pending"]]);
    await press("End", slider());
    expect(named("1 warning")).not.toBeNull();
  });
});

