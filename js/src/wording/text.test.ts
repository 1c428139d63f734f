import { expect, it } from "vitest";
import cases from "../../../tests/wording_cases.json";
import { fullCause, monogram, prettyPrint, shortCause } from "./text";

it.each([["Senior Researcher", "SR"], ["Ana", "An"], ["bo", "Bo"], ["data_analyst-two", "DT"], ["🙂", "?"], ["", "?"]])(
  "abbreviates the agent %s as %s", (name, text) => expect(monogram(name)).toBe(text),
);

it("lays JSON out and leaves all other text alone", () => {
  expect(prettyPrint('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(prettyPrint("{not json")).toBe("{not json");
  expect(prettyPrint({ a: [] })).toBe('{\n  "a": []\n}');
});

it("finds the short cause of a retry", () => {
  expect(shortCause("429 Too Many Requests")).toBe("HTTP 429");
  expect(shortCause("connection_reset")).toBe("connection reset");
  expect(shortCause(null)).toBe("retry");
});

// Python's tests read the same table.
it.each(cases.causes as [string | null, string][])("words the cause %s as %s", (reason, text) =>
  expect(fullCause(reason)).toBe(text));
