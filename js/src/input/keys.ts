// The keys of the view (W9), which work only while it has the focus. A pure table from key to deed; what is not in it
// stays the page's.

import type { View } from "../view/view";

const ZOOM = 0.7;

/** Does what a key means; true when it meant something, so that the page must not act on it too. */
export function handleKey(view: View, key: string, now: number): boolean {
  const action = actions[key];
  if (!action) return false;
  action(view, now);
  return true;
}

const actions: Record<string, (view: View, now: number) => void> = {
  ArrowDown: (view) => view.moveRow(1),
  ArrowUp: (view) => view.moveRow(-1),
  ArrowRight: (view) => moveSideways(view, 1),
  ArrowLeft: (view) => moveSideways(view, -1),
  Home: (view) => view.moveRow(-Infinity),
  End: (view) => view.moveRow(Infinity),
  Enter: (view) => {
    if (view.selected.value !== null) view.isDrawerOpen.value = true;
  },
  Escape: (view) => {
    if (view.isDrawerOpen.value) view.isDrawerOpen.value = false;
    else view.select(null);
  },
  f: (view) => view.fit(),
  "+": (view, now) => view.zoom(view.width.value / 2, ZOOM, now),
  "=": (view, now) => view.zoom(view.width.value / 2, ZOOM, now),
  "-": (view, now) => view.zoom(view.width.value / 2, 1 / ZOOM, now),
};

/** On a row with rows below, as in any tree, right opens and left closes; elsewhere they walk along the spans of the row. */
function moveSideways(view: View, step: 1 | -1): void {
  const track = view.selectedTrack;
  const isOnParent = track?.hasChildren && view.selected.value === track.id;
  if (track && isOnParent && track.isExpanded !== (step > 0)) view.toggle(track.id);
  else view.moveSpan(step);
}
