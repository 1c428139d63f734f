// What does not stand out: it is drawn first, and a veil over it, so that it shows where the rest stands (W9).

import { isOfAny, type Mark } from "../layout/marks";
import type { Track } from "../layout/tracks";
import { type Scene, topOf } from "./scene";
import type { Surface } from "./strokes";

const VEIL = 0.74;

interface Parts {
  readonly highlighted: ReadonlySet<string>;
  readonly dim: readonly Mark[];
  readonly bright: readonly Mark[];
}

const parted = new WeakMap<readonly Mark[], Parts>();

/** The marks of a row that stand out, and the others; looked for once as long as neither changes. */
function partsOf({ marks }: Track, highlighted: ReadonlySet<string>): Parts {
  const known = parted.get(marks);
  if (known?.highlighted === highlighted) return known;
  const bright = marks.filter((mark) => isOfAny(mark, highlighted));
  const parts = { highlighted, bright, dim: marks.filter((mark) => !isOfAny(mark, highlighted)) };
  parted.set(marks, parts);
  return parts;
}

/** Draws a row by `draw`, and where some spans stand out, these last and the others under a veil. */
export function drawUnderVeil(surface: Surface, scene: Scene, track: Track, draw: (track: Track) => void): void {
  // A strip stands for many rows, whose share in what stands out it can't show.
  if (scene.highlighted === null || track.heat) return draw(track);
  const { ctx, theme } = surface;
  const { dim, bright } = partsOf(track, scene.highlighted);
  draw({ ...track, marks: dim });
  ctx.fillStyle = theme.background;
  ctx.globalAlpha = VEIL;
  ctx.fillRect(0, Math.round(topOf(scene, track)), scene.width, track.height - 1);
  ctx.globalAlpha = 1;
  if (bright.length > 0) draw({ ...track, marks: bright });
}
