// Holds W153: which cells are asked for, and when.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { KernelConnection } from "../kernel/connection";
import { row, run, snapshot, wire } from "../testing/runs";
import type { Outgoing } from "../wire/messages";
import { CellAsker } from "./cell-asker";

const sent: Outgoing[] = [];
let connection: KernelConnection;
let asker: CellAsker;
const rows = Array.from({ length: 1000 }, (_, k) => row({ span_id: `r${k}`, kind: "task", end_ms: k < 500 ? 9 : null }));
const asked = (): (readonly string[])[] => sent.flatMap((each) => (each.kind === "cells" ? [each.span_ids] : []));

beforeEach(() => {
  vi.useFakeTimers();
  sent.length = 0;
  connection = new KernelConnection((message) => sent.push(message), () => 0);
  connection.receive(wire(snapshot({ run: run({ run_id: "one" }), rows })));
  asker = new CellAsker(connection.store, connection);
});
afterEach(() => {
  asker.end();
  connection.close();
  vi.useRealTimers();
});

it("asks once for what is seen, a page at a time, the newest sight first (W153)", () => {
  asker.want(rows.slice(0, 20));
  asker.want(rows.slice(100, 120));
  vi.advanceTimersByTime(100);
  expect(asked().map((ids) => [ids[0], ids.length])).toEqual([["r100", 20]]);
  connection.receive({ kind: "cells", cells: asked()[0]?.map((id) => [id, `Words of ${id}`, 7, ["Paris", 1, null]]) });
  asker.take();
  asker.want(rows.slice(100, 120));
  vi.advanceTimersByTime(100);
  expect(asked().length).toBe(1);
  expect(asker.textOf(rows[101] as (typeof rows)[number])).toEqual({ answer: "Words of r101", digest: 7, inputs: ["Paris", 1, null], pictures: {} });
  asker.want(rows);
  vi.advanceTimersByTime(100);
  expect(asked()[1]?.length).toBe(400);
});

it("asks again once a cell is over, and where no answer came (W153)", () => {
  const running = rows[700] as (typeof rows)[number];
  asker.want([running]);
  vi.advanceTimersByTime(100);
  vi.advanceTimersByTime(6000);
  expect(asked()).toEqual([["r700"], ["r700"]]);
  connection.receive({ kind: "cells", cells: [["r700", null, null, []]] });
  asker.take();
  asker.want([{ ...running, end_ms: 70 }]);
  vi.advanceTimersByTime(100);
  expect(asked().length).toBe(3);
});

it.each([[null], [{}], [[null, 7, {}, [7], ["r1"], ["r1", 7, "x", "none"], ["r1", "a", 1, [{}, "b"]]]]])("takes nothing in that is no cell: %j (W153)", (cells) => {
  connection.receive({ kind: "cells", cells });
  asker.take();
  const { answer, inputs } = asker.textOf(rows[1] as (typeof rows)[number]);
  expect([answer, inputs]).toEqual(Array.isArray(cells) ? ["a", [null, "b"]] : [null, []]);
});

it("has the words of the details where no kernel is, and asks nobody (W153)", () => {
  connection.store.keepDetails({ span_id: "r1", messages: [], output: "as it was saved" });
  const alone = new CellAsker(connection.store, null);
  alone.want(rows);
  vi.advanceTimersByTime(100);
  expect([alone.isAlone, asked().length, alone.textOf(rows[1] as (typeof rows)[number]).answer, alone.textOf(rows[2] as (typeof rows)[number]).answer]).toEqual([true, 0, "as it was saved", null]);
});

it("has the pictures of cells by their places, each of which comes once in a message or was saved (W167)", () => {
  const [live, saved] = ["a".repeat(64), "b".repeat(64)];
  connection.receive({ kind: "details", span_id: "*", pictures: { [saved]: ["b.png", null] } });
  connection.receive({ kind: "cells", cells: [{ [live]: ["a.png", "UklGRiQAAABXRUJQ"] }, ["r1", "Red.", 1, ["a.png", 7], { 0: live, answer: saved, 1: "none" }], ["r2", "Red.", 1, ["a.png", 8], { 0: live }]] });
  asker.take();
  const picture = { digest: live, caption: "a.png", thumbnail: "UklGRiQAAABXRUJQ" };
  expect(asker.textOf(rows[1] as (typeof rows)[number]).pictures).toEqual({ 0: picture, answer: { digest: saved, caption: "b.png", thumbnail: null } });
  expect(asker.textOf(rows[2] as (typeof rows)[number]).pictures).toEqual({ 0: picture });
});
