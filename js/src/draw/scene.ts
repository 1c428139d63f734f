// What one picture shows, and where in it tracks and marks stand in pixels. Everything that draws asks here, so that a bar,
// the ring around it and the arrow to it cannot stand in different places.

import type { Mark } from "../layout/marks";
import { isGap, SHAPES } from "../layout/shapes";
import { type TimeWindow, toPixel } from "../layout/time-scale";
import type { Layout, Track } from "../layout/tracks";
import type { Paint, Theme } from "../theme/theme";
import type { GrowingBox, Surface } from "./strokes";

export interface Scene {
  readonly layout: Layout;
  readonly window: TimeWindow;
  readonly width: number;
  readonly height: number;
  readonly scrollTop: number;
  /** Pixels above the rows. */
  readonly head: number;
  /** The height of the first rows, which do not scroll. */
  readonly fixed: number;
  /** The run's age in milliseconds. */
  readonly now: number;
  readonly isRunning: boolean;
  /** Since when, as an ISO time, nothing is known of what runs; null while it is. */
  readonly lostAt: string | null;
  /** True once nothing will start any more. */
  readonly isOver: boolean;
  /** The span that was selected last. */
  readonly selected: string | null;
  /** All that is selected. */
  readonly selection: ReadonlySet<string>;
  /** The track that holds the selection. */
  readonly current: string | null;
  readonly hovered: string | null;
  /** The track of what is under the pointer. */
  readonly hoveredRow: string | null;
  /** Who waits for whom is shown of all rows, and not only of the one that is pointed at. */
  readonly areArrowsShown: boolean;
  readonly isCriticalShown: boolean;
  /** What draws who waits for whom; null until it is loaded. */
  readonly drawLinks: ((surface: Surface, scene: Scene) => void) | null;
  /** The spans that stand out from the others, which are dimmed; null: all alike. */
  readonly highlighted: ReadonlySet<string> | null;
  /** The end of what a model call has written by now. */
  readonly tailOf: (span: string, length: number) => string;
  readonly theme: Theme;
  /** What bars are painted by; null: by their kind. */
  readonly paint: Paint | null;
  readonly ratio: number;
  readonly shift: number;
}

/** What was not run took no time, and is to be seen all the same. */
const REUSED_PX = 16;

export const visibleTracks = (scene: Scene): Track[] =>
  scene.layout.between(scene.scrollTop + scene.fixed, scene.scrollTop + scene.height - scene.head);

export const fixedTracks = (scene: Scene): Track[] => scene.layout.between(0, scene.fixed);

export const topOf = (scene: Pick<Scene, "scrollTop" | "head" | "fixed">, { y }: { readonly y: number }): number =>
  scene.head + y - (y < scene.fixed ? 0 : scene.scrollTop);

export const isPointedAt = (mark: Mark, span: string | null): boolean =>
  span !== null && (mark.row.span_id === span || (mark.shape === "attempt" && mark.row.parent_id === span));

/** Where a mark stands on screen, or null when it is outside; the box is the asker's own. What runs ends at now. */
export function boxOf(scene: Pick<Scene, "window" | "width" | "now">, mark: Mark, top: number): GrowingBox | null {
  const to = mark.to === null || mark.to === Infinity ? Math.max(scene.now, mark.from) : mark.to;
  const left = toPixel(scene.window, scene.width, mark.from);
  const right = toPixel(scene.window, scene.width, to);
  if (right < -2 || left > scene.width + 2) return null;
  // Bars far wider than the screen are cut near its edges: canvases lose precision beyond some thousand pixels.
  const x = Math.max(left, -40);
  const end = Math.min(right, scene.width + 40);
  const least = isGap(mark.shape) ? 0 : mark.shape === "reused" ? REUSED_PX : 2;
  const gap = SHAPES[mark.shape].isExact || mark.to === null ? 0 : 1;
  return { x, y: top + mark.top, w: Math.max(end - x - gap, least), h: mark.height };
}
