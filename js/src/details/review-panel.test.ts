// @vitest-environment jsdom

// Holds W13: questions to a person and their answers.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TestPage } from "../testing/page";
import { delta, row, run, snapshot, wire } from "../testing/runs";
import type { Review, Run } from "../wire/rows";

const VERDICTS: Review["verdicts"] = ["approve", "edit", "retry", "reject", "exit_early"];
const HOSTILE = "<img src=x onerror=alert(1)>";

let page: TestPage;

beforeEach(() => {
  page = new TestPage();
});
afterEach(() => page.close());

const review = (more: Partial<Review> = {}): Review =>
  ({ subject: "output", text: HOSTILE, verdicts: VERDICTS, deadline_ms: 61_000, on_timeout: "continue", ...more });

/** Shows a run that waits for an answer, with a kernel that answers while it works. */
async function ask(more: Partial<Review> = {}, state: Partial<Run> = {}): Promise<void> {
  const rows = [
    row({ span_id: "t", kind: "task", name: "draft", agent: "Ana", status: "running", start_ms: 0 }),
    row({
      span_id: "r", kind: "review", parent_id: "t", task: "draft", agent: "Ana", status: "waiting", start_ms: 500,
      review: review(more),
    }),
  ];
  page.kernel.snapshot = wire(snapshot({ run: run({ waiting: ["r"], ...state }), phases: [], rows }));
  page.show();
  page.kernel.post({ kind: "pong", nonce: 1 });
  await page.nextFrame();
  page.kernel.post({ kind: "details", span_id: "r", messages: [], input: `${HOSTILE} and all the rest` });
  await page.nextFrame();
}

const panel = (): HTMLElement | null => page.place.querySelector(".et-review");
const field = (): HTMLTextAreaElement => page.place.querySelector("textarea") as HTMLTextAreaElement;
const answers = (): unknown[] => page.kernel.sent.filter((message) => message.kind === "review");

async function click(name: string): Promise<void> {
  page.button(name)?.click();
  await page.nextFrame();
}

async function write(text: string): Promise<void> {
  field().value = text;
  field().dispatchEvent(new Event("input", { bubbles: true }));
  await page.nextFrame();
}

describe("a question", () => {
  it("stands above the chart as text, with what may be answered, and how long there is", async () => {
    await ask();
    const text = panel()?.textContent ?? "";
    for (const part of ["Is the output of draft good?", "Ana", `${HOSTILE} and all the rest`, "1:00", "then it goes on as it is"]) {
      expect(text).toContain(part);
    }
    expect(panel()?.querySelector("img")).toBeNull();
    expect(page.place.textContent).toContain("Waiting for you");
    for (const name of ["Approve", "Edit…", "Send back…", "Reject…", "End the run"]) expect(page.button(name)).toBeDefined();
  });

  it("shows all of a text in a panel that scrolls, and nothing to unfold (W13)", async () => {
    await ask();
    for (const input of ["A draft. ".repeat(47), "A line.\n".repeat(60)]) {
      page.kernel.post({ kind: "details", span_id: "r", messages: [], input });
      await page.nextFrame();
      expect(panel()?.querySelector(".et-review-text")?.textContent).toContain(input.trim().split("\n")[0]);
      expect(panel()?.textContent).not.toMatch(/Show all/);
    }
  });

  it("is laid out as in the drawer, from its beginning to all of it", async () => {
    await ask({ text: "**Stay** in" });
    page.kernel.post({ kind: "details", span_id: "r", messages: [], input: "**Stay** in *port*" });
    await page.nextFrame();
    expect(panel()?.querySelector(".et-review-text strong")?.textContent).toBe("Stay");
    await click("Send back…");
    expect(panel()?.querySelector(".et-review-text")?.textContent).not.toContain("**");
  });

  it("offers no answer that makes no sense", async () => {
    await ask({ verdicts: ["approve", "reject"] });
    for (const name of ["Edit…", "Send back…", "End the run"]) expect(page.button(name)).toBeUndefined();
  });

  it("is said at once to those who listen, and not with every second of the countdown", async () => {
    await ask();
    const said = (): string => page.place.querySelector('[role="alert"]')?.textContent ?? "";
    const first = said();
    expect(first).toBe("Waiting for you: Is the output of draft good?");
    await vi.advanceTimersByTimeAsync(3000);
    await page.nextFrame();
    expect(said()).toBe(first);
  });

  it("does not take the focus from what is being typed elsewhere", async () => {
    const other = document.body.appendChild(document.createElement("input"));
    other.focus();
    await ask({ subject: "question", verdicts: ["edit", "exit_early"] });
    expect(document.activeElement).toBe(other);
    other.remove();
  });

  it("asks for all of its text, which the row has only the beginning of", async () => {
    await ask();
    expect(page.kernel.sent).toContainEqual({ kind: "details", span_id: "r" });
  });

  it("is gone when it is answered elsewhere, and when the run is over", async () => {
    await ask();
    page.kernel.post(delta(1, 2, { run: run({ waiting: [] }) }));
    await page.nextFrame();
    expect(panel()).toBeNull();
    page.kernel.post(delta(2, 3, { run: run({ waiting: ["r"], status: "interrupted" }) }));
    await page.nextFrame();
    expect(panel()).toBeNull();
  });
});

