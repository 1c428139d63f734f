// What one picture shows, and where in it tracks and marks stand in pixels. Everything that draws asks here, so that a bar,
// the ring around it and the arrow to it cannot stand in different places.

import type { Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import { AXIS_HEIGHT } from "../layout/sizes";
import { type TimeWindow, toPixel } from "../layout/time-scale";
import type { Layout, Track } from "../layout/tracks";
import type { Theme } from "../theme/theme";
import type { Box } from "./strokes";

export interface Scene {
  readonly layout: Layout;
  readonly window: TimeWindow;
  readonly width: number;
  readonly height: number;
  readonly scrollTop: number;
  /** The run's age in milliseconds. */
  readonly now: number;
  readonly isRunning: boolean;
  /** True once nothing will start any more. */
  readonly isOver: boolean;
  readonly selected: string | null;
  /** The track that holds the selection. */
  readonly current: string | null;
  readonly hovered: string | null;
  readonly theme: Theme;
  readonly ratio: number;
  readonly shift: number;
}

export function visibleTracks(scene: Scene): Track[] {
  const top = scene.scrollTop;
  const bottom = top + scene.height - AXIS_HEIGHT;
  return scene.layout.tracks.filter((track) => track.y + track.height > top && track.y < bottom);
}

export const topOf = (scene: Scene, track: Track): number => AXIS_HEIGHT + track.y - scene.scrollTop;

export const isPointedAt = (mark: Mark, span: string | null): boolean =>
  span !== null && (mark.row.span_id === span || (mark.shape === "attempt" && mark.row.parent_id === span));

/** Where a mark stands on screen, or null when it is outside. What runs ends at now. */
export function boxOf(scene: Scene, mark: Mark, top: number): Box | null {
  const to = mark.to === null || mark.to === Infinity ? Math.max(scene.now, mark.from) : mark.to;
  const left = toPixel(scene.window, scene.width, mark.from);
  const right = toPixel(scene.window, scene.width, to);
  if (right < -2 || left > scene.width + 2) return null;
  // Bars far wider than the screen are cut near its edges: canvases lose precision beyond some thousand pixels.
  const x = Math.max(left, -40);
  const end = Math.min(right, scene.width + 40);
  const least = mark.shape === "backoff" || mark.shape === "wait" ? 0 : 2;
  const gap = SHAPES[mark.shape].isExact || mark.to === null ? 0 : 1;
  return { x, y: top + mark.top, w: Math.max(end - x - gap, least), h: mark.height };
}
