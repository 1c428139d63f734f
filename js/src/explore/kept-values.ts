// What is made of all rows of a run: not again with each batch while the run goes on, since a person can't look as fast.

import type { View } from "../view/view";

const WAIT_MS = 500;

interface Kept {
  readonly key: string;
  readonly version: number;
  readonly at: number;
  readonly value: unknown;
}

const kept = new WeakMap<View, Map<string, Kept>>();

/** What `make` gives for a view, under a name of its own, and once for each key as long as nothing changes. */
export function settled<T>(view: View, name: string, key: string, make: () => T): T {
  const ofView = kept.get(view) ?? new Map<string, Kept>();
  kept.set(view, ofView);
  const version = view.store.version.value;
  const last = ofView.get(name);
  const now = performance.now();
  // Asked again as the clock goes on, so that nothing that came stays out for long.
  if (view.store.isTicking) view.age.value;
  const isFresh = last?.key === key && (last.version === version || (view.store.isTicking && now - last.at < WAIT_MS));
  if (isFresh) return last.value as T;
  const value = make();
  ofView.set(name, { key, version, at: now, value });
  return value;
}
