// JSON as a tree that folds, and the fields of a reply as a table. What is closed is not in the page, and of a long list only the beginning is, so neither depth nor
// length can make it slow.

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { formatExactCount, pluralize } from "../wording/numbers";

const SHOWN_AT_ONCE = 100;
const OPEN_DEPTH = 2;
const OPEN_ENTRIES = 12;
const LONGEST_JSON = 100_000;
const MOST_COLUMNS = 8;

/**
 * The value of a text that is a JSON object or list, by itself or in a fence; undefined for all other texts, and for ones too
 * long to be read at once. Of one that `isGrowing`, what is there by now: a text of several words as far as it is, all else
 * once it is whole, since half a number or half of a word that stands for something would say what nobody meant.
 */
export function parseJson(text: string, isGrowing = false): object | undefined {
  if (text.length > LONGEST_JSON) return undefined;
  const json = text.replace(/^\s*```\w*\s*?\n|\n`{1,3}\s*$/g, "");
  // Prose begins with brackets, too.
  if (!(isGrowing ? /^[\s[{]*[[{]\s*"/ : /^\s*[[{]/).test(json)) return undefined;
  try {
    const value: unknown = JSON.parse(isGrowing ? complete(json) : json);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+(?=[\s\]},]))/y;
/** A text that goes on, without an escape that does. */
const OPEN_TEXT = /^\s*("(?:[^"\\]|\\(?:u[\da-f]{4}|[^u]))*)(?:\\u?[\da-f]*)?$/i;

/** JSON with the ends of what has begun, and without what is not whole. */
function complete(json: string): string {
  const ends: string[] = [];
  let whole = "";
  let last = "";
  TOKEN.lastIndex = 0;
  let end = 0;
  for (let found = TOKEN.exec(json); found; found = TOKEN.exec(json)) {
    const token = found[1] as string;
    const before = last;
    [last, end] = [token, TOKEN.lastIndex];
    if (token === "{" || token === "[") ends.unshift(token === "{" ? "}" : "]");
    else if (token === "}" || token === "]") ends.shift();
    else if (token === "," || token === ":" || (ends[0] === "}" && before !== ":")) continue;
    whole = json.slice(0, end);
    if (!ends.length) return json;
  }
  const words = (last === ":" || (ends[0] === "]" && (last === "," || last === "["))) && OPEN_TEXT.exec(json.slice(end))?.[1];
  return (words && /\s/.test(words) ? `${json.slice(0, end)}${words}…"` : whole) + ends.join("");
}

export function JsonTree({ value, isTable, isGrowing }: { value: object; isTable: boolean; isGrowing: boolean }): VNode {
  return (
    <div class={isTable ? "et-json et-json-table" : "et-json"} data-grows={isGrowing} {...isTable && { tabIndex: 0, role: "group", "aria-label": "Fields" }}>
      {!isTable ? <Branch value={value} depth={0} /> : Array.isArray(value) ? <Cell value={value} /> : <Table value={value} />}
    </div>
  );
}

/** The fields of an object, or a list of objects with a column for each of their fields. */
function Table({ value, columns }: { value: object; columns?: readonly string[] }): VNode {
  const [rows, more] = useFirst(value);
  return (
    <>
      <table class="et-table">
        {columns && <thead><tr>{columns.map((name) => <th>{name}</th>)}</tr></thead>}
        <tbody>
          {rows.map(([key, item]) => (
            <tr key={key}>
              {columns?.map((name) => <td>{Object.hasOwn(item, name) && <Cell value={item[name]} />}</td>) ?? <><th scope="row">{key}</th><td><Cell value={item} /></td></>}
            </tr>
          ))}
        </tbody>
      </table>
      {more}
    </>
  );
}

function Cell({ value }: { value: unknown }): VNode {
  if (!isObject(value)) return <Leaf value={value} />;
  const columns = Array.isArray(value) && columnsOf(value);
  return columns ? <Table value={value} columns={columns} /> : <Branch value={value} depth={1} />;
}

/** The names of the fields in a list of objects; false where it holds other things, or too many of them to stand side by side. */
export function columnsOf(items: readonly unknown[]): string[] | false {
  if (!items.every((item) => isObject(item) && !Array.isArray(item))) return false;
  const names = new Set(items.flatMap((item) => Object.keys(item as object)));
  return names.size > 0 && names.size <= MOST_COLUMNS && [...names];
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;

/** The first fields or items, and the button for more. */
function useFirst(value: object): [first: [string, any][], more: VNode | false] {
  const all = Object.entries(value);
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  return [all.slice(0, shown), shown < all.length && (
    <button class="et-more-button" onClick={() => setShown(shown + SHOWN_AT_ONCE * 5)}>{`${formatExactCount(all.length - shown)} more`}</button>
  )];
}

function Branch({ value, depth, name }: { value: object; depth: number; name?: string }): VNode {
  const isList = Array.isArray(value);
  const size = isList ? value.length : Object.keys(value).length;
  const [isOpen, setOpen] = useState(depth === 0 || (depth < OPEN_DEPTH && size <= OPEN_ENTRIES));
  const [entries, more] = useFirst(value);
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
          {entries.map(([key, item]) => (
            isObject(item)
              ? <Branch value={item} depth={depth + 1} name={isList ? undefined : key} />
              : <div class="et-json-leaf">{!isList && <Name name={key} />}<Leaf value={item} /></div>
          ))}
          {more}
        </div>
      )}
    </div>
  );
}

const Name = ({ name }: { name: string }): VNode => <span class="et-json-name">{name}: </span>;

function Leaf({ value }: { value: unknown }): VNode {
  return <span class="et-json-value" data-type={value === null ? "null" : typeof value}>{String(value)}</span>;
}
