// @vitest-environment jsdom
// The messages of a run as one log (W120), how full windows are (W121), and two spans side by side (W122).

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { renderSaved } from "../entry/saved-view";
import { TestPage } from "../testing/page";
import { row, run, snapshot, wire } from "../testing/runs";

let page: TestPage;

const ROWS = [
  row({ span_id: "t", kind: "task", name: "draft", agent: "Writer", start_ms: 0, end_ms: 900 }),
  row({ span_id: "c", kind: "llm", name: "gpt", parent_id: "t", agent: "Writer", start_ms: 100, end_ms: 800 }),
  row({ span_id: "u", kind: "task", name: "check", agent: "Critic", start_ms: 900, end_ms: 1800 }),
  row({ span_id: "d", kind: "llm", name: "gpt", parent_id: "u", agent: "Critic", start_ms: 1000, end_ms: 1700 }),
];
const TRANSCRIPT = {
  said: [
    { span: "t", task: "t", role: "note", text: "draft (Writer)", agent: "Writer" },
    { span: "t", task: "t", role: "user", who: "Task", field: "message.0", agent: "Writer" },
    { span: "c", task: "t", role: "assistant", who: "Writer", field: "message.1", agent: "Writer" },
    { span: "u", task: "u", role: "note", text: "check (Critic)", agent: "Critic" },
    { span: "d", task: "u", role: "assistant", who: "Critic", field: "message.2", agent: "Critic", remark: "kept" },
    7, { role: 5 },
  ],
  windows: [["c", 64_000, false, 128_000, 32_000, 16_000, 0, 0, 16_000, 0], "odd"],
  left_out: 3,
  notes: [],
};
const DETAILS: Record<string, unknown> = {
  "*": { transcript: TRANSCRIPT },
  t: { output: "A draft of tides.", messages: [{ role: "user", text: "Write <b>it</b>.", field: "message.0" }, { role: "assistant", text: "A draft of tides.", field: "message.1", tool_calls: [{ name: "look", arguments: "{}" }] }] },
  u: { output: "A draft of times.", messages: [{ role: "assistant", text: "Too kind.", field: "message.2" }] },
};

beforeEach(() => {
  page = new TestPage();
  page.kernel.snapshot = wire(snapshot({ run: run({}), phases: [], rows: ROWS }));
});
afterEach(() => page.close());

/** Answers what was asked for, until nothing is. */
async function answer(): Promise<void> {
  for (let round = 0; round < 4; round += 1) {
    await page.nextFrame();
    await vi.advanceTimersByTimeAsync(1000);
    for (const { kind, span_id } of page.kernel.sent.splice(0)) {
      if (kind === "details") page.kernel.post({ kind: "details", span_id, ...(DETAILS[span_id as string] as object) });
    }
    await page.nextFrame();
  }
}

const click = async (selector: string, words?: string, more: MouseEventInit = {}): Promise<void> => {
  const found = [...page.place.querySelectorAll<HTMLElement>(selector)].find((each) => !words || each.textContent?.includes(words));
  found?.dispatchEvent(new MouseEvent("click", { bubbles: true, ...more }));
  await answer();
};
const lines = (): string[] => [...page.place.querySelectorAll(".et-log > li")].map((each) => each.querySelector(".et-who")?.textContent ?? `-- ${each.textContent}`);

async function openLog(): Promise<void> {
  page.show();
  await page.nextFrame();
  await click(".et-row", "draft");
  await click("[role=tab]", "Messages");
  await click("[role=radio]", "Whole run");
}

it("reads the whole run as one log, whose names lead to the spans", async () => {
  await openLog();
  expect(lines()).toEqual(["-- draft (Writer)", "Task", "Writer", "-- check (Critic)", "Critic"]);
  const log = page.place.querySelector(".et-log") as HTMLElement;
  for (const words of ["Write <b>it</b>.", "Too kind."]) expect(log.textContent).toContain(words);
  expect(log.querySelector("b:not(.et-who), a, img")).toBeNull();
  expect(log.querySelector("details summary")?.textContent).toContain("look");
  expect(page.place.textContent).toContain("3 later messages left out");
  await click(".et-said-line .et-who", "Critic");
  expect(page.place.querySelector('[aria-current="true"] .et-who')?.textContent).toBe("Critic");
  expect(lines()).toHaveLength(5);
  await click("[role=radio]", "Critic");
  expect(lines()).toEqual(["-- check (Critic)", "Critic"]);
});

it("finds words in texts that are here only then, and steps from one place to the next", async () => {
  await openLog();
  const field = page.place.querySelector<HTMLInputElement>(".et-log-find input") as HTMLInputElement;
  field.value = "KIND";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  await answer();
  expect(page.place.querySelector(".et-log-hits")?.textContent).toBe("1 of 1");
  expect(page.place.querySelector('[data-found="true"] .et-who')?.textContent).toBe("Critic");
});

it("says how full a window is, and marks what is an estimate", async () => {
  await openLog();
  const [bar, ...others] = page.place.querySelectorAll(".et-window");
  expect(others).toEqual([]);
  expect(bar?.textContent).toBe("≈ 64,000 of 128k tokens (50%)");
  expect(bar?.querySelector("[role=img]")?.getAttribute("aria-label")).toContain("System ≈ 32,000, Task ≈ 16,000, Tools ≈ 16,000");
});

it("says why a saved copy has no log, and shows the messages of a task there", async () => {
  const details = { t: DETAILS.t };
  page.ends.push(renderSaved(page.place, { ...wire(snapshot({ run: run({ status: "completed" }), phases: [], rows: ROWS })), kind: "saved", details }));
  await page.nextFrame();
  await click(".et-row", "draft");
  await click("[role=tab]", "Messages");
  await click("[role=radio]", "Whole run");
  expect(page.place.querySelector(".et-missing")?.textContent).toContain("left out of the saved copy");
  await click("[role=radio]", "This task");
  expect(page.place.querySelector(".et-chat")?.textContent).toContain("A draft of tides.");
});

it("shows two spans that are selected side by side, with the words that differ", async () => {
  page.show();
  await page.nextFrame();
  await click(".et-row", "draft");
  await click(".et-row", "check", { ctrlKey: true });
  await click("[role=tab]", "Side by side");
  const [first, second] = page.place.querySelectorAll('[aria-label="Output"] .et-side');
  expect([first?.textContent, second?.textContent]).toEqual(["A draft of tides.", "A draft of times."]);
  expect([first?.querySelector("del")?.textContent, second?.querySelector("ins")?.textContent]).toEqual(["tides", "times"]);
});
