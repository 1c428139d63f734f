// Bars of one colour that have a shape but no room for a sign or a word: most bars of a large run are such, and to set the
// colour of each is as dear as to draw it. (One path of many costs the script less, and the browser more.)

import type { Mark } from "../layout/marks";
import type { Hue } from "../theme/palette";
import { HATCHED_PX, LABELLED_PX } from "./bars";
import { chooseHue, isCutShort } from "./hues";
import { type Box, roundedBar, type Surface } from "./strokes";

/** Draws the plain bars of a row, as `drawMark` would. */
export class PlainBars {
  readonly #surface: Surface;
  /** The colour that is set. */
  #hue: Hue | null = null;

  constructor(surface: Surface) {
    this.#surface = surface;
  }

  /** Draws a bar; false where it is no plain one, and something else is to draw it. */
  draw(mark: Mark, box: Box): boolean {
    if (!isPlain(mark, box)) {
      this.#hue = null;
      return false;
    }
    const { ctx, theme } = this.#surface;
    const hue = chooseHue(this.#surface, mark);
    if (hue !== this.#hue) ctx.fillStyle = theme.hues[hue];
    this.#hue = hue;
    ctx.beginPath();
    roundedBar(ctx, box);
    ctx.fill();
    return true;
  }
}

/** As `drawBar` draws it: closed, of one colour, and with nothing in it. */
function isPlain({ shape, row, to }: Mark, { w }: Box): boolean {
  if (shape !== "llm" && shape !== "tool" && shape !== "attempt" && shape !== "plain") return false;
  return to !== null && w < LABELLED_PX && !isCutShort(row.status) && (row.status !== "error" || w <= HATCHED_PX);
}