describe("an answer", () => {
  it("is sent once, and waits for the run to go on", async () => {
    await ask();
    await click("Approve");
    await click("Approve");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "approve", text: "" }]);
    expect(panel()?.textContent).toContain("Sent");
  });

  it("in words is written first", async () => {
    await ask();
    await click("Send back…");
    expect(document.activeElement).toBe(field());
    await click("Send back");
    expect(answers()).toEqual([]);
    await write("Shorter, please");
    await click("Send back");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "retry", text: "Shorter, please" }]);
  });

  it("by editing begins with all of the text", async () => {
    await ask();
    await click("Edit…");
    expect(field().value).toBe(`${HOSTILE} and all the rest`);
    await write("Mine");
    field().dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "edit", text: "Mine" }]);
  });

  it("by rejecting needs no reason", async () => {
    await ask();
    await click("Reject…");
    await click("Reject");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "reject", text: "" }]);
  });

  it("may be for all rows of a map, which names the row that it is about", async () => {
    await ask({ row: "row 17" });
    expect(panel()?.textContent).toContain("Is the output of draft good? (row 17)");
    (page.place.querySelector(".et-review-all input") as HTMLInputElement).click();
    await page.nextFrame();
    await click("Approve");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "approve", text: "", for_all: true }]);
  });

  it("of a run that is no map is for that run", async () => {
    await ask();
    expect(page.place.querySelector(".et-review-all")).toBeNull();
    await click("Approve");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "approve", text: "" }]);
  });

  it("to a question is what was written", async () => {
    await ask({ subject: "question", verdicts: ["edit", "exit_early"] });
    expect(panel()?.textContent).toContain("Ana asks you");
    expect(field().value).toBe("");
    await write("The first one");
    await click("Send");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "edit", text: "The first one" }]);
  });

  it("can be thought over", async () => {
    await ask();
    await click("Send back…");
    field().dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    await page.nextFrame();
    expect(field()).toBeNull();
    expect(page.button("Approve")).toBeDefined();
  });

  it("is written without the keys of the timeline or the notebook", async () => {
    await ask();
    await click("Send back…");
    const heard = vi.fn();
    document.addEventListener("keydown", heard);
    const key = new KeyboardEvent("keydown", { key: "f", bubbles: true, cancelable: true });
    field().dispatchEvent(key);
    document.removeEventListener("keydown", heard);
    expect([key.defaultPrevented, heard.mock.calls.length]).toEqual([false, 0]);
  });
});

it("promises nothing as long as the kernel does not answer, and says where else to", async () => {
  page.kernel.snapshot = wire(snapshot({
    run: run({ waiting: ["r"] }), phases: [],
    rows: [row({ span_id: "r", kind: "review", status: "waiting", start_ms: 0, review: review() })],
  }));
  page.show();
  await page.nextFrame();
  await click("Approve");
  expect(answers()).toEqual([]);
  await vi.advanceTimersByTimeAsync(1500);
  await page.nextFrame();
  expect(panel()?.textContent).toContain("answer in the input field");
});
