// What the buttons `View` and `…` open below the toolbar: how the run is shown, and what is needed now and then.

import type { View } from "../view/view";
import { GROUPINGS, groupingsOf } from "../layout/groups";
import { Choice, Choices } from "./choices";
import { LookChoices } from "./look-choices";
import type { WhatIf } from "./what-if";

const ZOOM = 0.7;

export function Panels({ view, whatIf, change }: { view: View; whatIf: WhatIf; change: number }) {
  const panel = view.panel.value;
  if (panel === null) return null;
  return <div class="et-switches" role="region" aria-label={panel === "view" ? "View" : "More"}>{panel === "view" ? <ViewPanel view={view} change={change} /> : <MorePanel view={view} whatIf={whatIf} />}</div>;
}

const ViewPanel = ({ view, change }: { view: View; change: number }) => (
  <>
    <GroupChoices view={view} />
    <LookChoices view={view} change={change} />
  </>
);

/** Only what the run has is offered. */
function GroupChoices({ view }: { view: View }) {
  const { grouping, pinned, store } = view;
  store.version.value;
  return (
    <Choices name="Rows by">
      <Choice name="Phase and task" isOn={grouping.value === null} act={() => (grouping.value = null)} />
      {groupingsOf(store).map((each) => (
        <Choice key={each} name={GROUPINGS[each]} isOn={grouping.value === each} act={() => (grouping.value = each)} />
      ))}
      {pinned.value.size > 0 && <Choice name="Unpin all" title="Let all rows scroll again" act={() => (pinned.value = new Set())} />}
    </Choices>
  );
}

const MorePanel = ({ view, whatIf }: { view: View; whatIf: WhatIf }) => (
  <>
    <Choices name="Mark">
      <Choice name="Critical path" icon="critical" keys="c" isOn={view.isCriticalShown.value} act={() => (view.isCriticalShown.value = !view.isCriticalShown.value)} />
      <Choice name="Arrows" icon="arrows" keys="r" title="Who waits for whom" isOn={view.areArrowsShown.value} act={() => (view.areArrowsShown.value = !view.areArrowsShown.value)} />
    </Choices>
    <Choices name="Time">
      <Choice name="Zoom out" icon="minus" keys="s" act={() => view.zoom(view.width.value / 2, 1 / ZOOM, view.now)} />
      <Choice name="Zoom in" icon="plus" keys="w" act={() => view.zoom(view.width.value / 2, ZOOM, view.now)} />
      <Choice name="Whole run" icon="fit" keys="0" act={() => view.fit()} />
    </Choices>
    <Choices name="What if">
      {whatIf.lacks ? <span class="et-choices-note">{whatIf.lacks} to see how long it would have taken otherwise.</span>
        : <Choice name="Other conditions" icon="clock" title="How long the run would have taken with faster models, more at once, or fewer waits" isOn={whatIf.isOpen} act={() => whatIf.toggle()} />}
    </Choices>
    <Choices name="Help">
      <Choice name="Keys" icon="question" keys="?" isOn={view.areKeysShown.value} act={() => (view.areKeysShown.value = !view.areKeysShown.value)} />
    </Choices>
  </>
);
