// What one view shows of a store: the window, the selection, what is closed, how far it is scrolled. Views of one run
// differ only in this. No DOM: the canvas draws it, the chrome reads its signals, keys and pointer call its methods.

import { computed, effect, type Signal, signal, untracked } from "@preact/signals";
import * as scale from "../layout/time-scale";
import { ALL_ROWS, type Arrange, isMapOfMany, isOpen, LayoutBuilder } from "../layout/layout-builder";
import type { Grouping } from "../layout/groups";
import { AXIS_HEIGHT } from "../layout/sizes";
import { EMPTY, type Layout, type Track } from "../layout/tracks";
import type { KernelConnection } from "../kernel/connection";
import type { Store } from "../store/store";
import type { Paint } from "../theme/theme";
import type { Row } from "../wire/rows";
import { recall } from "./browser-memory";
import type { WriteBelow } from "./cells";
import { nextProblem } from "../store/problems";
import { keepShape, openingShape, recallShape, type Shape } from "./opening-shape";
import { Search } from "./search";
import { nextInTime, nextRunning, nextSlowest, scrollToRunning, spansOf } from "./walk";

const EDGE_OVER = 20;
const EDGE_RUNNING = 28;
const EDGE_GHOSTS = 136;

/** What opens below the toolbar: how the run is shown, or all else. */
export type Panel = "view" | "more";

/** What a row has in a column: the attributes of its cell, and its text. */
export interface Cell {
  readonly class: string;
  readonly style: string;
  readonly title: string;
  readonly children: string;
}

/** Where a page keeps the columns, lane and colours that a person wants, as long as it is open. */
export const LOOK_KEY = "ensemble-timeline-look";

/** What the button beside the name of a row is made of. */
export type PinButton = Readonly<Record<string, unknown>>;

