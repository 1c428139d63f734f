// The board in a page: its tree, its theme, its keys, and the place below it where a run or a comparison is opened. It is
// loaded when a page shows the first board.

import { mountLate } from "../elements/late-root";
import { isForPage, isTextField, keepKeys } from "../input/focus";
import style from "../theme/board-late.css";
import { applyTheme, watchTheme } from "../theme/theme";
import { Board } from "./board";
import type { BoardParts } from "./board-parts";

export function mountBoard(place: HTMLElement, parts: BoardParts): () => void {
  const end = new AbortController();
  const root = document.createElement("div");
  root.className = "ensemble-timeline eb-board";
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "Remembered runs");
  place.append(root);
  keepKeys(root, end.signal);
  applyTheme(root);
  watchTheme(root, () => applyTheme(root), end.signal);
  // Plain keys mean nothing to the notebook around it while the focus is here.
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Tab" && !isForPage(event)) event.stopPropagation();
    if (event.key !== "/" || isTextField(event.target) || (event.target as Element).closest(".eb-below")) return;
    event.preventDefault();
    root.querySelector<HTMLInputElement>("input[type=search]")?.focus();
  }, { signal: end.signal });
  const tree = mountLate(root, style, () => <Board parts={parts} />);
  tree.update();
  return () => {
    end.abort();
    tree.end();
    root.remove();
  };
}
