// What anywidget loads: one connection per widget model, one view per place where the model is shown.

import { mount } from "../chrome/app";
import { KERNEL_CONTROLS } from "../chrome/kernel-controls";
import { KernelConnection } from "../kernel/connection";
import type { Outgoing } from "../wire/messages";

export { renderSaved } from "./saved-view";

/** The part of anywidget's model that is used here. */
export interface Model {
  get(name: string): unknown;
  on(name: string, act: (...values: never[]) => void): void;
  off(name: string, act: (...values: never[]) => void): void;
  send(content: unknown): void;
}

interface Hub {
  readonly model: Model;
  readonly connection: KernelConnection;
  users: number;
  release: () => void;
}

// A frontend may hand out a new proxy of the same model to each hook, so identity is not enough; but all proxies of one
// model return the very same snapshot object, and those of two models never do.
const known = new WeakMap<Model, Hub>();
const hubs = new Set<Hub>();

function hubOf(model: Model): Hub {
  const found = known.get(model) ?? [...hubs].find((hub) => isSame(hub.model, model)) ?? connect(model);
  known.set(model, found);
  return found;
}

function isSame(a: Model, b: Model): boolean {
  const snapshot = a.get("snapshot");
  return typeof snapshot === "object" && snapshot !== null && snapshot === b.get("snapshot");
}

function connect(model: Model): Hub {
  const connection = new KernelConnection((message: Outgoing) => model.send(message));
  const onMessage = (content: unknown): void => connection.receive(content);
  const onSnapshot = (): void => connection.receiveSnapshot(model.get("snapshot"));
  const onLoss = (): void => connection.markLost();
  const onDoubt = (): void => connection.suspectLoss();
  const listeners: [string, (...values: never[]) => void][] = [
    ["msg:custom", onMessage],
    ["change:snapshot", onSnapshot],
    ["comm:close", onLoss],
    ["comm_live_update", onDoubt],
  ];
  for (const [name, act] of listeners) model.on(name, act);
  onSnapshot();
  const hub: Hub = {
    model,
    connection,
    users: 0,
    release: () => {
      hub.users -= 1;
      if (hub.users > 0) return;
      for (const [name, act] of listeners) model.off(name, act);
      connection.close();
      hubs.delete(hub);
      known.delete(model);
    },
  };
  hubs.add(hub);
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

/** Listens from the first moment, so that nothing is missed before the first view. */
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
