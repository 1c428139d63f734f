import { expect, it } from "vitest";
import cases from "../../../tests/wording_cases.json";
import {
  formatClock, formatCount, formatDuration, formatExactCount, formatGrowingDuration, formatMoney, formatPercent, pluralize,
} from "./numbers";

// Python's tests read the same table.
it.each(cases.durations as [number | null, string][])("words a duration of %s ms as %s", (ms, text) =>
  expect(formatDuration(ms)).toBe(text));

it.each(cases.counts as [number | null, string][])("words a count of %s as %s", (value, text) =>
  expect(formatCount(value)).toBe(text));

it.each(cases.money as [number | null, string | null, string][])("words %s %s as %s", (value, currency, text) =>
  expect(formatMoney(value, currency)).toBe(text));

it.each(cases.percents as [number | null, string][])("words a share of %s as %s", (share, text) =>
  expect(formatPercent(share)).toBe(text));

it.each(cases.plurals as [number, string, string][])("counts %s %s as %s", (amount, noun, text) =>
  expect(pluralize(amount, noun)).toBe(text));

it("takes what is no number for unknown", () => {
  for (const nothing of [NaN, Infinity, -Infinity]) {
    expect([formatDuration(nothing), formatCount(nothing), formatMoney(nothing, "USD"), formatPercent(nothing)]).toEqual(["–", "–", "–", "–"]);
  }
});

it.each([[0, "0:00"], [7_999, "0:07"], [102_000, "1:42"], [3_723_000, "1:02:03"], [-5, "0:00"]])(
  "shows the clock at %s ms as %s", (ms, text) => expect(formatClock(ms)).toBe(text),
);

it.each([[-5, ""], [999, ""], [1_999, "1 s"], [59_999, "59 s"], [60_000, "1:00"]])(
  "shows what has run for %s ms as %s", (ms, text) => expect(formatGrowingDuration(ms)).toBe(text),
);

it.each([[null, "–"], [0, "0"], [999, "999"], [84_149, "84,149"], [1_234_567, "1,234,567"]])(
  "writes all digits of %s as %s", (value, text) => expect(formatExactCount(value)).toBe(text),
);
