// Inline Markdown: emphasis, code, links and images within a paragraph, a heading or a cell. Each character is looked at a
// fixed number of times, so a text of stars or brackets takes no longer than any other. What it does not know stays text,
// HTML above all. The libraries either make strings of HTML, which would have to be injected, or weigh as much as the rest of
// the drawer.

export type Inline =
  | string
  | { kind: "strong" | "em" | "strike" | "link"; children: Inline[]; address?: string }
  | { kind: "code" | "image"; text: string };

type Mark = "strong" | "em" | "strike" | "link";

/** A piece of the text between others: plain, code, or a run of marks that may open or close emphasis. */
interface Token {
  text: string;
  leaf?: { kind: "code" | "image"; text: string };
  /** What ends here, the innermost first, and what begins here, likewise. */
  closes: Mark[];
  opens: { mark: Mark; address?: string }[];
}

interface Run {
  token: Token;
  char: string;
  left: number;
  canOpen: boolean;
  canClose: boolean;
}

/** Deeper emphasis than a person would write is shown without its marks. */
const DEEPEST = 16;
const LONGEST_ADDRESS = 2000;
const DEEPEST_PARENTHESES = 4;
const SPECIAL = /[\\`*_~[\]!]/g;
const ESCAPABLE = /[!-/:-@[-`{-~]/;

export function parseInline(text: string): Inline[] {
  return toTree(tokenize(text));
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const runs: Run[] = [];
  const brackets: { token: Token; runs: number; tokens: number; isImage: boolean }[] = [];
  const ticks = findTicks(text);
  const add = (piece: string): Token => {
    const token: Token = { text: piece, closes: [], opens: [] };
    tokens.push(token);
    return token;
  };
  let at = 0;
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(text)?.index ?? text.length;
    if (next > at) add(text.slice(at, next));
    at = next;
    const char = text[at];
    if (char === undefined) break;
    if (char === "\\") {
      const escaped = text[at + 1];
      const isEscape = escaped !== undefined && ESCAPABLE.test(escaped);
      add(isEscape ? escaped : "\\");
      at += isEscape ? 2 : 1;
    } else if (char === "`") {
      const size = runLength(text, at);
      const places = ticks.get(size) ?? [];
      while ((places.at(-1) ?? Infinity) <= at) places.pop();
      const close = places.at(-1);
      if (close === undefined) add(text.slice(at, at + size));
      else add("").leaf = { kind: "code", text: trimCode(text.slice(at + size, close)) };
      at = (close ?? at) + size;
    } else if (char === "[" || (char === "!" && text[at + 1] === "[")) {
      const isImage = char === "!";
      brackets.push({ token: add(isImage ? "![" : "["), runs: runs.length, tokens: tokens.length, isImage });
      at += isImage ? 2 : 1;
    } else if (char === "!") {
      add("!");
      at += 1;
    } else if (char === "]") {
      const opener = brackets.pop();
      const address = opener ? readAddress(text, at + 1) : null;
      if (!opener || !address) {
        add("]");
        at += 1;
        continue;
      }
      pair(runs, opener.runs);
      runs.length = opener.runs;
      opener.token.text = "";
      if (opener.isImage) {
        const alt = tokens.splice(opener.tokens).map((token) => token.leaf?.text ?? token.text).join("");
        opener.token.leaf = { kind: "image", text: alt };
      } else {
        opener.token.opens.push({ mark: "link", address: address.text });
        add("").closes.push("link");
      }
      at = address.end;
    } else {
      const size = runLength(text, at);
      runs.push(...readRun(text, at, size, add(text.slice(at, at + size))));
      at += size;
    }
  }
  pair(runs, 0);
  return tokens;
}

