// The canvas in the page: its size in device pixels, and when it is painted. One rule decides about frames: as long as
// the run ticks and somebody can see it, each frame asks for the next; otherwise a frame comes only after a change.
// After the end nothing is scheduled any more (W5).

import { effect, untracked } from "@preact/signals";
import { matches, type Theme } from "../theme/theme";
import type { View } from "../view/view";
import { ChartPainter } from "./painter";
import { type DrawnBar, listBars } from "./placement";
import type { Scene } from "./scene";

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
  /** In pixels of the page; 0 where there is nothing to paint on. */
  #height = 0;
  #ratio = 1;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #paintedAt = -Infinity;
  /** How long the last painting took. */
  #paintMs = 0;
  #isDirty = true;
  #isSeen = true;
  #isEnded = false;

  constructor(view: View, canvas: HTMLCanvasElement, theme: Theme, signal: AbortSignal) {
    this.#view = view;
    this.#canvas = canvas;
    this.#ctx = canvas.getContext("2d");
    this.#theme = theme;
    Object.assign(canvas, { listBars: this.#listBars });
    const stop = effect(() => {
      view.store.version.value;
      view.layout.value;
      view.selectedSpans.value;
      view.hovered.value;
      view.areArrowsShown.value;
      view.isCriticalShown.value;
      view.drawLinks.value;
      view.scrollTop.value;
      view.follow.value;
      view.window.value;
      view.highlighted.value;
      view.fold.value;
      view.paint.value;
      view.shape.value;
      this.redraw();
    });
    signal.addEventListener("abort", () => {
      stop();
      this.#isEnded = true;
      cancelAnimationFrame(this.#frame);
      clearTimeout(this.#timer);
    });
    this.#watch(signal);
    const stopMeasuring = effect(() => {
      view.head.value;
      untracked(() => this.#measure());
    });
    signal.addEventListener("abort", stopMeasuring);
  }

  setTheme(theme: Theme): void {
    if (theme === this.#theme) return;
    this.#theme = theme;
    this.redraw();
  }

  /** Asks for one frame; any number of calls before it comes cost one painting. */
  redraw(): void {
    this.#isDirty = true;
    this.#askForFrame();
  }

  #askForFrame(): void {
    clearTimeout(this.#timer);
    if (this.#frame === 0 && !this.#isEnded) this.#frame = requestAnimationFrame(this.#onFrame);
  }

  #onFrame = (at: number): void => {
    this.#frame = 0;
    if (this.#isEnded || !this.#isSeen || document.hidden) return;
    const isCalm = matches("(prefers-reduced-motion: reduce)");
    // A clock that ticks leaves a slow page at least half of its time for all else.
    const isDue = this.#view.store.isTicking && at - this.#paintedAt >= Math.max(FRAME_MS - 4, 2 * this.#paintMs);
    if (this.#isDirty || isDue) {
      this.#isDirty = false;
      this.#paintedAt = at;
      const began = performance.now();
      this.#paint(isCalm);
      this.#paintMs = performance.now() - began;
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
    view.followRun(view.now);
    // What stands in place of the bars covers them.
    if (!this.#ctx || this.#height === 0 || view.shape.value !== "chart") return;
    this.#painter.paint(this.#ctx, this.#makeScene(now, isCalm));
    // Following moved the window and so asked for a frame; this one has shown it already.
    this.#isDirty = false;
  }

  #makeScene(now: number, isCalm: boolean): Scene {
    const view = this.#view;
    const { store } = view;
    const status = store.run.value?.status;
    const paint = view.paint.value;
    return {
      layout: view.layout.value,
      window: view.window.value,
      width: view.width.value,
      height: this.#height,
      scrollTop: view.scrollTop.value,
      head: view.head.value,
      fixed: view.fixed.value,
      now,
      isRunning: status === "running",
      lostAt: store.lostAt.value,
      isOver: store.isOver,
      selected: view.selected.value,
      selection: view.selectedSpans.value,
      current: view.selectedTrack?.id ?? null,
      hovered: view.hovered.value,
      hoveredRow: view.hovered.value === null ? null : (view.trackOf(view.hovered.value)?.id ?? null),
      areArrowsShown: view.areArrowsShown.value,
      isCriticalShown: view.isCriticalShown.value,
      drawLinks: view.drawLinks.value as Scene["drawLinks"],
      highlighted: view.highlighted.value,
      tailOf: (span, length) => store.textTail(span, length),
      theme: paint?.dress(this.#theme) ?? this.#theme,
      paint,
      ratio: this.#ratio,
      shift: isCalm ? 0 : ((performance.now() / 1000) * STRIPES_PX_PER_S) % 8,
    };
  }

  /** Every bar as it stands in the picture by now: what tests, and whoever else can't see, read from a canvas. */
  readonly #listBars = (): DrawnBar[] => listBars(this.#makeScene(this.#view.now, true));

  /** Takes the size of the box that CSS gave the canvas. */
  #measure(): void {
    const { width, height } = this.#canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const viewport = height - this.#view.head.value;
    const isSame = width === this.#view.width.value && viewport === this.#view.viewport.value && height === this.#height && ratio === this.#ratio;
    this.#height = width === 0 ? 0 : height;
    if (this.#height === 0 || isSame) return;
    this.#view.width.value = width;
    this.#view.viewport.value = viewport;
    this.#ratio = ratio;
    const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== across) this.#canvas.width = across;
    if (this.#canvas.height !== down) this.#canvas.height = down;
    this.#view.keepScroll();
    // In the same task as the change of size, which blanked the canvas: the next frame would show a flash.
    this.#paint(matches("(prefers-reduced-motion: reduce)"));
    if (this.#view.store.isTicking) this.#askForFrame();
  }

  /** Sizes, pixel ratios, and coming back into sight: notebooks detach what scrolls away and blank its canvases (W11). */
  #watch(signal: AbortSignal): void {
    if (typeof ResizeObserver !== "undefined") {
      const sizes = new ResizeObserver(() => this.#measure());
      sizes.observe(this.#canvas);
      signal.addEventListener("abort", () => sizes.disconnect());
    }
    if (typeof IntersectionObserver !== "undefined") {
      const sight = new IntersectionObserver((entries) => {
        const wasSeen = this.#isSeen;
        this.#isSeen = entries.some((entry) => entry.isIntersecting);
        if (this.#isSeen && !wasSeen) this.redraw();
      });
      // Of the whole view, not of the canvas alone: the clock of the head must go on while the bars are below the window.
      sight.observe(this.#canvas.closest(".ensemble-timeline") ?? this.#canvas);
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
