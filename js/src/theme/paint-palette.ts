// The colours that bars have while they are painted by something else than their kind (W33): one for each agent or model, or
// steps from little to much. They are loaded with what paints; `palette.test.ts` holds them to what W2 asks of all hues, beside
// those that bars keep: what failed, what was cut short or has no value, and what waits.

import type { ColorScheme, Hue } from "./palette";

interface PaintColors {
  /** No two of them are alike. */
  readonly names: readonly string[];
  /** From little to much. */
  readonly steps: readonly string[];
}

export const PAINTS: Record<ColorScheme, PaintColors> = {
  light: {
    names: ["#5b5bd6", "#00875a", "#780f78", "#2d00d2", "#87002d", "#7887d2"],
    steps: ["#965aff", "#783cb4", "#4b0087", "#2d0f2d"],
  },
  dark: {
    names: ["#8389ff", "#0fa578", "#f0b4ff", "#0fffe1", "#5a7800", "#5a69b4"],
    steps: ["#00872d", "#78a587", "#5ae1a5", "#c3fff0"],
  },
};

/** The name of one of these hues, by its place: a theme has it while it is worn. */
export const paintHue = (place: number): Hue => `paint${place}` as Hue;
