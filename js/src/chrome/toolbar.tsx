// The line above the chart: what is looked for on its left, how the run is shown on its right. What its buttons open is loaded
// with them.

import { Icon } from "../elements/icon";
import { Radios } from "../elements/radios";
import type { Found } from "../view/finder";
import { type Shape, SHAPES } from "../view/opening-shape";
import type { Panel, View } from "../view/view";
import { countTasks } from "../wording/labels";
import { formatExactCount, pluralize } from "../wording/numbers";
import { FiltersPlace } from "./late-places";

const HELP = "Words in names, prompts, replies, tools and errors; agent:Writer tool:search status:failed cost>0.01 narrow it (/)";

/** The keys that do the same. */
const TITLES: Partial<Record<Shape, string>> = { graph: "Graph (g)", table: "Table (t)" };

export const Toolbar = ({ view }: { view: View }) => (
  <div class="et-toolbar" role="group" aria-label="Search and view">
    <SearchField view={view} />
    <FiltersPlace view={view} />
    <span class="et-spring" />
    <Shapes view={view} />
    <Opener view={view} panel="view">View</Opener>
    <Opener view={view} panel="more" label="More">…</Opener>
  </div>
);

const Opener = ({ view, panel, label, children }: { view: View; panel: Panel; label?: string; children: string }) => (
  <button class="et-tool" aria-label={label} title={label} aria-expanded={view.panel.value === panel} onClick={() => view.togglePanel(panel)}>{children}</button>
);

/** How the run is shown: only what it has something for is offered. */
function Shapes({ view }: { view: View }) {
  const { present, shape, hasPlayhead } = view;
  present.version.value;
  const has = (each: Shape): boolean => each === "grid" ? present.hasGrid : each !== "messages" || (present.kinds.has("llm") && present.run.value?.capture_mode !== "metadata");
  return (
    <>
      <Radios label="Show the run as" class="et-shapes" each="et-tool" chosen={shape.value} choose={(each) => view.showAs(each)}
        values={SHAPES.filter(([each]) => has(each) || each === shape.value).map(([each, name]) => [each, name, TITLES[each] ?? name] as const)} />
      {view.hasPast && <button class="et-tool" aria-label="Playhead" title="The run as it was at a time in it (Space plays it)" aria-pressed={hasPlayhead.value} onClick={() => view.togglePlayhead()}><Icon name="resume" /></button>}
    </>
  );
}

function SearchField({ view }: { view: View }) {
  const { search } = view;
  const found = search.found.value;
  const count = search.result.value && countFound(view, search.result.value);
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter") view.goToNext(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && search.words.value !== "") search.words.value = "";
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <span class="et-search" role="search">
      <Icon name="search" />
      <input type="text" aria-label="Search the run" placeholder="Search" title={HELP} spellcheck={false}
        autocomplete="off" value={search.words.value} onInput={(event) => (search.words.value = event.currentTarget.value)} onKeyDown={onKey} onFocus={() => (search.isOpen.value = true)} />
      {count && <span class="et-found" role="status">{count}</span>}
      {found && (
        <>
          <button class="et-button" aria-label="Next match" title="Next match (n)" disabled={found.length === 0} onClick={() => view.goToNext(1)}><Icon name="down" /></button>
          <button class="et-button" aria-label="Clear the search" title="Clear" onClick={() => search.clear()}><Icon name="error" size={12} /></button>
        </>
      )}
    </span>
  );
}

/** What is found, of how much, and which of it is shown: `1/3`. Of a map its rows are counted. */
function countFound({ store, selected, search }: View, { rows, total }: Found): string {
  const run = store.run.value;
  const at = rows.findIndex((row) => row.span_id === selected.value);
  if (at >= 0) return `${at + 1}/${rows.length}`;
  if (run?.task_noun === "row") return `${formatExactCount(search.countOutermost())} of ${countTasks(run, run.tasks_total)}`;
  return `${formatExactCount(rows.length)} of ${pluralize(total, "span")}`;
}
