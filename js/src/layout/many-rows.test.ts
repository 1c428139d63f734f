// Holds W1 for runs that are deep, broad or long: rows nest to any depth, fold, and cost what changed.

import { describe, expect, it } from "vitest";
import { delta, row, run, stored } from "../testing/runs";
import type { Row, Run } from "../wire/rows";
import { heatColumns } from "./heat";
import { View } from "../view/view";
import { ALL_ROWS, groupOf, LayoutBuilder } from "./layout-builder";
import type { Layout } from "./tracks";

const NONE: ReadonlySet<string> = new Set();
const arrange = (rows: Row[], closed: string[] = []): Layout => new LayoutBuilder().build(stored({ rows, phases: [] }), new Set(closed));
const idsOf = (layout: Layout): string[] => layout.tracks.map((track) => track.id);

/** A task that hands on to a worker, which hands on to one of its own, and so on. */
function chain(depth: number): Row[] {
  const rows: Row[] = [row({ span_id: "w0", kind: "task", agent: "A", start_ms: 0 })];
  for (let k = 1; k <= depth; k += 1) {
    rows.push(row({ span_id: `d${k}`, kind: "delegation", parent_id: `w${k - 1}`, start_ms: k }));
    rows.push(row({ span_id: `w${k}`, kind: "task", agent: "A", parent_id: `d${k}`, start_ms: k, status: k === depth ? "error" : "ok" }));
  }
  return rows;
}

/** Tasks side by side in one phase. */
function broad(count: number, more: (k: number) => Partial<Row> = () => ({})): Row[] {
  const tasks = Array.from({ length: count }, (_, k) =>
    row({ span_id: `t${k}`, kind: "task", parent_id: "p", agent: "A", start_ms: k, end_ms: k + 10, ...more(k) }));
  return [row({ span_id: "p", kind: "phase", start_ms: 0, end_ms: count + 10 }), ...tasks];
}

describe("workers of workers", () => {
  it("stand below who handed the work on, to any depth, each with a way to it", () => {
    const layout = arrange(chain(20));
    expect(layout.tracks.map((track) => [track.id, track.depth, track.parent])).toEqual(
      Array.from({ length: 21 }, (_, k) => [`w${k}`, k, k === 0 ? null : `w${k - 1}`]));
    expect(layout.arrowsTo(layout.tracks).map(({ by, from, to }) => [by.row.span_id, from.id, to.id])).toEqual(
      Array.from({ length: 20 }, (_, k) => [`d${k + 1}`, `w${k}`, `w${k + 1}`]));
  });

  it("are folded away with the row above, which still shows the error at the bottom", () => {
    const layout = arrange(chain(20), ["w3"]);
    expect(idsOf(layout)).toEqual(["w0", "w1", "w2", "w3"]);
    expect(layout.track("w3")?.errors).toBe(1);
    expect(layout.track("w4")).toBeUndefined();
  });
});

describe("items of a task", () => {
  const items = (count: number): Row[] => [
    row({ span_id: "t", kind: "task", name: "each", item_count: count, start_ms: 0 }),
    ...Array.from({ length: count }, (_, k) =>
      row({ span_id: `i${k}`, kind: "task", name: `each[${k}]`, parent_id: "t", start_ms: k, end_ms: k + 5, status: k === 3 ? "error" : "ok" })),
  ];

  it("stand below it where they are few", () => {
    expect(idsOf(arrange(items(4)))).toEqual(["t", "i0", "i1", "i2", "i3"]);
    expect(idsOf(arrange(items(4), ["t"]))).toEqual(["t"]);
  });

  it("are one row where they are many, which shows errors and how busy they were, and opens", () => {
    const layout = arrange(items(1000));
    expect(idsOf(layout)).toEqual(["t"]);
    expect([layout.track("t")?.errors, layout.track("t")?.heat?.from.length]).toEqual([1, 1000]);
    expect(idsOf(arrange(items(1000), ["t"])).slice(0, 3)).toEqual(["t", "i0", "i1"]);
  });

  it("stand with what failed first, then the longest first, once all are over (W25)", () => {
    const rows = items(20).map((each, k) => (each.span_id === "t" ? { ...each, end_ms: 99 } : { ...each, end_ms: 10 + 2 * k }));
    expect(idsOf(arrange(rows, ["t"])).slice(0, 4)).toEqual(["t", "i3", "i19", "i18"]);
  });

  it("say nothing of a place that they waited for", () => {
    const rows = items(20).map((each) => ({ ...each, queue_ms: each.span_id === "t" ? null : 500 }));
    const marks = arrange(rows, ["t"]).track("i5")?.marks ?? [];
    expect(marks.find((mark) => mark.shape === "queue")?.label).toBe("");
  });
});

