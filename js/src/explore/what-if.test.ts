// Holds W138 and W139: what is asked of the kernel, and what is made of its answer.

import { expect, it } from "vitest";
import { KernelConnection } from "../kernel/connection";
import { run, snapshot } from "../testing/runs";
import { View } from "../view/view";
import { WhatIf } from "./what-if";

function open(status: "ok" | "running" = "ok") {
  const sent: Record<string, unknown>[] = [];
  const connection = new KernelConnection((message) => void sent.push(message as never), () => 0);
  connection.store.fold(snapshot({ run: run({ status: status === "ok" ? "completed" : "running" }) }), 0);
  const view = new View(connection.store, new AbortController().signal);
  const whatIf = new WhatIf(view, connection, () => undefined);
  const answer = (more: object, at = -1) => connection.receive({ kind: "tryout", number: sent.at(at)?.number, ...more });
  return { sent, connection, whatIf, answer };
}

it("asks for what is different alone, and takes the answer to what it asked last (W138)", () => {
  const { sent, whatIf, answer } = open();
  whatIf.change({ models: 2 });
  whatIf.change({ task: "web", factor: 4, places: 8, wait: "all" });
  expect(sent.map(({ scenario }) => scenario)).toEqual([
    { max_concurrency: null, speedup: { llm: 2 }, drop_waits: [] }, { max_concurrency: 8, speedup: { llm: 2, web: 4 }, drop_waits: true },
  ]);
  answer({ prediction: { summary: "late", path: [], wall_ms: 9, tasks: [] } }, -2);
  expect([whatIf.isAsking, whatIf.prediction]).toEqual([true, null]);
  answer({ prediction: { summary: "1 s instead of 2 s", path: ["web"], wall_ms: 1000, tasks: [["t", 0, 1000, true], null] } });
  expect(whatIf.prediction).toMatchObject({ summary: "1 s instead of 2 s", path: ["web"] });
  expect(whatIf.prediction?.tasks.get("t")).toEqual({ from: 0, to: 1000, isCritical: true });
});

it("says what went wrong, and asks nothing where all is as it was (W138)", () => {
  const { sent, whatIf, answer } = open();
  whatIf.change({ places: 0 });
  answer({ error: "max_concurrency must be a whole number" });
  expect([whatIf.error, whatIf.prediction]).toEqual(["max_concurrency must be a whole number", null]);
  whatIf.change({ places: null });
  expect([sent.length, whatIf.error, whatIf.isAsking]).toEqual([1, "", false]);
});

it("says what it lacks (W139)", () => {
  expect(open().whatIf.lacks).toBeNull();
  expect(open("running").whatIf.lacks).toContain("end of the run");
  const { connection, whatIf } = open();
  connection.isUnreachable.value = true;
  expect(whatIf.lacks).toContain("kernel is gone");
  expect(new WhatIf(whatIf.view, null, () => undefined).lacks).toContain("in a kernel");
});
