import { expect, it } from "vitest";
import { cause, monogram, pretty } from "./text";

it.each([["Senior Researcher", "SR"], ["Ana", "An"], ["bo", "Bo"], ["data_analyst-two", "DT"], ["🙂", "?"], ["", "?"]])(
  "abbreviates the agent %s as %s", (name, text) => expect(monogram(name)).toBe(text),
);

it("lays JSON out and leaves all other text alone", () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty("{not json")).toBe("{not json");
  expect(pretty({ a: [] })).toBe('{\n  "a": []\n}');
});

it("finds the short cause of a retry", () => {
  expect(cause("429 Too Many Requests")).toBe("429");
  expect(cause("connection_reset")).toBe("connection reset");
  expect(cause(null)).toBe("retry");
});
