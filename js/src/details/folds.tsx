// What is folded on the axis: its length in words, between two breaks that go through all rows. Pressed, it unfolds.

import { useLayoutEffect } from "preact/hooks";
import { foldRun, idleTimes } from "../layout/folds";
import { toPixel } from "../layout/time-scale";
import type { View } from "../view/view";
import { formatDuration } from "../wording/numbers";

export function Folds({ view }: { view: View; change: number }) {
  const { present: store, window: { value: window }, width: { value: width } } = view;
  useLayoutEffect(() => {
    const idle = idleTimes(store);
    view.fold.value = idle.length > 0 ? (extent) => foldRun(idle, extent) : null;
  }, [store.version.value, store.leftOut.value]);
  return (
    <>
      {window.folds?.map(({ from, to }) => {
        const [left, right] = [toPixel(window, width, from), toPixel(window, width, to)];
        const length = formatDuration(to - from);
        return (
          <div key={from} class="et-break" style={{ left: `${left}px`, width: `${right - left}px` }}>
            <button title="Nothing else went on: unfold (0)" onClick={() => view.fit()}>startup {length}</button>
          </div>
        );
      })}
    </>
  );
}
