// Which marks of a row are on screen, and their rectangles: pure, from a layout and a window. The painter draws these, and
// whoever asks what stands where gets the same. Bars that share a pixel are placed once, so that the cost follows the pixels
// on screen and not the spans in the run; errors have strips of their own, and none is left out.

import type { Mark } from "../layout/marks";
import { firstAtLeast, type Strip, stripsOf } from "../layout/strips";
import { toTime } from "../layout/time-scale";
import type { Track } from "../layout/tracks";
import type { View } from "../view/view";
import { boxOf, fixedTracks, isPointedAt, type Scene, topOf, visibleTracks } from "./scene";
import type { Box, GrowingBox } from "./strokes";

/** Narrower bars have no room for a shape, and are drawn as strips of pixels. */
export const THIN_PX = 4;
export const BEAD_APART = 13;
const EDGE_PX = 2;

/** `isThin`: it is too narrow for a shape, and stands for all that share its pixels. The box is the visitor's to change. */
export type Visit = (mark: Mark, box: GrowingBox, isThin: boolean) => void;

/** Visits the bars of a row, lane by lane. */
export function placeBars(scene: Scene, track: Track, visit: Visit): void {
  const top = topOf(scene, track);
  for (const strip of stripsOf(track.marks).bars) placeStrip(scene, strip, top, visit);
}

function placeStrip(scene: Scene, { marks, from, latest }: Strip, top: number, visit: Visit): void {
  const timeAt = (x: number): number => toTime(scene.window, scene.width, x);
  const last = timeAt(scene.width + EDGE_PX);
  let drawn = -Infinity;
  let k = firstAtLeast(latest, timeAt(-EDGE_PX));
  while (k < marks.length && (from[k] as number) <= last) {
    const mark = marks[k] as Mark;
    k += 1;
    const box = boxOf(scene, mark, top);
    if (!box) continue;
    const right = box.x + box.w;
    if (box.w >= THIN_PX) {
      visit(mark, box, false);
      drawn = Math.max(drawn, right);
      continue;
    }
    if (right >= drawn + 1) {
      box.x = Math.max(box.x, Math.min(drawn, right - 1));
      box.w = right - box.x;
      visit(mark, box, true);
      drawn = right;
    }
    // The next one that reaches past what is drawn: no bar ends before the latest of those before it.
    k = firstAtLeast(latest, timeAt(drawn - 1), k);
  }
}

/** Visits the beads of a row; those that would hide each other are strung side by side, as long as they stay near. */
export function placeBeads(scene: Scene, track: Track, visit: Visit): void {
  const { marks, from } = stripsOf(track.marks).beads;
  const top = topOf(scene, track);
  let end = -Infinity;
  for (let k = firstAtLeast(from, toTime(scene.window, scene.width, -4 * BEAD_APART)); k < marks.length; k += 1) {
    const mark = marks[k] as Mark;
    const box = boxOf(scene, mark, top);
    if (!box) {
      if (mark.from > scene.window.to) break;
      continue;
    }
    const farthest = box.x + 3 * BEAD_APART;
    if (end > farthest && mark.row.status !== "error") continue;
    const x = Math.max(box.x, BEAD_APART / 2, Math.min(end, farthest));
    visit(mark, { ...box, x }, false);
    end = x + BEAD_APART;
  }
}

/** Where a row shows a span: around all of its marks there that are on screen; null where none is. */
export function boxOfSpan(view: View, track: Track, span: string): Box | null {
  const scene = { window: view.window.value, width: view.width.value, now: view.now, scrollTop: view.scrollTop.value, head: view.head.value, fixed: view.fixed.value };
  const marks = track.marks.filter((mark) => mark.shape !== "ghost" && isPointedAt(mark, span));
  const boxes = marks.map((mark) => boxOf(scene, mark, topOf(scene, track))).filter((box) => box !== null);
  if (boxes.length === 0) return null;
  const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  return { x, y, w: Math.max(...boxes.map((box) => box.x + box.w)) - x, h: Math.max(...boxes.map((box) => box.y + box.h)) - y };
}

/** A bar as it stands in the picture, in pixels from its upper left corner. */
export interface DrawnBar extends Box {
  readonly span: string;
  readonly shape: string;
  readonly isThin: boolean;
}

/** Every bar and bead in the picture of a scene. */
export function listBars(scene: Scene): DrawnBar[] {
  const found: DrawnBar[] = [];
  const add: Visit = (mark, box, isThin) => found.push({ span: mark.row.span_id, shape: mark.shape, isThin, ...box });
  for (const track of [...fixedTracks(scene), ...visibleTracks(scene)]) {
    for (const mark of stripsOf(track.marks).frames) {
      const box = mark.shape === "ghost" ? null : boxOf(scene, mark, topOf(scene, track));
      if (box) add(mark, box, false);
    }
    placeBars(scene, track, add);
    placeBeads(scene, track, add);
  }
  return found;
}
