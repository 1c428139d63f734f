// @vitest-environment jsdom
// Holds W14 and W15 for a renderer: what it shows with a kernel that knows the run, and without.

import { afterEach, expect, it } from "vitest";
import { KernelConnection } from "../kernel/connection";
import { run, snapshot, wire } from "../testing/runs";
import type { Json } from "./jupyter";
import type { PageChannel } from "./page-channel";
import { type ChannelSource, MIME_TYPE, rendererClass } from "./timeline-renderer";
import type { ViewModule } from "./view-module";

class FakeWidget {
  readonly node = document.createElement("div");
  isDisposed = false;
  dispose(): void {
    this.isDisposed = true;
  }
}

const connections: KernelConnection[] = [];
afterEach(() => {
  for (const connection of connections.splice(0)) connection.close();
});

const views: ViewModule = {
  css: "",
  connect: (send) => new KernelConnection(send),
  save: () => null,
  showSaved: (place, content) => put(place, `saved ${(content as Json).of as string}`),
  callOf: () => null,
  watch: () => () => undefined,
  showLive: (place) => put(place, "live"),
};

function put(place: HTMLElement, text: string): () => void {
  const shown = document.createElement("i");
  shown.textContent = text;
  place.append(shown);
  return () => shown.remove();
}

/** A kernel as far as a renderer asks for it. */
class FakeSource implements ChannelSource {
  state = "open";
  closing = "unasked";
  held = 0;
  opened = 0;
  readonly known = new Set<string>();
  readonly connection = new KernelConnection(() => undefined);
  #act: () => void = () => undefined;

  constructor() {
    connections.push(this.connection);
  }

  readonly channel = makeChannel(this);

  attend = () => () => undefined;

  onChange(act: () => void): () => void {
    this.#act = act;
    return () => (this.#act = () => undefined);
  }

  writeBelow(): never {
    throw new Error("nothing is to be written here");
  }

  change(): void {
    this.#act();
  }
}

function makeChannel(source: FakeSource): PageChannel {
  const channel = {
    get state() { return source.state; },
    get closing() { return source.closing; },
    has: (feed: string) => source.known.has(feed),
    isUnsure: () => source.state === "opening",
    hold: () => ((source.held += 1), source.connection),
    release: () => (source.held -= 1),
    open: () => {
      source.opened += 1;
      source.state = "opening";
      return Promise.resolve();
    },
  };
  return channel as unknown as PageChannel;
}

type Renderer = FakeWidget & { renderModel(model: { data: Json }): Promise<void> };

function render(source: ChannelSource | null, load = () => Promise.resolve(views)): { renderer: Renderer; show: (trace: Json) => Promise<string> } {
  const Class = rendererClass(FakeWidget, load);
  const renderer = new Class(source) as unknown as Renderer;
  const show = async (trace: Json): Promise<string> => {
    await renderer.renderModel({ data: { [MIME_TYPE]: trace, "text/plain": "the chart as text" } });
    return renderer.node.textContent ?? "";
  };
  return { renderer, show };
}

it("shows what was saved where there is no kernel", async () => {
  expect(await render(null).show({ kind: "saved", of: "a" })).toBe("saved a");
  expect(await render(null).show({ kind: "live", feed_id: "f", saved: { of: "b" } })).toBe("saved b");
});

it("shows the text beside a saved view that can't be shown, once", async () => {
  let shown = 0;
  const broken = { ...views, showSaved: () => { shown += 1; throw new Error("damaged"); } };
  const source = new FakeSource();
  const { renderer, show } = render(source, () => Promise.resolve(broken));
  expect(await show({ kind: "saved", of: "a", feed_id: "f" })).toBe("The saved view is damaged. What is beside it:the chart as text");
  source.change();
  expect(shown).toBe(1);
  renderer.dispose();
});

it("shows the text beside a live view that nobody saved", async () => {
  const text = await render(null).show({ kind: "live", feed_id: "f" });
  expect(text).toContain("not in the kernel any more");
  expect(text).toContain("the chart as text");
});

it("says that it connects, and is live as soon as the kernel names the run", async () => {
  const source = new FakeSource();
  source.state = "opening";
  const { renderer, show } = render(source);
  expect(await show({ kind: "live", feed_id: "f" })).toContain("Connecting");
  source.state = "open";
  source.known.add("f");
  source.change();
  expect(renderer.node.textContent).toBe("live");
  renderer.dispose();
  expect(source.held).toBe(0);
});

it.each([["gone", 1], ["absent", 1], ["restarted", 0]])("tries once more to reach a run that is shown live where the channel is %s", async (closing, opened) => {
  const source = new FakeSource();
  Object.assign(source, { state: "closed", closing });
  const { show, renderer } = render(source);
  expect(await show({ kind: "live", feed_id: "f" })).toContain(opened ? "Connecting" : "not in the kernel any more");
  Object.assign(source, { state: "closed", closing });
  source.change();
  expect(source.opened).toBe(opened);
  renderer.dispose();
});

it("joins a saved view to a kernel that knows its run", async () => {
  const source = new FakeSource();
  const { renderer, show } = render(source);
  expect(await show({ kind: "saved", of: "a", feed_id: "f" })).toBe("saved a");
  source.known.add("f");
  source.change();
  expect(renderer.node.textContent).toBe("live");
});

it("leaves the live view in its place when its end is saved, and when its kernel goes", async () => {
  const source = new FakeSource();
  source.known.add("f");
  const { renderer, show } = render(source);
  expect(await show({ kind: "live", feed_id: "f" })).toBe("live");
  source.connection.receive(wire(snapshot({ run: run() })));
  const shown = renderer.node.querySelector("i");
  await show({ kind: "saved", of: "a", feed_id: "f" });
  expect(renderer.node.querySelector("i")).toBe(shown);
  source.known.clear();
  source.state = "closed";
  source.change();
  await show({ kind: "saved", of: "a", feed_id: "f" });
  expect(renderer.node.querySelector("i")).toBe(shown);
  expect(await show({ kind: "saved", of: "b", feed_id: "g" })).toBe("saved b");
  expect(source.held).toBe(0);
});

it("says so when the views can't be loaded", async () => {
  expect(await render(null, () => Promise.reject(new Error("offline"))).show({ kind: "saved", of: "a" })).toContain("could not be loaded");
});