export class View {
  readonly layout = signal<Layout>(EMPTY);
  /** The span that was selected last: its details are shown, and steps begin at it. */
  readonly selected = computed<string | null>(() => this.store.selection.spans.value.at(-1) ?? null);
  /** All that is selected. */
  readonly selectedSpans = computed<ReadonlySet<string>>(() => new Set(this.store.selection.spans.value));
  readonly hovered = signal<string | null>(null);
  readonly isDrawerOpen = signal(false);
  /** The tab of the drawer that a person chose last. */
  readonly tab = signal("summary");
  readonly collapsed = signal<ReadonlySet<string>>(new Set());
  /** What the rows are grouped by; null: by phase and task. */
  readonly grouping = signal<Grouping | null>(null);
  /** What arranges them so, which is loaded late. */
  readonly arrange = signal<Arrange | null>(null);
  /** The rows that stay on top. */
  readonly pinned = signal<ReadonlySet<string>>(new Set());
  /** The button that keeps a row there, which is loaded late; null for rows that have none. */
  readonly pin = signal<((track: Track, isCurrent: boolean) => PinButton | null) | null>(null);
  /** The rows that a person has closed among those that a search leaves: at first they are all open. */
  readonly #closedFound = signal<ReadonlySet<string>>(new Set());
  readonly follow = signal<scale.FollowMode>("fit");
  /** What fits the run with the time folded in which nothing was done but to make a model ready, which is loaded late; null where there is none. */
  readonly fold = signal<typeof scale.fitRun | null>(null);
  /** Rows that run now are scrolled into sight, until a person scrolls, or selects something. */
  readonly isFollowingRows = signal(true);
  readonly isCriticalShown = signal(false);
  /** Who waits for whom is shown of all rows. */
  readonly areArrowsShown = signal(false);
  /** What draws that, as `draw/links` has it, which is loaded late. */
  readonly drawLinks = signal<unknown>(null);
  /** The shape that a person chose here; null: as the run opens. */
  readonly chosenShape = signal<Shape | null>(null);
  readonly #runId = computed(() => this.present.run.value?.run_id);
  readonly #recalledShape = computed(() => this.#runId.value && recallShape(this.#runId.value));
  readonly shape = computed<Shape>(() => this.chosenShape.value ?? (this.#recalledShape.value || openingShape(this.present.run.value)));
  /** Of what stands in place of the bars: does what a key means there, and says whether it means something. */
  readonly steps = signal<((key: string) => boolean) | null>(null);
  /** In the graph, each item, row and round is a node of its own. */
  readonly isExpanded = signal(false);
  readonly panel = signal<Panel | null>(null);
  readonly areKeysShown = signal(false);
  /** Which columns, lane and colours a person wants (W33), as `explore/look` writes it; empty as long as nobody said so. */
  readonly look = signal(rememberedLook());
  /** What stands in the columns of a row: the attributes of each cell, as the part that is loaded for them has it. */
  readonly cells = signal<((track: Track) => readonly Cell[]) | null>(null);
  readonly paint = signal<Paint | null>(null);
  /** The playhead stands over the chart, and moves on. */
  readonly hasPlayhead = signal(false);
  readonly isPlaying = signal(false);
  readonly search: Search;
  /** Writes a cell below the one that shows this view, and runs nothing; null where there are no cells. */
  writeBelow: WriteBelow = null;
  /** Shows another run in a place of this page, as this one is shown, until a signal ends it. */
  mount: ((place: HTMLElement, connection: KernelConnection, end: AbortSignal) => View) | null = null;
  readonly scrollTop = signal(0);
  /** Pixels of the chart above the rows: the axis, and what stands below it. */
  readonly head = signal(AXIS_HEIGHT);
  /** Pixels of the chart: its width, and the height that rows have below its head. */
  readonly width = signal(600);
  readonly viewport = signal(0);
  /** The pointer has been at the names of the rows, or at a bar. */
  readonly isVisited = signal(false);
  /** There are more rows than the chart is high. */
  readonly isScrolling = signal(false);
  /** The height of the rows on top that do not scroll: of those that are pinned, as many as leave room for others. */
  readonly fixed = computed(() => {
    const [{ value: layout }, most] = [this.layout, this.viewport.value * 0.6];
    return layout.pinnedHeight > most ? (layout.tracks[layout.indexAt(most)]?.y ?? 0) : layout.pinnedHeight;
  });
  /** The run's age as shown, a few times a second while it runs. */
  readonly age = signal(0);
  readonly window = signal<scale.TimeWindow>({ from: 0, to: 1000 });
  readonly selectedRow = computed<Row | undefined>(() => {
    this.store.version.value;
    return this.selected.value === null ? undefined : this.store.row(this.selected.value);
  });

  /** The spans that stand out, while the others are dimmed: what is looked for, or the critical path; null: all alike. */
  readonly highlighted = computed<ReadonlySet<string> | null>(() => {
    if (this.search.isActive) return this.search.spans.value;
    if (!this.isCriticalShown.value) return null;
    this.store.version.value;
    const critical = [...this.store.rows()].filter((row) => row.critical);
    // Which spans those are is known once the run is over.
    return critical.length > 0 ? new Set(critical.map((row) => row.span_id)) : null;
  });
  /** The rows that hold something that stands out; null: all alike. */
  readonly highlightedRows = computed<ReadonlySet<string> | null>(() => {
    const spans = this.highlighted.value;
    return spans && new Set([...spans].map((span) => this.store.ownerOf(span)));
  });

  readonly #layoutBuilder = new LayoutBuilder();
  /** What was selected here last, or seen here. */
  #ownSpans: readonly string[] = [];

  /** What is shown: the run as it is, or as it was at the time that is selected. */
  get store(): Store {
    return this.present.past.value ?? this.present;
  }

  /** The time at which the run is shown, in milliseconds from its start; null: as it is. */
  get time(): Signal<number | null> {
    return this.present.selection.time;
  }

  /** The stretch of time that a person marked, in milliseconds from the start of the run. */
  get range(): Signal<scale.TimeWindow | null> {
    return this.store.selection.range;
  }

  /** What a task or phase has been through. */
  lookAt(span: string): Pick<Track, "marks" | "errors"> | undefined {
    const track = this.layout.value.track(span);
    return track ?? this.#layoutBuilder.look(span) ?? undefined;
  }

  /** `present`: the run as it is known. */
  constructor(readonly present: Store, end: AbortSignal) {
    this.search = new Search(this);
    const stop = effect(() => {
      const { store } = this;
      store.version.value;
      const rows = this.search.shownRows.value;
      const spans = this.search.spans.value;
      const found = rows && spans ? { rows, spans } : null;
      this.layout.value = this.#layoutBuilder.build(store, this.#folds.value, found, this.pinned.value, this.arrange.value);
      untracked(() => this.keepScroll());
    });
    const stopOpening = effect(() => {
      // Another search opens what was closed in the one before.
      this.search.words.value;
      this.search.kinds.value;
      this.search.status.value;
      this.#closedFound.value = new Set();
    });
    this.#ownSpans = present.selection.spans.value;
    const stopFollowing = effect(() => {
      const spans = present.selection.spans.value;
      untracked(() => this.#followSelection(spans));
    });
    end.addEventListener("abort", () => {
      stop();
      stopOpening();
      stopFollowing();
    });
  }

  /** Moves the window along with the run at its age `now`, unless the person took it over. */
  followRun(now: number): void {
    const [{ value: follow }, extent] = [this.follow, this.#extent(now)];
    if (follow === "now") this.#show(scale.followEnd(this.window.value, extent));
    else if (follow !== "off") this.#show(((follow === "fit" && this.fold.value) || scale.fitRun)(extent));
    if (this.isFollowingRows.value && this.store.isTicking) {
      this.#scrollTo(scrollToRunning(this.layout.value, this.scrollTop.value, this.viewport.value, this.fixed.value));
    }
  }

  #extent(now: number): scale.Extent {
    return { end: now, width: this.width.value, margin: this.freePixels, isOver: this.present.isOver };
  }

  /** The run's age at this moment, by the clock of this page. */
  get now(): number {
    return this.present.elapsed(performance.now());
  }

  /** Pixels kept free right of the end: for what has not begun, while it still may. */
  get freePixels(): number {
    if (this.present.isOver) return EDGE_OVER;
    const hasGhosts = this.store.run.value?.status !== "running" || hasPending(this.layout.value);
    return Math.min(hasGhosts ? EDGE_GHOSTS : EDGE_RUNNING, this.width.value * 0.4);
  }

  /** Shows the whole run; where it is folded, as long as it was. */
  fit(): void {
    this.follow.value = this.window.value.folds ? "all" : "fit";
  }

  /** Back to now, at the zoom that the person chose; of a run that is over, all of it. */
  goLive(): void {
    this.follow.value = this.present.isOver ? "fit" : "now";
    this.isFollowingRows.value = true;
  }

  /** True while the run goes on without this view. */
  get isAway(): boolean {
    const isScrolledAway = !this.isFollowingRows.value && this.layout.value.height > this.viewport.value;
    return this.store.isTicking && (this.follow.value === "off" || isScrolledAway);
  }

  zoom(x: number, factor: number, now: number): void {
    this.#take(scale.zoom(this.window.value, x, factor, this.#extent(now)));
  }

  pan(pixels: number, now: number): void {
    this.#take(scale.pan(this.window.value, pixels, this.#extent(now)));
  }

  /** Fits one span, as a double-click does. */
  focus(row: Row, now: number): void {
    if (row.start_ms == null) return this.fit();
    this.#take(scale.fitSpan(row.start_ms, row.end_ms ?? now, this.#extent(now)));
  }

  /** Fits the selection, or the marked range, or without either the run. */
  fitSelection(now: number): void {
    const [row, range] = [this.selectedRow.value, this.range.value];
    if (row) this.focus(row, now);
    else if (range) this.fitRange(now);
    else this.fit();
  }

  /** Fits the marked range. */
  fitRange(now: number): void {
    if (this.range.value) this.show(this.range.value, now);
  }

  /** Shows a stretch of time, as far as the run goes; all of it as `fit` does. */
  show(window: scale.TimeWindow, now: number): void {
    const [next, all] = [scale.within(window, this.#extent(now)), this.whole(now)];
    if (next.to - next.from < all.to) this.#take(next);
    else this.fit();
  }

  /** What is shown of the whole run. */
  whole(now: number): scale.TimeWindow {
    return scale.fitRun(this.#extent(now));
  }

  /** Selects a span in place of what was selected; null: nothing. */
  select(span: string | null): void {
    this.selectAll(span === null ? [] : [span]);
  }

  /** Selects a span besides what is selected; one that is, no more. */
  selectAlso(span: string): void {
    const { spans } = this.store.selection;
    this.selectAll(spans.value.includes(span) ? spans.value.filter((one) => one !== span) : [...spans.value, span]);
  }

  selectAll(spans: readonly string[]): void {
    this.#ownSpans = spans;
    this.store.selection.spans.value = spans;
    if (spans.length > 0) this.isFollowingRows.value = false;
  }

  /** What another view or the kernel has selected comes into sight here, too. */
  #followSelection(spans: readonly string[]): void {
    if (spans === this.#ownSpans) return;
    this.#ownSpans = spans;
    if (spans.length === 0) return;
    this.isFollowingRows.value = false;
    this.reveal();
  }

  /** Marks the time between two moments, which may stand in any order, as far as the run goes. */
  mark(one: number, other: number, now: number): void {
    const end = this.present.isOver ? now : Math.max(now, 0);
    const [from, to] = [Math.max(0, Math.min(one, other)), Math.min(end, Math.max(one, other))];
    this.range.value = to > from ? { from, to } : null;
  }

  /** Moves one side of the marked range to the selection, or to the edge of the window; the other side stays. */
  markSide(side: "from" | "to", now: number): void {
    const row = this.selectedRow.value;
    const { range, window } = this;
    const at = side === "from" ? (row?.start_ms ?? window.value.from) : (row?.start_ms != null ? (row.end_ms ?? now) : window.value.to);
    const other = side === "from" ? (range.value?.to ?? now) : (range.value?.from ?? 0);
    if (side === "from" ? at < other : at > other) this.mark(at, other, now);
    else this.mark(at, side === "from" ? now : 0, now);
  }

  /** Selects a span from elsewhere (a chip, a link): opens what it is in, scrolls and pans it into sight, opens the drawer. */
  goTo(span: string): void {
    if (!this.store.row(span)) return this.layout.value.track(span) && this.#step(span);
    const owner = this.store.ownerOf(span);
    if (this.search.shownRows.value?.has(owner) === false) this.search.isDimming.value = true;
    for (const around of this.#around(span)) if (around !== owner && !this.#isOpen(around)) this.toggle(around);
    this.select(span);
    this.isDrawerOpen.value = true;
    this.reveal();
  }

  /** What a person has closed, or opened where much is below a row. */
  get #folds(): Signal<ReadonlySet<string>> {
    return this.search.shownRows.value ? this.#closedFound : this.collapsed;
  }

  #isOpen(around: string): boolean {
    const row = this.store.row(around);
    const folds = this.#folds.value;
    if (around === ALL_ROWS) return this.search.shownRows.value !== null || folds.has(around);
    return row && !this.search.shownRows.value ? isOpen(row, folds) : !folds.has(around);
  }

  /** The run can be looked back at: it is over, and its times are known. */
  get hasPast(): boolean {
    const { present: whole } = this;
    if (!whole.isOver || !whole.run.value?.elapsed_ms) return false;
    for (const row of whole.rows()) if (row.start_ms != null) return true;
    return false;
  }

  /** Puts the playhead over the chart, or away. */
  togglePlayhead(): void {
    this.hasPlayhead.value = !this.hasPlayhead.value;
    if (this.hasPlayhead.value) return;
    this.isPlaying.value = false;
    this.time.value = null;
  }

  /** Plays a run that is over, or stops that. */
  togglePlay(): void {
    if (!this.present.isOver) return;
    this.hasPlayhead.value = true;
    this.isPlaying.value = !this.isPlaying.value;
  }

  /** Shows the run in this shape, here and wherever it is opened again. */
  showAs(shape: Shape): void {
    this.chosenShape.value = shape;
    if (this.#runId.value) keepShape(this.#runId.value, shape);
  }

  /** Shows the run in this shape, or again as bars. */
  toggleShape(shape: Shape): void {
    this.showAs(this.shape.value === shape ? "chart" : shape);
  }

  /** Opens what stands below the toolbar, or closes it. */
  togglePanel(panel: Panel): void {
    this.panel.value = this.panel.value === panel ? null : panel;
  }

  /** Closes or opens the row of a phase, or of a task that handed work on. */
  toggle(row: string): void {
    const folds = new Set(this.#folds.value);
    if (!folds.delete(row)) folds.add(row);
    this.#folds.value = folds;
    this.keepScroll();
  }

  /** The rows of which something is on screen. */
  get shownTracks(): Track[] {
    const [layout, top, fixed] = [this.layout.value, this.scrollTop.value, this.fixed.value];
    return [...layout.between(0, fixed), ...layout.between(top + fixed, top + this.viewport.value)];
  }

  /** The height in the layout of what stands `y` pixels below the upper edge of the chart. */
  downAt(y: number): number {
    const down = y - this.head.value;
    return down < this.fixed.value ? down : down + this.scrollTop.value;
  }

  /** Scrolls as a person does: from then on the rows stay where they are. */
  scroll(top: number): void {
    if (Math.abs(top - this.scrollTop.value) < 1) return;
    this.isFollowingRows.value = false;
    this.#scrollTo(top);
  }

  /** Keeps the scroll within the rows, after either changed. */
  keepScroll(): void {
    this.#scrollTo(this.scrollTop.value);
  }

  #scrollTo(top: number): void {
    const most = Math.max(0, this.layout.value.height - this.viewport.value);
    this.scrollTop.value = Math.min(Math.max(0, top), most);
  }

  /** Brings the selection into sight, if it isn't: scrolls to its row, and pans to its time. */
  reveal(): void {
    const track = this.selectedTrack;
    if (!track) return;
    const { value: fixed } = this.fixed;
    const [top, bottom] = [this.scrollTop.value + fixed, this.scrollTop.value + this.viewport.value];
    if (track.y < fixed) {
      // It is always in sight.
    } else if (track.y < top) this.#scrollTo(track.y - fixed);
    else if (track.y + track.height > bottom) this.#scrollTo(Math.min(track.y, track.y + track.height - this.viewport.value));
    const row = this.selectedRow.value;
    if (row?.start_ms == null || this.follow.value === "fit") return;
    this.bring(row.start_ms, row.end_ms ?? this.now);
  }

  /** Pans so that a stretch of time is in sight, if it isn't. */
  bring(start: number, stop: number): void {
    const next = scale.bringIn(this.window.value, start, stop, this.#extent(this.now));
    if (next !== this.window.value) this.#take(next);
  }

  /** The track that holds the selection: its own, or the closed one that it is in. */
  get selectedTrack(): Track | undefined {
    return this.selected.value === null ? undefined : this.trackOf(this.selected.value);
  }

  /** The track that a span is drawn in. */
  trackOf(span: string): Track | undefined {
    const layout = this.layout.value;
    const own = layout.track(span);
    if (own) return own;
    for (const around of this.#around(span)) {
      const track = layout.track(around);
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

  /** Selects the row that stands a page further down or up. */
  movePage(step: 1 | -1): void {
    const { tracks } = this.layout.value;
    const from = this.selectedTrack ?? tracks.find((track) => track.y >= this.scrollTop.value);
    if (!from) return;
    const y = from.y + step * Math.max(this.viewport.value - this.fixed.value - from.height, from.height);
    const there = tracks.findIndex((track) => track.y + track.height > y);
    const to = there < 0 ? tracks.length - 1 : there;
    this.moveRow(to - (this.selectedTrack ? tracks.indexOf(this.selectedTrack) : -1));
  }

  /** Selects the span `step` places away in the selected track, in the order of time; the row itself comes first. */
  moveSpan(step: number): void {
    const track = this.selectedTrack;
    if (!track) return this.moveRow(1);
    const spans = spansOf(track);
    const at = spans.indexOf(this.selected.value as string);
    this.#step(spans[Math.min(Math.max(at + step, 0), spans.length - 1)]);
  }

  /** Selects the next or the previous span in time, in whatever row it is. */
  moveInTime(step: 1 | -1): void {
    this.#step(nextInTime(this.layout.value, this.selected.value, step));
  }

  /** To the next span that is looked for; while nothing is, to the next error. */
  goToNext(step: 1 | -1 = 1): void {
    const next = this.search.isActive ? this.search.next(this.selected.value, step) : nextProblem(this.store, "error", this.selected.value);
    this.#jump(next);
  }

  goToSlowest(): void {
    this.#jump(nextSlowest(this.layout.value, this.selected.value));
  }

  goToRunning(): void {
    this.#jump(nextRunning(this.layout.value, this.selectedTrack)?.id);
  }

  /** As `goTo`, but leaves the drawer as it is. */
  #jump(span: string | null | undefined): void {
    const isOpen = this.isDrawerOpen.value;
    if (!span) return;
    this.goTo(span);
    this.isDrawerOpen.value = isOpen;
  }

  #step(span: string | undefined): void {
    if (span === undefined) return;
    this.select(span);
    this.reveal();
  }

  /** The rows that a span is in, innermost first: those of its task, of who handed that on, and of its phase. */
  *#around(span: string): Generator<string> {
    let at: string | null | undefined = span;
    for (let steps = 0; at && steps < 64; steps += 1) {
      const owner: string = this.store.ownerOf(at);
      yield owner;
      at = this.store.row(owner)?.parent_id;
    }
    if (isMapOfMany(this.store)) yield ALL_ROWS;
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

/** Frames without an origin of their own have no storage. */
function rememberedLook(): string {
  const look = recall("sessionStorage", LOOK_KEY);
  return typeof look === "string" ? look : "";
}

const hasPending = (layout: Layout): boolean => layout.tracks.some((track) => track.row.status === "pending");
