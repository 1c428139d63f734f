// @vitest-environment jsdom

// Holds W5, W13, W14 and W16 for whole views.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeKernel, TestPage } from "../testing/page";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import entry from "./anywidget";
import { renderSaved } from "./saved-view";

let page: TestPage;
let kernel: FakeKernel;
let place: HTMLElement;

beforeEach(() => {
  page = new TestPage();
  ({ kernel, place } = page);
});
afterEach(() => page.close());

const show = (el = place): HTMLElement => page.show(el);
const nextFrame = (): Promise<void> => page.nextFrame();
const button = (name: string): HTMLButtonElement | undefined => page.button(name);

describe("a live view", () => {
  it("shows state, name and tasks at once, and the rows in a treegrid", async () => {
    show();
    expect(place.textContent).toContain("Running");
    await nextFrame();
    const text = place.textContent ?? "";
    for (const part of ["Running", "report", "0/2 tasks", "research", "web", "draft"]) expect(text).toContain(part);
    expect(place.querySelectorAll('[role="treegrid"]').length).toBe(1);
    expect(place.querySelector("canvas")?.getAttribute("aria-hidden")).toBe("true");
  });

  it("says what is being prepared", () => {
    kernel.snapshot = wire(snapshot({ run: run({ note: "loading SmolLM2" }) }));
    show();
    expect(place.textContent).toContain("loading SmolLM2");
  });

  it("enables Stop only after a pong, and says Stopping at once", async () => {
    show();
    expect(button("Stop")?.getAttribute("aria-disabled")).toBe("true");
    kernel.post({ kind: "pong", nonce: 1 });
    await nextFrame();
    expect(button("Stop")?.getAttribute("aria-disabled")).toBe("false");
    button("Stop")?.click();
    await nextFrame();
    expect(kernel.sent.at(-1)).toEqual({ kind: "stop" });
    expect(button("Stopping…")?.disabled).toBe(true);
  });

  it("has no Stop, nor a word of it, for a run that a view can't stop", async () => {
    kernel.snapshot = wire(snapshot({ run: run({ is_stoppable: false }) }));
    show();
    await vi.advanceTimersByTimeAsync(1500);
    expect(place.textContent).toContain("Running");
    expect(place.textContent).not.toContain("stop");
    expect(button("Stop")).toBeUndefined();
  });

  it("tells how to stop when nobody answers", async () => {
    show();
    await nextFrame();
    expect(place.textContent).not.toContain("notebook's ■");
    await vi.advanceTimersByTimeAsync(1500);
    expect(place.textContent).toContain("press the notebook's ■ stop button");
  });

  it("says that the kernel is gone", async () => {
    show();
    for (const act of kernel.acts.get("comm:close") ?? []) act();
    await nextFrame();
    expect(place.textContent).toContain("Kernel gone");
    expect(button("Stop")).toBeUndefined();
  });

  it("has no Stop for a run that is over, and rests: no frame, no timer", async () => {
    show();
    kernel.post(delta(1, 2, { run: run({ status: "completed", elapsed_ms: 1200, tasks_done: 2 }) }));
    for (let k = 0; k < 5; k += 1) await nextFrame();
    expect(place.textContent).toContain("Completed");
    expect(button("Stop")).toBeUndefined();
    expect([page.frames.size, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it("keeps asking for frames while it runs", async () => {
    show();
    for (let k = 0; k < 5; k += 1) await nextFrame();
    expect(page.frames.size).toBe(1);
  });

  it("shows what a model says as text, whatever it is", async () => {
    kernel.snapshot = wire(snapshot({ rows: [row({ span_id: "t", kind: "task", name: "<img src=x onerror=alert(1)>", agent: "A", start_ms: 0, end_ms: 9 })] }));
    show();
    await nextFrame();
    place.querySelector<HTMLElement>('[role="row"]')?.click();
    await nextFrame();
    kernel.post({ kind: "details", span_id: "t", messages: [{ role: "assistant", text: "<script>bad()</script>" }], output: "<b>bold</b>" });
    await nextFrame();
    button("Messages")?.click();
    await nextFrame();
    expect(place.textContent).toContain("<script>bad()</script>");
    expect(place.querySelectorAll("script, img, a").length).toBe(0);
  });

  it("shows streamed text in the drawer as it comes", async () => {
    const call = row({ span_id: "l", kind: "llm", parent_id: "t", status: "running", start_ms: 5 });
    const task = row({ span_id: "t", kind: "task", agent: "A", status: "running", start_ms: 0 });
    kernel.snapshot = wire(snapshot({ rows: [task, call] }));
    show();
    await nextFrame();
    place.querySelector<HTMLElement>('[role="row"]')?.click();
    kernel.post(delta(1, 2, { text: [["l", "Once upon"]] }));
    await nextFrame();
    kernel.post(delta(2, 3, { text: [["l", " a time"]] }));
    await nextFrame();
    expect(place.textContent).toContain("Once upon a time");
  });
});

describe("views of one feed", () => {
  it("share one store and one set of listeners, and let go with the last", () => {
    const model = kernel.proxy();
    const end = entry.initialize({ model });
    const listeners = kernel.listeners;
    const other = document.createElement("div");
    show();
    show(other);
    expect(kernel.listeners).toBe(listeners);
    kernel.post(delta(1, 2, { run: run({ tasks_done: 1 }) }));
    for (const one of page.ends) one();
    expect(place.childElementCount + other.childElementCount).toBe(0);
    expect(kernel.listeners).toBe(listeners);
    end();
    expect(kernel.listeners).toBe(0);
  });

  it("end by their signal too", async () => {
    const end = new AbortController();
    entry.render({ model: kernel.proxy(), el: place, signal: end.signal });
    end.abort();
    await nextFrame();
    expect([place.childElementCount, kernel.listeners, page.frames.size]).toEqual([0, 0, 0]);
  });

  it("keep apart from another feed's", () => {
    show();
    const second = new FakeKernel();
    second.snapshot = wire(snapshot({ run: run({ run_id: "r2", name: "other" }) }));
    const elsewhere = document.createElement("div");
    page.ends.push(entry.render({ model: second.proxy(), el: elsewhere }));
    expect([place.textContent?.includes("other"), elsewhere.textContent?.includes("other")]).toEqual([false, true]);
  });
});

describe("a saved view", () => {
  const saved = (): Record<string, unknown> => ({
    ...wire(snapshot({ run: run({ status: "completed", is_scripted: true, warnings: ["careful"] }) })),
    kind: "saved", saved_at: "2026-11-21T14:03:00Z", details: { x: { input: '{"q":1}', output: "found" } }, details_left_out: 1,
  });

  it("is explorable without a kernel: details come from the payload", async () => {
    page.ends.push(renderSaved(place, saved()));
    expect(place.textContent).toContain("saved view");
    expect(place.textContent).toContain("scripted model");
    await nextFrame();
    await nextFrame();
    place.querySelectorAll<HTMLElement>('[role="row"]')[1]?.click();
    await nextFrame();
    button("Tool I/O")?.click();
    await nextFrame();
    place.querySelector<HTMLElement>(".et-span")?.click();
    await nextFrame();
    expect(place.textContent).toContain("found");
  });

  it("says what it can't show", async () => {
    page.ends.push(renderSaved(place, { ...saved(), version: 99 }));
    expect(place.textContent).toContain("version 99");
  });

  it("lists the warnings behind their sign", async () => {
    page.ends.push(renderSaved(place, saved()));
    place.querySelector<HTMLElement>('[aria-label="1 warning"]')?.click();
    await nextFrame();
    expect(place.textContent).toContain("careful");
  });
});

it("draws nothing and fails at nothing when there is no run yet", () => {
  kernel.snapshot = null;
  show();
  expect(place.textContent).toContain("Waiting for the run to begin");
});
