// A page with a kernel behind it, for the tests beside the modules; never bundled, because no entry imports it.

import { vi } from "vitest";
import type { Model } from "../entry/anywidget";
import entry from "../entry/anywidget";
import { delta, snapshot, wire } from "./runs";

type Act = (...values: never[]) => void;

let lastFeed = 0;

/** As anywidget does it: one model, and a new proxy of it for each hook. A hello is answered at once. */
export class FakeKernel {
  readonly feed = `feed ${(lastFeed += 1)}`;
  snapshot: Record<string, unknown> | null = wire(snapshot());
  readonly sent: { kind: string; [key: string]: unknown }[] = [];
  readonly acts = new Map<string, Set<Act>>();

  proxy(): Model {
    return {
      get: (name) => (name === "feed_id" ? this.feed : undefined),
      send: (content) => this.#take(content as { kind: string; have?: number }),
      on: (name, act) => this.acts.set(name, (this.acts.get(name) ?? new Set()).add(act)),
      off: (name, act) => this.acts.get(name)?.delete(act),
    };
  }

  post(content: unknown): void {
    for (const act of this.acts.get("msg:custom") ?? []) act(content as never);
  }

  #take(message: { kind: string; have?: number }): void {
    this.sent.push(message);
    if (message.kind !== "hello" || this.snapshot === null) return;
    this.post(message.have === -1 ? this.snapshot : delta(message.have as number, message.have as number));
  }

  get listeners(): number {
    return [...this.acts.values()].reduce((sum, acts) => sum + acts.size, 0);
  }
}

export class TestPage {
  readonly kernel = new FakeKernel();
  readonly place: HTMLElement;
  readonly frames = new Map<number, FrameRequestCallback>();
  readonly ends: (() => void)[] = [];
  #last = 0;

  constructor() {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    vi.stubGlobal("requestAnimationFrame", (act: FrameRequestCallback) => {
      this.frames.set((this.#last += 1), act);
      return this.#last;
    });
    vi.stubGlobal("cancelAnimationFrame", (id: number) => this.frames.delete(id));
    // jsdom has no canvas; what is drawn is looked at in a real browser.
    HTMLCanvasElement.prototype.getContext = (() => null) as never;
    HTMLCanvasElement.prototype.getBoundingClientRect = () => new DOMRect(0, 0, 600, 300);
    this.place = document.body.appendChild(document.createElement("div"));
  }

  async close(): Promise<void> {
    for (const end of this.ends) end();
    // Effects that wait for a frame would hold up those of the next test.
    await this.nextFrame();
    this.place.remove();
    // What a person chose there is no concern of the next test.
    localStorage.removeItem("ensemble-timeline.shapes");
    vi.useRealTimers();
    vi.unstubAllGlobals();
  }

  show(el = this.place): HTMLElement {
    this.ends.push(entry.render({ model: this.kernel.proxy(), el }));
    return el;
  }

  /** Lets effects and at most one generation of animation frames run. */
  async nextFrame(): Promise<void> {
    const due = [...this.frames.values()];
    this.frames.clear();
    for (const act of due) act(performance.now());
    await vi.advanceTimersByTimeAsync(100);
    // The drawer may have been asked for: that it is loaded takes a moment, and its effects take another.
    await import("../details/drawer-root");
    await import("../explore/explorer-root");
    await import("../explore/views-root");
    await vi.advanceTimersByTimeAsync(100);
  }

  button(name: string): HTMLButtonElement | undefined {
    return [...this.place.querySelectorAll("button")].find((one) => one.textContent?.includes(name));
  }
}
