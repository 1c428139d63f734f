// Heights in pixels that the canvas and the page beside it must agree on.

export const AXIS_HEIGHT = 28;
export const PHASE_HEIGHT = 26;
export const LANE_HEIGHT = 24;
/** Free above the first and below the last lane of a track. */
export const PAD = 2;
