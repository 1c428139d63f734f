// What is made of all rows of a run: not again with each batch while the run goes on, since a person can't look as fast.

import type { Store } from "../store/store";
import type { View } from "../view/view";

const WAIT_MS = 500;

interface Kept {
  readonly key: string;
  readonly version: number;
  readonly at: number;
  readonly value: unknown;
}

const kept = new WeakMap<Store, Map<string, Kept>>();

/** What `make` gives for the whole run of a view, under a name of its own, and once for each key as long as nothing changes. */
export function settled<T>({ present: store, age }: View, name: string, key: string, make: () => T): T {
  const ofStore = kept.get(store) ?? new Map<string, Kept>();
  kept.set(store, ofStore);
  const version = store.version.value;
  const last = ofStore.get(name);
  const now = performance.now();
  // Asked again as the clock goes on, so that nothing that came stays out for long.
  if (store.isTicking) age.value;
  const isFresh = last?.key === key && (last.version === version || (store.isTicking && now - last.at < WAIT_MS));
  if (isFresh) return last.value as T;
  const value = make();
  ofStore.set(name, { key, version, at: now, value });
  return value;
}
