// Which hue a bar has: that of its shape, unless its status says more. The colours of the hues are in `theme/palette`.

import type { Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import type { Hue } from "../theme/palette";
import type { Status } from "../wire/rows";
import type { Scene } from "./scene";

/** Chooses the hue of a bar, however thin the bar is; what an earlier run has done is grey, and while bars are painted by something else, what that says nothing of. */
export function chooseHue({ paint }: Pick<Scene, "paint">, { row, shape }: Mark): Hue {
  const { hue } = SHAPES[shape];
  return row.status === "error" ? "error" : isCutShort(row.status) || row.reused ? "idle" : paint && hue !== "wait" ? (paint.hueOf(row) ?? "idle") : hue;
}

/** Whether a span was ended from outside, and has neither failed nor been done. */
export const isCutShort = (status: Status): boolean => status === "cancelled" || status === "interrupted";
