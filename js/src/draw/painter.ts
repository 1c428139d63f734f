// The whole picture: grid, rows, marks, the line of now and the axis, for one moment. It reads a scene and paints it; it
// keeps nothing but its patterns and a line of pixels, starts no timer and asks nobody.

import { stripsOf } from "../layout/strips";
import { ticks, toPixel } from "../layout/time-scale";
import type { Track } from "../layout/tracks";
import { drawArrows } from "./arrows";
import { drawAxis, drawGrid, drawNow } from "./axis";
import { drawMark } from "./bars";
import { drawGhost } from "./ghosts";
import { drawHeat } from "./heat-strip";
import { Patterns } from "./patterns";
import { PixelLine } from "./pixel-line";
import { placeBars, placeBeads } from "./placement";
import { PlainBars } from "./plain-bars";
import { drawRings } from "./rings";
import { drawBands } from "./bands";
import { boxOf, fixedTracks, type Scene, topOf, visibleTracks } from "./scene";
import type { Surface } from "./strokes";
import { drawTail, tailOf } from "./tails";
import { ThinBars } from "./thin-bars";
import { drawUnderVeil } from "./veil";

const TICK_APART = 84;

export class ChartPainter {
  #patterns = new Patterns();
  #line = new PixelLine();

  paint(ctx: CanvasRenderingContext2D, scene: Scene): void {
    const { width, height, ratio, theme, paint } = scene;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const surface: Surface = { ctx, theme, paint, patterns: this.#patterns, ratio, shift: scene.shift, now: scene.now, isLost: scene.lostAt !== null, width };
    const marks = ticks(scene.window, width, TICK_APART);
    const columns = marks.map((tick) => Math.round(toPixel(scene.window, width, tick.at)));
    const paintRows = (tracks: readonly Track[], top: number, bottom: number): void => {
      if (tracks.length === 0) return;
      ctx.save();
      ctx.beginPath();
      ctx.rect(0, top, width, bottom - top);
      ctx.clip();
      drawRows(surface, scene, tracks);
      drawBands(surface, scene);
      drawGrid(surface, columns, height);
      for (const track of tracks) drawUnderVeil(surface, scene, track, (part) => drawTrack(surface, scene, part, this.#line));
      drawArrows(surface, scene);
      scene.drawLinks?.(surface, scene);
      ctx.restore();
    };
    const bottom = scene.head + scene.fixed;
    paintRows(visibleTracks(scene), bottom, height);
    paintRows(fixedTracks(scene), scene.head, bottom);
    if (scene.fixed > 0) drawEdge(surface, scene, bottom);
    drawAxis(surface, scene, marks.map((tick, k) => ({ x: columns[k] as number, label: tick.label })));
    if (scene.isRunning) drawNow(surface, scene);
  }
}

/** The row of the selection and the rows of phases are tinted; each row ends in a hairline. */
function drawRows({ ctx, theme }: Surface, scene: Scene, tracks: readonly Track[]): void {
  ctx.fillStyle = theme.text;
  for (const track of tracks) {
    const y = Math.round(topOf(scene, track));
    if (track.kind !== "task") {
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

/** Where the rows that stay end, and the others scroll under them. */
function drawEdge({ ctx, theme }: Surface, { width }: Scene, y: number): void {
  ctx.fillStyle = theme.text;
  ctx.globalAlpha = 0.3;
  ctx.fillRect(0, y - 1, width, 1);
  ctx.globalAlpha = 1;
}

function drawTrack(surface: Surface, scene: Scene, track: Track, line: PixelLine): void {
  const y = topOf(scene, track);
  const { frames, notches } = stripsOf(track.marks);
  for (const mark of frames) {
    const box = mark.shape === "ghost" ? null : boxOf(scene, mark, y);
    if (mark.shape === "ghost") drawGhost(surface, scene, track, mark);
    else if (box) drawMark(surface, mark, box);
  }
  if (track.heat) drawHeat(surface, scene, track.heat, y);
  const thinBars = new ThinBars(surface, line);
  const plainBars = new PlainBars(surface);
  placeBars(scene, track, (mark, box, isThin) => {
    if (isThin) return thinBars.add(mark, box);
    if (plainBars.draw(mark, box)) return;
    const tail = tailOf(surface, scene, mark, box);
    drawMark(surface, mark, box, tail === null);
    if (tail) drawTail(surface, tail);
  });
  thinBars.flush();
  placeBeads(scene, track, (mark, box) => drawMark(surface, mark, box));
  for (const mark of notches) {
    const box = boxOf(scene, mark, y);
    if (box) drawMark(surface, mark, box);
  }
  drawRings(surface, scene, track, y);
}
