// The names of the rows beside the canvas: a treegrid that readers can walk, of the rows on screen only (W10). Left of
// the same pixels that the canvas paints, so both take their heights from the layout.

import { Icon, iconOf } from "../elements/icon";
import type { Track } from "../layout/tracks";
import type { View } from "../view/view";
import { durationOf, isHandler } from "../wire/predicates";
import type { Row } from "../wire/rows";
import { STATUS_NAMES } from "../wording/labels";
import { formatDuration, formatGrowingDuration } from "../wording/numbers";
import { monogram } from "../wording/text";

export function Gutter({ view, prefix }: { view: View; prefix: string }) {
  const { tracks, height } = view.layout.value;
  const top = view.scrollTop.value;
  const bottom = top + view.viewport.value;
  const shown = tracks
    .map((track, index) => ({ track, index }))
    .filter(({ track }) => track.y + track.height > top && track.y < bottom);
  const current = view.selectedTrack;
  return (
    <div class="et-gutter" role="treegrid" tabIndex={0} aria-label="Rows of the timeline" aria-rowcount={tracks.length}
      aria-activedescendant={current ? `${prefix}${current.id}` : undefined}>
      <div class="et-rows" role="presentation" style={{ height: `${height}px`, transform: `translateY(${-top}px)` }}>
        {shown.map(({ track, index }) => (
          <TrackRow key={track.id} view={view} track={track} index={index} isCurrent={track === current} prefix={prefix} />
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  view: View;
  track: Track;
  index: number;
  isCurrent: boolean;
  prefix: string;
}

function TrackRow({ view, track, index, isCurrent, prefix }: RowProps) {
  const { row } = track;
  const open = (): void => {
    view.select(track.id);
    view.isDrawerOpen.value = true;
  };
  return (
    <div id={`${prefix}${track.id}`} role="row" class={`et-row et-row-${track.kind}`} data-status={row.status}
      aria-level={track.depth + 1} aria-rowindex={index + 1} aria-selected={isCurrent}
      aria-expanded={track.hasChildren ? track.isExpanded : undefined}
      style={{ top: `${track.y}px`, height: `${track.height}px` }}
      onClick={open} onDblClick={() => view.focus(row, view.age.value)}>
      <span role="gridcell" class="et-label" title={row.description ?? row.name}>
        {track.depth > (track.hasChildren ? 1 : 0) && <span class="et-indent" style={{ "--depth": track.depth - (track.hasChildren ? 1 : 0) }} />}
        {track.hasChildren && (
          <span class="et-fold" onClick={(event) => {
            event.stopPropagation();
            view.toggle(track.id);
          }}>
            <Icon name={track.isExpanded ? "down" : "right"} size={14} />
          </span>
        )}
        {track.isWorker && <span class="et-hook" aria-hidden="true">↳</span>}
        <span class="et-sign" title={STATUS_NAMES[row.status]}><Icon name={iconOf(row.status)} /></span>
        {row.agent && !isHandler(row) && !track.isWorker && <abbr class="et-agent" title={row.agent}>{monogram(row.agent)}</abbr>}
        <span class="et-title">
          {row.name}{track.isWorker && row.agent && <span class="et-worker-role"> · {row.agent}</span>}
        </span>
        {track.hasChildren && !track.isExpanded && track.errors > 0 && (
          <span class="et-inner-errors"><Icon name="error" size={11} />{track.errors}</span>
        )}
      </span>
      <span role="gridcell" class="et-hidden">{STATUS_NAMES[row.status]}</span>
      <span role="gridcell" class="et-time">{timeOf(row, view)}</span>
    </div>
  );
}

function timeOf(row: Row, view: View): string {
  if (row.start_ms == null) return "";
  if (row.end_ms != null) return formatDuration(durationOf(row));
  return formatGrowingDuration(view.age.value - row.start_ms);
}
