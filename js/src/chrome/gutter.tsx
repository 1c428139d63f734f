// The names of the rows beside the canvas: a treegrid that readers can walk, of the rows on screen only (W10). Left of
// the same pixels that the canvas paints, so both take their heights from the layout.

import { Icon, iconOf } from "../elements/icon";
import { waitAt } from "../layout/row-waits";
import type { Track } from "../layout/tracks";
import { startupTimeOf } from "../store/rounds";
import { type RowState, stateOfRow } from "../store/row-state";
import type { View } from "../view/view";
import { spansOf } from "../view/walk";
import { agentOf, durationOf } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { describeLength, describeRounds, distinctiveEnd, nameOf, timesOf } from "../wording/labels";
import { formatDuration, formatGrowingDuration } from "../wording/numbers";
import { monogram } from "../wording/text";

export function Gutter({ view, prefix }: { view: View; prefix: string }) {
  const layout = view.layout.value;
  const { tracks, height } = layout;
  const [top, fixed] = [view.scrollTop.value, view.fixed.value];
  const current = view.selectedTrack;
  const bright = view.highlightedRows.value;
  // What is covered by another view is not drawn again with each message.
  const shown = view.shape.value === "chart" ? view.shownTracks : [];
  return (
    <div class="et-gutter" role="treegrid" tabIndex={0} aria-multiselectable="true" aria-label="Rows of the timeline" onPointerEnter={() => (view.isVisited.value = true)} aria-rowcount={tracks.length}
      aria-owns={view.cells.value ? `${prefix}columns` : undefined} aria-activedescendant={current ? `${prefix}${current.id}` : undefined}>
      <div class="et-rows" role="presentation" style={{ height: `${height}px`, transform: `translateY(${-top}px)` }}>
        {shown.map((track) => (
          <TrackRow key={track.id} view={view} track={track} index={layout.indexAt(track.y)} down={track.y < fixed ? top : 0} isPinned={track.y < layout.pinnedHeight}
            isCurrent={track === current} isDimmed={bright !== null && ![track.id, ...track.members].some((id) => bright.has(id))} prefix={prefix} />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  view: View;
  track: Track;
  index: number;
  /** How far it has to be moved to stay on top. */
  down: number;
  isPinned: boolean;
  isCurrent: boolean;
  /** Other rows stand out. */
  isDimmed: boolean;
  prefix: string;
}

function TrackRow({ view, track, index, down, isPinned, isCurrent, isDimmed, prefix }: RowProps) {
  const { row } = track;
  const state = stateOfRow(view.store, row);
  const pin = view.pin.value?.(track, isCurrent);
  // A row that folds has its arrow in the margin, unless that would take it for a neighbour of the row it is in.
  const inset = track.depth - (track.hasChildren && track.giver === null ? 1 : 0);
  const agent = track.kind === "task" ? agentOf(row) : null;
  /** With ctrl or cmd it is selected also, with shift all spans of the row are. */
  const select = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey) return view.selectAlso(track.id);
    if (event.shiftKey) return view.selectAll([...spansOf(track).slice(1), track.id]);
    view.select(track.id);
    view.isDrawerOpen.value = true;
  };
  return (
    <div id={`${prefix}${track.id}`} role="row" class={`et-row et-row-${track.kind}`} data-status={state.key} data-dimmed={isDimmed}
      aria-level={track.depth + 1} aria-rowindex={index + 1} aria-selected={isCurrent || view.selectedSpans.value.has(track.id)}
      aria-expanded={track.hasChildren ? track.isExpanded : undefined}
      data-pinned={isPinned} style={{ top: `${track.y + down}px`, height: `${track.height}px` }}
      onClick={select} onDblClick={() => view.focus(row, view.age.value)}>
      <span role="gridcell" class="et-label" title={row.description ?? row.name}>
        {inset > 0 && <span class="et-indent" style={{ "--depth": inset }} />}
        {track.hasChildren && (
          <span class="et-fold" onClick={(event) => {
            event.stopPropagation();
            view.toggle(track.id);
          }}>
            <Icon name={track.isExpanded ? "down" : "right"} size={14} />
          </span>
        )}
        {track.isWorker && <span class="et-hook" aria-hidden="true">↳</span>}
        <span class="et-sign" title={state.name}><Icon name={iconOf(state.key)} /></span>
        {agent && <abbr class="et-agent" title={agent} aria-hidden="true">{monogram(agent)}</abbr>}
        <span class="et-title"><Title row={row} /></span>
        {/* Read after the name, and in full, where the eye has letters before it. */}
        {agent && <span class="et-hidden">, {agent}</span>}
        {track.hasChildren && !track.isExpanded && track.errors > 0 && (
          <span class="et-inner-errors"><Icon name="error" size={11} />{track.errors}<span class="et-hidden"> {track.errors === 1 ? "error" : "errors"} inside</span></span>
        )}
      </span>
      {pin && <span role="gridcell"><button {...pin} /></span>}
      <span role="gridcell" class="et-hidden">{[state.name, track.toldInWords, row.delta, ...describeRounds(row, track.rounds)].filter(Boolean).join(", ")}</span>
      {view.cells.value?.(track).map((cell) => <span role="gridcell" {...cell} />)}
      <TimeCell track={track} view={view} state={state} />
    </div>
  );
}

/**
 * A name, of which the end stays in sight where there is no room for all of it: it is what tells items and rows apart. The
 * number of an item that has a name of its own is there in narrow views alone.
 */
function Title({ row }: { row: Row }) {
  const name = nameOf(row) + timesOf(row);
  const end = distinctiveEnd(row.name);
  if (end === "") return <>{name}</>;
  const stem = name.endsWith(end) ? name.slice(0, -end.length) : name;
  return <span class="et-parted"><span class="et-stem">{stem}</span><span class="et-end" data-added={stem === name}>{end}</span></span>;
}

/** How long a row takes, or has waited: what for stands in its bar. */
function TimeCell({ track, view, state }: { track: Track; view: View; state: RowState }) {
  const { row } = track;
  const isGoing = row.kind !== "wait" && row.start_ms != null && row.end_ms == null;
  // Another arrangement has other marks, though the row may be the same.
  if (isGoing) view.layout.value;
  if (track.told) return <span role="gridcell" class="et-time et-told" title={track.toldInWords}>{track.told}</span>;
  if (state.key === "unknown") return <span role="gridcell" class="et-time" title={state.name}>unknown</span>;
  const wait = isGoing ? waitAt(track.marks, view.age.value) : null;
  if (!wait) return <span role="gridcell" class="et-time" title={explainTime(row, view)}>{timeOf(row, view)}</span>;
  return (
    <span role="gridcell" class="et-time et-waits" title={wait.cause}>
      <span class="et-hidden">{wait.cause} </span>{formatGrowingDuration(view.age.value - wait.since)}
    </span>
  );
}

/** Why the bar of a row is longer than its time. */
function explainTime(row: Row, view: View): string | undefined {
  const beside = startupTimeOf(view.store, row);
  return beside > 0 ? `${formatDuration(durationOf(row))} of its own; ${formatDuration(beside)} more while a model was made ready` : undefined;
}

function timeOf(row: Row, view: View): string {
  if (row.start_ms == null) return "";
  if (row.end_ms != null) return describeLength(row);
  return formatGrowingDuration(view.age.value - row.start_ms);
}
