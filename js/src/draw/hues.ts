// Which hue a bar has: that of its shape, unless its status says more. The colours of the hues are in `theme/palette`.

import type { Mark } from "../layout/marks";
import { SHAPES } from "../layout/shapes";
import type { Hue } from "../theme/palette";
import type { Status } from "../wire/rows";

/** Chooses the hue of a bar, however thin the bar is. */
export function chooseHue(mark: Mark): Hue {
  const { status } = mark.row;
  return status === "error" ? "error" : isCutShort(status) ? "idle" : SHAPES[mark.shape].hue;
}

/** Whether a span was ended from outside, and has neither failed nor been done. */
export const isCutShort = (status: Status): boolean => status === "cancelled" || status === "interrupted";
