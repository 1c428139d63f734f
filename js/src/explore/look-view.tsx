// Over what is above the rows: the heads of the columns with the sums over the run, and the lane under the axis. It also tells
// the view what stands in the columns of a row, how much room the lane takes, and by what bars are coloured.

import { useLayoutEffect, useRef } from "preact/hooks";
import { AXIS_HEIGHT } from "../layout/sizes";
import type { Theme } from "../theme/theme";
import type { View } from "../view/view";
import { cellsOf, type Column, columnsFor, keptColumn, wantedColumns } from "./row-columns";
import { LANE_HEIGHT, LANES, LaneView } from "./lane";
import { lookOf } from "./look";
import { paintingOf } from "./paint";

interface Props {
  view: View;
  theme: Theme;
  prefix: string;
  /** Another number whenever something may have changed. */
  change: number;
}

export function LookView({ view, theme, prefix, change }: Props) {
  const look = lookOf(view);
  const run = view.store.run.value;
  const columns = wantedColumns(columnsFor(view), look);
  const kept = keptColumn(columns, look);
  // Of a run that is shown as it was, the lane, the colours and what is offered are those of all of it.
  const whole = view.present.run.value;
  const lane = whole && (LANES.find((each) => each.name === look.lane && each.has(whole)) ?? null);
  const painting = look.paint && paintingOf(view, look.paint);
  const anchor = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    view.cells.value = columns.length > 0 ? (track) => cellsOf(columns, kept, track) : null;
    const chart = anchor.current?.closest<HTMLElement>(".et-chart");
    if (!chart) return;
    const widthOf = (some: readonly Column[]): string => `${some.reduce((sum, { width }) => sum + width, 0)}px`;
    chart.style.setProperty("--et-columns-all", widthOf(columns));
    chart.style.setProperty("--et-columns-one", widthOf(columns.filter(({ name }) => name === kept)));
    chart.style.setProperty("--et-time", widthOf(columns.filter(({ name }) => name === "time")));
    chart.dataset.time = look.columns.includes("time") ? (columns.length > 0 ? "column" : "beside") : "off";
  }, [view, view.look.value, columns.length]);
  useLayoutEffect(() => void (view.head.value = AXIS_HEIGHT + (lane ? LANE_HEIGHT : 0)), [view, lane]);
  useLayoutEffect(() => void (view.paint.value = painting), [view, painting]);
  return (
    <>
      <span ref={anchor} hidden />
      {columns.length > 0 && (
        <div id={`${prefix}columns`} class="et-columns" role="row">
          <span role="columnheader" class="et-hidden">Name</span>
          <span role="columnheader" class="et-hidden">State</span>
          {columns.map((column) => (
            <span role="columnheader" class={`et-column${column.name === kept ? " et-kept" : ""}`} data-column={column.name} title={column.help} style={{ width: `${column.width}px` }}>
              {column.title} <b>{run && column.sumOf(view, run)}</b>
            </span>
          ))}
        </div>
      )}
      {lane && <LaneView key={lane.name} view={view} lane={lane} theme={theme} change={change} />}
    </>
  );
}
