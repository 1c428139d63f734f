// Holds W6: conversations in the drawer.

import { expect, it } from "vitest";
import { newFrom } from "./conversation";

it("opens a conversation at what its last call added", () => {
  const say = (role: string) => ({ role, text: "" });
  expect(newFrom([say("system"), say("user"), say("assistant")])).toBe(0);
  expect(newFrom([say("system"), say("user"), say("assistant"), say("tool"), say("assistant")])).toBe(3);
  expect(newFrom([])).toBe(0);
});
