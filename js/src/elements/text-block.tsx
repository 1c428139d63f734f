// A text as a person reads it: Markdown, a tree of JSON, or as it was written. A long one is folded; all of it comes in steps
// that are short enough for the page, and in pieces from the kernel where it is not here yet. Nothing a model says becomes
// markup, a link or an image (W6).

import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { formatExactCount } from "../wording/numbers";
import { JsonTree, parseJson } from "./json-tree";
import { BlockView } from "./markdown";
import { MarkdownText } from "./markdown-blocks";
import { choose, remembered } from "./remembered";

const FOLD_CHARS = 1200;
const FOLD_LINES = 60;
/** What is added in one step while all of a text is shown. */
const STEP_CHARS = 8000;
const LONGEST_BLOCK = 24_000;
const SLICE_CHARS = 6000;
/** Of a text that is still being written, so much of the end. */
const GROWING_CHARS = 16_000;
const FAR_CHARS = 2000;
const EXPECTED_LINE = 90;
const LINE_HEIGHT = 19;

const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
/** Whether texts are shown as Markdown and trees, or as they were written. */
export const isFormatted = remembered("formatted", true, isFlag);
export const setFormatted = (value: boolean): void => choose("formatted", isFormatted, value);

interface Props {
  text: string;
  /** How long the whole text is, where only its beginning is here. */
  length?: number;
  /** Asks for more of it; absent where there is no more to be had. */
  onMore?: (() => void) | undefined;
  /** In place of the rest, where there is no more to be had. */
  restIs?: string;
  /** Markdown or JSON; no Markdown; or as it was written, whatever a person chose. */
  kind?: "prose" | "code" | "plain" | undefined;
  isGrowing?: boolean | undefined;
  /** False where the place itself scrolls, so that nothing is folded a second time. */
  folds?: boolean;
}

export function TextBlock({ text, length = text.length, onMore, restIs = "", kind = "prose", isGrowing = false, folds = true }: Props): VNode {
  const [isOpen, setOpen] = useState(false);
  const [limit, setLimit] = useState(STEP_CHARS);
  // What was seen growing stays as it is when it ends: nothing folds up below the eyes of who reads it.
  const hasGrown = useRef(false);
  hasGrown.current ||= isGrowing;
  const isFoldable = folds && (text.length > FOLD_CHARS || hasLines(text, FOLD_LINES));
  const isFolded = isFoldable && !isOpen && !hasGrown.current;
  const wanted = isFolded ? FOLD_CHARS : limit;
  const isStepping = !isFolded && !isGrowing && limit < text.length;
  useEffect(() => {
    if (!isStepping) return undefined;
    const timer = setTimeout(() => setLimit(limit + STEP_CHARS));
    return () => clearTimeout(timer);
  }, [isStepping, limit]);
  const isShort = length > text.length;
  const isLoading = isOpen && isShort && !isStepping && onMore !== undefined;
  useEffect(() => {
    if (isLoading) onMore?.();
  }, [isLoading, text.length]);
  const isRendered = isFormatted.value && kind !== "plain";
  const json = isRendered && !isShort ? parseJson(text, isGrowing) : undefined;
  if (json) return <JsonTree value={json} isTable={kind === "prose"} isGrowing={isGrowing} />;
  return (
    <div class={kind === "prose" ? "et-block" : "et-block et-mono"} data-folded={isFolded} data-grows={isGrowing}>
      <Segments text={text} size={isGrowing ? Infinity : wanted} isProse={kind === "prose" && isRendered} isGrowing={isGrowing} />
      {isLoading && <p class="et-none" role="status">{`Loading… ${formatExactCount(text.length)} of ${formatExactCount(length)} characters`}</p>}
      {isShort && !onMore && restIs && !isFolded && <p class="et-none">{`${formatExactCount(length - text.length)} more characters: ${restIs}`}</p>}
      {(isFoldable || isShort) && !isGrowing && (
        <button class="et-more-button" aria-expanded={!isFolded} onClick={() => {
          if (isFolded) setLimit(STEP_CHARS);
          hasGrown.current = false;
          setOpen(isFolded);
        }}>
          {isFolded ? `Show all ${formatExactCount(length)} characters` : "Show less"}
        </button>
      )}
    </div>
  );
}

/** A part of a text that is shown as a whole. */
interface Part {
  readonly source: string;
  readonly isRaw: boolean;
  readonly element: VNode;
}

/**
 * The parts of a text up to `size`. Those that stay the same are the same elements, and one that a person has selected a part
 * of is only ever added to, so that updates leave selections alone.
 */
