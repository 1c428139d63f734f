// Holds W168: what a reply that is still being written has by now.

import { describe, expect, it } from "vitest";
import { columnsOf, parseJson } from "./json-tree";

const grow = (text: string): unknown => parseJson(text, true);

describe("a JSON text that grows (W168)", () => {
  it.each([
    ['{"a": 1', {}],
    ['{"a": 12,', { a: 12 }],
    ['{"a": 12 ', { a: 12 }],
    ['{"a": 1, "b": tr', { a: 1 }],
    ['{"a": -', {}],
    ['{"a": true}', { a: true }],
    ['{"a": "goo', {}],
    ['{"a": "good", "b', { a: "good" }],
    ['{"a": "good", "b": ', { a: "good" }],
    ['{"a": "so mu', { a: "so mu…" }],
    ['{"a": "so \\u00e9', { a: "so é…" }],
    ['{"a": "so \\u00', { a: "so …" }],
    ['{"a": "so \\', { a: "so …" }],
    ['{"a": "so \\\\', { a: "so \\…" }],
    ['{"a": {"b": [1, {"c": "x y', { a: { b: [1, { c: "x y…" }] } }],
    ['{"a": ["x y", "z w', { a: ["x y", "z w…"] }],
    ['{"a": [[1], [2', { a: [[1], []] }],
    ['{"a": [1], "b c', { a: [1] }],
    ['{"a b c', {}],
    ['```json\n{"a": [1, ', { a: [1] }],
    ['```json\n{"a": "b c"}\n``', { a: "b c" }],
    [' [ {"a": 1,', [{ a: 1 }]],
    ['["a b', ["a b…"]],
  ])("of %s shows what is whole", (text, value) => expect(grow(text)).toEqual(value));

  it.each(["", "plain", "See [1", "[1", "[1] So", "{", '{"a": 1} and', '["a"] and "b', '{a: "b', '{"a": "line\nbreak', "…{", '{"a" "b": 1,'])("shows %j as it is written", (text) => {
    expect(grow(text)).toBeUndefined();
  });

  it("never shows what the whole does not have", () => {
    const whole = { title: 'Low "tide" \\ \u00e9 😀', n: -12.5e3, ok: false, none: null, of: [{ x: "a b" }, [], {}, [true, 10]] };
    const agrees = (part: unknown, all: unknown): boolean => {
      if (typeof part === "string" && part.endsWith("…")) return (all as string).startsWith(part.slice(0, -1));
      if (typeof part !== "object" || part === null) return part === all;
      return Object.entries(part).every(([key, each]) => agrees(each, (all as Record<string, unknown>)[key]));
    };
    for (const text of [JSON.stringify(whole), JSON.stringify(whole, null, 2), `\`\`\`\n${JSON.stringify(whole)}\n\`\`\``]) {
      for (let end = 1; end <= text.length; end += 1) {
        const part = grow(text.slice(0, end));
        if (part !== undefined) expect([text.slice(0, end), agrees(part, whole)]).toEqual([text.slice(0, end), true]);
      }
      expect(grow(text)).toEqual(whole);
    }
  });

  it("reads no text that would take the page long", () => {
    expect(grow(`{"a": "${"x y".repeat(50_000)}`)).toBeUndefined();
    expect(grow('[{"a": '.repeat(5000))).toBeDefined();
  });
});

it("reads a whole text in a fence", () => {
  expect(parseJson('```json\n{"a": 1}\n```\n')).toEqual({ a: 1 });
  expect(parseJson('```json\n{"a": 1}\n```\nand more')).toBeUndefined();
});

it("has a column for each field in a list of objects, where these are few", () => {
  expect(columnsOf([{ a: 1 }, {}, { b: [2], a: null }])).toEqual(["a", "b"]);
  for (const other of [[], [{}], [{ a: 1 }, 2], [{ a: 1 }, [1]], [null], [Object.fromEntries([..."abcdefghi"].map((key) => [key, 1]))]]) {
    expect(columnsOf(other)).toBe(false);
  }
});