describe("rows of a map inside a task", () => {
  const inside = (count: number): Row[] => [
    row({ span_id: "t", kind: "task", name: "candidate 1", map_rows: count, start_ms: 0 }),
    row({ span_id: "n", kind: "nested", name: `${count} rows`, parent_id: "t", start_ms: 0 }),
    ...Array.from({ length: count }, (_, k) => row({ span_id: `r${k}`, kind: "task", name: `row ${k}`, parent_id: "n", start_ms: k, end_ms: k + 5 })),
  ];

  it("fold where they are many, and open (W178)", () => {
    expect(idsOf(arrange(inside(12))).length).toBe(13);
    expect(idsOf(arrange(inside(40)))).toEqual(["t"]);
    expect(idsOf(arrange(inside(40), ["t"])).length).toBe(41);
  });
});

describe("rows of a map", () => {
  const rows = (count: number): Row[] => Array.from({ length: count }, (_, k) =>
    row({ span_id: `r${k}`, kind: "task", name: `row ${k}`, start_ms: k, end_ms: k + 5 + (k % 7), status: k % 10 === 3 ? "error" : "ok" }));
  const map = (count: number, opened: string[] = [], more: Partial<Run> = {}): Layout => new LayoutBuilder().build(
    stored({ rows: rows(count), phases: [], run: run({ task_noun: "row", tasks_total: count, status: "completed_with_warnings", ...more }) }), new Set(opened));

  it.each([13, 300, 1700])("are one row, whatever their number: %s (W25)", (count) => {
    const { tracks } = map(count);
    expect(tracks.map((track) => [track.id, track.kind, track.heat?.from.length])).toEqual([[ALL_ROWS, "group", count]]);
    expect(tracks[0]?.heat?.errors.length).toBe(Math.ceil((count - 3) / 10));
  });

  it("stand below it once it is opened, what failed first, then the longest first", () => {
    const { tracks } = map(300, [ALL_ROWS]);
    expect(tracks.length).toBe(301);
    expect(tracks.slice(0, 2).map((track) => [track.row.name, track.depth])).toEqual([["270 done, 30 failed", 0], ["row 13", 1]]);
    expect(tracks.slice(1, 31).every((track) => track.row.status === "error")).toBe(true);
    const lengths = tracks.slice(31).map((track) => (track.row.end_ms as number) - (track.row.start_ms as number));
    expect(lengths).toEqual([...lengths].sort((a, b) => b - a));
  });

  it("do not move while they are at work", () => {
    expect(idsOf(map(300, [ALL_ROWS], { status: "running" })).slice(0, 4)).toEqual([ALL_ROWS, "r0", "r1", "r2"]);
  });

  it("stand by themselves where they are few", () => {
    expect(idsOf(map(12))).not.toContain(ALL_ROWS);
  });

  it("are led to in the row that stands for all, which opens", () => {
    const view = new View(stored({ rows: rows(300), phases: [], run: run({ task_noun: "row", tasks_total: 300, status: "failed" }) }), new AbortController().signal);
    view.select("r8");
    expect(view.selectedTrack?.id).toBe(ALL_ROWS);
    view.goTo("r13");
    expect(view.selectedTrack?.id).toBe("r13");
    view.goTo("r23");
    expect(view.layout.value.tracks.length).toBe(301);
  });
});

