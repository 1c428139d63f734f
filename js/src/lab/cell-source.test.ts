import { expect, it } from "vitest";
import { changeSource } from "./cell-source";

const change = { cell_id: "c", options: "-o out", before: "- Research {topic}\n", after: "- Research {topic} again\n" };

it("changes the body of the cell that ran, and no other character", () => {
  expect(changeSource("\n%%ensemble  -o out\n- Research {topic}\n\n", { ...change, options: " -o out" })).toBe(null);
  expect(changeSource("\n%%ensemble -o out \n- Research {topic}\n\n", change)).toBe("\n%%ensemble -o out \n- Research {topic} again\n\n");
  expect(changeSource("%%ensemble -o out\n- Research {topic} again\n", change)).toBe("%%ensemble -o out\n- Research {topic} again\n");
  expect(changeSource("%%ensemble\n- Research {topic}", { ...change, options: "" })).toBe("%%ensemble\n- Research {topic} again");
});

it.each([
  ["its body is another one", "%%ensemble -o out\n- Research tides"],
  ["its options are others", "%%ensemble -o other\n- Research {topic}"],
  ["it is another kind of cell", "- Research {topic}"],
  ["it is empty", ""],
])("leaves a cell alone where %s", (_why, source) => {
  expect(changeSource(source, change)).toBe(null);
});
