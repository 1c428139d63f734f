// @vitest-environment jsdom

// Holds W33: how a person gets columns, a lane and colours, and what the rest of the view makes of them.

import { afterEach, beforeEach, expect, it } from "vitest";
import { TestPage } from "../testing/page";
import { delta, row, ROWS, run, snapshot, wire } from "../testing/runs";

let page: TestPage;
/** What was seen in a view of a run is seen in the next one of it, too. */
let runs = 0;

beforeEach(() => {
  sessionStorage.clear();
  page = new TestPage();
});
afterEach(() => page.close());

const TASK = { kind: "task", agent: "Ana", start_ms: 0, end_ms: 900, currency: "USD" } as const;
const TWO = [
  row({ ...TASK, span_id: "a", input_tokens: 40, output_tokens: 10, cost: 0.02, llm_call_count: 2 }),
  row({ ...TASK, span_id: "b", input_tokens: 5, output_tokens: 1, cost: 0.01, llm_call_count: 1, lacks_tokens: true, agent: "Bo" }),
];
const SUMS = { status: "completed", elapsed_ms: 900, input_tokens: 45, output_tokens: 11, tokens_complete: false, cost: 0.03, llm_call_count: 3 } as const;

async function show(rows = TWO, more: Parameters<typeof run>[0] = SUMS): Promise<void> {
  page.kernel.snapshot = wire(snapshot({ run: run({ run_id: `run ${(runs += 1)}`, ...more }), phases: [], rows }));
  page.show();
  await page.nextFrame();
  await press("View");
}

async function press(name: string, group?: string): Promise<void> {
  const within = group ? page.place.querySelector(`[role=group][aria-label="${group}"]`) : page.place;
  const found = [...(within?.querySelectorAll("button") ?? [])].find((one) => one.textContent?.trim() === name);
  if (!found) throw new Error(`no button ${name}`);
  found.click();
  await page.nextFrame();
  await page.nextFrame();
}

const textsOf = (selector: string): string[] => [...page.place.querySelectorAll(selector)].map((one) => one.textContent ?? "");
const groups = (): (string | null)[] => [...page.place.querySelectorAll(".et-switches [role=group]")].map((one) => one.getAttribute("aria-label"));
const cells = (): string[] => textsOf(".et-amount");
const head = (): string => page.place.querySelector<HTMLElement>(".et-chart")?.style.getPropertyValue("--et-head") ?? "";

it("has no columns and no lane until a person wants some (W33)", async () => {
  await show();
  expect(cells()).toEqual([]);
  expect(page.place.querySelector("[role=columnheader], .et-lane")).toBeNull();
  expect(page.place.querySelector(".et-gutter")?.hasAttribute("aria-owns")).toBe(false);
  expect(head()).toBe("28px");
});

it("shows the columns that were switched on as cells of the rows, under heads with the sums of the run (W33)", async () => {
  await show();
  await press("Cost", "Columns");
  await press("In", "Columns");
  expect(cells()).toEqual(["40", "$0.020", "≥ 5", "$0.010"]);
  expect(textsOf("[role=columnheader]")).toEqual(["Name", "State", "In ≥ 45", "Cost $0.030", "Time 900 ms"]);
  const grid = page.place.querySelector(".et-gutter");
  expect(page.place.querySelector(".et-columns")?.id).toBe(grid?.getAttribute("aria-owns"));
  expect([...page.place.querySelectorAll(".et-row")].map((one) => one.querySelectorAll("[role=gridcell]").length)).toEqual([5, 5]);
  // Where there is room for one: what was wanted last.
  expect(textsOf(".et-column.et-kept")).toEqual(["In ≥ 45"]);
  await press("Cost", "Columns");
  await press("In", "Columns");
  expect(cells()).toEqual([]);
});

it("takes the times away, and has them without a head where they stand alone (W33)", async () => {
  await show();
  const chart = (): DOMStringMap | undefined => page.place.querySelector<HTMLElement>(".et-chart")?.dataset;
  await press("Time", "Columns");
  expect(chart()?.time).toBe("off");
  await press("Time", "Columns");
  expect(chart()?.time).toBe("beside");
  expect(page.place.querySelector("[role=columnheader]")).toBeNull();
  await press("Calls", "Columns");
  expect(chart()?.time).toBe("column");
});

