// @vitest-environment jsdom
// Holds W17: the words on a difference stand where they hide no bar, as long as there is room.

import { expect, it } from "vitest";
import type { Row } from "../wire/rows";
import { placeDelta as place } from "./delta-chips";

const window = { from: 0, to: 1000 };
const row = (start_ms: number | null, end_ms: number | null, delta: string | null = "+1.2 s · +48 tokens"): Row =>
  ({ span_id: "a", kind: "task", name: "B · a", status: "ok", start_ms, end_ms, delta }) as Row;

const placeDelta = (one: Row, shown: typeof window, width: number) => place(one, shown, width, (text) => 6 * text.length);

it("takes as much room as its words do in their font", () => {
  expect(place(row(0, 500, "+1.2 s"), window, 1000, () => 480)?.left).not.toBe(508);
  expect(place(row(0, 500, "+1.2 s"), window, 1000, () => 470)?.left).toBe(508);
});

it("stands behind the bars", () => {
  expect(placeDelta(row(100, 300), window, 1000)).toEqual({ text: "+1.2 s · +48 tokens", left: 308 });
});

it("stands before bars that go to the edge", () => {
  const place = placeDelta(row(600, 1000), window, 1000);
  expect(place?.text).toBe("+1.2 s · +48 tokens");
  expect(place?.left).toBeGreaterThan(440);
  expect(place?.left).toBeLessThan(500);
});

it("says less where there is less room", () => {
  expect(placeDelta(row(50, 900), window, 1000)).toEqual({ text: "+1.2 s", left: 908 });
});

it("stays in the chart where bars fill it", () => {
  expect(placeDelta(row(0, 1000), window, 1000)?.text).toBe("+1.2 s");
  expect(placeDelta(row(0, 1000), window, 1000)?.left).toBeGreaterThan(900);
  expect(placeDelta(row(0, 1000), window, 20)?.left).toBe(0);
});

it.each([row(100, 300, null), row(null, null), row(100, null), row(2000, 3000), row(-20, -10)])("is not there for %o", (one) => {
  expect(placeDelta(one, window, 1000)).toBeNull();
});