describe("very many siblings", () => {
  it("have a row before them that folds away those that are done", () => {
    const rows = broad(150, (k) => (k === 7 ? { status: "error" } : k === 9 ? { status: "running", end_ms: null } : {}));
    const open = arrange(rows);
    expect(open.tracks.slice(0, 3).map((track) => [track.id, track.kind, track.row.name])).toEqual([
      ["p", "phase", "p"], [groupOf("p"), "group", "148 done, 1 failed, 1 running"], ["t0", "task", "t0"],
    ]);
    expect(open.tracks.length).toBe(152);
    const folded = arrange(rows, [groupOf("p")]);
    expect(idsOf(folded)).toEqual(["p", groupOf("p"), "t7", "t9"]);
    expect(folded.track(groupOf("p"))?.heat?.from.length).toBe(148);
  });

  it.each([
    [["ok"], "ok", "150 done"],
    [["pending"], "pending", "0 done, 150 pending"],
    [["running", "pending", "ok"], "running", "50 done, 50 running, 50 pending"],
    [["ok", "error", "skipped"], "error", "50 done, 50 failed, 50 skipped"],
    [["ok", "waiting", "running"], "waiting", "50 done, 50 waiting, 50 running"],
  ] as const)("are told of together by the worst of %s", (statuses, status, name) => {
    const group = arrange(broad(150, (k) => ({ status: statuses[k % statuses.length] as Row["status"] }))).track(groupOf("p"));
    expect([group?.row.status, group?.row.name]).toEqual([status, name]);
  });

  it("are counted with commas, as everywhere", () => {
    expect(arrange(broad(1000)).track(groupOf("p"))?.row.name).toBe("1,000 done");
  });

  it("have none where they are not so many", () => {
    expect(arrange(broad(99)).tracks.every((track) => track.kind !== "group")).toBe(true);
  });

  it("show in their folded phase how busy they were together, and where one failed", () => {
    const phase = arrange(broad(1000, (k) => (k === 500 ? { status: "error" } : {})), ["p"]).track("p");
    expect(phase?.marks.map((mark) => mark.shape)).toEqual(["phase"]);
    expect(phase?.heat?.from.length).toBe(1000);
    expect([...(phase?.heat?.errors ?? [])]).toEqual([510]);
    expect(phase?.errors).toBe(1);
  });

  it("are found by height and by id without looking at each", () => {
    const layout = arrange(broad(1000));
    for (const track of [layout.tracks[0], layout.tracks[500], layout.tracks.at(-1)]) {
      expect(layout.tracks[layout.indexAt((track?.y ?? 0) + 1)]).toBe(track);
      expect(layout.track(track?.id ?? "")).toBe(track);
    }
    const seen = layout.between(3000, 3060);
    expect(seen.length).toBeLessThanOrEqual(4);
    expect(seen).toEqual(layout.tracks.filter((track) => track.y < 3060 && track.y + track.height > 3000));
    expect(layout.between(-50, -10)).toEqual([]);
  });
});

it("adds up in a column how many are at work, a part of a column as a part", () => {
  const heat = { from: Float64Array.from([0, 10, 25]), to: Float64Array.from([20, 20, Infinity]), errors: new Float64Array() };
  expect([...heatColumns(heat, { from: 0, to: 40 }, 4, 30)]).toEqual([1, 2, 0.5, 0]);
  const late = [...heatColumns(heat, { from: 15, to: 55 }, 4, 30)].map((value) => Math.round(value * 100) / 100);
  expect(late).toEqual([1, 0.5, 0, 0]);
});

