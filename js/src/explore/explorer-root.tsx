// What explores a run beyond its bars, each part as a tree of its own: the panels below the toolbar, the filters beside the
// search, the keys, and the whole run above the chart. They are loaded when one of them is opened for the first time, since a run can be shown without them.

import { type LateRoot, mountLate } from "../elements/late-root";
import type { KernelConnection } from "../kernel/connection";
import { drawLinks } from "../draw/links";
import { arrangeBy, type Grouping } from "../layout/groups";
import style from "../theme/explore-late.css";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { Filters } from "./filters";
import { KeysPanel } from "./keys-panel";
import { LookView } from "./look-view";
import { Minimap } from "./minimap";
import { NamedRanges } from "./named-ranges";
import { Panels } from "./panels";
import { PendingCalls } from "./pending-calls";
import { pinButton } from "./pins";
import { followTime, Playback, Playhead } from "./playback";
import { WhatIf } from "./what-if";
import { WhatIfPanel } from "./what-if-panel";

/** What narrows a search by kinds of spans and by how they ended. */
export const mountFilters = (place: HTMLElement, view: View): LateRoot => mountLate(place, style, (change) => <Filters view={view} change={change} />);

/** What a button of the toolbar opens below it, and what is asked there; the calls that wait after the end. */
export function mountPanel(place: HTMLElement, view: View, connection: KernelConnection | null): LateRoot {
  const whatIf = new WhatIf(view, connection, () => root.update());
  const root = mountLate(place, style, (change) => <><Panels view={view} whatIf={whatIf} change={change} /><WhatIfPanel whatIf={whatIf} change={change} /><PendingCalls view={view} change={change} /></>);
  return {
    update: root.update,
    end: () => {
      whatIf.end();
      root.end();
    },
  };
}

/** Columns, lane and colours. */
export const mountLook = (place: HTMLElement, view: View, theme: { readonly value: Theme }, prefix: string): LateRoot =>
  mountLate(place, style, (change) => <LookView view={view} theme={theme.value} prefix={prefix} change={change} />);

/** The keys that `?` lists. */
export const mountKeys = (place: HTMLElement, view: View): LateRoot => mountLate(place, style, (change) => <KeysPanel view={view} change={change} />);

/** What plays the run, and the whole of it, above the chart; what a person has named in it; what a person groups the rows by, and keeps on top; and who waits for whom. */
export function mountMinimap(place: HTMLElement, view: View): LateRoot {
  const root = mountLate(place, style, (change) => <><Playback view={view} change={change} /><Minimap view={view} change={change} /><NamedRanges view={view} change={change} /></>);
  let arranged: Grouping | null = null;
  view.drawLinks.value = drawLinks;
  view.pin.value = (track, isCurrent) => pinButton(view, track, isCurrent);
  return {
    update: () => {
      const grouping = view.grouping.value;
      if (grouping !== arranged) view.arrange.value = grouping && arrangeBy(grouping);
      arranged = grouping;
      root.update();
    },
    end: root.end,
  };
}

/** What stands over the chart: the playhead. */
export const mountStage = (place: HTMLElement, view: View): LateRoot =>
  mountLate(place, style, (change) => {
    followTime(view);
    return <Playhead view={view} change={change} />;
  });
