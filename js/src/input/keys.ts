// The keys of the view (W9), which work only while it has the focus. One table from key to deed, from which the panel of
// keys is drawn, too; what is not in it means nothing here, and reaches nobody else either.

import type { View } from "../view/view";

/** What a key may do to the page around the view. */
export interface PageAround {
  /** Puts the cursor into the search field. */
  focusSearch(): void;
  /** Gives the focus back to what is around the view. */
  leave(): void;
}

export interface Deed {
  /** The keys that do it, as `KeyboardEvent.key` names them. */
  readonly keys: readonly string[];
  readonly act: (view: View, now: number, page: PageAround) => void;
}

const CLOSER = 0.7;
const STEP = 0.15;

const zoom = (factor: number) => (view: View, now: number): void => view.zoom(view.width.value / 2, factor, now);
const pan = (share: number) => (view: View, now: number): void => view.pan(view.width.value * share, now);

/** The table. Its groups and their order are those of the panel that `?` opens. */
export const DEEDS: readonly (readonly [group: string, deeds: readonly Deed[]])[] = [
  ["Time", [
    { keys: ["w", "+", "="], act: zoom(CLOSER) },
    { keys: ["s", "-"], act: zoom(1 / CLOSER) },
    { keys: ["a"], act: pan(-STEP) },
    { keys: ["d"], act: pan(STEP) },
    { keys: ["f"], act: (view, now) => view.fitSelection(now) },
    { keys: ["0"], act: (view) => view.fit() },
    { keys: ["l"], act: (view) => view.goLive() },
    { keys: [" "], act: (view) => view.togglePlay() },
    { keys: ["["], act: (view, now) => view.markSide("from", now) },
    { keys: ["]"], act: (view, now) => view.markSide("to", now) },
  ]],
  ["Spans", [
    { keys: ["ArrowDown"], act: (view) => view.moveRow(1) },
    { keys: ["ArrowUp"], act: (view) => view.moveRow(-1) },
    { keys: ["ArrowRight"], act: (view) => moveSideways(view, 1) },
    { keys: ["ArrowLeft"], act: (view) => moveSideways(view, -1) },
    { keys: ["."], act: (view) => view.moveInTime(1) },
    { keys: [","], act: (view) => view.moveInTime(-1) },
    { keys: ["Home"], act: (view) => view.moveRow(-Infinity) },
    { keys: ["End"], act: (view) => view.moveRow(Infinity) },
    { keys: ["PageDown"], act: (view) => view.movePage(1) },
    { keys: ["PageUp"], act: (view) => view.movePage(-1) },
  ]],
  ["Find", [
    { keys: ["/"], act: (_view, _now, page) => page.focusSearch() },
    { keys: ["n"], act: (view) => view.goToNext(1) },
    { keys: ["N"], act: (view) => view.goToNext(-1) },
    { keys: ["c"], act: (view) => (view.isCriticalShown.value = !view.isCriticalShown.value) },
    { keys: ["r"], act: (view) => (view.areArrowsShown.value = !view.areArrowsShown.value) },
    { keys: ["g"], act: (view) => view.toggleShape("graph") },
    { keys: ["t"], act: (view) => view.toggleShape("table") },
    { keys: ["Enter"], act: (view) => (view.isDrawerOpen.value = view.selected.value !== null) },
    { keys: ["Escape"], act: stepOut },
    { keys: ["?"], act: (view) => (view.areKeysShown.value = !view.areKeysShown.value) },
  ]],
];

const ACTS = new Map(DEEDS.flatMap(([, deeds]) => deeds.flatMap((deed) => deed.keys.map((key) => [key, deed.act] as const))));

/** Does what a key means; true when it meant something, so that the page must not act on it too. */
export function handleKey(view: View, key: string, now: number, page: PageAround): boolean {
  if (view.steps.value?.(key)) return true;
  const act = ACTS.get(key);
  act?.(view, now, page);
  return act !== undefined;
}

/** On a row with rows below, as in any tree, right opens and left closes; elsewhere they walk along the spans of the row. */
function moveSideways(view: View, step: 1 | -1): void {
  const track = view.selectedTrack;
  const isOnParent = track?.hasChildren && view.selected.value === track.id;
  if (track && isOnParent && track.isExpanded !== (step > 0)) view.toggle(track.id);
  else view.moveSpan(step);
}

/** One thing at a time, the outermost first; when nothing is left to let go of, the focus goes back to the page. */
function stepOut(view: View, _now: number, page: PageAround): void {
  if (view.areKeysShown.value) view.areKeysShown.value = false;
  else if (view.panel.value) view.panel.value = null;
  else if (view.isDrawerOpen.value) view.isDrawerOpen.value = false;
  else if (view.selected.value !== null || view.range.value !== null) {
    view.select(null);
    view.range.value = null;
  } else if (view.search.isActive) view.search.clear();
  else page.leave();
}