function runLength(text: string, at: number): number {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

/** Where runs of backticks are, by their length, the last one first. */
function findTicks(text: string): Map<number, number[]> {
  const places = new Map<number, number[]>();
  for (const { 0: run, index } of [...text.matchAll(/`+/g)].reverse()) {
    if (!places.get(run.length)?.push(index)) places.set(run.length, [index]);
  }
  return places;
}

const trimCode = (code: string): string => {
  const line = code.replace(/\n/g, " ");
  return line.startsWith(" ") && line.endsWith(" ") && line.trim() !== "" ? line.slice(1, -1) : line;
};

/** Reads `(address "title")` behind a bracket. Few parentheses in each other, so that no text is read over and over. */
function readAddress(text: string, at: number): { text: string; end: number } | null {
  if (text[at] !== "(") return null;
  let depth = 0;
  const last = Math.min(text.length, at + LONGEST_ADDRESS);
  for (let end = at; end < last && depth <= DEEPEST_PARENTHESES; end += 1) {
    const char = text[end];
    if (char === "\n") return null;
    if (char === "\\") end += 1;
    else if (char === "(") depth += 1;
    else if (char === ")" && (depth -= 1) === 0) {
      const inside = text.slice(at + 1, end).trim();
      const space = inside.search(/\s/);
      const title = space < 0 ? "" : inside.slice(space).trim();
      if (title && !/^(?:"[^"]*"|'[^']*')$/.test(title)) return null;
      const address = space < 0 ? inside : inside.slice(0, space);
      return { text: address.startsWith("<") && address.endsWith(">") ? address.slice(1, -1) : address, end: end + 1 };
    }
  }
  return null;
}

const isSpace = (char: string | undefined): boolean => char === undefined || /\s/.test(char);
const isWord = (char: string | undefined): boolean => char !== undefined && /[\p{L}\p{N}]/u.test(char);

/** Whether a run of marks may open or close emphasis: towards the words it is next to, and underscores not within a word. */
function readRun(text: string, at: number, size: number, token: Token): Run[] {
  const char = text[at] as string;
  const [before, after] = [text[at - 1], text[at + size]];
  const canOpen = !isSpace(after) && (char !== "_" || !isWord(before));
  const canClose = !isSpace(before) && (char !== "_" || !isWord(after));
  return char === "~" && size !== 2 ? [] : [{ token, char, left: size, canOpen, canClose }];
}

/**
 * Pairs the runs from `first` on. Openers stand on a stack for each mark; a closer takes from the top of its own, and what was
 * opened in between is closed off, so every run is put on and taken off once.
 */
function pair(runs: readonly Run[], first: number): void {
  const open: Run[] = [];
  const waiting = new Map<string, number>();
  for (let k = first; k < runs.length; k += 1) {
    const run = runs[k] as Run;
    while (run.canClose && run.left > 0 && (waiting.get(run.char) ?? 0) > 0) {
      const opener = takeOpener(open, waiting, run);
      if (!opener) break;
      const used = Math.min(opener.left, run.left, 2);
      const mark: Mark = run.char === "~" ? "strike" : used === 2 ? "strong" : "em";
      opener.token.opens.push({ mark });
      run.token.closes.push(mark);
      opener.left -= used;
      run.left -= used;
      if (opener.left > 0) {
        open.push(opener);
        waiting.set(opener.char, (waiting.get(opener.char) ?? 0) + 1);
      }
    }
    if (run.canOpen && run.left > 0) {
      open.push(run);
      waiting.set(run.char, (waiting.get(run.char) ?? 0) + 1);
    }
  }
  for (let k = first; k < runs.length; k += 1) {
    const { token, char, left } = runs[k] as Run;
    token.text = char.repeat(left);
  }
}

/** The nearest run of the same marks. CommonMark's rule of three for runs that open and close is left out: nobody writes such. */
function takeOpener(open: Run[], waiting: Map<string, number>, closer: Run): Run | null {
  for (let opener = open.pop(); opener; opener = open.pop()) {
    waiting.set(opener.char, (waiting.get(opener.char) ?? 1) - 1);
    if (opener.char === closer.char) return opener;
  }
  return null;
}

function toTree(tokens: readonly Token[]): Inline[] {
  const root: Inline[] = [];
  const around: { mark: Mark; into: Inline[] }[] = [];
  let skipped = 0;
  let into = root;
  const say = (text: string): void => {
    const last = into.length - 1;
    if (typeof into[last] === "string") into[last] += text;
    else if (text) into.push(text);
  };
  for (const { text, leaf, closes, opens } of tokens) {
    for (let k = 0; k < closes.length; k += 1) {
      if (skipped > 0) skipped -= 1;
      else if (around.length > 0) into = (around.pop() as { into: Inline[] }).into;
    }
    say(text);
    if (leaf) into.push(leaf);
    for (const { mark, address } of opens.reverse()) {
      if (around.length >= DEEPEST) {
        skipped += 1;
        continue;
      }
      const children: Inline[] = [];
      into.push(address === undefined ? { kind: mark, children } : { kind: mark, children, address });
      around.push({ mark, into });
      into = children;
    }
  }
  return root;
}
