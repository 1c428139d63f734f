// The canvas in the page: its size in device pixels, and when it is painted. One rule decides about frames: as long as
// the run ticks and somebody can see it, each frame asks for the next; otherwise a frame comes only after a change.
// After the end nothing is scheduled any more (W5).

import { effect } from "@preact/signals";
import { AXIS_HEIGHT } from "../layout/sizes";
import { matches, type Theme } from "../theme/theme";
import type { View } from "../view/view";
import { ChartPainter } from "./painter";

const FRAME_MS = 33;
const CALM_FRAME_MS = 500;
const AGE_STEP_MS = 200;
const STRIPES_PX_PER_S = 14;

export class ChartCanvas {
  readonly #view: View;
  readonly #canvas: HTMLCanvasElement;
  readonly #ctx: CanvasRenderingContext2D | null;
  readonly #painter = new ChartPainter();
  #theme: Theme;
  #height = 0;
  #ratio = 1;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paintedAt = -Infinity;
  #isDirty = true;
  #isSeen = true;
  #isEnded = false;

  constructor(view: View, canvas: HTMLCanvasElement, theme: Theme, signal: AbortSignal) {
    this.#view = view;
    this.#canvas = canvas;
    this.#ctx = canvas.getContext("2d");
    this.#theme = theme;
    const stop = effect(() => {
      view.store.version.value;
      view.layout.value;
      view.selected.value;
      view.hovered.value;
      view.scrollTop.value;
      view.follow.value;
      view.window.value;
      this.redraw();
    });
    signal.addEventListener("abort", () => {
      stop();
      this.#isEnded = true;
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#timer);
    });
    this.#watch(signal);
  }

  setTheme(theme: Theme): void {
    this.#theme = theme;
    this.redraw();
  }

  /** Asks for one frame; any number of calls before it comes cost one painting. */
  redraw(): void {
    this.#isDirty = true;
    if (this.#timer !== undefined) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    if (this.#frame === 0 && !this.#isEnded) this.#frame = requestAnimationFrame(this.#onFrame);
  }

  #onFrame = (at: number): void => {
    this.#frame = 0;
    if (this.#isEnded || !this.#isSeen || document.hidden) return;
    const isCalm = matches("(prefers-reduced-motion: reduce)");
    const isDue = at - this.#paintedAt >= FRAME_MS - 4;
    if (this.#isDirty || isDue) {
      this.#isDirty = false;
      this.#paintedAt = at;
      this.#paint(isCalm);
    }
    if (!this.#view.store.isTicking || this.#frame !== 0) return;
    if (isCalm) this.#timer = setTimeout(() => this.redraw(), CALM_FRAME_MS);
    else this.#frame = requestAnimationFrame(this.#onFrame);
  };

  #paint(isCalm: boolean): void {
    const view = this.#view;
    const { store } = view;
    const now = store.elapsed(performance.now());
    const age = store.isTicking ? Math.floor(now / AGE_STEP_MS) * AGE_STEP_MS : now;
    view.age.value = age;
    view.followRun(now);
    if (!this.#ctx || this.#height === 0) return;
    const status = store.run.value?.status;
    this.#painter.paint(this.#ctx, {
      layout: view.layout.value,
      window: view.window.value,
      width: view.width.value,
      height: this.#height,
      scrollTop: view.scrollTop.value,
      now,
      isRunning: status === "running",
      isOver: store.isOver,
      selected: view.selected.value,
      current: view.selectedTrack?.id ?? null,
      hovered: view.hovered.value,
      theme: this.#theme,
      ratio: this.#ratio,
      shift: isCalm ? 0 : ((performance.now() / 1000) * STRIPES_PX_PER_S) % 8,
    });
    // Following moved the window and so asked for a frame; this one has shown it already.
    this.#isDirty = false;
  }

  /** Takes the size of the box that CSS gave the canvas. */
  #measure(): void {
    const { width, height } = this.#canvas.getBoundingClientRect();
    if (width === 0 || height === 0) return;
    const ratio = window.devicePixelRatio || 1;
    this.#view.width.value = width;
    this.#view.viewport.value = height - AXIS_HEIGHT;
    this.#height = height;
    this.#ratio = ratio;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== across) this.#canvas.width = across;
    if (this.#canvas.height !== down) this.#canvas.height = down;
    this.#view.scroll(this.#view.scrollTop.value);
    // In the same task as the change of size, which blanked the canvas: the next frame would show a flash.
    this.#paint(matches("(prefers-reduced-motion: reduce)"));
    this.redraw();
  }

  /** Sizes, pixel ratios, and coming back into sight: notebooks detach what scrolls away and blank its canvases (W11). */
  #watch(signal: AbortSignal): void {
    this.#measure();
    if (typeof ResizeObserver !== "undefined") {
      const sizes = new ResizeObserver(() => this.#measure());
      sizes.observe(this.#canvas);
      signal.addEventListener("abort", () => sizes.disconnect());
    }
    if (typeof IntersectionObserver !== "undefined") {
      const sight = new IntersectionObserver((entries) => {
        this.#isSeen = entries.some((entry) => entry.isIntersecting);
        if (this.#isSeen) this.redraw();
      });
      sight.observe(this.#canvas);
      signal.addEventListener("abort", () => sight.disconnect());
    }
    document.addEventListener("visibilitychange", () => this.redraw(), { signal });
    this.#watchRatio(signal);
  }

  #watchRatio(signal: AbortSignal): void {
    const query = window.matchMedia?.(`(resolution: ${window.devicePixelRatio || 1}dppx)`);
    query?.addEventListener("change", () => {
      this.#measure();
      this.#watchRatio(signal);
    }, { signal, once: true });
  }
}
