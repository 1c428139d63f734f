// The blocks of a Markdown text: headings, lists, code, tables, quotes. Line by line, each a fixed number of times for each
// level of nesting, of which there are only so many; what is deeper is text. Inline marks are read when a block is shown.
// Two things of CommonMark are left out, since models don't mean them: code by mere indentation, headings by underlining.

export type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "paragraph"; text: string }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; start: number | null; isTight: boolean; items: Block[][] }
  | { kind: "table"; head: string[]; aligns: Align[]; rows: string[][] }
  | { kind: "rule" };
export type Align = "left" | "center" | "right";

/** A block at the top of a text, with the lines it was made of: what it is compared by when the text grows. */
export interface TopBlock {
  block: Block;
  source: string;
}

const DEEPEST = 8;
const MOST_ITEMS = 100;
const FENCE = /^ *(`{3,}(?=[^`]*$)|~{3,})\s*([^\s`]*)/;
const HEADING = /^ *(#{1,6})(?:[ \t]+|$)/;
const QUOTE = /^ *> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const TABLE_LINE = /^\|?:?-+:?(?:\|:?-+:?)*\|?$/;

/** A text, which may grow: read only as far as it is shown, and never read again where it is finished. */
export class MarkdownText {
  #text = "";
  #blocks: TopBlock[] = [];
  /** Where the last block begins, and where the reader is. */
  #last = 0;
  #end = 0;
  #reader = new BlockReader([], 0);

  constructor(text: string) {
    this.update(text);
  }

  update(found: string): void {
    const text = found.includes("\r") ? found.replace(/\r\n?/g, "\n") : found;
    if (text === this.#text) return;
    const isMore = text.startsWith(this.#text);
    // More text may change the last block, and no other.
    this.#blocks = isMore ? this.#blocks.slice(0, -1) : [];
    this.#end = this.#last = isMore ? this.#last : 0;
    this.#text = text;
    this.#reader = new BlockReader(text.slice(this.#end).split("\n"), 0);
  }

  /** The blocks up to character `size` at least, as far as there are so many. */
  readTo(size: number): readonly TopBlock[] {
    while (this.#end < size) {
      const begin = this.#reader.at;
      const block = this.#reader.next();
      if (!block) break;
      const source = this.#reader.lines.slice(begin, this.#reader.at).join("\n");
      this.#blocks.push({ block, source });
      this.#last = this.#end;
      this.#end += source.length + 1;
    }
    return this.#blocks;
  }
}

function parseLines(lines: readonly string[], depth: number): Block[] {
  const reader = new BlockReader(lines, depth);
  const blocks: Block[] = [];
  for (let block = reader.next(); block; block = reader.next()) blocks.push(block);
  return blocks;
}

class BlockReader {
  at = 0;

  constructor(readonly lines: readonly string[], readonly depth: number) {}

  /** The next block, and `at` behind it; null at the end. */
  next(): Block | null {
    while (this.at < this.lines.length && isBlank(this.#line())) this.at += 1;
    if (this.at >= this.lines.length) return null;
    const line = this.#line();
    const fence = FENCE.exec(line);
    if (fence) return this.#readFence(fence[1] as string, fence[2] ?? "", indentOf(line));
    const heading = HEADING.exec(line);
    if (heading) {
      this.at += 1;
      const text = line.slice(heading[0].length).trim();
      return { kind: "heading", level: (heading[1] as string).length, text: text.replace(/(?:^|[ \t])#+$/, "") };
    }
    if (isRule(line)) {
      this.at += 1;
      return { kind: "rule" };
    }
    if (this.depth < DEEPEST && QUOTE.test(line)) return this.#readQuote();
    const item = ITEM.exec(line);
    if (this.depth < DEEPEST && item) return this.#readList(item[2] as string);
    return this.#readTable() ?? this.#readParagraph();
  }

  #line(at = this.at): string {
    const line = this.lines[at] ?? "";
    return /^ *\t/.test(line) ? line.replace(/^[ \t]+/, (lead) => lead.replace(/\t/g, "    ")) : line;
  }

  #readFence(fence: string, language: string, indent: number): Block {
    const end = new RegExp(`^ *[${fence[0]}]{${fence.length},} *$`);
    const code: string[] = [];
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = indent > 0 ? this.#line() : (this.lines[this.at] as string);
      if (end.test(line)) {
        this.at += 1;
        break;
      }
      code.push(line.slice(Math.min(indent, indentOf(line))));
    }
    return { kind: "code", language, text: code.join("\n") };
  }

  #readQuote(): Block {
    const inside: string[] = [];
    for (; this.at < this.lines.length; this.at += 1) {
      const line = this.#line();
      const mark = QUOTE.exec(line);
      // A paragraph goes on in lines without the mark.
      if (!mark && (isBlank(line) || isBlank(inside[inside.length - 1] ?? "") || beginsBlock(line) || ITEM.test(line))) break;
      inside.push(mark ? line.slice(mark[0].length) : line);
    }
    return { kind: "quote", blocks: parseLines(inside, this.depth + 1) };
  }

  #readList(marker: string): Block {
    const type = listType(marker);
    const items: Block[][] = [];
    let isTight = true;
    // A very long list is several, so that no block takes long; each goes on with its own number.
    while (this.at < this.lines.length && items.length < MOST_ITEMS) {
      const found = ITEM.exec(this.#line());
      if (!found || listType(found[2] as string) !== type || isRule(this.#line())) break;
      const { lines, isLoose, hasGap } = this.#readItem(found);
      items.push(parseLines(lines, this.depth + 1));
      const goesOn = listType(ITEM.exec(this.#line())?.[2] ?? "") === type;
      if (isLoose || (hasGap && goesOn)) isTight = false;
    }
    return { kind: "list", start: type === "-" ? null : Number.parseInt(marker, 10), isTight, items };
  }

  /** The lines of one item without their indentation, and whether blank lines stand in it or behind it. */
  #readItem(found: RegExpExecArray): { lines: string[]; isLoose: boolean; hasGap: boolean } {
    const [whole, indent = "", marker = "", spaces = ""] = found;
    const content = indent.length + marker.length + (spaces.length > 4 || spaces === "" ? 1 : spaces.length);
    // Models indent by two below numbers, too.
    const least = Math.min(content, indent.length + 2);
    const lines = [this.#line().slice(Math.min(content, whole.length))];
    let isLoose = false;
    let blanks = 0;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.#line();
      if (isBlank(line)) {
        blanks += 1;
        continue;
      }
      const isInside = indentOf(line) >= least;
      if (!isInside && (blanks > 0 || beginsBlock(line) || ITEM.test(line))) break;
      for (; blanks > 0; blanks -= 1) {
        lines.push("");
        isLoose = true;
      }
      lines.push(line.slice(Math.min(content, indentOf(line))));
    }
    return { lines, isLoose, hasGap: blanks > 0 };
  }

  #readTable(): Block | null {
    const [line, below] = [this.#line(), this.#line(this.at + 1)];
    if (!line.includes("|") || !below.includes("-") || !isTableLine(below)) return null;
    const head = cellsOf(line);
    const aligns = cellsOf(below).map(alignOf);
    if (head.length !== aligns.length) return null;
    const rows: string[][] = [];
    for (this.at += 2; this.at < this.lines.length && !isBlank(this.#line()) && !beginsBlock(this.#line()); this.at += 1) {
      rows.push(cellsOf(this.#line()).slice(0, head.length));
    }
    return { kind: "table", head, aligns, rows };
  }

  #readParagraph(): Block {
    const begin = this.at;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.#line();
      if (isBlank(line)) break;
      if (beginsBlock(line) || (this.depth < DEEPEST && /^ *(?:[-*+]|1[.)]) +\S/.test(line))) break;
      if (line.includes("|") && isTableLine(this.#line(this.at + 1))) break;
    }
    return { kind: "paragraph", text: this.#trimmed(begin) };
  }

  #trimmed(begin: number): string {
    return this.lines.slice(begin, this.at).map((line) => line.trim()).join("\n");
  }
}

const isBlank = (line: string): boolean => line.trim() === "";
const indentOf = (line: string): number => line.length - line.trimStart().length;
const listType = (marker: string): string => (/^\d/.test(marker) ? marker.slice(-1) : marker && "-");
const alignOf = (cell: string): Align =>
  cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left";

/** Under the head of a table. Spaces would make an expression try many ways, so they go first, here and below. */
const isTableLine = (line: string): boolean => TABLE_LINE.test(line.replace(/ /g, ""));
const isRule = (line: string): boolean => /^(?:\*{3,}|-{3,}|_{3,})$/.test(line.replace(/ /g, ""));
const beginsBlock = (line: string): boolean => FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || isRule(line);

/** The cells of a line of a table; a bar behind a backslash is a bar. */
function cellsOf(line: string): string[] {
  const cells: string[] = [];
  let cell = "";
  const inside = line.trim().replace(/^\|/, "");
  for (let at = 0; at < inside.length; at += 1) {
    if (inside[at] === "\\" && inside[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (inside[at] === "|") {
      cells.push(cell.trim());
      cell = "";
    } else cell += inside[at];
  }
  return cell.trim() || cells.length === 0 ? [...cells, cell.trim()] : cells;
}
