// The drawer, what is marked in numbers, what a search has found, the question to a person and the tooltip,
// each as a tree of its own. They are a file of their own, too, with their style sheet, loaded when one of them is shown for the
// first time: most of what a view consists of is here, and a run can be shown without it. In that file are other copies of the libraries, so a change of a signal outside is not
// noticed in here: whoever mounts it says when to look again.

import type { Signal } from "@preact/signals";
import type { VNode } from "preact";
import { type LateRoot, mountLate } from "../elements/late-root";
import type { KernelConnection } from "../kernel/connection";
import style from "../theme/late.css";
import * as finder from "../view/finder";
import type { View } from "../view/view";
import { DeltaChips } from "./delta-chips";
import { Drawer } from "./drawer";
import { Folds } from "./folds";
import { Hits } from "./hits";
import { HitsAsker } from "./hits-asker";
import { followLink } from "./place-links";
import { RangeHandles } from "./range-handles";
import { ReviewPanel } from "./review-panel";
import { SightHint } from "./sight-hint";
import { SummaryPanel } from "./summary-panel";
import { type Hover, Tooltip } from "./tooltip";
import { MessagesView } from "./transcript";
import type { Asked } from "./tryout-root";
import { EditorPlace, ForksPlace } from "./tryouts-place";
import type { Way } from "./try-buttons";

const mount = (place: HTMLElement, draw: (change: number) => VNode): LateRoot => mountLate(place, style, draw);

export function mountDrawer(place: HTMLElement, view: View, connection: KernelConnection | null): LateRoot {
  view.search.finder.value = finder;
  const asker = connection && new HitsAsker(view, connection);
  let asked: Asked | null = null;
  const ask = (wanted: Asked | null): void => {
    asked = wanted;
    root.update();
  };
  const onTry = (span: string, way: Way): void => ask({ span, way, number: (asked?.number ?? 0) + 1 });
  const root = mount(place, (change) => (
    <>
      {connection && <ForksPlace view={view} connection={connection} change={change} />}
      <Hits view={view} connection={connection} change={change} />
      <SummaryPanel view={view} connection={connection} change={change} />
      <Drawer view={view} connection={connection} change={change} onTry={onTry} trying={asked?.span} />
      {connection && <EditorPlace view={view} connection={connection} asked={asked} onClose={() => ask(null)} />}
    </>
  ));
  let seen = followLink(view, place, "");
  return {
    update: () => {
      asker?.look();
      seen = followLink(view, place, seen);
      root.update();
    },
    end: () => {
      asker?.end();
      root.end();
    },
  };
}

/** All that was said, in place of the chart. */
export const mountMessages = (place: HTMLElement, view: View, connection: KernelConnection | null): LateRoot =>
  mount(place, (change) => <MessagesView view={view} connection={connection} change={change} />);

export const mountReview = (place: HTMLElement, view: View, connection: KernelConnection): LateRoot =>
  mount(place, (change) => <ReviewPanel view={view} connection={connection} change={change} />);

/** What lies over the chart: what is folded, differences of two runs, a marked range, and where the bars are. */
export const mountOverlay = (place: HTMLElement, view: View): LateRoot =>
  mount(place, (change) => <><Folds view={view} change={change} /><DeltaChips view={view} place={place} change={change} /><RangeHandles view={view} change={change} /><SightHint view={view} change={change} /></>);

/** The few words beside what is pointed at. */
export const mountTooltip = (place: HTMLElement, hover: Signal<Hover | null>, view: View): LateRoot =>
  mount(place, (change) => <Tooltip hover={hover.value} view={view} change={change} />);
