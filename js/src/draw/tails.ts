// The end of what a model call is writing, in its row (W19): from its bar on, over now and into what is free beside it, so
// that there is room for some words however short the bar is.

import type { Mark } from "../layout/marks";
import type { Hue } from "../theme/palette";
import { chooseHue } from "./hues";
import type { Scene } from "./scene";
import { type Box, shortenStart, type Surface, visiblePart } from "./strokes";

const LONGEST_PX = 420;
const LEAST_PX = 72;
const SIGN_PX = 16;
const EDGE_PX = 8;
/** More characters than have room. */
const CHARACTERS = 200;
/** The signs of Markdown, which a line of words has no use for. */
const MARKS = /\*\*|__|`+|^\s*(?:#{1,6}|>|[-*])\s+/gm;

/** The words that a call streams, and where they stand. */
export interface Tail {
  readonly words: string;
  readonly left: number;
  readonly room: number;
  readonly box: Box;
  readonly hue: Hue;
}

/** The last words of a call that streams; null where there are none, or no room for them. */
export function tailOf(surface: Surface, scene: Scene, mark: Mark, whole: Box): Tail | null {
  const span = mark.shape === "attempt" ? mark.row.parent_id : mark.row.span_id;
  if (mark.to !== null || mark.names === undefined || !scene.isRunning || span == null) return null;
  const text = scene.tailOf(span, CHARACTERS).replace(MARKS, "").replace(/\s+/g, " ").trim();
  const box = visiblePart(surface, whole);
  const left = box.x + SIGN_PX;
  const room = Math.min(scene.width - EDGE_PX - left, LONGEST_PX);
  if (!text || room < LEAST_PX) return null;
  surface.ctx.font = tailFont(surface);
  return { words: shortenStart(surface.ctx, text, room), left, room, box, hue: chooseHue(surface, mark) };
}

const tailFont = ({ theme }: Surface): string => `400 12px ${theme.font}`;

/** Draws them in two colours: on the bar, and beside it. */
export function drawTail(surface: Surface, { words, left, room, box, hue }: Tail): void {
  const { ctx, theme } = surface;
  const end = box.x + box.w;
  ctx.font = tailFont(surface);
  for (const [color, from, to] of [[surface.isLost ? theme.text : theme.labelColors[hue], left, end], [theme.muted, Math.max(end + 1, left), left + room]] as const) {
    if (to <= from) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, box.y - 2, to - from, box.h + 4);
    ctx.clip();
    ctx.fillStyle = color;
    ctx.fillText(words, left, box.y + box.h / 2 + 0.5);
    ctx.restore();
  }
}
