// Holds W2: how far hues are apart, and from their backgrounds.

import { describe, expect, it } from "vitest";
import {
  type ColorScheme, colorSchemeOn, contrast, labelColorOn, PALETTES, parse, type Rgb, toLinear,
} from "./palette";
import { PAINTS } from "./paint-palette";

// Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
const VISIONS: Record<string, number[][]> = {
  normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
// The surfaces of JupyterLab, VS Code and a plain page.
const SURFACES: Record<ColorScheme, string[]> = { light: ["#ffffff", "#f8f8f8"], dark: ["#111111", "#16181d", "#1f1f1f"] };

type Lab = [number, number, number];

const times = (matrix: number[][], v: readonly number[]): number[] =>
  matrix.map((line) => line.reduce((sum, factor, k) => sum + factor * (v[k] as number), 0));

function seenAs(color: Rgb, vision: string): Lab {
  const light = times(VISIONS[vision] as number[][], color.map(toLinear)).map((c) => Math.min(1, Math.max(0, c)));
  const xyz = times(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]], light,
  );
  const [x, y, z] = [0.95047, 1, 1.08883].map((white, k) => {
    const t = (xyz[k] as number) / white;
    return t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116;
  }) as Lab;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** CIEDE2000, after Sharma, Wu and Dalal (2005). */
function distance([L1, a1, b1]: Lab, [L2, a2, b2]: Lab): number {
  const rad = Math.PI / 180;
  const mean = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2;
  const g = 0.5 * (1 - Math.sqrt(mean ** 7 / (mean ** 7 + 25 ** 7)));
  const [A1, A2] = [a1 * (1 + g), a2 * (1 + g)];
  const [C1, C2] = [Math.hypot(A1, b1), Math.hypot(A2, b2)];
  const hue = (a: number, b: number): number => (a === 0 && b === 0 ? 0 : (Math.atan2(b, a) / rad + 360) % 360);
  const [h1, h2] = [hue(A1, b1), hue(A2, b2)];
  let dh = C1 * C2 === 0 ? 0 : h2 - h1;
  if (dh > 180) dh -= 360;
  else if (dh < -180) dh += 360;
  const dH = 2 * Math.sqrt(C1 * C2) * Math.sin((dh / 2) * rad);
  const L = (L1 + L2) / 2;
  const C = (C1 + C2) / 2;
  const sum = h1 + h2;
  const h = C1 * C2 === 0 ? sum : Math.abs(h1 - h2) <= 180 ? sum / 2 : sum < 360 ? (sum + 360) / 2 : (sum - 360) / 2;
  const T = 1 - 0.17 * Math.cos((h - 30) * rad) + 0.24 * Math.cos(2 * h * rad) + 0.32 * Math.cos((3 * h + 6) * rad)
    - 0.2 * Math.cos((4 * h - 63) * rad);
  const SL = 1 + (0.015 * (L - 50) ** 2) / Math.sqrt(20 + (L - 50) ** 2);
  const SC = 1 + 0.045 * C;
  const SH = 1 + 0.015 * C * T;
  const RT = -2 * Math.sqrt(C ** 7 / (C ** 7 + 25 ** 7)) * Math.sin(60 * Math.exp(-(((h - 275) / 25) ** 2)) * rad);
  const [l, c, d] = [(L2 - L1) / SL, (C2 - C1) / SC, dH / SH];
  return Math.sqrt(l * l + c * c + d * d + RT * c * d);
}

it("measures CIEDE2000 as the reference data of its authors does", () => {
  expect(distance([50, 2.6772, -79.7751], [50, 0, -82.7485])).toBeCloseTo(2.0425, 4);
  expect(distance([50, 2.5, 0], [73, 25, -18])).toBeCloseTo(27.1492, 4);
  expect(distance([22.7233, 20.0904, -46.694], [23.0331, 14.973, -42.5619])).toBeCloseTo(2.0373, 4);
});

const { llm: _llm, tool: _tool, ...keptLight } = PALETTES.light;
const { llm: _llm2, tool: _tool2, ...keptDark } = PALETTES.dark;
// What bars keep while they are painted by something else than their kind (W33) stands beside those colours.
const KEPT = { light: keptLight, dark: keptDark };
const SETS = (["light", "dark"] as const).flatMap((colorScheme) => [
  ["kinds", colorScheme, Object.entries(PALETTES[colorScheme])] as const,
  ...(["names", "steps"] as const).map((kind) =>
    [kind, colorScheme, [...Object.entries(KEPT[colorScheme]), ...PAINTS[colorScheme][kind].map((color, k) => [`${kind} ${k}`, color] as [string, string])]] as const),
]);

describe.each(SETS)("the colours of %s in a %s page (W2, W33)", (_kind, colorScheme, hues) => {

  it.each(Object.keys(VISIONS))("keeps any two hues at least 12 apart for %s vision", (vision) => {
    for (const [name, color] of hues) {
      for (const [other, second] of hues) {
        if (name >= other) continue;
        const apart = distance(seenAs(parse(color) as Rgb, vision), seenAs(parse(second) as Rgb, vision));
        expect(apart, `${name} and ${other}`).toBeGreaterThanOrEqual(12);
      }
    }
  });

  it("stands out from every background by at least 3 to 1", () => {
    for (const surface of SURFACES[colorScheme]) {
      expect(colorSchemeOn(parse(surface) as Rgb)).toBe(colorScheme);
      for (const [name, color] of hues) {
        expect(contrast(parse(color) as Rgb, parse(surface) as Rgb), `${name} on ${surface}`).toBeGreaterThanOrEqual(3);
      }
    }
  });

  it("has a label colour of at least 4.5 to 1 on each hue", () => {
    for (const [name, color] of hues) {
      expect(contrast(parse(labelColorOn(color)) as Rgb, parse(color) as Rgb), name).toBeGreaterThanOrEqual(4.5);
    }
  });
});

it("reads the colours that browsers compute, and none from what is see-through", () => {
  expect(parse("#fff")).toEqual([255, 255, 255]);
  expect(parse("rgb(17, 18, 19)")).toEqual([17, 18, 19]);
  expect(parse("rgb(17 18 19 / 90%)")).toEqual([17, 18, 19]);
  expect(parse("color(srgb 0 0.2 1)")).toEqual([0, 51, 255]);
  expect(parse("color(srgb 0 0 0 / 0.1)")).toBeNull();
  expect(parse("rgba(0, 0, 0, 0)")).toBeNull();
  expect(parse("rgb(0 0 0 / 30%)")).toBeNull();
  expect(parse("transparent")).toBeNull();
});

it("has steps that grow darker in a light page, and brighter in a dark one (W33)", () => {
  for (const [colorScheme, way] of [["light", -1], ["dark", 1]] as const) {
    const lights = PAINTS[colorScheme].steps.map((color) => seenAs(parse(color) as Rgb, "normal")[0] * way);
    expect(lights).toEqual([...lights].sort((one, other) => one - other));
  }
});
