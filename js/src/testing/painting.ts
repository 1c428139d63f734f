// A picture without a screen, for the tests beside the modules; never bundled, because no entry imports it.

import { vi } from "vitest";
import { AXIS_HEIGHT } from "../layout/sizes";
import { drawLinks } from "../draw/links";
import { ChartPainter } from "../draw/painter";
import type { Scene } from "../draw/scene";
import { LayoutBuilder } from "../layout/layout-builder";
import { PALETTES } from "../theme/palette";
import type { Theme } from "../theme/theme";
import type { Row } from "../wire/rows";
import { run, stored } from "./runs";

const hues = PALETTES.light;
export const theme: Theme = {
  colorScheme: "light", font: "sans-serif", background: "#fff", text: "#111", muted: "#555", accent: "#00f", hues, labelColors: hues,
};

/** Stands where a canvas context would, and remembers what it was told. A letter is six pixels wide. */
export class RecordingContext {
  readonly texts: string[] = [];
  readonly rects: { style: unknown; x: number; w: number; h: number }[] = [];
  readonly places: { text: string; x: number; style: unknown }[] = [];
  /** The colours of fills, each as often as it was set. */
  readonly set: unknown[] = [];
  readonly dashes: number[][] = [];
  curves = 0;
  lines = 0;
  roundRects = 0;
  style: unknown = "";
  /** How often the colour was set. */
  styles = 0;

  static context(): { calls: RecordingContext; ctx: CanvasRenderingContext2D } {
    const calls = new RecordingContext();
    const ctx = new Proxy(calls, { get: (target, name) => Reflect.get(target, name) ?? ((): void => undefined) });
    return { calls, ctx: ctx as unknown as CanvasRenderingContext2D };
  }

  get fillStyle(): unknown {
    return this.style;
  }

  set fillStyle(style: unknown) {
    this.style = style;
    this.set.push(style);
    this.styles += 1;
  }

  readonly measureText = (text: string): { width: number } => ({ width: text.length * 6 });
  readonly fillText = (text: string, x: number): void => {
    this.texts.push(text);
    this.places.push({ text, x, style: this.style });
  };
  readonly fillRect = (x: number, _y: number, w: number, h: number): void => void this.rects.push({ style: this.style, x, w, h });
  readonly setLineDash = (dash: number[]): void => void this.dashes.push(dash);
  readonly roundRect = (): void => void (this.roundRects += 1);
  readonly lineTo = (): void => void (this.lines += 1);
  readonly bezierCurveTo = (): void => void (this.curves += 1);
  readonly createPattern = (): null => null;
}

/** jsdom's canvas does nothing but complain; patterns are looked at in a real browser. */
export function silenceCanvas(): void {
  HTMLCanvasElement.prototype.getContext = (() => null) as never;
  vi.stubGlobal("DOMMatrix", class {});
}

/** Paints the rows of a run, and gives what was drawn. */
export function paint(rows: Row[], more: Partial<Scene> = {}): RecordingContext {
  const { calls, ctx } = RecordingContext.context();
  const layout = new LayoutBuilder().build(stored({ rows, run: run() }), new Set());
  new ChartPainter().paint(ctx, {
    layout, window: { from: 0, to: 1500 }, width: 1500, height: 600, scrollTop: 0, head: AXIS_HEIGHT, fixed: 0, now: 1000, isRunning: true, lostAt: null, isOver: false,
    selected: null, selection: new Set(more.selected ? [more.selected] : []), current: null, hovered: null, hoveredRow: null, areArrowsShown: false, isCriticalShown: false, drawLinks, highlighted: null, tailOf: () => "", theme, paint: null, ratio: 1, shift: 0, ...more,
  });
  return calls;
}
