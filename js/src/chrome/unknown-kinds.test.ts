// @vitest-environment jsdom

// A kernel of a later version may know kinds of spans that this view does not: they are shown plainly, in every room.

import { beforeAll, describe, expect, it } from "vitest";
import { markAt } from "../layout/hit-test";
import { LayoutBuilder } from "../layout/layout-builder";
import type { Track } from "../layout/tracks";
import { activitiesOf } from "../store/activities";
import { nextProblem } from "../store/problems";
import { TestPage } from "../testing/page";
import { paint, silenceCanvas } from "../testing/painting";
import { row, run, snapshot, stored, wire } from "../testing/runs";
import { PALETTES } from "../theme/palette";
import { readMessage } from "../wire/reader";
import type { Row } from "../wire/rows";
import { kindTitle } from "../wording/labels";

/** What no table has: a kind of a later version, one that is named like what every object has, and none. */
const KINDS = ["sandbox_run", "constructor", "__proto__", ""];

beforeAll(silenceCanvas);

describe.each(KINDS)("a span of the unknown kind %j", (kind) => {
  const task = row({ span_id: "t", kind: "task", name: "web", agent: "Ana", status: "running", start_ms: 0 });
  const odd = row({ span_id: "s", kind, parent_id: "t", name: "inspect", start_ms: 100, end_ms: 700, cost: 0.5, input_tokens: 4100 });
  const inside = row({ span_id: "c", kind: "tool", parent_id: "s", tool: "search", status: "error", start_ms: 200, end_ms: 300 });
  const rows: Row[] = [task, odd, inside];
  const running = { ...odd, status: "running" as const, end_ms: null };

  it("is read, and belongs to its task", () => {
    expect(readMessage(wire(snapshot({ rows })))).toMatchObject({ rows: [{ span_id: "t" }, { kind }, { span_id: "c" }] });
    const store = stored({ rows, phases: [] });
    expect(store.ownerOf("s")).toBe("t");
    expect(store.ownerOf("c")).toBe("t");
    expect(nextProblem(store, "error", null)).toBe("c");
  });

  it("is said to run now by the kernel without harm", () => {
    const active = [{ span_id: "s", kind, name: "inspect" }];
    const state = run({ active });
    expect(readMessage(wire(snapshot({ run: state })))).toMatchObject({ run: { active } });
    expect(activitiesOf(stored({ rows: [task, running], run: state }), state, 3).shown).toMatchObject([{ name: "web" }]);
  });

  it("is a plain bar in the row of its task, which can be pointed at, and is in that of a collapsed phase", () => {
    const phase = row({ span_id: "p", kind: "phase", name: "research", start_ms: 0 });
    const store = stored({ rows: [phase, { ...task, parent_id: "p" }, odd, inside] });
    const open = new LayoutBuilder().build(store, new Set());
    const track = open.tracks[1] as Track;
    expect(track.marks.map((mark) => [mark.row.span_id, mark.shape])).toContainEqual(["s", "plain"]);
    expect(markAt(track, 600, 15, 1000, 5)?.row.span_id).toBe("s");
    const closed = new LayoutBuilder().build(store, new Set(["p"]));
    expect(closed.tracks[0]?.marks.map((mark) => mark.row.span_id)).toContain("s");
  });

  it("is a row of its own where nothing known is around it", () => {
    const alone = new LayoutBuilder().build(stored({ rows: [{ ...odd, parent_id: null }], phases: [] }), new Set());
    expect(alone.tracks.map((track) => [track.id, track.marks.length])).toEqual([["s", 1]]);
  });

  it("is drawn with its name, however it stands or ended, and where it is too thin for a name", () => {
    for (const status of ["ok", "running", "waiting", "error", "cancelled", "interrupted"] as const) {
      const span = { ...odd, status, end_ms: status === "running" || status === "waiting" ? null : 700 };
      expect(paint([task, span]).texts).toContain("inspect");
    }
    const thin = paint([task, odd], { window: { from: 0, to: 1_000_000 } });
    expect(thin.rects.some((rect) => rect.style === PALETTES.light.idle)).toBe(true);
    expect(paint([task, { ...odd, status: "pending", start_ms: null, end_ms: null }]).texts).not.toContain("inspect");
  });

  it("has its facts, its texts and its place in the drawer, and its task in the gutter", async () => {
    const page = new TestPage();
    page.kernel.snapshot = wire(snapshot({ rows, phases: [], run: run({ active: [{ span_id: "s", kind, name: "inspect" }] }) }));
    page.show();
    await page.nextFrame();
    expect(page.place.querySelector(".et-row")?.textContent).toContain("web");
    const gutter = page.place.querySelector(".et-gutter") as HTMLElement;
    const press = (key: string): boolean => gutter.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    for (const key of ["ArrowDown", "ArrowRight", "Enter"]) press(key);
    await page.nextFrame();
    expect(page.kernel.sent).toContainEqual({ kind: "details", span_id: "s" });
    page.kernel.post({ kind: "details", span_id: "s", messages: [], input: "what went in", output: "what came out" });
    await page.nextFrame();
    const drawer = page.place.querySelector(".et-drawer")?.textContent ?? "";
    for (const part of ["inspect", "600 ms", "4,100", "$0.500", "Input", "what went in", "what came out", kindTitle(kind)]) {
      expect(drawer).toContain(part);
    }
    page.place.querySelector(".et-canvas")?.dispatchEvent(new MouseEvent("pointermove", { bubbles: true, clientX: 200, clientY: 45 }));
    await page.nextFrame();
    expect(page.place.querySelector(".et-tooltip")?.textContent).toContain("inspect");
    await page.close();
  });
});

it("names unknown kinds by their own words", () => {
  expect(["sandbox_run", "sub-agent", "", "constructor"].map(kindTitle)).toEqual(["Sandbox run", "Sub agent", "Span", "Constructor"]);
});
