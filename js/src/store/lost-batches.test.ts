// Whatever is lost, comes twice or in another order: a view that says hello when it notices ends like one that saw all (W16).

import { describe, expect, it } from "vitest";
import { readRecorded, RECORDED, type Recorded } from "../testing/recorded";
import type { Delta, Snapshot } from "../wire/messages";
import { Store } from "./store";

/** Numbers that look random, the same for each seed. */
function* dice(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** What the kernel says to a hello after so many of the messages: here the whole run up to then, by one who saw all of it. */
function answer(messages: readonly (Snapshot | Delta)[], upTo: number): Snapshot {
  const store = new Store();
  for (const message of messages.slice(0, upTo)) store.fold(message, 0);
  const text = [...store.rows()].filter((row) => store.text(row.span_id)).map((row) => [row.span_id, store.text(row.span_id), 0] as const);
  return { kind: "snapshot", n: store.n, run: store.run.value as never, phases: [...store.phases.value], rows: [...store.rows()], text };
}

const sorted = (store: Store) => [...store.rows()].sort((a, b) => (a.span_id < b.span_id ? -1 : 1));
const texts = (store: Store) => sorted(store).map((row) => store.text(row.span_id));

describe.each(RECORDED.map((one): [string, Recorded] => [one.name, one]))("%s", (_, recorded) => {
  const messages = [recorded.snapshot, ...recorded.deltas].map((message) => readRecorded(message));
  const whole = new Store();
  for (const message of messages) whole.fold(message, 0);

  it.each(Array.from({ length: 40 }, (__, k) => k + 1))("ends as it does for others, whatever happens on the way (%i)", (seed) => {
    const roll = dice(seed);
    const next = () => roll.next().value as number;
    const store = new Store();
    const losses = next() * 0.6;
    let waiting: (Snapshot | Delta)[] = [];
    const take = (message: Snapshot | Delta, sent: number): void => {
      if (store.fold(message, 0) === "gap") store.fold(answer(messages, sent), 0);
    };
    messages.forEach((message, k) => {
      if (next() >= losses) waiting.push(message);
      if (next() < 0.2 && waiting.length > 0) waiting.push(waiting[Math.floor(next() * waiting.length)] as Delta);
      if (next() < 0.5) return;
      if (next() < 0.3) waiting.reverse();
      for (const each of waiting) take(each, k + 1);
      waiting = [];
      if (next() < 0.1) store.fold(answer(messages, k + 1), 0);
    });
    for (const each of waiting) take(each, messages.length);
    store.fold(answer(messages, messages.length), 0); // at the latest the next hello
    expect(store.n).toBe(whole.n);
    expect(sorted(store)).toEqual(sorted(whole));
    expect(texts(store)).toEqual(texts(whole));
    expect(store.run.value).toEqual(whole.run.value);
  });
});
