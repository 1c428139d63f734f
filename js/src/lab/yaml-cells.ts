// What editors do with `%%ensemble` cells. Their text is YAML: `from` and `with` are no Python keywords in them, and signs
// like `: {` no words to complete. The type of a cell is its editor's alone and is not saved.

import type { CellModel, CompletionProviders } from "./jupyter";

const YAML = "text/x-yaml";
const IS_ENSEMBLE = /^\s*%%ensemble(?=\s|$)/;

const isEnsemble = (source: string): boolean => IS_ENSEMBLE.test(source.slice(0, 200));

export const isEnsembleCell = (cell: CellModel): boolean => cell.type === "code" && isEnsemble(cell.sharedModel.getSource());

/** Leaves what JupyterLab itself proposes, all tokens of the text, out of our cells: the kernel knows what may stand there. */
export function leaveOutTokens(completions: CompletionProviders): void {
  const tokens = completions.getProviders?.().get("CompletionProvider:context");
  if (tokens === undefined) return;
  const isApplicable = tokens.isApplicable.bind(tokens);
  tokens.isApplicable = async (context) => !isEnsemble(context.editor?.model.sharedModel.getSource() ?? "") && isApplicable(context);
}

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
    const isOurs = isEnsembleCell(cell);
    // An editor takes the language that is loaded last. So YAML waits until the one before it is in the editor.
    if (isOurs && cell.mimeType !== YAML) void load(cell.mimeType).then(colourSoon, colourSoon);
    else if (!isOurs && cell.mimeType === YAML) cell.mimeType = codeType();
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
