// The whole picture: grid, rows, marks, the line of now and the axis, for one moment. It reads a scene and paints it; it
// keeps nothing but its patterns, starts no timer and asks nobody.

import { isSelectableMark, type Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import { AXIS_HEIGHT } from "../layout/sizes";
import { ticks, toPixel } from "../layout/time-scale";
import type { Track } from "../layout/tracks";
import { drawArrows } from "./arrows";
import { drawAxis, drawGrid, drawNow } from "./axis";
import { drawMark, drawRing } from "./bars";
import { drawGhost } from "./ghosts";
import { Patterns } from "./patterns";
import { boxOf, isPointedAt, type Scene, topOf, visibleTracks } from "./scene";
import type { Box, Surface } from "./strokes";
import { ThinBars } from "./thin-bars";

const TICK_APART = 84;
const THIN_PX = 4;
const BEAD_APART = 13;

export class ChartPainter {
  #patterns = new Patterns();

  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const { width, height, ratio, theme } = scene;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const surface: Surface = { ctx, theme, patterns: this.#patterns, ratio, shift: scene.shift, now: scene.now };
    const marks = ticks(scene.window, width, TICK_APART);
    const columns = marks.map((tick) => Math.round(toPixel(scene.window, width, tick.at)));
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS_HEIGHT, width, height - AXIS_HEIGHT);
    ctx.clip();
    drawRows(surface, scene);
    drawGrid(surface, columns, height);
    for (const track of visibleTracks(scene)) drawTrack(surface, scene, track);
    drawArrows(surface, scene);
    ctx.restore();
    drawAxis(surface, scene, marks.map((tick, k) => ({ x: columns[k] as number, label: tick.label })));
    if (scene.isRunning) drawNow(surface, scene);
  }
}

/** The row of the selection and the rows of phases are tinted; each row ends in a hairline. */
function drawRows({ ctx, theme }: Surface, scene: Scene): void {
  ctx.fillStyle = theme.text;
  for (const track of visibleTracks(scene)) {
    const y = Math.round(topOf(scene, track));
    if (track.kind === "phase") {
      ctx.globalAlpha = 0.035;
      ctx.fillRect(0, y, scene.width, track.height);
    }
    ctx.globalAlpha = 0.06;
    ctx.fillRect(0, y + track.height - 1, scene.width, 1);
    if (scene.current === track.id) {
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = theme.accent;
      ctx.fillRect(0, y, scene.width, track.height - 1);
      ctx.fillStyle = theme.text;
    }
  }
  ctx.globalAlpha = 1;
}

function drawTrack(surface: Surface, scene: Scene, track: Track): void {
  const y = topOf(scene, track);
  const thinBars = new ThinBars(surface);
  const rings: [Box, boolean][] = [];
  const beads: [Mark, Box][] = [];
  for (const mark of track.marks) {
    if (mark.shape === "ghost") {
      drawGhost(surface, scene, mark, y);
      continue;
    }
    const box = boxOf(scene, mark, y);
    if (!box) continue;
    const isSelected = isPointedAt(mark, scene.selected);
    const isHovered = isPointedAt(mark, scene.hovered);
    if (SHAPES[mark.shape].isBead) beads.push([mark, box]);
    else if (SHAPES[mark.shape].isThinnable && box.w < THIN_PX && !isSelected) thinBars.add(mark, box);
    else drawMark(surface, mark, box);
    if ((mark.shape === "task" || isSelectableMark(mark)) && (isSelected || isHovered)) rings.push([box, isSelected]);
  }
  thinBars.flush();
  drawBeads(surface, beads);
  for (const [box, isStrong] of rings) drawRing(surface, box, isStrong);
}

/** Beads that would hide each other are strung side by side. */
function drawBeads(surface: Surface, beads: readonly [Mark, Box][]): void {
  let end = -Infinity;
  for (const [mark, box] of beads) {
    if (mark.shape === "notch") {
      drawMark(surface, mark, box);
      continue;
    }
    const x = Math.max(box.x, BEAD_APART / 2, Math.min(end, box.x + 3 * BEAD_APART));
    drawMark(surface, mark, { ...box, x });
    end = x + BEAD_APART;
  }
}
