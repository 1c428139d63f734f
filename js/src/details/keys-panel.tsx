// The panel that `?` opens: every key and what it does, drawn from the table that the keys are handled by.

import { Icon } from "../elements/icon";
import { DEEDS } from "../input/keys";
import type { View } from "../view/view";

const SIGNS: Record<string, string> = {
  ArrowDown: "↓", ArrowUp: "↑", ArrowRight: "→", ArrowLeft: "←", " ": "Space", Escape: "Esc", PageDown: "PgDn", PageUp: "PgUp",
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
            {deeds.map(({ keys, does }) => (
              <div>
                <dt>{keys.filter((key) => key !== "=").map((key) => <kbd>{SIGNS[key] ?? key}</kbd>)}</dt>
                <dd>{does}</dd>
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
