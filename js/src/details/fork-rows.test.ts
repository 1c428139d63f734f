import { expect, it } from "vitest";
import { Store } from "../store/store";
import { delta, row, run, snapshot } from "../testing/runs";
import { alignStore } from "./fork-rows";

const over = run({ status: "completed", elapsed_ms: 1000 });
const ORIGIN = [
  row({ span_id: "o1", kind: "task", name: "draft", task: "draft", start_ms: 0, end_ms: 400 }),
  row({ span_id: "o2", kind: "task", name: "critic", task: "critic", start_ms: 400, end_ms: 700 }),
  row({ span_id: "o3", kind: "llm", parent_id: "o2", task: "critic", start_ms: 410, end_ms: 690 }),
  row({ span_id: "o4", kind: "task", name: "final", task: "final", start_ms: 700, end_ms: 1000 }),
];
const FORK = [
  row({ span_id: "f1", kind: "task", name: "draft", task: "draft", start_ms: 1, end_ms: 1, reused: true }),
  row({ span_id: "f2", kind: "task", name: "critic", task: "critic", start_ms: 2, end_ms: 3 }),
  row({ span_id: "f3", kind: "llm", parent_id: "f2", task: "critic", start_ms: 2, end_ms: 3, reused: true }),
  row({ span_id: "f4", kind: "task", name: "final", task: "final", start_ms: 5 }),
];

function align() {
  const [origin, fork] = [new Store(), new Store()];
  origin.fold(snapshot({ run: over, rows: ORIGIN, phases: [] }), 0);
  const places = alignStore(fork, origin, "o3", 690);
  fork.fold(snapshot({ run: run({ elapsed_ms: 5 }), rows: FORK, phases: [] }), 0);
  return { fork, places };
}

it("has what was kept where it was, and what is new from the point of the fork on (W114)", () => {
  const { fork } = align();
  const at = (span: string) => [fork.row(span)?.start_ms, fork.row(span)?.end_ms];
  expect([at("f1"), at("f2"), at("f3"), at("f4")]).toEqual([[0, 400], [400, 693], [410, 690], [695, undefined]]);
  expect([fork.run.value?.elapsed_ms, fork.at]).toEqual([695, 690]);
  fork.fold(delta(1, 2, { run: run({ elapsed_ms: 300 }), rows: [{ ...(FORK[3] as never as object), end_ms: 300 } as never] }), 0);
  expect(at("f4")).toEqual([695, 990]);
});

it("knows which span of a run is which of its fork (W114)", () => {
  const { places } = align();
  expect([places.own.find("o3", places.origins), places.origins.find("f4", places.own), places.own.find("none", places.origins)]).toEqual(["f3", "o4", undefined]);
});
