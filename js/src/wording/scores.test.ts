import { expect, it } from "vitest";
import { row, run } from "../testing/runs";
import { formatScore, scoresOf } from "./scores";

const scored = (scores: unknown) => row({ span_id: "t", kind: "task", scores: scores as never });

it("names scores in the order of the run's names, without those that nobody gave", () => {
  const told = scoresOf(scored([true, null, 0.1 + 0.2, false]), run({ score_names: ["right", "tone", "share", "brief", "late"] }));
  expect(told.map(([name, value]) => [name, formatScore(value)])).toEqual([["right", "passed"], ["share", "0.3"], ["brief", "not passed"]]);
});

it("leaves out what a damaged file has in their place", () => {
  expect(scoresOf(scored([{}, Number.NaN, "", "warm", 5]), run({ score_names: ["a", "b", "c", "d"] }))).toEqual([["d", "warm"]]);
  expect(scoresOf(scored({ length: 2 }), run({ score_names: ["a"] }))).toEqual([]);
  expect(scoresOf(scored([false]), null)).toEqual([]);
});
