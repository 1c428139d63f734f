// Holds W35: what is shown of a run that is over is what was shown of it at the time.

import { describe, expect, it } from "vitest";
import { LayoutBuilder } from "../layout/layout-builder";
import type { Layout } from "../layout/tracks";
import { readRecorded, RECORDED } from "../testing/recorded";
import { row, run, stored } from "../testing/runs";
import { isTask } from "../wire/predicates";
import { readSaved } from "../wire/reader";
import { beginningOfText, pastOf, type PastStore } from "./past-store";
import { Store } from "./store";

const wholeOf = (saved: unknown): Store => {
  const store = new Store();
  const read = readSaved(saved);
  if (read.kind === "bad") throw new Error(read.why);
  store.fold(read, 0);
  return store;
};

const at = (whole: Store, ms: number): PastStore => {
  const past = pastOf(whole);
  past.goTo(ms);
  return past;
};

const looksOf = ({ tracks }: Layout): unknown[] =>
  tracks.map(({ id, y, height, depth, marks, row: { status, start_ms, end_ms } }) => [
    id, y, height, depth, status, start_ms, end_ms, marks.map(({ shape, from, to, top, names, label }) => [shape, from, to, top, names, label]),
  ]);

describe.each(RECORDED.map((one) => [one.name, one] as const))("%s", (_, recorded) => {
  const whole = wholeOf(recorded.saved);
  const end = whole.run.value?.elapsed_ms ?? 0;
  const moments = [0.25, 0.9, 0.1, 0.101, 0.5, 0, 0.75, 0.4, 0.99].map((share) => share * end);

  it("has the tasks in the states that were told then", () => {
    const live = new Store();
    for (const message of [recorded.snapshot, ...recorded.deltas]) {
      live.fold(readRecorded(message), 0);
      const ms = live.run.value?.elapsed_ms ?? 0;
      if (live.isOver || ms >= end) continue;
      const past = at(whole, ms);
      const told = [...live.rows()].filter((each) => isTask(each) || each.kind === "phase" || each.start_ms != null);
      // Of one moment there may be more events than were told by then.
      for (const each of told.filter((one) => (one.end_ms ?? one.start_ms ?? 0) < ms)) {
        const then = past.row(each.span_id);
        if (then?.start_ms !== ms && then?.end_ms !== ms && each.kind !== "llm") expect([each.span_id, then?.status, then?.end_ms]).toEqual([each.span_id, each.status, each.end_ms]);
      }
      expect(past.run.value).toMatchObject({ status: "running", elapsed_ms: ms, tasks_total: live.run.value?.tasks_total });
    }
  });

  it("looks the same however one came to a time", () => {
    const [past, builder] = [pastOf(whole), new LayoutBuilder()];
    for (const ms of moments) {
      past.goTo(ms);
      const there = at(whole, ms);
      expect([...past.rows()]).toEqual([...there.rows()]);
      expect(past.run.value).toEqual(there.run.value);
      expect(looksOf(builder.build(past, new Set()))).toEqual(looksOf(new LayoutBuilder().build(there, new Set())));
    }
  });

  it("has a row for each task and phase at any time, and nothing else that had not begun", () => {
    const rows = [...whole.rows()].filter((each) => isTask(each) || each.kind === "phase").length;
    for (const ms of moments) {
      const shown = [...at(whole, ms).rows()];
      expect(shown.filter((each) => isTask(each) || each.kind === "phase").length).toBe(rows);
      expect(shown.every((each) => (each.start_ms ?? 0) <= ms && (each.end_ms ?? 0) <= ms)).toBe(true);
    }
  });

  it("shows no text that was not written yet", () => {
    for (const ms of moments) {
      const past = at(whole, ms);
      for (const each of whole.rows()) {
        const [then, all] = [past.row(each.span_id), whole.details(each.span_id)];
        if (!all || then?.end_ms != null || each.end_ms == null) continue;
        const details = past.details(each.span_id);
        expect([details?.output, details?.error]).toEqual([null, null]);
        expect(details?.messages.length).toBeLessThanOrEqual(all.messages.length);
        if (then?.status === "pending") expect([details?.messages, details?.input]).toEqual([[], null]);
        expect(whole.text(each.span_id).startsWith(past.text(each.span_id))).toBe(true);
      }
    }
  });
});

describe("a reply", () => {
  const call = row({ span_id: "l", kind: "llm", start_ms: 1000, end_ms: 2100, time_to_first_token_ms: 100 });
  const whole = stored({ rows: [call], run: run({ status: "completed", elapsed_ms: 3000 }) });
  whole.keepDetails({ span_id: "l", messages: [{ role: "user", text: "?" }, { role: "assistant", text: "0123456789" }], output: "0123456789" });

  it("grows by its share of the time from its first word on", () => {
    const texts = [900, 1050, 1100, 1600, 2099, 2100].map((ms) => at(whole, ms).text("l"));
    expect(texts).toEqual(["", "", "", "01234", "012345678", "0123456789"]);
    expect(at(whole, 1600).textTail("l", 2)).toBe("34");
    expect(at(whole, 1600).details("l")?.messages).toEqual([{ role: "user", text: "?" }]);
    expect(at(whole, 2100).details("l")).toBe(whole.details("l"));
  });

  it("has no half of a character", () => {
    expect(beginningOfText("a😀b", 0.5)).toBe("a");
    expect(beginningOfText("a😀b", 0.8)).toBe("a😀");
    expect([beginningOfText("ab", -1), beginningOfText("ab", 7)]).toEqual(["", "ab"]);
  });
});

describe("what is not known", () => {
  const rows = [row({ span_id: "t", kind: "task", start_ms: 0, end_ms: 10 }), row({ span_id: "a", kind: "attempt", parent_id: "t", attempt: 1, start_ms: 0, end_ms: 5, input_tokens: 7, cost: 0.5 })];
  const saved = (more: object): Store => wholeOf({
    kind: "saved", version: 4, n: 3, run: run({ status: "completed", elapsed_ms: 10, input_tokens: 70, cost: 5, tasks_total: 1 }), phases: [], rows, ...more,
  });

  it("is made of the rows that are here, and said where some were left out", () => {
    expect([at(saved({}), 6).run.value?.input_tokens, at(saved({}), 6).isPieced]).toEqual([7, false]);
    expect(at(saved({ rows_left_out: 9 }), 6).isPieced).toBe(true);
    expect(at(saved({ rows_left_out: 9, series: "damaged" }), 6).isPieced).toBe(true);
  });

  it("is taken in once it is known", () => {
    const whole = saved({});
    const past = at(whole, 6);
    const before = past.version.value;
    whole.keepDetails({ span_id: "t", messages: [], input: "x" });
    past.refresh();
    expect(past.version.value).toBeGreaterThan(before);
    whole.fold({ kind: "delta", from: 3, n: 4, run: run({ status: "completed", elapsed_ms: 10 }), rows: [row({ span_id: "u", kind: "tool", parent_id: "t", start_ms: 1, end_ms: 2 })], text: [] }, 0);
    past.refresh();
    expect(past.row("u")?.status).toBe("ok");
  });
});
