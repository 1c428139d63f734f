import { expect, it } from "vitest";
import { delta, row, ROWS, run, snapshot, wire } from "../testing/runs";
import type { Details } from "./messages";
import { isFinal } from "./predicates";
import { readMessage, readSaved } from "./reader";
import { VERSION } from "./rows";

it("reads a snapshot as it was sent", () => {
  expect(readMessage(wire(snapshot()))).toMatchObject({ kind: "snapshot", n: 1, rows: ROWS, run: run() });
});

it("reads a delta with its text", () => {
  const sent = delta(3, 4, { rows: ROWS.slice(0, 1), text: [["l", "Hi"]] });
  expect(readMessage(sent)).toEqual(sent);
});

it("drops the rows that it could not draw and keeps the rest", () => {
  const broken = [{ span_id: "z" }, null, { ...ROWS[0], kind: 7 }, { ...ROWS[0], start_ms: NaN }, { ...ROWS[0], status: "odd" }];
  expect(readMessage({ ...wire(snapshot()), rows: [...broken, ...ROWS] })).toMatchObject({ rows: ROWS });
});

it("keeps what is unknown unknown, and never makes a zero of it", () => {
  const read = readMessage({ ...wire(snapshot()), run: { run_id: "r", status: "running" } });
  expect(read).toMatchObject({ run: { cost: null, input_tokens: null, output_tokens: null, error: null } });
});

it.each([
  ["no object", 7, "not an object"],
  ["a newer version", { ...wire(snapshot()), version: VERSION + 1 }, `version ${VERSION + 1}`],
  ["no run", { ...wire(snapshot()), run: null }, "nothing about the run"],
  ["a run of unknown status", { ...wire(snapshot()), run: { run_id: "r", status: "odd" } }, "incomplete"],
  ["no rows", { ...wire(snapshot()), rows: "none" }, "no rows"],
  ["a delta without numbers", { ...delta(0, 1), from: null }, "incomplete"],
  ["an unknown kind", { kind: "poke" }, "unknown kind"],
])("says why it can't read %s", (_what, message, why) => {
  const read = readMessage(message);
  expect(read.kind).toBe("bad");
  expect(read.kind === "bad" && read.why).toContain(why);
});

it("takes only texts as texts in details", () => {
  const read = readMessage({
    kind: "details", span_id: "l", input: { deep: 1 }, output: "ok", error: { type: "E" }, lengths: { output: 30_000, input: "long" },
    messages: [{ role: "user", text: 5, field: "message.3" }, "odd", { role: "assistant", text: "hi", reasoning: "hm", tool_calls: [{ name: "f", arguments: { a: 1 } }, 3] }],
  });
  expect(read).toEqual({
    kind: "details",
    details: {
      span_id: "l", input: null, output: "ok", error: { type: "E", message: "" }, lengths: { output: 30_000 }, handovers: [],
      messages: [
        { role: "user", text: "", reasoning: null, field: "message.3", name: null, tool_calls: null },
        { role: "assistant", text: "hi", reasoning: "hm", field: null, name: null, tool_calls: [{ id: null, name: "f", arguments: { a: 1 } }] },
      ],
    },
  });
});

it("reads a saved trace with its details", () => {
  const saved = readSaved({
    ...wire(snapshot()), kind: "saved", saved_at: "2026-11-21T14:03:00Z", details_left_out: 2, details: { l: { output: "hi" }, x: 3 },
  });
  expect(saved).toMatchObject({ kind: "saved", details_left_out: 2, details: { l: { span_id: "l", output: "hi", messages: [] } } });
  expect(readSaved("text").kind).toBe("bad");
});

it("lets no review in that could not be shown", () => {
  const row = { span_id: "r", kind: "review", name: "output", status: "waiting" };
  const read = (review: unknown) => readMessage(wire(snapshot({ rows: [{ ...row, review } as never] })));
  expect(read({ subject: "output", text: "?", verdicts: ["approve"], deadline_ms: 5 })).toMatchObject({ rows: [{ span_id: "r" }] });
  for (const bad of ["?", { text: 5, verdicts: [] }, { text: "?" }, { text: "?", verdicts: [], deadline_ms: "soon" }]) {
    expect(read(bad)).toMatchObject({ rows: [] });
  }
});

it("reads a budget number by number", () => {
  const message = wire(snapshot({ run: run({ budget: { max_cost: 1, cost: "much", share: 0.5 } as never }) }));
  expect(readMessage(message)).toMatchObject({ run: { budget: { max_cost: 1, cost: null, max_tokens: null, share: 0.5 } } });
});

it("knows every status that a run can end with", () => {
  for (const status of ["completed_with_warnings", "budget_exceeded", "exited_early"] as const) {
    expect(readMessage(wire(snapshot({ run: run({ status }) })))).toMatchObject({ run: { status } });
    expect(isFinal(status)).toBe(true);
  }
  expect([isFinal("running"), isFinal("pending"), isFinal(undefined)]).toEqual([false, false, false]);
});

it("takes money that was saved without its currency for that of the run", () => {
  const [paid, free] = [row({ span_id: "a", kind: "llm", cost: 0.5 }), row({ span_id: "b", kind: "tool" })];
  const read = readMessage(wire(snapshot({ run: run({ currency: "EUR", budget: { max_cost: 1 } }), rows: [paid, free] })));
  expect(read).toMatchObject({ rows: [{ ...paid, currency: "EUR" }, free], run: { budget: { currency: "EUR" } } });
  expect(readMessage(delta(1, 2, { rows: [{ ...paid, currency: "GBP" }] }))).toMatchObject({ rows: [{ currency: "GBP" }] });
});

it("keeps the kind of a span that only a later version knows", () => {
  const later = row({ span_id: "z", kind: "wormhole" });
  expect(readMessage(wire(snapshot({ rows: [later] })))).toMatchObject({ rows: [{ span_id: "z", kind: "wormhole" }] });
});

it("reads what version 1 called otherwise", () => {
  const old = { ...run(), error_count: undefined, retry_count: undefined, errors: 2, retries: 3 };
  const { error_count: _, retry_count: __, ...saved } = old;
  const message = { ...wire(snapshot()), version: 1, run: saved, rows: [{ ...row({ span_id: "w", kind: "wait" }), wait: "budget" }] };
  expect(readMessage(message)).toMatchObject({
    run: { error_count: 2, retry_count: 3 }, rows: [{ span_id: "w", wait_kind: "budget" }],
  });
});

it("puts the texts of a saved view together, which has each once, and bears what refers to nothing", () => {
  const message = (text: unknown): unknown => ({ role: "user", text });
  const saved = readSaved({
    ...wire(snapshot()), kind: "saved", texts: ["tides", ["about ", 0, "."], [9, 7], 5],
    details: { t: { messages: [message(1), message("as it is"), message(99)], input: 0, output: 2 } },
  });
  if (saved.kind !== "saved") throw new Error(saved.why);
  const { messages, input, output } = saved.details.t as Details;
  expect(messages.map(({ text }) => text)).toEqual(["about tides.", "as it is", ""]);
  expect([input, output]).toEqual(["tides", ""]);
});

it("hands on what is told of calls made again and forks, with its buffers", () => {
  const told = { kind: "tryout", number: 1, error: "no" };
  expect(readMessage(told)).toEqual({ kind: "tryout", tryout: told, buffers: [] });
});
