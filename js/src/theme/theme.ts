// Which colours and fonts the page around the view has, and when they change: JupyterLab's variables, VS Code's, or
// plain values chosen by the luminance of what lies behind the view. It must not know what is drawn with them.

import type { Row } from "../wire/rows";
import { type ColorScheme, colorSchemeOn, type Hue, labelColorOn, PALETTES, parse, type Rgb } from "./palette";

/** Everything that drawing on a canvas needs resolved, because a canvas can't read CSS variables. */
export interface Theme {
  readonly colorScheme: ColorScheme;
  readonly font: string;
  readonly background: string;
  readonly text: string;
  readonly muted: string;
  readonly accent: string;
  /** While bars are painted by something else than their kind, also the hues of that (W33). The last is drawn over the others. */
  readonly hues: Record<Hue, string>;
  /** The colour of a label on a bar of each hue. */
  readonly labelColors: Record<Hue, string>;
}

/** What bars are painted by in place of their kind. */
export interface Paint {
  /** The theme with the hues that it gives. */
  dress(theme: Theme): Theme;
  /** The hue of a span; null for one that it says nothing of. */
  hueOf(row: Row): Hue | null;
}

const SURFACES = ["--jp-layout-color0", "--vscode-editor-background"];
const WHITE: Rgb = [255, 255, 255];

/** Marks `root` as light or dark and returns the colours to draw with. */
export function applyTheme(root: HTMLElement): Theme {
  const colorScheme = colorSchemeOn(backgroundOf(root));
  const hues = PALETTES[colorScheme];
  if (root.dataset.theme !== colorScheme) root.dataset.theme = colorScheme;
  for (const [hue, color] of Object.entries(hues)) root.style.setProperty(`--et-${hue}`, color);
  const style = getComputedStyle(root);
  const font = style.fontFamily || "system-ui, sans-serif";
  if (matches("(forced-colors: active)")) {
    // No colour of the system says that something failed: that keeps its red, the one that stands out from its canvas.
    const { error } = PALETTES[colorSchemeOn(parse(resolve(root, "Canvas") ?? "") ?? WHITE)];
    const forced: Record<Hue, string> = { llm: "CanvasText", tool: "CanvasText", error, wait: "CanvasText", idle: "CanvasText" };
    const labelColors: Record<Hue, string> = { llm: "Canvas", tool: "Canvas", error: labelColorOn(error), wait: "Canvas", idle: "Canvas" };
    return {
      colorScheme, font, background: "Canvas", text: "CanvasText", muted: "CanvasText", accent: "Highlight",
      hues: forced, labelColors,
    };
  }
  const value = (name: string, otherwise: string): string => resolve(root, `var(${name})`) ?? otherwise;
  const ink = colorScheme === "dark" ? "#e6e8ec" : "#1d2026";
  return {
    colorScheme,
    font,
    background: value("--et-background", colorScheme === "dark" ? "#16181d" : "#ffffff"),
    text: value("--et-text", ink),
    muted: value("--et-muted", ink),
    accent: value("--et-accent", hues.llm),
    hues,
    labelColors: Object.fromEntries(Object.entries(hues).map(([hue, color]) => [hue, labelColorOn(color)])) as Record<Hue, string>,
  };
}

/** The colour behind the view: what the host says its surfaces are, else the first opaque ancestor, else white. */
function backgroundOf(root: HTMLElement): Rgb {
  const style = getComputedStyle(root);
  for (const name of SURFACES) {
    if (!style.getPropertyValue(name).trim()) continue;
    const color = parse(resolve(root, `var(${name})`) ?? "");
    if (color) return color;
  }
  for (let node: Node | null = root.parentNode; node; node = node instanceof ShadowRoot ? node.host : node.parentNode) {
    if (!(node instanceof Element)) continue;
    const color = parse(getComputedStyle(node).backgroundColor);
    if (color) return color;
  }
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  return scheme.includes("dark") && matches("(prefers-color-scheme: dark)") ? [18, 18, 18] : WHITE;
}

/** A CSS colour as the browser computes it, e.g. with variables replaced. */
function resolve(root: HTMLElement, color: string): string | null {
  const probe = document.createElement("span");
  probe.style.cssText = `display:none;color:${color}`;
  root.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found || null;
}

/**
 * Calls `changed` whenever `root` may stand on other colours: the page changed its theme, contrast mode or motion
 * preference, or the view came into the page, before which it has no colours at all (frontends render it detached).
 */
export function watchTheme(root: HTMLElement, changed: () => void, signal: AbortSignal): void {
  let wasShown = root.isConnected;
  if (typeof ResizeObserver !== "undefined") {
    const sizes = new ResizeObserver(() => {
      const isShown = root.isConnected && root.offsetWidth > 0;
      if (isShown && !wasShown) changed();
      wasShown = isShown;
    });
    sizes.observe(root);
    signal.addEventListener("abort", () => sizes.disconnect());
  }
  const observer = new MutationObserver(changed);
  const watched = { attributes: true, attributeFilter: ["class", "style", "data-theme", "data-jp-theme-name",
    "data-jp-theme-light", "data-vscode-theme-kind", "data-vscode-theme-id"] };
  observer.observe(document.documentElement, watched);
  if (document.body) observer.observe(document.body, watched);
  signal.addEventListener("abort", () => observer.disconnect());
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-reduced-motion: reduce)"]) {
    window.matchMedia?.(query).addEventListener("change", changed, { signal });
  }
}

export const matches = (query: string): boolean => window.matchMedia?.(query).matches ?? false;
