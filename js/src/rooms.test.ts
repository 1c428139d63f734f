/// <reference types="vite/client" />
// The arrows between the rooms: a module imports from its own room and from those that stand before it here. A test reads
// the imports because a linter for one rule would be more to keep than the rule.

import { describe, expect, it } from "vitest";

/** Each room may know those before it, and none of those after it. */
const ROOMS = [
  "wire", // the messages of the kernel: their types, and what lets nothing else in
  "wording", // numbers, texts and spans in words
  "store", // the run as this page knows it: a fold over the messages
  "kernel", // the connection to the kernel
  "theme", // colours, fonts, the style sheet
  "layout", // tracks and marks, in milliseconds across and pixels down
  "view", // what one view shows of a store: window, selection, scroll
  "draw", // the canvas
  "input", // keys and pointer
  "elements", // small parts of the page that several rooms use
  "details", // the drawer
  "explore", // the panels below the toolbar, and what explores a run beyond its bars
  "chrome", // everything else around the canvas
  "lab", // JupyterLab and Notebook 7: the channel to the kernel, the renderer, the cells
  "board", // the board of remembered runs
  "entry", // what anywidget and JupyterLab load
];
/** What only tests import, and what may import anything. */
const TESTING = "testing";
const MOST_LINES = 800;

const sources = import.meta.glob<string>("./**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
const modules = Object.entries(sources).map(([path, text]) => ({ path: path.slice(2), text }));

const roomOf = (path: string): string => path.split("/")[0] as string;
const isTest = (path: string): boolean => /\.test\.tsx?$/.test(path) || roomOf(path) === TESTING;
const shipped = modules.filter(({ path }) => !isTest(path) && !path.endsWith(".d.ts"));

/** The modules, by path without extension, that a module imports from here: types too, because they tie rooms as well. */
function importsOf({ path, text }: { path: string; text: string }): string[] {
  const found = [...text.matchAll(/(?:\bfrom|\bimport) "(\.[^"]+)"/g)].map((match) => match[1] as string);
  return found.map((target) => {
    const steps = path.split("/").slice(0, -1);
    for (const step of target.split("/")) {
      if (step === "..") steps.pop();
      else if (step !== ".") steps.push(step);
    }
    return steps.join("/");
  });
}

describe("a module", () => {
  it.each(shipped.map((module) => [module.path, module] as const))("%s imports from rooms before its own only", (path, module) => {
    const own = ROOMS.indexOf(roomOf(path));
    expect(own, `${path} is in no room`).toBeGreaterThanOrEqual(0);
    const wrong = importsOf(module).filter((target) => !ROOMS.slice(0, own + 1).includes(roomOf(target)));
    expect(wrong).toEqual([]);
  });

  it("never imports itself by way of others", () => {
    const imports = new Map(shipped.map((module) => [module.path.replace(/\.tsx?$/, ""), importsOf(module)]));
    const done = new Set<string>();
    const circles: string[] = [];
    const visit = (path: string, way: string[]): void => {
      if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path].join(" -> "));
      if (done.has(path) || way.includes(path)) return;
      for (const target of imports.get(path) ?? []) visit(target, [...way, path]);
      done.add(path);
    };
    for (const path of imports.keys()) visit(path, []);
    expect(circles).toEqual([]);
  });

  it("has a name that no other has", () => {
    const names = shipped.map(({ path }) => path.replace(/^.*\//, ""));
    expect(names.filter((name, k) => names.indexOf(name) !== k)).toEqual([]);
  });

  it("fits in 800 lines, tests too", () => {
    expect(modules.filter(({ text }) => text.split("\n").length > MOST_LINES).map(({ path }) => path)).toEqual([]);
  });

  it("says at its top what it is", () => {
    expect(shipped.filter(({ text }) => !text.startsWith("//")).map(({ path }) => path)).toEqual([]);
  });
});
