// The drawer, and what is marked in numbers, as a tree of its own. It is a file of its own, too, loaded when a span is opened
// or a range marked for the first time: most of what a view consists of is here, and a run can be shown without it. In that
// file are other copies of the libraries, so a change of a signal outside is not noticed in here: whoever mounts it says
// when to look again.

import { render } from "preact";
import { TextBlock } from "../elements/text-block";
import type { KernelConnection } from "../kernel/connection";
import type { View } from "../view/view";
import { Drawer } from "./drawer";
import { SummaryPanel } from "./summary-panel";

export interface DrawerRoot {
  /** Shows what has changed since. */
  update(): void;
  end(): void;
}

/** Lays out a text in a place that is all its own; gives back what takes it away. */
export function mountText(place: HTMLElement, text: string, kind: "prose" | "code"): () => void {
  place.textContent = "";
  render(<TextBlock text={text} kind={kind} />, place);
  return () => render(null, place);
}

export function mountDrawer(place: HTMLElement, view: View, connection: KernelConnection | null): DrawerRoot {
  let change = 0;
  return {
    // A component whose properties are the same is not looked at again.
    update: () => {
      change += 1;
      render(<><SummaryPanel view={view} change={change} /><Drawer view={view} connection={connection} change={change} /></>, place);
    },
    end: () => render(null, place),
  };
}