it("has new values as they come (W33)", async () => {
  await show(TWO, { ...SUMS, run_id: "live", status: "running" });
  await press("Calls", "Columns");
  page.kernel.post({ version: 4, ...delta(1, 2, { run: run({ ...SUMS, run_id: "live", status: "completed", llm_call_count: 5 }), rows: [row({ ...TASK, span_id: "a", llm_call_count: 4 })] }) });
  await page.nextFrame();
  expect(cells()).toEqual(["4", "1"]);
  expect(textsOf("[data-column=calls] b")).toEqual(["5"]);
});

it("makes room for a lane under the axis, and gives it back (W33)", async () => {
  const requests = [row({ span_id: "r", kind: "attempt", parent_id: "a", start_ms: 0, end_ms: 400, cost: 0.03, output_tokens: 11 })];
  await show([...TWO, ...requests], { ...SUMS, rate_limit: 60, rate_limit_ms: 60_000, max_concurrency: 4, budget: { max_cost: 0.06, currency: "USD" } });
  await press("Cost", "Lane");
  expect(head()).toBe("80px");
  expect(textsOf(".et-lane-name")).toEqual(["Cost so far$0.030 of $0.060"]);
  await press("Side by side", "Lane");
  expect(textsOf(".et-lane-name")).toEqual(["Tasks side by sideup to 2 of 4"]);
  await press("Requests", "Lane");
  expect(textsOf(".et-lane-name")).toEqual(["Requests in 1:00up to 1 of 60"]);
  await press("Requests", "Lane");
  expect(page.place.querySelector(".et-lane")).toBeNull();
  expect(head()).toBe("28px");
});

it("says what the lane was at the end of the span that is selected (W33)", async () => {
  const requests = [row({ span_id: "r", kind: "attempt", parent_id: "a", start_ms: 0, end_ms: 400, cost: 0.03, output_tokens: 11 })];
  await show([...TWO, ...requests, row({ ...TASK, span_id: "c", end_ms: 300 })]);
  await press("Cost", "Lane");
  page.place.querySelectorAll<HTMLElement>(".et-row")[2]?.click();
  await page.nextFrame();
  expect(textsOf(".et-lane-name")).toEqual(["Cost so far$0 at 300 ms"]);
});

it("offers nothing that the run has no values for (W33)", async () => {
  await show([row({ ...TASK, span_id: "a", agent: "Handler" })], { status: "completed", elapsed_ms: 900 });
  expect(groups()).toEqual(["Rows by", "Columns", "Lane"]);
  expect(textsOf("[aria-label=Columns] button")).toEqual(["Time"]);
  expect(textsOf("[aria-label='Lane'] button")).toEqual(["Side by side"]);
});

it("offers at any time in the run what the whole of it has (W33, W35)", async () => {
  await show();
  const offered = (): string[] => textsOf("[aria-label='Lane'] button");
  expect(offered()).toEqual(["Cost", "Tokens a second", "Side by side"]);
  page.kernel.post({ kind: "selection", selection: [], range: null, time: 0 });
  for (let k = 0; k < 4; k += 1) await page.nextFrame();
  expect(page.place.querySelector(".et-word")?.textContent).toBe("As it was");
  expect(offered()).toEqual(["Cost", "Tokens a second", "Side by side"]);
});

it("names the colours in the panel, and paints by kind again (W33)", async () => {
  await show();
  await press("Agent", "Bars by");
  expect(textsOf(".et-legend li")).toEqual(["Ana", "Bo"]);
  await press("Kind", "Bars by");
  expect(page.place.querySelector(".et-legend")).toBeNull();
});

it("is remembered as long as the page is open (W33)", async () => {
  await show();
  await press("Out", "Columns");
  await press("Cost", "Lane");
  await page.close();
  page = new TestPage();
  page.kernel.snapshot = wire(snapshot({ run: run({ ...SUMS, run_id: "another" }), phases: [], rows: TWO }));
  page.show();
  await page.nextFrame();
  await page.nextFrame();
  expect(cells()).toEqual(["10", "≥ 1"]);
  expect(page.place.querySelector(".et-lane")).not.toBeNull();
});

it("shows the view as at rest where the page has kept what nobody knows (W33)", async () => {
  const odds = ["{", "7", '{"columns":7}', '{"columns":["x"],"lane":"y","paint":"z"}', '{"lane":["cost"],"paint":{}}'];
  for (const odd of [...odds, ...odds.map((each) => JSON.stringify(each))]) {
    sessionStorage.setItem("ensemble-timeline-look", odd);
    await show(ROWS, {});
    await page.nextFrame();
    expect([cells(), head(), page.place.querySelectorAll(".et-row").length], odd).toEqual([[], "28px", 3]);
    await page.close();
    page = new TestPage();
  }
});
