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

describe("a call of a reviewed tool", () => {
  const FIELDS = [
    { name: "order", kind: "text", text: HOSTILE, is_required: true, about: "its number" },
    { name: "amount", kind: "number", text: "12345678901234567890" },
    { name: "reason", kind: "choice", text: null, choices: ["late", "broken"] },
    { name: "lines", kind: "json", text: "[1]" },
  ];
  const OTHERWISE = "the call is not made, and waits for an answer";

  async function askAboutCall(call: object | null = { fields: FIELDS, is_unknown: false }, row: string | null = null): Promise<void> {
    await ask({ row, subject: "tool", tool: "refund", otherwise: OTHERWISE, verdicts: ["approve", "edit", "reject", "exit_early"] });
    if (call) await tell(call);
  }

  async function tell(call: object): Promise<void> {
    page.kernel.post({ kind: "details", span_id: "r", messages: [], call });
    await page.nextFrame();
  }

  const fieldOf = (name: string): HTMLInputElement => {
    const label = [...page.place.querySelectorAll(".et-argument")].find((one) => one.querySelector(".et-role")?.textContent?.startsWith(name));
    return label?.querySelector("input, select, textarea") as HTMLInputElement;
  };

  async function fill(name: string, text: string): Promise<void> {
    fieldOf(name).value = text;
    fieldOf(name).dispatchEvent(new Event("input", { bubbles: true }));
    await page.nextFrame();
  }

  it("is shown with its arguments as text, who asks, and what happens if nobody answers (W164)", async () => {
    await askAboutCall();
    const text = panel()?.textContent ?? "";
    for (const part of ["May Ana call refund?", "for draft", HOSTILE, "12345678901234567890", "asked 0:0", `left, then ${OTHERWISE}`]) expect(text).toContain(part);
    expect(panel()?.querySelector("img")).toBeNull();
    expect(page.button("Decline…")).toBeDefined();
  });

  it("is asked about in each row of a map, which has other arguments (W164)", async () => {
    await askAboutCall({ fields: FIELDS, is_unknown: false }, "row 17");
    expect(panel()?.textContent).toContain("always in this run");
    expect(panel()?.textContent).not.toContain("in all rows");
  });

  it("is answered once its arguments are here, which are asked for until they are (W164)", async () => {
    await askAboutCall(null);
    await click("Approve");
    expect(answers()).toEqual([]);
    const asked = () => page.kernel.sent.filter((message) => message.kind === "details").length;
    const before = asked();
    await vi.advanceTimersByTimeAsync(1100);
    expect(asked()).toBeGreaterThan(before);
    await tell({ fields: FIELDS, is_unknown: false });
    await click("Approve");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "approve", text: "" }]);
  });

  it("may be answered alike for the rest of the run, and not where it may have been made before (W164)", async () => {
    await askAboutCall();
    (page.place.querySelector(".et-review-all input") as HTMLInputElement).click();
    await page.nextFrame();
    await click("Decline…");
    await write("not now");
    await click("Decline");
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "reject", text: "not now", always: true }]);
    await tell({ fields: FIELDS, is_unknown: true });
    expect(panel()?.textContent).toContain("nobody knows whether it was done");
    expect(page.place.querySelector(".et-review-all")).toBeNull();
  });

  it("is not answered twice by a double click (W164)", async () => {
    await askAboutCall();
    page.button("Approve")?.dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 2 }));
    expect(answers()).toEqual([]);
  });

  it("is gone from each view once it is answered in one of them, the form that is being filled in, too (W164)", async () => {
    const other = document.body.appendChild(document.createElement("div"));
    await askAboutCall();
    page.show(other);
    await page.nextFrame();
    await click("Edit…");
    expect(page.place.querySelector(".et-argument-fields")).not.toBeNull();
    expect(other.querySelector(".et-arguments")).not.toBeNull();
    [...other.querySelectorAll("button")].find((one) => one.textContent === "Approve")?.click();
    page.kernel.post(delta(1, 2, { run: run({ waiting: [] }) }));
    await page.nextFrame();
    for (const view of [page.place, other]) expect(view.querySelector(".et-review")).toBeNull();
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "approve", text: "" }]);
    other.remove();
  });

  it("is edited in a form that sends what was changed (W165)", async () => {
    await askAboutCall();
    await click("Edit…");
    expect(document.activeElement).toBe(fieldOf("order"));
    expect(fieldOf("order").value).toBe(HOSTILE);
    expect(fieldOf("reason").tagName).toBe("SELECT");
    await fill("amount", "7");
    await fill("reason", "broken");
    fieldOf("amount").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true }));
    expect(answers()).toEqual([{ kind: "review", span_id: "r", verdict: "edit", text: "", changes: { amount: "7", reason: "broken" } }]);
  });

  it("says what does not fit at its field, keeps what was written, and can be sent again (W165)", async () => {
    await askAboutCall();
    await click("Edit…");
    await fill("amount", "many");
    await click("Call with these");
    await tell({ fields: FIELDS, is_unknown: false, faults: { amount: "A number is needed.", "": "All of it is odd." } });
    expect(fieldOf("amount").getAttribute("aria-invalid")).toBe("true");
    expect(document.activeElement).toBe(fieldOf("amount"));
    expect(fieldOf("amount").value).toBe("many");
    for (const fault of ["A number is needed.", "All of it is odd."]) expect(panel()?.textContent).toContain(fault);
    await fill("amount", "8");
    await click("Call with these");
    expect(answers().at(-1)).toMatchObject({ changes: { amount: "8" } });
  });

  it("shows the beginning of what is too long, which stays as it is (W165)", async () => {
    await askAboutCall({ fields: [{ name: "order", kind: "text", text: "xxx", left_out: 980_000 }], is_unknown: false });
    expect(panel()?.textContent).toContain("and 980,000 more characters");
    await click("Edit…");
    expect(fieldOf("order").readOnly).toBe(true);
  });
});
