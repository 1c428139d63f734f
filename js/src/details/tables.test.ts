// Holds W6: sums of what is known.

import { expect, it } from "vitest";
import { row } from "../testing/runs";
import { sumOf } from "./tables";

const calls = [
  row({ span_id: "a", kind: "llm", input_tokens: 100, cache_read_tokens: 40, cost: 0.5 }),
  row({ span_id: "b", kind: "llm", input_tokens: 50, cost: null }),
];

it("adds up what is known, and says where that is only a part", () => {
  expect(sumOf(calls, "input_tokens")).toEqual({ value: 150, isPart: false });
  expect(sumOf(calls, "cost")).toEqual({ value: 0.5, isPart: true });
  expect(sumOf(calls, "output_tokens")).toEqual({ value: null, isPart: false });
});

it("takes cached and reasoning tokens that nobody told of for none", () => {
  expect(sumOf(calls, "cache_read_tokens")).toEqual({ value: 40, isPart: false });
});
