// Holds W6: conversations in the drawer.

import { expect, it } from "vitest";
import { newFrom, splitReasoning } from "./conversation";

it("opens a conversation at what its last call added", () => {
  const say = (role: string) => ({ role, text: "" });
  expect(newFrom([say("system"), say("user"), say("assistant")])).toBe(0);
  expect(newFrom([say("system"), say("user"), say("assistant"), say("tool"), say("assistant")])).toBe(3);
  expect(newFrom([])).toBe(0);
});

it("tells the reasoning that a reply begins with from the reply while it is written", () => {
  expect(splitReasoning("<think>hm, ")).toEqual(["<think>hm, ", ""]);
  expect(splitReasoning("\n<thinking>hm</think></thinking>\n\nIt is")).toEqual(["\n<thinking>hm</think></thinking>\n\n", "It is"]);
  expect(splitReasoning("It is <think>hm</think>")).toEqual(["", "It is <think>hm</think>"]);
  expect(splitReasoning("<thinker>It")).toEqual(["", "<thinker>It"]);
});
