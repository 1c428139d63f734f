// What narrows a search besides words: kinds of spans, and how they ended. Only what the run has is offered.

import type { ComponentChildren } from "preact";
import { Icon } from "../elements/icon";
import type { KindFilter } from "../view/finder";
import type { View } from "../view/view";
import { STATUSES, type Status } from "../wire/rows";
import { STATUS_NAMES } from "../wire/words";

const KINDS: readonly (readonly [KindFilter, sign: ComponentChildren, name: string, title: string])[] = [
  ["llm", "◆", "Models", "model calls"], ["tool", "▪", "Tools", "tool calls"],
  ["delegation", "▸", "Delegations", "delegated work"], ["review", <Icon name="waiting" size={11} />, "Reviews", "reviews"],
];

export function Filters({ view }: { view: View; change: number }) {
  const { search, store } = view;
  store.version.value;
  const toggle = (kind: KindFilter): void => {
    const kinds = new Set(search.kinds.value);
    if (!kinds.delete(kind)) kinds.add(kind);
    search.kinds.value = kinds;
  };
  return (
    <span class="et-filters" role="group" aria-label="Filters">
      {KINDS.filter(([kind]) => store.kinds.has(kind) || search.kinds.value.has(kind)).map(([kind, sign, name, title]) => (
        <button class="et-kind-toggle" data-kind={kind} aria-pressed={search.kinds.value.has(kind)} title={`Only ${title}`}
          onClick={() => toggle(kind)}><span aria-hidden="true">{sign}</span>{name}</button>
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
