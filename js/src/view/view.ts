// What one view shows of a store: the window, the selection, what is closed, how far it is scrolled. Views of one run
// differ only in this. No DOM: the canvas draws it, the chrome reads its signals, keys and pointer call its methods.

import { computed, effect, signal } from "@preact/signals";
import { isSelectableMark } from "../layout/marks";
import * as scale from "../layout/time-scale";
import { EMPTY, type Layout, LayoutBuilder, type Track } from "../layout/tracks";
import type { Store } from "../store/store";
import type { Row } from "../wire/rows";

const EDGE_OVER = 20;
const EDGE_RUNNING = 28;
const EDGE_GHOSTS = 136;

export class View {
  readonly layout = signal<Layout>(EMPTY);
  readonly selected = signal<string | null>(null);
  readonly hovered = signal<string | null>(null);
  readonly isDrawerOpen = signal(false);
  readonly collapsed = signal<ReadonlySet<string>>(new Set());
  readonly follow = signal<scale.FollowMode>("fit");
  readonly scrollTop = signal(0);
  /** Pixels of the chart: its width, and the height that rows have below the axis. */
  readonly width = signal(600);
  readonly viewport = signal(0);
  /** The run's age as shown, a few times a second while it runs. */
  readonly age = signal(0);
  readonly window = signal<scale.TimeWindow>({ from: 0, to: 1000 });
  readonly selectedRow = computed<Row | undefined>(() => {
    this.store.version.value;
    return this.selected.value === null ? undefined : this.store.row(this.selected.value);
  });

  readonly #layoutBuilder = new LayoutBuilder();

  constructor(readonly store: Store, end: AbortSignal) {
    const stop = effect(() => {
      store.version.value;
      this.layout.value = this.#layoutBuilder.build(store, this.collapsed.value);
    });
    end.addEventListener("abort", stop);
  }

  /** Moves the window along with the run at its age `now`, unless the person took it over. */
  followRun(now: number): void {
    if (this.follow.value === "fit") this.#show(scale.fitRun(now, this.width.value, this.freePixels));
    else if (this.follow.value === "now") {
      this.#show(scale.followEnd(this.window.value, now, this.width.value, this.freePixels));
    }
  }

  /** Pixels kept free right of the end: for what has not begun, while it still may. */
  get freePixels(): number {
    if (this.store.isOver) return EDGE_OVER;
    const hasGhosts = this.store.run.value?.status !== "running" || hasPending(this.layout.value);
    return Math.min(hasGhosts ? EDGE_GHOSTS : EDGE_RUNNING, this.width.value * 0.4);
  }

  fit(): void {
    this.follow.value = "fit";
  }

  /** Back to now, at the zoom that the person chose. */
  goLive(): void {
    this.follow.value = "now";
  }

  zoom(x: number, factor: number, now: number): void {
    this.#take(scale.zoom(this.window.value, this.width.value, x, factor, now));
  }

  pan(pixels: number, now: number): void {
    this.#take(scale.pan(this.window.value, this.width.value, pixels, now));
  }

  /** Fits one span, as a double-click does. */
  focus(row: Row, now: number): void {
    if (row.start_ms == null) return this.fit();
    this.#take(scale.fitSpan(row.start_ms, row.end_ms ?? now));
  }

  select(span: string | null): void {
    this.selected.value = span;
  }

  /** Selects a span from elsewhere (a chip, a link): opens what it is in, scrolls and pans it into sight, opens the drawer. */
  goTo(span: string): void {
    const row = this.store.row(span);
    if (!row) return;
    const owner = this.store.ownerOf(span);
    for (const around of this.#around(span)) if (around !== owner && this.collapsed.value.has(around)) this.toggle(around);
    this.select(span);
    this.isDrawerOpen.value = true;
    this.reveal();
    const { from, to } = this.window.value;
    const at = row.start_ms;
    if (at == null || (at >= from && at <= to)) return;
    const length = to - from;
    this.#take({ from: at - length * 0.3, to: at + length * 0.7 });
  }

  /** Closes or opens the row of a phase, or of a task that handed work on. */
  toggle(row: string): void {
    const collapsed = new Set(this.collapsed.value);
    if (!collapsed.delete(row)) collapsed.add(row);
    this.collapsed.value = collapsed;
    this.scroll(this.scrollTop.value);
  }

  scroll(top: number): void {
    const most = Math.max(0, this.layout.value.height - this.viewport.value);
    this.scrollTop.value = Math.min(Math.max(0, top), most);
  }

  /** Scrolls the track of the selection into sight, if it isn't. */
  reveal(): void {
    const track = this.selectedTrack;
    if (!track) return;
    const [top, bottom] = [this.scrollTop.value, this.scrollTop.value + this.viewport.value];
    if (track.y < top) this.scroll(track.y);
    else if (track.y + track.height > bottom) this.scroll(track.y + track.height - this.viewport.value);
  }

  /** The track that holds the selection: its own, or the closed one that it is in. */
  get selectedTrack(): Track | undefined {
    if (this.selected.value === null) return undefined;
    const { tracks } = this.layout.value;
    for (const span of this.#around(this.selected.value)) {
      const track = tracks.find((candidate) => candidate.id === span);
      if (track) return track;
    }
    return undefined;
  }

  /** Selects the track `step` rows away; the first or last one when nothing is selected. */
  moveRow(step: number): void {
    const { tracks } = this.layout.value;
    const at = this.selectedTrack ? tracks.indexOf(this.selectedTrack) : step > 0 ? -1 : tracks.length;
    const next = tracks[Math.min(Math.max(at + step, 0), tracks.length - 1)];
    if (next) this.select(next.id);
    this.reveal();
  }

  /** Selects the span `step` places away in the selected track, in the order of time; the row itself comes first. */
  moveSpan(step: number): void {
    const track = this.selectedTrack;
    if (!track) return this.moveRow(1);
    const spans = [track.id, ...track.marks.filter(isSelectableMark).map((mark) => mark.row.span_id)];
    const at = spans.indexOf(this.selected.value as string);
    const next = spans[Math.min(Math.max(at + step, 0), spans.length - 1)];
    if (next) this.select(next);
  }

  /** The rows that a span is in, innermost first: those of its task, of who handed that on, and of its phase. */
  *#around(span: string): Generator<string> {
    let at: string | null | undefined = span;
    for (let steps = 0; at && steps < 64; steps += 1) {
      const owner: string = this.store.ownerOf(at);
      yield owner;
      at = this.store.row(owner)?.parent_id;
    }
  }

  #take(window: scale.TimeWindow): void {
    this.follow.value = "off";
    this.#show(window);
  }

  #show(window: scale.TimeWindow): void {
    const old = this.window.value;
    if (old.from !== window.from || old.to !== window.to) this.window.value = window;
  }
}

const hasPending = (layout: Layout): boolean => layout.tracks.some((track) => track.row.status === "pending");
