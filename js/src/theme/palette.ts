// The colours of the data, and what can be said of two colours. Five hues carry meaning, and each meaning has a second
// channel (place, shape, hatch), so that no one depends on colour. `draw/hues` chooses the hue of a bar;
// `palette.test.ts` holds the distances and contrasts.

export type ColorScheme = "light" | "dark";
export type Hue = "llm" | "tool" | "error" | "wait" | "idle";
export type Rgb = readonly [number, number, number];

export const PALETTES: Record<ColorScheme, Record<Hue, string>> = {
  light: { idle: "#686d74", llm: "#5b5bd6", tool: "#0e98a0", wait: "#bb7a0b", error: "#c8102e" },
  dark: { idle: "#868b94", llm: "#8389ff", tool: "#56d3da", wait: "#f0b04f", error: "#ee4b56" },
};

const LABEL_COLORS: readonly string[] = ["#ffffff", "#101216"];

/** Reads `#rgb`, `#rrggbb`, `rgb(...)`, `rgba(...)` and `color(srgb ...)`, as which browsers compute mixed colours; null for anything else and for what is transparent. */
export function parse(color: string): Rgb | null {
  const text = color.trim();
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text)?.[1];
  if (hex) {
    const full = hex.length === 3 ? [...hex].map((digit) => digit + digit).join("") : hex;
    const at = (k: number): number => parseInt(full.slice(k, k + 2), 16);
    return [at(0), at(2), at(4)];
  }
  const [, kind, values] = /^(rgba?\(|color\(srgb )([^)]*)\)$/.exec(text) ?? [];
  const parts = values?.split(/[\s,/]+/).filter(Boolean).map(
    (part) => parseFloat(part) / (part.endsWith("%") ? 100 : 1),
  );
  if (!parts || parts.length < 3 || parts.some(Number.isNaN)) return null;
  const [r = 0, g = 0, b = 0, alpha = 1] = parts;
  const full = kind?.startsWith("c") ? 255 : 1;
  return alpha < 0.5 ? null : [r * full, g * full, b * full];
}

/** One channel of sRGB (0-255) as light (0-1). */
export function toLinear(channel: number): number {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

/** WCAG relative luminance, 0 (black) to 1 (white). */
export function luminance([r, g, b]: Rgb): number {
  return 0.2126 * toLinear(r) + 0.7152 * toLinear(g) + 0.0722 * toLinear(b);
}

/** WCAG contrast of two colours, 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** The palette that can be seen on a background. */
export const colorSchemeOn = (background: Rgb): ColorScheme => (luminance(background) < 0.18 ? "dark" : "light");

/** White or near-black, whichever reads better on `color`. */
export function labelColorOn(color: string): string {
  const rgb = parse(color) ?? [255, 255, 255];
  const score = (ink: string): number => contrast(rgb, parse(ink) as Rgb);
  return LABEL_COLORS.reduce((best, ink) => (score(ink) > score(best) ? ink : best));
}
