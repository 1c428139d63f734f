// @vitest-environment jsdom
// Holds W15 and W20: each state by sign, word and sentence; what happened; what a saved view lacks.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { renderSaved } from "../entry/saved-view";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";
import { RUN_STATUSES, type Run } from "../wire/rows";
import { describeLack } from "./run-notes";
import { stateOf } from "./run-state";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

async function show(state: Partial<Run>): Promise<HTMLElement> {
  page.kernel.snapshot = wire(snapshot({ run: run(state) }));
  page.show();
  await page.nextFrame();
  return page.place;
}

const textsOf = (selector: string): string[] => [...page.place.querySelectorAll(selector)].map((found) => found.textContent ?? "");

describe("states", () => {
  const there = { isLost: false, isRestarted: false, isStopping: false, isSaved: false };
  const all = [
    stateOf(null, there),
    stateOf(null, there, true),
    ...RUN_STATUSES.filter((status) => status !== "pending").map((status) => stateOf(run({ status }), there)),
    stateOf(run({ status: "completed", tasks_total: 0 }), there),
    stateOf(run({ status: "failed", exit_reason: "timeout" }), there),
    stateOf(run({ waiting: ["r"] }), there),
    stateOf(run(), { ...there, isStopping: true }),
    stateOf(run(), { ...there, isSaved: true }),
    stateOf(run(), { ...there, isLost: true }),
    stateOf(run(), { ...there, isLost: true, isRestarted: true }),
  ];

  it("differ in word and in sign, so that no colour is needed to tell them apart", () => {
    expect(new Set(all.map((state) => state.word)).size).toBe(all.length);
    expect(new Set(all.map((state) => state.icon)).size).toBe(all.length);
  });

  it("say in a sentence what they mean", () => {
    for (const state of all) expect(state.hint).toMatch(/^[A-Z].{20,}\.$/);
  });

  it("say of a review that nobody could be asked, and what to do", () => {
    const state = stateOf(run({ status: "exited_early", exit_reason: "nobody_to_ask" }), there);
    expect(state.word).toBe("Nobody to ask");
    expect(state.hint).toContain("give a review_handler, or resume the run where somebody can be asked");
  });

  it("stay as the run ended, whatever becomes of the kernel", () => {
    expect(stateOf(run({ status: "completed" }), { ...there, isLost: true }).key).toBe("completed");
  });
});

it("says what happened in one line, and counts cancelled tasks (W20)", async () => {
  const sentence = "Stopped after 4.2 s in nap; 1 of 3 tasks done, 2 cancelled";
  await show({ status: "interrupted", tasks_total: 3, tasks_done: 1, tasks_cancelled: 2, sentence });
  expect(textsOf(".et-sentence")).toEqual([sentence]);
  const parts = [...page.place.querySelectorAll<HTMLElement>(".et-progress i")].map((part) => [part.dataset.part, Math.round(parseFloat(part.style.width))]);
  expect(parts).toEqual([["done", 33], ["cancelled", 67]]);
});

it("counts cancelled tasks where an earlier version saved no sentence", async () => {
  await show({ status: "interrupted", tasks_cancelled: 2, llm_call_count: 1 });
  expect(textsOf(".et-sentence")).toEqual(["2 cancelled · 1 model call"]);
});

it("shows no tokens and no cost of a run of handlers alone (W22)", async () => {
  await show({ status: "completed", input_tokens: 0, output_tokens: 0, cost: 0 });
  expect(textsOf(".et-tokens, .et-cost")).toEqual([]);
});

it("says where no texts were kept", async () => {
  await show({ capture_mode: "metadata" });
  expect(textsOf(".et-note")).toEqual([expect.stringContaining("No texts were kept: capture is METADATA")]);
});

describe("a saved view", () => {
  const saved = (more: object): HTMLElement => {
    const rows = [row({ span_id: "t", kind: "task" })];
    const message = { ...wire(snapshot({ run: run({ status: "completed", variable: "report" }), phases: [], rows })), kind: "saved", details: {}, ...more };
    page.ends.push(renderSaved(page.place, message));
    return page.place;
  };

  it("never lacks calls without a word, and says where all of them are", () => {
    saved({ kept: { task: [10, 10], llm: [400, 8000], tool: [100, 2000], attempt: [0, 8000] }, rows_left_out: 17_500 });
    expect(textsOf(".et-note")).toEqual(["500 of 10,000 calls kept here; all of them: report.timeline."]);
  });

  it("says nothing where it has everything", () => {
    saved({ kept: { task: [10, 10], llm: [40, 40] }, rows_left_out: 0, details_left_out: 0 });
    expect(textsOf(".et-note")).toEqual([]);
  });

  it("counts other spans, and texts, where those are missing alone", () => {
    expect(describeLack({ llm: [4, 4], attempt: [1, 4] }, { rows: 3, details: 0 })).toBe("5 of 8 spans kept here");
    expect(describeLack({}, { rows: 3, details: 0 })).toBe("3 spans not kept here");
    expect(describeLack({ llm: [4, 4] }, { rows: 0, details: 1 })).toBe("The texts of 1 span not kept here");
  });

  it("of a run that had not ended says how far it had come, and nothing of it moves (W24)", async () => {
    const going = { run: run({ tasks_done: 4, tasks_total: 8, elapsed_ms: 18_000, cost: 0.021 }), saved_at: "2026-11-24T22:51:00" };
    const rows = [row({ span_id: "t", kind: "task", status: "running", start_ms: 0 }), row({ span_id: "u", kind: "task", status: "pending" })];
    saved({ ...going, rows });
    await page.nextFrame();
    expect(textsOf(".et-word")).toEqual(["Running when saved"]);
    expect(textsOf(".et-sentence")).toEqual([expect.stringMatching(/^running when saved, 10:51 PM · 4 of 8 tasks · 18 s · \$0\.021$/)]);
    expect(textsOf(".et-clock, .et-tasks, .et-cost, .et-stop")).toEqual([]);
    expect(page.place.querySelector<HTMLElement>(".ensemble-timeline")?.dataset.live).toBe("false");
    expect([...page.place.querySelectorAll<HTMLElement>(".et-row")].map((found) => found.dataset.status)).toEqual(["unknown", "pending"]);
  });

  it("that can't be read says why and what to do", () => {
    saved({ version: 99 });
    expect(textsOf(".et-word")).toEqual(["Can't be read"]);
    expect(textsOf(".et-note")).toEqual([expect.stringMatching(/version 99.*Run the cell again/)]);
  });
});
