// Bars of one colour that have a shape but no room for a sign or a word, drawn as one path as long as they have one hue:
// most bars of a large run are such, and to fill a path is dearer than what it holds.

import type { Mark } from "../layout/marks";
import type { Hue } from "../theme/palette";
import { HATCHED_PX, LABELLED_PX } from "./bars";
import { chooseHue, isCutShort } from "./hues";
import { type Box, fill, roundedBar, type Surface } from "./strokes";

/** The plain bars of a row that were added and are not drawn yet. */
export class PlainBars {
  readonly #surface: Surface;
  #hue: Hue | null = null;

  constructor(surface: Surface) {
    this.#surface = surface;
  }

  /** Takes a bar; false where it is no plain one. */
  add(mark: Mark, box: Box): boolean {
    if (!isPlain(mark, box)) return false;
    const { ctx } = this.#surface;
    const hue = chooseHue(mark);
    if (hue !== this.#hue) {
      this.flush();
      ctx.beginPath();
      this.#hue = hue;
    }
    roundedBar(ctx, box);
    return true;
  }

  /** Draws them, which must be done before anything else is drawn. */
  flush(): void {
    const { ctx, theme } = this.#surface;
    if (this.#hue !== null) fill(ctx, theme.hues[this.#hue], 1);
    this.#hue = null;
  }
}

/** As `drawBar` draws it: closed, of one colour, and with nothing in it. */
function isPlain({ shape, row, to }: Mark, { w }: Box): boolean {
  if (shape !== "llm" && shape !== "tool" && shape !== "attempt" && shape !== "plain") return false;
  return to !== null && w < LABELLED_PX && !isCutShort(row.status) && (row.status !== "error" || w <= HATCHED_PX);
}
