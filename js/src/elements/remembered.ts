// What a person chose once and wants again: kept by the browser, where it keeps anything, and the same in all views of a page.

import { type Signal, signal } from "@preact/signals";

const PREFIX = "ensemble-timeline.";
const known = new Map<string, Signal<unknown>>();

/** A choice by its name; `initial` until there is one that `isValid`. */
export function remembered<T>(name: string, initial: T, isValid: (value: unknown) => value is T): Signal<T> {
  const found = known.get(name) as Signal<T> | undefined;
  if (found) return found;
  const choice = signal(read(name, initial, isValid));
  known.set(name, choice as Signal<unknown>);
  return choice;
}

export function choose<T>(name: string, choice: Signal<T>, value: T): void {
  choice.value = value;
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A page may have no storage; then the choice lasts as long as the page.
  }
}

function read<T>(name: string, initial: T, isValid: (value: unknown) => value is T): T {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
    return isValid(value) ? value : initial;
  } catch {
    return initial;
  }
}
