import { describe, expect, it } from "vitest";
import cases from "../../../tests/curve_cases.json";
import nested from "../../../tests/fixtures/messages/nested.json";
import report from "../../../tests/fixtures/messages/report.json";
import { pathOf } from "./graph-edges";
import { hasBoth, readGraph, step } from "./graph-model";

const savedOf = (recorded: unknown): { graphs: Record<string, unknown> } =>
  (recorded as { saved: { graphs: Record<string, unknown> } }).saved;

describe("the graph that the kernel packed (W32)", () => {
  it.each([["report", report], ["nested", nested]])("is read from the saved view of %s as it is", (_, recorded) => {
    const { graphs } = savedOf(recorded);
    const model = readGraph(graphs, "aggregated");
    if (!model) throw new Error("unreadable");
    expect(model.nodes.length).toBeGreaterThan(3);
    for (const node of model.nodes) {
      const around = node.parent == null ? null : model.nodes[node.parent];
      if (around) expect([node.x > around.x, node.y > around.y, node.level]).toEqual([true, true, around.level + 1]);
      for (const { span } of node.members) expect(model.nodeOf.get(span)).toBeDefined();
    }
    expect(model.edges.length).toBeGreaterThan(0);
    expect(model.width).toBeGreaterThan(0);
  });

  it("is none where there is none, or where it was damaged", () => {
    const { graphs } = savedOf(report);
    for (const odd of [null, undefined, 7, [], {}, { aggregated: 1 }, { aggregated: { nodes: {}, edges: {}, members: {} } }]) {
      expect(readGraph(odd, "aggregated")).toBeNull();
    }
    const damaged = structuredClone(graphs) as { aggregated: { nodes: { columns: { name: string; numbers?: string }[] } } };
    const x = damaged.aggregated.nodes.columns.find(({ name }) => name === "x");
    if (x) x.numbers = "1,2";
    expect(readGraph(damaged, "aggregated")).toBeNull();
    const looped = structuredClone(graphs) as typeof damaged;
    const parent = looped.aggregated.nodes.columns.find(({ name }) => name === "parent");
    if (parent?.numbers) parent.numbers = parent.numbers.split(",").map((item) => `9999${item.slice(item.indexOf("*") >>> 0)}`).join(",");
    expect(readGraph(looped, "aggregated")).toBeNull();
  });

  it("offers a choice only where both forms are there", () => {
    expect(hasBoth({ aggregated: {}, expanded: {} })).toBe(true);
    expect(hasBoth({ aggregated: {} })).toBe(false);
  });
});

describe("a step in the graph (W32)", () => {
  const model = readGraph(savedOf(report).graphs, "aggregated");
  if (!model) throw new Error("unreadable");
  const node = (key: string) => model.nodes.find((each) => each.key === key) ?? null;

  it("goes along the edges to the right and back", () => {
    for (const edge of model.edges.filter(({ kind }) => kind !== "loop" && kind !== "delegation")) {
      const [source, target] = [model.nodes[edge.source], model.nodes[edge.target]];
      if (!source || !target) throw new Error("no ends");
      const there = step(model, source, "right");
      expect(there).not.toBeNull();
      expect(model.edges.some((each) => each.source === source.place && each.target === there?.place)).toBe(true);
      expect(step(model, target, "left")).not.toBeNull();
    }
  });

  it("goes down into a box, and up out of it", () => {
    const box = model.nodes.find(({ inside }) => inside.length > 0);
    if (!box) throw new Error("no box");
    const first = step(model, box, "down");
    expect(first?.parent).toBe(box.place);
    expect(first && step(model, first, "up")).toBe(box);
  });

  it("reaches every node from the first by down and right", () => {
    const reached = new Set([model.nodes[0]]);
    for (const at of reached) {
      for (const to of ["right", "down", "up", "left"] as const) {
        const next = at && step(model, at, to);
        if (next) reached.add(next);
      }
    }
    expect(reached.size).toBe(model.nodes.length);
    expect(node("no such")).toBeNull();
  });
});

describe("a line of the graph", () => {
  it.each(cases.cases)("is drawn as Python draws it: $name", ({ kind, way, path }) => {
    expect(pathOf({ source: 0, target: 1, kind, way })).toBe(path);
  });
});
