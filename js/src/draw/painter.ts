// The whole picture: grid, rows, marks, the line of now and the axis, for one moment. It reads a scene and paints it; it
// keeps nothing but its patterns, starts no timer and asks nobody.

import { isStop, type Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import { AXIS_HEIGHT } from "../layout/sizes";
import { ticks, toPixel } from "../layout/time-scale";
import type { Track } from "../layout/tracks";
import { drawHandovers } from "./arrows";
import { drawAxis, drawGrid, drawNow } from "./axis";
import { drawMark, drawRing } from "./bars";
import { drawGhostOf } from "./ghosts";
import { Patterns } from "./patterns";
import { isPicked, place, type Scene, topOf, visible } from "./scene";
import type { Box, Brush } from "./strokes";
import { Strip } from "./thin-bars";

const TICK_APART = 84;
const THIN_PX = 4;
const BEAD_APART = 13;

export class Painter {
  #patterns = new Patterns();

  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const { width, height, ratio, skin } = scene;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const brush: Brush = { ctx, skin, patterns: this.#patterns, ratio, shift: scene.shift, now: scene.now };
    const marks = ticks(scene.window, width, TICK_APART);
    const columns = marks.map((tick) => Math.round(toPixel(scene.window, width, tick.at)));
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, AXIS_HEIGHT, width, height - AXIS_HEIGHT);
    ctx.clip();
    drawRows(brush, scene);
    drawGrid(brush, columns, height);
    for (const track of visible(scene)) drawTrack(brush, scene, track);
    drawHandovers(brush, scene);
    ctx.restore();
    drawAxis(brush, scene, marks.map((tick, k) => ({ x: columns[k] as number, label: tick.label })));
    if (scene.isRunning) drawNow(brush, scene);
  }
}

/** The row of the selection and the rows of phases are tinted; each row ends in a hairline. */
function drawRows({ ctx, skin }: Brush, scene: Scene): void {
  ctx.fillStyle = skin.text;
  for (const track of visible(scene)) {
    const y = Math.round(topOf(scene, track));
    if (track.kind === "phase") {
      ctx.globalAlpha = 0.035;
      ctx.fillRect(0, y, scene.width, track.height);
    }
    ctx.globalAlpha = 0.06;
    ctx.fillRect(0, y + track.height - 1, scene.width, 1);
    if (scene.current === track.id) {
      ctx.globalAlpha = 0.1;
      ctx.fillStyle = skin.accent;
      ctx.fillRect(0, y, scene.width, track.height - 1);
      ctx.fillStyle = skin.text;
    }
  }
  ctx.globalAlpha = 1;
}

function drawTrack(brush: Brush, scene: Scene, track: Track): void {
  const y = topOf(scene, track);
  const strip = new Strip(brush);
  const rings: [Box, boolean][] = [];
  const beads: [Mark, Box][] = [];
  for (const mark of track.marks) {
    if (mark.shape === "ghost") {
      drawGhostOf(brush, scene, mark, y);
      continue;
    }
    const box = place(scene, mark, y);
    if (!box) continue;
    const isSelected = isPicked(mark, scene.selected);
    const isHovered = isPicked(mark, scene.hovered);
    if (SHAPES[mark.shape].isBead) beads.push([mark, box]);
    else if (SHAPES[mark.shape].isThinnable && box.w < THIN_PX && !isSelected) strip.add(mark, box);
    else drawMark(brush, mark, box);
    if ((mark.shape === "task" || isStop(mark)) && (isSelected || isHovered)) rings.push([box, isSelected]);
  }
  strip.flush();
  string(brush, beads);
  for (const [box, isStrong] of rings) drawRing(brush, box, isStrong);
}

/** Beads that would hide each other are strung side by side. */
function string(brush: Brush, beads: readonly [Mark, Box][]): void {
  let end = -Infinity;
  for (const [mark, box] of beads) {
    if (mark.shape === "notch") {
      drawMark(brush, mark, box);
      continue;
    }
    const x = Math.max(box.x, BEAD_APART / 2, Math.min(end, box.x + 3 * BEAD_APART));
    drawMark(brush, mark, { ...box, x });
    end = x + BEAD_APART;
  }
}
