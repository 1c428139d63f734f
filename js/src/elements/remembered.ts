// What a person chose once and wants again: kept by the browser, where it keeps anything, and the same in all views of a page.

import { type Signal, signal } from "@preact/signals";
import { keep, recall } from "../view/browser-memory";

const PREFIX = "ensemble-timeline.";
const known = new Map<string, Signal<unknown>>();

/** A choice by its name; `initial` until there is one that `isValid`. */
export function remembered<T>(name: string, initial: T, isValid: (value: unknown) => value is T): Signal<T> {
  const found = known.get(name) as Signal<T> | undefined;
  if (found) return found;
  const value = recall("localStorage", PREFIX + name);
  const choice = signal(isValid(value) ? value : initial);
  known.set(name, choice as Signal<unknown>);
  return choice;
}

export function choose<T>(name: string, choice: Signal<T>, value: T): void {
  choice.value = value;
  keep("localStorage", PREFIX + name, value);
}
