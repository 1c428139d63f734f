// What a person had before them, kept for the moment in which one view of a run takes the place of another: where the
// kernel can't be reached beside a busy cell, the live view and the saved one that replaces it at the end of the run are
// drawn by different modules (W5). Found by both on the page itself, since they share nothing else.

import type { View } from "./view";

const PLACE = Symbol.for("ensemble-timeline.left-views");
/** A view that comes later than this is a new one, and begins as all do. */
const LONGEST_MS = 3000;

/** The signals of a view that a person set, by name. */
const KEPT = [
  "isDrawerOpen", "collapsed", "grouping", "pinned", "follow", "isFollowingRows", "isCriticalShown", "hasPlayhead", "chosenShape", "isExpanded", "look", "window", "scrollTop",
] as const satisfies readonly (keyof View)[];
const SELECTED = ["spans", "range", "time"] as const;
const SEARCHED = ["words", "kinds", "status", "isDimming"] as const;

type Kept = Record<string, unknown>;

interface LeftView {
  readonly kept: Kept;
  readonly selection: Kept;
  readonly search: Kept;
  readonly hasFocus: boolean;
  readonly at: number;
}

/** The view of each run that was left last. */
function leftViews(): Map<string, LeftView> {
  const page = globalThis as unknown as Record<symbol, Map<string, LeftView> | undefined>;
  return (page[PLACE] ??= new Map<string, LeftView>());
}

/** Keeps what is to be seen in a view that is about to go. */
export function keepView(view: View, hasFocus: boolean): void {
  const run = view.store.run.value?.run_id;
  if (run === undefined) return;
  const kept = Object.fromEntries(KEPT.map((name) => [name, view[name].value]));
  const selection = Object.fromEntries(SELECTED.map((name) => [name, view.store.selection[name].value]));
  const search = Object.fromEntries(SEARCHED.map((name) => [name, view.search[name].value]));
  leftViews().set(run, { kept, selection, search, hasFocus, at: performance.now() });
}

/** Shows in a new view what the one before it had, if that went just now; true when that one had the focus. */
export function takeOverView(view: View): boolean {
  const run = view.store.run.value?.run_id ?? "";
  const left = leftViews().get(run);
  leftViews().delete(run);
  if (!left || performance.now() - left.at > LONGEST_MS) return false;
  // First, since a view brings into sight what is selected. What is known by now is newer.
  if (view.store.selection.isEmpty) for (const name of SELECTED) view.store.selection[name].value = left.selection[name] as never;
  for (const name of KEPT) view[name].value = left.kept[name] as never;
  for (const name of SEARCHED) view.search[name].value = left.search[name] as never;
  return left.hasFocus;
}
