// Two texts by words (W122).

import { expect, it } from "vitest";
import { diffWords } from "./word-diff";

const sides = (before: string, after: string): [string, string] => {
  const pieces = diffWords(before, after);
  const without = (mark: string): string => pieces.filter((each) => each.mark !== mark).map(({ text }) => text).join("");
  return [without("added"), without("removed")];
};

it("marks the words that changed, and leaves the others alone", () => {
  expect(diffWords("a kind old critic.", "a stern old critic!")).toEqual([
    { mark: "same", text: "a " }, { mark: "removed", text: "kind" }, { mark: "added", text: "stern" },
    { mark: "same", text: " old critic" }, { mark: "removed", text: "." }, { mark: "added", text: "!" },
  ]);
  expect(diffWords("one old cat", "two new cat").slice(0, 2)).toEqual([{ mark: "removed", text: "one old" }, { mark: "added", text: "two new" }]);
  expect(diffWords("same", "same")).toEqual([{ mark: "same", text: "same" }]);
  expect(diffWords("", "new")).toEqual([{ mark: "added", text: "new" }]);
});

it("gives back both texts, however long and whatever they are made of", () => {
  let seed = 7;
  const random = (most: number): number => (seed = (seed * 48_271) % 2_147_483_647) % most;
  const words = ["äh", "the", "\n", " ", "…", "👩‍🚀", "x1", "\ud800"];
  for (let round = 0; round < 200; round += 1) {
    const make = (): string => Array.from({ length: random(30) }, () => words[random(words.length)]).join("");
    const [before, after] = [make(), make()];
    expect(sides(before, after)).toEqual([before, after]);
  }
  const [long, other] = ["a b ".repeat(3000), "c d ".repeat(3000)];
  expect(sides(long, other)).toEqual([long, other]);
});
