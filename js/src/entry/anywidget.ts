// What anywidget loads: one connection per feed, one view per place where it is shown.

import { mount } from "../chrome/app";
import { KERNEL_CONTROLS } from "../chrome/kernel-controls";
import { KernelConnection } from "../kernel/connection";
import type { Bytes } from "../wire/columns";
import type { Outgoing } from "../wire/messages";
import { keepLateTexts } from "./late-texts";

export { keepLateTexts } from "./late-texts";
export { renderSaved } from "./saved-view";

/** The part of anywidget's model that is used here. */
export interface Model {
  get(name: string): unknown;
  on(name: string, act: (...values: never[]) => void): void;
  off(name: string, act: (...values: never[]) => void): void;
  send(content: unknown): void;
}

interface Hub {
  readonly connection: KernelConnection;
  users: number;
  release: () => void;
}

// A frontend may hand out a new proxy of the same model to each hook, so identity is not enough: the feed tells.
const hubs = new Map<string, Hub>();

function hubOf(model: Model): Hub {
  const feed = String(model.get("feed_id"));
  return hubs.get(feed) ?? connect(model, feed);
}

function connect(model: Model, feed: string): Hub {
  keepLateTexts(model.get("_details"), model.get("_explorer"), model.get("_views"));
  const connection = new KernelConnection((message: Outgoing) => model.send(message));
  const forget = (): void => {
    if (hubs.get(feed) === hub) hubs.delete(feed);
  };
  const listeners: [string, (...values: never[]) => void][] = [
    ["msg:custom", (content: unknown, buffers?: Bytes[]): void => connection.receive(content, buffers)],
    ["comm:close", (): void => {
      connection.markLost();
      forget(); // whoever shows this feed next has another model
    }],
    ["comm_live_update", (): void => connection.suspectLoss()],
  ];
  for (const [name, act] of listeners) model.on(name, act);
  const hub: Hub = {
    connection,
    users: 0,
    release: () => {
      hub.users -= 1;
      if (hub.users > 0) return;
      for (const [name, act] of listeners) model.off(name, act);
      connection.close();
      forget();
    },
  };
  hubs.set(feed, hub);
  connection.catchUp();
  return hub;
}

/** Holds a hub until the signal aborts or the returned function is called, whichever comes first. */
function hold(model: Model, signal: AbortSignal | undefined): { hub: Hub; end: AbortController } {
  const hub = hubOf(model);
  const end = new AbortController();
  hub.users += 1;
  end.signal.addEventListener("abort", () => hub.release());
  if (signal?.aborted) end.abort();
  signal?.addEventListener("abort", () => end.abort(), { signal: end.signal });
  return { hub, end };
}

/** Listens from the first moment, so that nothing is missed before the first view, and asks for what there is. */
function initialize({ model, signal }: { model: Model; signal?: AbortSignal }): () => void {
  const { end } = hold(model, signal);
  return () => end.abort();
}

function render({ model, el, signal }: { model: Model; el: HTMLElement; signal?: AbortSignal }): () => void {
  const { hub, end } = hold(model, signal);
  if (!end.signal.aborted) {
    mount(el, hub.connection.store, hub.connection, KERNEL_CONTROLS, end.signal);
    hub.connection.catchUp();
  }
  return () => end.abort();
}

export default { initialize, render };
