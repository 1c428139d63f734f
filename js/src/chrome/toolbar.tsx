// The line above the chart: what is looked for on its left, how the run is shown on its right. In a narrow view the filters
// wait behind a button.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "../elements/icon";
import type { Found } from "../view/finder";
import type { KindFilter } from "../view/search";
import type { View } from "../view/view";
import { STATUSES, type Status } from "../wire/rows";
import { STATUS_NAMES } from "../wire/words";
import { countTasks } from "../wording/labels";
import { formatExactCount, pluralize } from "../wording/numbers";

const ZOOM = 0.7;
const HELP = "Words in names, prompts, replies, tools and errors; agent:Writer tool:search status:failed cost>0.01 narrow it (/)";
const KINDS: readonly (readonly [KindFilter, sign: ComponentChildren, name: string, title: string])[] = [
  ["llm", "◆", "Models", "model calls"], ["tool", "▪", "Tools", "tool calls"],
  ["delegation", "▸", "Delegations", "delegated work"], ["review", <Icon name="waiting" size={11} />, "Reviews", "reviews"],
];

export function Toolbar({ view }: { view: View }) {
  const areFiltersShown = useSignal(false);
  const { search } = view;
  return (
    <div class="et-toolbar" role="group" aria-label="Search and zoom">
      <SearchField view={view} />
      <button class="et-button et-funnel" aria-label="Filters" title="Filters" aria-expanded={areFiltersShown.value} data-on={search.isFiltering}
        onClick={() => (areFiltersShown.value = !areFiltersShown.value)}><Icon name="filter" /></button>
      <Filters view={view} isOpen={areFiltersShown.value} />
      <span class="et-spring" />
      <span class="et-tools">
        <Tool icon="minus" name="Zoom out" keys="s" act={() => view.zoom(view.width.value / 2, 1 / ZOOM, view.now)} />
        <Tool icon="plus" name="Zoom in" keys="w" act={() => view.zoom(view.width.value / 2, ZOOM, view.now)} />
        <Tool icon="fit" name="Fit the whole run" keys="0" act={() => view.fit()} />
        <Tool icon="critical" name="Critical path" keys="c" isOn={view.isCriticalShown.value} act={() => (view.isCriticalShown.value = !view.isCriticalShown.value)} />
        <Tool icon="arrows" name="Arrows: who waits for whom" keys="r" isOn={view.areArrowsShown.value} act={() => (view.areArrowsShown.value = !view.areArrowsShown.value)} />
        <Tool icon="table" name="Table" keys="t" isOn={view.isTableShown.value} act={() => (view.isTableShown.value = !view.isTableShown.value)} />
        <Tool icon="question" name="Keys" keys="?" isOn={view.areKeysShown.value} act={() => (view.areKeysShown.value = !view.areKeysShown.value)} />
      </span>
    </div>
  );
}

interface ToolProps {
  icon: IconName;
  name: string;
  /** The key that does the same. */
  keys: string;
  act: () => void;
  /** Of what is on or off. */
  isOn?: boolean;
}

const Tool = ({ icon, name, keys, act, isOn }: ToolProps) => (
  <button class="et-button" aria-label={name} title={`${name} (${keys})`} aria-pressed={isOn} data-on={isOn} onClick={act}><Icon name={icon} /></button>
);

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
        autocomplete="off" value={search.words.value} onInput={(event) => (search.words.value = event.currentTarget.value)} onKeyDown={onKey} />
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

function Filters({ view, isOpen }: { view: View; isOpen: boolean }) {
  const { search, store } = view;
  store.version.value;
  return (
    <span class="et-filters" data-open={isOpen} role="group" aria-label="Filters">
      {KINDS.filter(([kind]) => store.kinds.has(kind) || search.kinds.value.has(kind)).map(([kind, sign, name, title]) => (
        <button class="et-kind-toggle" data-kind={kind} aria-pressed={search.kinds.value.has(kind)} title={`Only ${title}`}
          onClick={() => search.toggleKind(kind)}><span aria-hidden="true">{sign}</span>{name}</button>
      ))}
      <select class="et-status-filter" aria-label="Status" value={search.status.value} data-on={search.status.value !== ""}
        onChange={(event) => (search.status.value = event.currentTarget.value as Status | "")}>
        <option value="">any status</option>
        {STATUSES.map((status) => <option value={status}>{STATUS_NAMES[status]}</option>)}
      </select>
      {search.isActive && (
        <button class="et-kind-toggle" aria-pressed={search.isDimming.value} title="Dim what does not fit, in place of hiding it"
          onClick={() => (search.isDimming.value = !search.isDimming.value)}>Dim</button>
      )}
    </span>
  );
}
