// The panel that `?` opens: every key and what it does, drawn from the table that the keys are handled by.

import { Icon } from "../elements/icon";
import { DEEDS } from "../input/keys";
import type { View } from "../view/view";

const SIGNS: Record<string, string> = {
  ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←", " ": "Space", Escape: "Esc", PageDown: "PgDn", PageUp: "PgUp",
};
/** What the first key of each deed does; the table itself is loaded with the page, and these words when somebody asks. */
export const WORDS: Readonly<Record<string, string>> = {
  w: "zoom in", s: "zoom out", a: "earlier", d: "later", f: "fit the selection, else the run", "0": "the whole run; again: unfolded",
  l: "follow what runs now", " ": "play a run that is over, or pause", "[": "range: from the selection on", "]": "range: up to the selection",
  ArrowDown: "next row", ArrowUp: "previous row", ArrowRight: "next span of the row; opens a row",
  ArrowLeft: "previous span of the row; closes a row", ".": "next span in time, in any row",
  ",": "previous span in time", Home: "first row", End: "last row", PageDown: "a page of rows down",
  PageUp: "a page of rows up", "/": "search", n: "next match, else next error", N: "previous match",
  c: "critical path", r: "arrows: who waits for whom", g: "graph or chart", t: "table or chart", Enter: "details",
  Escape: "close, let go, leave", "?": "these keys",
};
const POINTER: readonly (readonly [string, string])[] = [
  ["drag", "earlier and later"], ["ctrl + wheel, pinch", "zoom"], ["shift + drag", "mark a range"], ["ctrl + click", "select also"], ["shift + click a name", "select a row's spans"], ["double-click", "fit a span"],
];

export function KeysPanel({ view }: { view: View; change: number }) {
  if (!view.areKeysShown.value) return null;
  return (
    <section class="et-keys" aria-label="Keys" tabIndex={-1}>
      <button class="et-button et-keys-close" aria-label="Close the list of keys" title="Close (Esc)" onClick={() => (view.areKeysShown.value = false)}>
        <Icon name="error" />
      </button>
      {DEEDS.map(([group, deeds]) => (
        <div>
          <h4>{group}</h4>
          <dl>
            {deeds.map(({ keys }) => (
              <div>
                <dt>{keys.filter((key) => key !== "=").map((key) => <kbd>{SIGNS[key] ?? key}</kbd>)}</dt>
                <dd>{WORDS[keys[0] as string]}</dd>
              </div>
            ))}
          </dl>
        </div>
      ))}
      <div>
        <h4>Pointer</h4>
        <dl>{POINTER.map(([move, does]) => <div><dt><kbd>{move}</kbd></dt><dd>{does}</dd></div>)}</dl>
      </div>
    </section>
  );
}
