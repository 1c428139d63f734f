// Holds W36: the whole run above the axis.

import { expect, it } from "vitest";
import { row, run, stored } from "../testing/runs";
import { pathsOf } from "./minimap";

const WHOLE = { from: 0, to: 1000 };

it("the whole run is as high as its share in the most that was done at once, with a tick where something failed (W36)", () => {
  const store = stored({
    run: run({ status: "failed" }),
    rows: [
      row({ span_id: "t", kind: "task", agent: "Ana", start_ms: 0, end_ms: 1000 }),
      row({ span_id: "a", kind: "llm", parent_id: "t", start_ms: 0, end_ms: 500 }),
      row({ span_id: "b", kind: "tool", parent_id: "t", start_ms: 200, end_ms: 400, status: "error" }),
      row({ span_id: "q", kind: "review", parent_id: "t", start_ms: 500, end_ms: 1000 }),
      row({ span_id: "h", kind: "task", agent: "Handler", start_ms: 800, end_ms: 1000 }),
    ],
  });
  const { work, errors } = pathsOf(store, WHOLE, 100, 1000);
  // One at work, two, one, none while a person is asked, and plain code.
  expect(work).toBe("M0 24H0V14H20V4H40V14H50V24H80V14H100V24Z");
  expect(errors).toBe("M38 1h4v3h-1v19h-2v-19h-1z");
});

it("what is there is seen, however little it is beside the most, and what goes on ends at now (W36)", () => {
  const many = Array.from({ length: 100 }, (_, k) => row({ span_id: `m${k}`, kind: "llm", start_ms: 0, end_ms: 100 }));
  const store = stored({ rows: [...many, row({ span_id: "on", kind: "llm", status: "running", start_ms: 500 })] });
  expect(pathsOf(store, WHOLE, 100, 600).work).toBe("M0 24H0V4H10V24H50V22H60V24H100V24Z");
});
