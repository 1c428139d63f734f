// The tabs of the drawer by the pattern of the web: one of them has the Tab key's focus, the arrows walk (W10).

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";

export interface Tab {
  readonly key: string;
  readonly title: string;
  /** How many things it lists, where that says something. */
  readonly count?: number;
  /** Has texts that can be shown rendered or as they were written. */
  readonly hasTexts?: boolean;
  /** Stays as it is, and where it is scrolled to, when another span is selected. */
  readonly staysOpen?: boolean;
  readonly body: () => ComponentChildren;
}

interface Props {
  tabs: readonly Tab[];
  selected: string;
  prefix: string;
  onSelect: (key: string) => void;
}

export function TabList({ tabs, selected, prefix, onSelect }: Props): VNode {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const [strip, tab] = [list.current, list.current?.querySelector<HTMLElement>('[aria-selected="true"]')];
    // By hand, because scrolling the tab into view would scroll the notebook, too.
    if (!strip || !tab) return;
    const [from, to] = [tab.offsetLeft - strip.offsetLeft, tab.offsetLeft - strip.offsetLeft + tab.offsetWidth];
    if (from < strip.scrollLeft) strip.scrollLeft = from - 24;
    else if (to > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = to - strip.clientWidth + 24;
  }, [selected]);
  const onKey = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(({ key }) => key === selected);
    const step = new Map([["ArrowRight", at + 1], ["ArrowLeft", at - 1], ["Home", 0], ["End", tabs.length - 1]]).get(event.key);
    const next = step === undefined ? undefined : tabs[(step + tabs.length) % tabs.length];
    if (!next) return;
    onSelect(next.key);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.key}"]`)?.focus({ preventScroll: true });
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div ref={list} class="et-tabs" role="tablist" aria-label="Details" onKeyDown={onKey}>
      {tabs.map(({ key, title, count }) => (
        <button key={key} role="tab" class="et-tab" id={`${prefix}tab-${key}`} data-tab={key} aria-controls={`${prefix}panel`}
          aria-selected={key === selected} tabIndex={key === selected ? 0 : -1} onClick={() => onSelect(key)}>
          {title}{count !== undefined && <span class="et-count">{count}</span>}
        </button>
      ))}
    </div>
  );
}
