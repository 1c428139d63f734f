// JSON as a tree that folds. What is closed is not in the page, and of a long list only the beginning is, so neither depth nor
// length can make it slow.

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { formatExactCount, pluralize } from "../wording/numbers";

const SHOWN_AT_ONCE = 100;
const OPEN_DEPTH = 2;
const OPEN_ENTRIES = 12;
const LONGEST_JSON = 100_000;

type Entries = [string, unknown][];

/** The value of a text that is a JSON object or list; undefined for all other texts, and for ones too long to be read at once. */
export function parseJson(text: string): object | undefined {
  if (text.length > LONGEST_JSON || !/^\s*[[{]/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

export function JsonTree({ value }: { value: object }): VNode {
  return <div class="et-json"><Branch value={value} depth={0} /></div>;
}

const entriesOf = (value: object): Entries =>
  Array.isArray(value) ? value.map((item: unknown, k): [string, unknown] => [String(k), item]) : Object.entries(value);

function Branch({ value, depth, name }: { value: object; depth: number; name?: string }): VNode {
  const isList = Array.isArray(value);
  const size = isList ? value.length : Object.keys(value).length;
  const [isOpen, setOpen] = useState(depth === 0 || (depth < OPEN_DEPTH && size <= OPEN_ENTRIES));
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const [begin, end] = isList ? "[]" : "{}";
  const label = name === undefined ? null : <Name name={name} />;
  if (size === 0) return <div class="et-json-leaf">{label}<span class="et-json-sign">{begin}{end}</span></div>;
  const count = pluralize(size, isList ? "item" : "field");
  return (
    <div class="et-json-branch">
      <button class="et-json-fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="et-json-turn" aria-hidden="true" />
        {label}<span class="et-json-sign">{begin}{isOpen ? "" : `…${end}`}</span> <span class="et-json-count">{count}</span>
      </button>
      {isOpen && (
        <div class="et-json-inside">
          {entriesOf(value).slice(0, shown).map(([key, item]) => (
            typeof item === "object" && item !== null
              ? <Branch value={item} depth={depth + 1} name={isList ? undefined : key} />
              : <div class="et-json-leaf">{!isList && <Name name={key} />}<Leaf value={item} /></div>
          ))}
          {shown < size && (
            <button class="et-more-button" onClick={() => setShown(shown + SHOWN_AT_ONCE * 5)}>
              {`${formatExactCount(size - shown)} more`}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

const Name = ({ name }: { name: string }): VNode => <span class="et-json-name">{name}: </span>;

function Leaf({ value }: { value: unknown }): VNode {
  return <span class="et-json-value" data-type={value === null ? "null" : typeof value}>{String(value)}</span>;
}
