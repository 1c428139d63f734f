// In which shape a run opens: as a person chose it for this run in this browser, else as the kernel says.

import type { Run } from "../wire/rows";
import { keep, recall } from "./browser-memory";

/** What shows the run: bars along its time, or something in place of them. */
export type Shape = "chart" | "graph" | "grid" | "messages" | "table";

/** What each shape is called, in the order in which they are offered. */
export const SHAPES: readonly (readonly [Shape, string])[] = [
  ["chart", "Bars"], ["graph", "Graph"], ["grid", "Grid"], ["messages", "Messages"], ["table", "Table"],
];

const KEY = "ensemble-timeline.shapes";
/** Of so many runs a choice is kept. */
const MOST_RUNS = 200;
const nameOf = (shape: Shape): string => (shape === "chart" ? "bars" : shape);
const named = (name: unknown): Shape | undefined => SHAPES.find(([each]) => nameOf(each) === name)?.[0];

/** As the kernel says; runs that an earlier version saved open as bars. */
export const openingShape = (run: Run | null): Shape => named(run?.view) ?? "chart";

const isChoice = (each: unknown): each is [string, string] => Array.isArray(each) && each.length === 2;

/** The latest choice last, by run. */
function readChoices(): [string, string][] {
  const kept = recall("localStorage", KEY);
  return Array.isArray(kept) ? kept.filter(isChoice) : [];
}

/** What a person chose for this run. */
export const recallShape = (run: string): Shape | undefined => named(new Map(readChoices()).get(run));

export function keepShape(run: string, shape: Shape): void {
  const others = readChoices().filter(([each]) => each !== run);
  keep("localStorage", KEY, [...others, [run, nameOf(shape)]].slice(-MOST_RUNS));
}
