// The static picture that Python draws and the rows of the timeline are held together here (W14): what Python wrote of
// recorded runs, line by line, against what the timeline makes of the same messages.

import { describe, expect, it } from "vitest";
import { Store } from "../store/store";
import { readRecorded, RECORDED, type Recorded } from "../testing/recorded";
import { describeLength, nameOf, timesOf } from "../wording/labels";
import { LayoutBuilder } from "./layout-builder";
import type { Mark } from "./marks";

/** What the picture calls a mark. */
function kindOf(mark: Mark): string {
  // What a handler began beside it is not in the picture's bars.
  if (mark.shape === "work" || mark.row.kind === "nested") return "handler";
  if (mark.row.wait_kind === "startup") return "startup";
  if (mark.shape === "round") return "round";
  if (mark.shape === "attempt") return "llm";
  return mark.shape === "backoff" ? "backoff" : mark.row.kind;
}

describe.each(RECORDED.map((one): [string, Recorded] => [one.name, one]))("%s", (_, { final, picture }) => {
  const store = new Store();
  store.fold(readRecorded(final), 0);
  const { tracks } = new LayoutBuilder().build(store, new Set());
  const { lines } = picture;

  it("has the same rows in the same order, as deep and as nested, with the same states", () => {
    const rows = tracks.map(({ row, depth, isWorker }) => ({ span_id: row.span_id, name: nameOf(row) + timesOf(row), status: row.status, depth, is_worker: isWorker }));
    expect(rows).toEqual(lines.map(({ span_id, name, status, depth, is_worker }) => ({ span_id, name, status, depth, is_worker })));
    expect(rows.length).toBeGreaterThan(3);
  });

  it("says the same times", () => {
    const times = tracks.map(({ row }) => (row.start_ms == null ? "" : describeLength(row)));
    expect(times).toEqual(lines.map((line) => line.time));
  });

  it("has every mark that the picture has", () => {
    const ends = new Set(["error", "cancelled", "running"]);
    for (const line of lines) {
      const track = tracks.find(({ id }) => id === line.span_id);
      const kinds = new Set(track?.marks.map(kindOf));
      for (const mark of line.marks) {
        if (ends.has(mark)) expect([line.name, track?.row.status]).toEqual([line.name, mark]);
        else expect([line.name, ...kinds]).toContain(mark);
      }
    }
    expect(new Set(lines.flatMap((line) => line.marks)).size).toBeGreaterThan(1);
  });

  it("says what happened in the same words", () => {
    expect(store.run.value?.sentence).toBe(picture.sentence);
    expect(picture.sentence).not.toBe("");
  });
});