describe("an arrangement that is brought up to date", () => {
  /** The same numbers for the same seed, between 0 and 1. */
  function makeRandom(seed: number): () => number {
    let state = seed;
    return () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
  }

  const KINDS = ["turn", "llm", "attempt", "wait", "tool", "delegation", "review", "guardrail", "memory", "nested", "phase", "task"];
  const INSIDE: Record<string, string> = { llm: "turn", attempt: "llm", wait: "llm", tool: "turn", delegation: "tool", phase: "nested" };

  /** A batch of rows that begin, end, fail, or hand work on. */
  function makeBatch(random: () => number, known: Map<string, Row>, now: number): Row[] {
    const batch: Row[] = [];
    const put = (next: Row): void => {
      known.set(next.span_id, next);
      batch.push(next);
    };
    const pick = <T,>(from: readonly T[]): T | undefined => from[Math.floor(random() * from.length)];
    for (let k = 0; k < 8; k += 1) {
      const running = [...known.values()].filter((one) => one.status === "running");
      const old = pick(running);
      if (old && random() < 0.5) {
        put({ ...old, status: random() < 0.2 ? "error" : "ok", end_ms: now, backoff_ms: old.kind === "attempt" && random() < 0.5 ? 5 : null,
          guardrail: old.kind === "guardrail" ? "output" : null });
        continue;
      }
      const kind = pick(KINDS) as string;
      const around = pick([...known.values()].filter((one) => one.kind === (INSIDE[kind] ?? "task") || (kind === "task" && (one.kind === "delegation" || one.kind === "phase"))));
      if (!around) continue;
      put(row({ span_id: `s${known.size}`, kind, parent_id: around.span_id, status: "running", start_ms: now, lane: Math.floor(random() * 3), agent: "A" }));
    }
    return batch;
  }

  const plain = (layout: Layout): unknown => layout.tracks.map(({ id, kind, depth, y, height, errors, giver, parent, marks }) => [
    id, kind, depth, y, height, errors, giver, parent,
    marks.map(({ row: { span_id, status }, shape, from, to, top, label }) => JSON.stringify([span_id, status, shape, from, to, top, label])).sort(),
  ]);

  it.each([1, 2, 3, 4, 5, 6])("is what it would be if it were made at once (%i)", (seed) => {
    const random = makeRandom(seed);
    const first = broad(3, () => ({ status: "running", end_ms: null }));
    const known = new Map(first.map((one) => [one.span_id, one]));
    const store = stored({ rows: first, phases: [] });
    const kept = new LayoutBuilder();
    const closed = new Set(seed % 2 ? ["t1"] : []);
    for (let n = 1; n <= 40; n += 1) {
      const rows = makeBatch(random, known, n * 10);
      store.fold(delta(n, n + 1, { rows, run: run({ elapsed_ms: n * 10 }) }), 0);
      expect(plain(kept.build(store, closed))).toEqual(plain(new LayoutBuilder().build(store, closed)));
    }
    expect(known.size).toBeGreaterThan(60);
  });

  it("keeps the very rows that nothing happened to", () => {
    const store = stored({ rows: broad(1000), phases: [] });
    const builder = new LayoutBuilder();
    const before = builder.build(store, NONE);
    const changed = row({ span_id: "t500", kind: "task", parent_id: "p", agent: "A", status: "error", start_ms: 500, end_ms: 520 });
    store.fold(delta(1, 2, { rows: [changed] }), 0);
    const after = builder.build(store, NONE);
    const fresh = after.tracks.filter((track) => before.track(track.id) !== track).map((track) => track.id);
    expect(fresh).toEqual(["p", groupOf("p"), "t500"]);
  });

  it("keeps the very row of a task whose marks changed, and shows them", () => {
    const store = stored({ rows: broad(3), phases: [] });
    const builder = new LayoutBuilder();
    const before = builder.build(store, NONE).track("t1");
    expect(before?.marks.map((mark) => mark.row.span_id)).toEqual(["t1"]);
    store.fold(delta(1, 2, { rows: [row({ span_id: "c", kind: "tool", parent_id: "t1", start_ms: 2, end_ms: 4 })] }), 0);
    const after = builder.build(store, NONE).track("t1");
    expect(after).toBe(before);
    expect(after?.marks.map((mark) => mark.row.span_id)).toEqual(["t1", "c"]);
  });
});
