// Where the bars are, when none of the rows on screen has one in the window: a word at the edge that leads there (W8).

import { Icon } from "../elements/icon";
import { LateIcon } from "../elements/late-icon";
import type { Mark } from "../layout/marks";
import type { View } from "../view/view";
import { formatDuration } from "../wording/numbers";

/** The mark nearest to the window among the rows on screen, and where it is; null where one is in sight, or none is anywhere. */
export function nearestOutside(view: View, now: number): { mark: Mark; side: "left" | "right" } | null {
  const { from, to } = view.window.value;
  let nearest: { mark: Mark; side: "left" | "right" } | null = null;
  let least = Infinity;
  for (const track of view.shownTracks) {
    for (const mark of track.marks) {
      if (mark.shape === "ghost" || Number.isNaN(mark.from)) continue;
      const end = mark.to ?? Math.max(now, mark.from);
      if (end >= from && mark.from <= to) return null;
      const away = end < from ? from - end : mark.from - to;
      if (away < least) [nearest, least] = [{ mark, side: end < from ? "left" : "right" }, away];
    }
  }
  return nearest;
}

export function SightHint({ view }: { view: View; change: number }) {
  const nearest = nearestOutside(view, view.age.value);
  if (!nearest) return null;
  const { mark, side } = nearest;
  return (
    <button class="et-sight" data-side={side} title="Show the bars of these rows" onClick={() => view.bring(mark.from, mark.to ?? view.now)}>
      {side === "left" && <LateIcon name="left" />}
      <span>bars {side === "left" ? `until ${formatDuration(mark.to)}` : `from ${formatDuration(mark.from)} on`}</span>
      {side === "right" && <Icon name="right" />}
    </button>
  );
}
