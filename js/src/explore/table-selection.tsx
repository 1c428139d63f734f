// What is selected in the table of a map, in numbers, and what can be done with it (W155).

import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import { pluralize } from "../wording/numbers";
import { RowActions } from "./row-actions";

export interface SelectedCell {
  readonly span: string;
  readonly line: number;
  readonly column: number;
}

interface Props {
  view: View;
  connection: KernelConnection | null;
  /** In the order of the table. */
  cells: readonly SelectedCell[];
  noun: string;
}

export function TableSelection({ view, connection, cells, noun }: Props) {
  const lines = new Set(cells.map(({ line }) => line)).size;
  const open = (tab: string): void => {
    view.tab.value = tab;
    view.isDrawerOpen.value = true;
  };
  const before = (
    <>
      <b role="status">{pluralize(cells.length, "cell")} in {pluralize(lines, noun)} selected</b>
      {cells.length === 1 && <button class="et-choice" onClick={() => open("summary")}>Open</button>}
      {cells.length === 2 && <button class="et-choice" title="The two answers side by side, word by word" onClick={() => {
        view.selectAll(cells.map(({ span }) => span));
        open("pair");
      }}>Diff</button>}
    </>
  );
  const after = <button class="et-choice" title="Esc" onClick={() => view.select(null)}>Let go</button>;
  return <RowActions view={view} connection={connection} noun={noun} before={before} after={after} />;
}
