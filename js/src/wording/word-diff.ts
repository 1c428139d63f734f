// Two texts by words: what both have, what only the first has, and what only the second has. No DOM.

export interface Piece {
  readonly mark: "same" | "removed" | "added";
  readonly text: string;
}

const WORD = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
/** More cells than these take a page too long: what differs then is shown as a whole. */
const MOST_CELLS = 4_000_000;

/** The pieces in order: without the added ones they are the first text, without the removed ones the second. */
export function diffWords(before: string, after: string): Piece[] {
  const first = before.match(WORD) ?? [];
  const second = after.match(WORD) ?? [];
  let start = 0;
  while (start < first.length && start < second.length && first[start] === second[start]) start += 1;
  let tail = 0;
  while (tail < first.length - start && tail < second.length - start && first[first.length - 1 - tail] === second[second.length - 1 - tail]) tail += 1;
  const pieces: Piece[] = [];
  const add = (mark: Piece["mark"], text: string): void => {
    const last = pieces.at(-1);
    if (text === "") return;
    if (last?.mark === mark) pieces[pieces.length - 1] = { mark, text: last.text + text };
    else pieces.push({ mark, text });
  };
  add("same", first.slice(0, start).join(""));
  for (const { mark, text } of matchWords(first.slice(start, first.length - tail), second.slice(start, second.length - tail))) add(mark, text);
  add("same", first.slice(first.length - tail).join(""));
  return joinChanges(pieces);
}

/** The same, with what changed on both sides of a single space as one change. */
function joinChanges(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  let [removed, added] = ["", ""];
  const settle = (): void => {
    if (removed) joined.push({ mark: "removed", text: removed });
    if (added) joined.push({ mark: "added", text: added });
    [removed, added] = ["", ""];
  };
  pieces.forEach(({ mark, text }, k) => {
    if (mark === "removed") removed += text;
    else if (mark === "added") added += text;
    else if (text === " " && (removed || added) && k < pieces.length - 1) [removed, added] = [removed + text, added + text];
    else {
      settle();
      joined.push({ mark, text });
    }
  });
  settle();
  return joined;
}

/** By the longest common run of words in order. */
function* matchWords(first: readonly string[], second: readonly string[]): Generator<Piece> {
  const [rows, columns] = [first.length, second.length];
  if (rows * columns === 0 || rows * columns > MOST_CELLS) {
    yield { mark: "removed", text: first.join("") };
    yield { mark: "added", text: second.join("") };
    return;
  }
  const width = columns + 1;
  const common = new Uint16Array((rows + 1) * width);
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      const at = row * width + column;
      common[at] = first[row] === second[column]
        ? (common[at + width + 1] as number) + 1 : Math.max(common[at + width] as number, common[at + 1] as number);
    }
  }
  let [row, column] = [0, 0];
  while (row < rows || column < columns) {
    const at = row * width + column;
    if (row < rows && column < columns && first[row] === second[column]) {
      yield { mark: "same", text: first[row] as string };
      row += 1;
      column += 1;
    } else if (row < rows && (column === columns || (common[at + width] as number) >= (common[at + 1] as number))) {
      yield { mark: "removed", text: first[row] as string };
      row += 1;
    } else {
      yield { mark: "added", text: second[column] as string };
      column += 1;
    }
  }
}