function Segments({ text, size, isProse, isGrowing }: { text: string; size: number; isProse: boolean; isGrowing: boolean }): VNode {
  const place = useRef<HTMLDivElement>(null);
  const parts = useRef<{ isProse: boolean; byPlace: Map<number, Part> }>({ isProse, byPlace: new Map() });
  const markdown = useRef(new MarkdownText(""));
  if (parts.current.isProse !== isProse) parts.current = { isProse, byPlace: new Map() };
  const { byPlace } = parts.current;
  const show = (k: number, source: string, isRaw: boolean, make: (isRaw: boolean) => VNode): VNode => {
    const known = byPlace.get(k);
    const staysRaw = isRaw || (known?.isRaw === true && holdsSelection(place.current?.querySelector(`[data-part="${k}"]`)));
    if (known?.source === source && known.isRaw === staysRaw) return known.element;
    const element = <div key={k} data-part={k} {...placeOf(source)}>{make(staysRaw)}</div>;
    byPlace.set(k, { source, isRaw: staysRaw, element });
    return element;
  };
  if (!isProse) {
    const start = isGrowing ? Math.max(0, text.length - GROWING_CHARS) : 0;
    // By their places in the text, so that what moves out of a growing one takes nothing else along.
    const from = Math.floor(start / SLICE_CHARS) * SLICE_CHARS;
    const slices = slice(text, from, size);
    return (
      <div ref={place} class="et-text et-plain">
        {from > 0 && <div>…</div>}
        {slices.map(({ at, words }) => show(at, words, true, () => <GrowingText text={words} />))}
      </div>
    );
  }
  markdown.current.update(text);
  const blocks = markdown.current.readTo(size);
  return (
    <div ref={place} class="et-text et-markdown">
      {blocks.map(({ block, source }, k) => {
        // The last block may still become another one, so it is shown as it comes.
        const isLast = isGrowing && k === blocks.length - 1;
        return show(k, source, isLast, (isRaw) => {
          if (isRaw) return <p><GrowingText text={source.replace(/^\n+/, "")} /></p>;
          // A single block of such a size would take the browser long.
          return source.length > LONGEST_BLOCK ? <div class="et-plain">{slice(source, 0, Infinity).map(({ words }) => <div {...placeOf(words)}><GrowingText text={words} /></div>)}</div> : <BlockView block={block} />;
        });
      })}
    </div>
  );
}

/** True while a person has selected something in a part of the page. */
export function holdsSelection(part: Element | null | undefined): boolean {
  const selection = document.getSelection();
  return part != null && selection !== null && !selection.isCollapsed && selection.containsNode(part, true);
}

/** The class and the expected height of a part: while it is out of sight, the browser need not lay out a large one. */
function placeOf(source: string): { class: string; style?: string } {
  if (source.length < FAR_CHARS) return { class: "et-part-of-text" };
  const height = Math.round((source.length / EXPECTED_LINE) * LINE_HEIGHT);
  return { class: "et-part-of-text et-far", style: `contain-intrinsic-size: auto ${height}px` };
}

/** A text node to which more is appended, because one that is replaced loses what a person selected in it. */
function GrowingText({ text }: { text: string }): VNode {
  const place = useRef<HTMLSpanElement>(null);
  const shown = useRef("");
  useLayoutEffect(() => {
    const span = place.current as HTMLSpanElement;
    const node = span.firstChild as Text | null;
    if (!node) span.append(text);
    else if (text.startsWith(shown.current)) node.appendData(text.slice(shown.current.length));
    else node.data = text;
    shown.current = text;
  }, [text]);
  return <span ref={place} />;
}

/** A text from `from` up to about `size`, in slices that end with a line, if lines are short enough. */
function slice(text: string, from: number, size: number): { at: number; words: string }[] {
  const slices: { at: number; words: string }[] = [];
  for (let at = from; at < text.length && at < size;) {
    const line = text.lastIndexOf("\n", at + SLICE_CHARS) + 1;
    const isLast = at + SLICE_CHARS >= text.length;
    const end = isLast ? text.length : from === 0 && line > at ? line : at + SLICE_CHARS;
    slices.push({ at, words: text.slice(at, end) });
    at = end;
  }
  return slices;
}

function hasLines(text: string, most: number): boolean {
  let found = 1;
  for (let at = text.indexOf("\n"); at >= 0 && found <= most; at = text.indexOf("\n", at + 1)) found += 1;
  return found > most;
}
