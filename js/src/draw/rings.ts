// The rings around what is selected and what is under the pointer.

import { isSelectableMark, type Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import type { Track } from "../layout/tracks";
import { drawMark, drawRing } from "./bars";
import { THIN_PX } from "./placement";
import { boxOf, isPointedAt, type Scene } from "./scene";
import type { Surface } from "./strokes";

/** What is selected or under the pointer is drawn once more, however thin, with a ring around it. */
export function drawRings(surface: Surface, scene: Scene, track: Track, y: number): void {
  if (scene.hovered !== null && !scene.selection.has(scene.hovered)) drawRingsOf(surface, scene, marksOfSpan(track.marks, scene.hovered), y, false);
  if (scene.selection.size > 0) drawRingsOf(surface, scene, marksOfSelection(track.marks, scene.selection), y, true);
}

function drawRingsOf(surface: Surface, scene: Scene, marks: readonly Mark[], y: number, isStrong: boolean): void {
  for (const mark of marks) {
    const box = boxOf(scene, mark, y);
    if (!box || !(mark.shape === "task" || isSelectableMark(mark))) continue;
    if (isStrong && SHAPES[mark.shape].isThinnable && box.w < THIN_PX) drawMark(surface, mark, box);
    drawRing(surface, box, isStrong);
  }
}

interface Found<T> {
  readonly by: T;
  readonly marks: readonly Mark[];
}
const pointedAt = new WeakMap<readonly Mark[], Found<string>>();
const selected = new WeakMap<readonly Mark[], Found<ReadonlySet<string>>>();

/** The marks by which a row shows a span; looked for once as long as neither changes. */
function marksOfSpan(marks: readonly Mark[], span: string): readonly Mark[] {
  return find(pointedAt, marks, span, (mark) => isPointedAt(mark, span));
}

function marksOfSelection(marks: readonly Mark[], spans: ReadonlySet<string>): readonly Mark[] {
  return find(selected, marks, spans, (mark) => spans.has(mark.row.span_id) || (mark.shape === "attempt" && spans.has(mark.row.parent_id ?? "")));
}

function find<T>(known: WeakMap<readonly Mark[], Found<T>>, marks: readonly Mark[], by: T, isFound: (mark: Mark) => boolean): readonly Mark[] {
  const old = known.get(marks);
  if (old?.by === by) return old.marks;
  const fresh = { by, marks: marks.filter(isFound) };
  known.set(marks, fresh);
  return fresh.marks;
}
