// Colours for `%%ensemble` cells: their text is YAML, so `from` and `with` are no Python keywords in them. The type of a
// cell is its editor's alone and is not saved.

import type { CellModel } from "./jupyter";

const YAML = "text/x-yaml";
const IS_ENSEMBLE = /^\s*%%ensemble(?=\s|$)/;

export const isEnsembleCell = (cell: CellModel): boolean => cell.type === "code" && IS_ENSEMBLE.test(cell.sharedModel.getSource().slice(0, 200));

/**
 * Colours a cell as long as its first line says so; gives what ends that.
 *
 * @param codeType Gives the type of the other cells.
 * @param load Settles when the editor has what it needs to colour a type.
 */
export function colourCell(cell: CellModel, codeType: () => string, load: (type: string) => Promise<unknown>): () => void {
  if (cell.type !== "code") return () => undefined;
  let isOver = false;
  const look = (): void => {
    const isEnsemble = isEnsembleCell(cell);
    // An editor takes the language that is loaded last. So YAML waits until the one before it is in the editor.
    if (isEnsemble && cell.mimeType !== YAML) void load(cell.mimeType).then(colourSoon, colourSoon);
    else if (!isEnsemble && cell.mimeType === YAML) cell.mimeType = codeType();
  };
  const colourSoon = (): unknown => setTimeout(() => {
    if (!isOver && isEnsembleCell(cell)) cell.mimeType = YAML;
  });
  // A kernel that has come up gives all cells the type of its language.
  cell.mimeTypeChanged.connect(look);
  cell.contentChanged.connect(look);
  look();
  return () => {
    isOver = true;
    cell.mimeTypeChanged.disconnect(look);
    cell.contentChanged.disconnect(look);
  };
}
