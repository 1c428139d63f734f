// @vitest-environment jsdom

// Holds W33: by what bars are coloured, and what keeps its colour.

import { beforeAll, describe, expect, it } from "vitest";
import { PAINTS } from "../theme/paint-palette";
import { paint, silenceCanvas } from "../testing/painting";
import { row, run, stored } from "../testing/runs";
import { View } from "../view/view";
import type { Row } from "../wire/rows";
import { boundsOf } from "./amount-steps";
import { canPaint, paintingOf } from "./paint";

beforeAll(silenceCanvas);

const viewOf = (rows: Row[]): View => new View(stored({ rows, phases: [], run: run({ status: "completed" }) }), new AbortController().signal);
const call = (span_id: string, more: Partial<Row> = {}): Row => row({ span_id, kind: "llm", parent_id: "t", start_ms: 0, end_ms: 500, model: "gpt", ...more });
const TASK = row({ span_id: "t", kind: "task", agent: "Ana", start_ms: 0, end_ms: 900 });

it("gives each of the first six names a colour in order of appearance, and says how many others there are (W33)", () => {
  const rows = Array.from({ length: 8 }, (_, k) => call(`c${k}`, { agent: `A${k}` }));
  const { legend, hueOf } = paintingOf(viewOf(rows), "agent");
  expect(legend.map(({ words }) => words)).toEqual(["A0", "A1", "A2", "A3", "A4", "A5", "2 other agents"]);
  expect(rows.map(hueOf)).toEqual(["paint0", "paint1", "paint2", "paint3", "paint4", "paint5", null, null]);
});

it("colours models by their own names, and tools not at all (W33)", () => {
  const rows = [TASK, call("a"), call("b", { model: null, model_requested: "o9" }), row({ span_id: "x", kind: "tool", parent_id: "t", start_ms: 1, end_ms: 2 })];
  const { legend, hueOf } = paintingOf(viewOf(rows), "model");
  expect(legend.map(({ words }) => words)).toEqual(["gpt", "o9"]);
  expect(rows.map(hueOf)).toEqual([null, "paint0", "paint1", null]);
});

it("parts costs into steps with as many calls each, and few values far apart (W33)", () => {
  expect(boundsOf([100, 2, 3, 4, 5, 6, 7, 1], 4)).toEqual([2, 4, 6, 100]);
  expect(boundsOf([5, 5, 1], 4)).toEqual([1, 5]);
  expect(boundsOf([], 4)).toEqual([]);
  const rows = [0.01, 0.02].map((cost, k) => call(`c${k}`, { cost, currency: "USD" }));
  const { legend, hueOf } = paintingOf(viewOf(rows), "cost");
  expect(legend).toEqual([{ place: 0, words: "≤ $0.010" }, { place: 3, words: "≤ $0.020" }]);
  expect(rows.map(hueOf)).toEqual(["paint0", "paint3"]);
});

it("colours all that was done for a row of a map by its score (W33)", () => {
  const rows = [row({ span_id: "r", kind: "task", score: 0, start_ms: 0 }), row({ span_id: "n", kind: "nested", parent_id: "r" }), call("c", { parent_id: "n" }), row({ span_id: "s", kind: "task", score: 1 })];
  const { legend, hueOf } = paintingOf(viewOf(rows), "score");
  expect(legend.map(({ words }) => words)).toEqual(["≤ 0", "≤ 1"]);
  expect(rows.map(hueOf)).toEqual(["paint0", "paint0", "paint0", "paint3"]);
});

it("is offered only where it would tell bars apart (W33)", () => {
  const view = viewOf([TASK, call("a", { agent: "Ana" }), call("b", { agent: "Bo", cost: 0.1 })]);
  expect((["agent", "model", "cost", "score"] as const).map((name) => canPaint(view, name))).toEqual([true, false, false, false]);
});

describe("on the canvas", () => {
  const rows = [TASK, ...Array.from({ length: 60 }, (_, k) => call(`c${k}`, { agent: k % 2 ? "Bo" : "Ana", status: k === 7 ? "error" : k === 8 ? "cancelled" : "ok", start_ms: k * 15, end_ms: k * 15 + 12 }))];

  it("paints each bar in its colour, what failed and what was cut short as always (W33)", () => {
    const painting = paintingOf(viewOf(rows), "agent");
    for (const [width, kept] of [[1500, ["#error", "#idle"]], [40, ["#error"]]] as const) {
      const picture = paint(rows, { paint: painting, width, theme: painting.dress(THEME) });
      const styles = new Set(picture.set);
      for (const color of [...PAINTS.light.names.slice(0, 2), ...kept]) expect(styles, `${color} at ${width} pixels`).toContain(color);
      expect(styles).not.toContain("#llm");
    }
  });
});

const hues = { idle: "#idle", llm: "#llm", tool: "#tool", wait: "#wait", error: "#error" };
const THEME = { colorScheme: "light" as const, font: "x", background: "#fff", text: "#111", muted: "#555", accent: "#00f", hues, labelColors: hues };

it("leaves all colours to the system where that chooses them (W33)", () => {
  const forced = { ...THEME, background: "Canvas", hues: { ...hues, llm: "CanvasText" }, labelColors: { ...hues, llm: "Canvas" } };
  const dressed = paintingOf(viewOf([TASK]), "agent").dress(forced);
  expect(Object.entries(dressed.hues).filter(([name]) => name.startsWith("paint")).map(([, color]) => color)).toEqual(Array(6).fill("CanvasText"));
  expect(Object.keys(dressed.hues).at(-1)).toBe("error");
});
