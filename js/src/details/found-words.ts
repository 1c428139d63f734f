// Marks words in what is shown without touching it (W120): the browser paints ranges of text, where it can.

const NAME = "et-found-words";
const MOST_RANGES = 2000;

interface Highlights {
  set(name: string, highlight: unknown): void;
  delete(name: string): void;
}

/** Marks all places of these words in a part of the page; none: marks nothing any more. */
export function markWords(place: Element, words: string): void {
  const { highlights } = (globalThis as { CSS?: { highlights?: Highlights } }).CSS ?? {};
  const Highlight = (globalThis as { Highlight?: new (...ranges: Range[]) => unknown }).Highlight;
  if (!highlights || !Highlight) return;
  highlights.delete(NAME);
  const wanted = words.toLowerCase();
  if (!wanted) return;
  const ranges: Range[] = [];
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < MOST_RANGES; node = walker.nextNode()) {
    const text = (node as Text).data.toLowerCase();
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  if (ranges.length > 0) highlights.set(NAME, new Highlight(...ranges));
}
