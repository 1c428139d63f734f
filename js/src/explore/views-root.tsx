// What shows a run in place of its bars: the graph, the grid and the table of spans. They are a file of their own with their
// style sheet, loaded when one of them is shown for the first time, since a run can be shown without them.

import { SpanTable } from "../details/span-table";
import { type LateRoot, mountLate } from "../elements/late-root";
import type { KernelConnection } from "../kernel/connection";
import style from "../theme/views-late.css";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { GraphAsker } from "./graph-asker";
import { GraphPane } from "./graph-pane";
import { AnswerTable } from "./answer-table";

/** What shows the run in place of its bars. */
export function mountShape(place: HTMLElement, { view, connection, theme, prefix }: ShapeParts): LateRoot {
  if (view.shape.value === "table") return mountLate(place, style, (change) => <SpanTable view={view} prefix={prefix} change={change} />);
  if (view.shape.value === "grid") return mountLate(place, style, (change) => <AnswerTable view={view} connection={connection} prefix={prefix} change={change} />);
  const asker = new GraphAsker(view.present, connection);
  const root = mountLate(place, style, (change) => <GraphPane view={view} asker={asker} theme={theme.value} prefix={prefix} change={change} />);
  return {
    update: () => {
      asker.look();
      root.update();
    },
    end: () => {
      asker.end();
      root.end();
    },
  };
}

interface ShapeParts {
  view: View;
  connection: KernelConnection | null;
  theme: { readonly value: Theme };
  /** Of the ids in this view. */
  prefix: string;
}
