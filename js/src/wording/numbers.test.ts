import { expect, it } from "vitest";
import { clock, count, duration, money, plural } from "./numbers";

it.each([
  [null, "–"], [0, "0 ms"], [0.4, "<1 ms"], [340.4, "340 ms"], [999.6, "1.0 s"], [7_900, "7.9 s"], [9_960, "10 s"],
  [42_000, "42 s"], [59_600, "1:00"], [102_000, "1:42"], [3_723_000, "1:02:03"],
])("writes a duration of %s ms as %s", (ms, text) => expect(duration(ms)).toBe(text));

it.each([[0, "0:00"], [7_999, "0:07"], [102_000, "1:42"], [3_723_000, "1:02:03"], [-5, "0:00"]])(
  "shows the clock at %s ms as %s", (ms, text) => expect(clock(ms)).toBe(text),
);

it.each([[null, "–"], [0, "0"], [812, "812"], [4_100, "4.1k"], [84_120, "84.1k"], [123_456, "123k"], [999_960, "1M"], [1_240_000, "1.2M"]])(
  "counts %s tokens as %s", (value, text) => expect(count(value)).toBe(text),
);

it.each([[null, "–"], [0, "$0"], [0.0042, "$0.0042"], [0.00004, "$0.000040"], [0.000001, "<$0.00001"], [0.218, "$0.218"], [12.4, "$12.40"]])(
  "prices %s at %s", (value, text) => expect(money(value)).toBe(text),
);

it("names a currency that has no sign", () => expect(money(2, "CHF")).toBe("CHF 2.00"));

it("counts nouns", () => expect([plural(1, "task"), plural(0, "task")]).toEqual(["1 task", "0 tasks"]));
