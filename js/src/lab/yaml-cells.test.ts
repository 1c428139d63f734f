// Colours of `%%ensemble` cells.

import { expect, it } from "vitest";
import type { CellModel, Signal } from "./jupyter";
import { colourCell } from "./yaml-cells";

class FakeSignal implements Signal<CellModel, unknown> {
  readonly acts = new Set<(sender: CellModel, value: unknown) => void>();
  connect = (act: (sender: CellModel, value: unknown) => void): boolean => !!this.acts.add(act);
  disconnect = (act: (sender: CellModel, value: unknown) => void): boolean => this.acts.delete(act);
}

class FakeCell implements CellModel {
  readonly id = "a";
  readonly mimeTypeChanged = new FakeSignal();
  readonly contentChanged = new FakeSignal();
  readonly sharedModel = { getSource: () => this.source };
  #mimeType = "text/x-ipython";

  constructor(public source: string, readonly type = "code") {}

  get mimeType(): string {
    return this.#mimeType;
  }

  set mimeType(value: string) {
    this.#mimeType = value;
    for (const act of [...this.mimeTypeChanged.acts]) act(this, null);
  }

  write(source: string): void {
    this.source = source;
    for (const act of [...this.contentChanged.acts]) act(this, null);
  }
}

const python = (): string => "text/x-ipython";
const loaded = async (): Promise<void> => undefined;
const turn = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve));
/** Until what was begun has been done: an answer comes in one turn, and is acted on in the next. */
const settle = async (): Promise<void> => void (await turn(), await turn());

it("is YAML as long as the first line says so", async () => {
  const cell = new FakeCell("1 + 1");
  colourCell(cell, python, loaded);
  expect(cell.mimeType).toBe("text/x-ipython");
  for (const source of ["%%ensemble", "%%ensemble -o x\n- Do it", "\n  %%ensemble\ttasks"]) {
    cell.write(source);
    await settle();
    expect(cell.mimeType).toBe("text/x-yaml");
  }
  for (const source of ["%%ensembles", "%ensemble help", "x = 1\n%%ensemble", "# %%ensemble"]) {
    cell.write(source);
    expect(cell.mimeType).toBe("text/x-ipython");
  }
});

it("stays YAML when a kernel gives all cells its language", async () => {
  const cell = new FakeCell("%%ensemble\n- Do it");
  colourCell(cell, python, loaded);
  cell.mimeType = "text/x-python";
  await settle();
  expect(cell.mimeType).toBe("text/x-yaml");
});

it("is YAML only when the editor has the language before it, or can't get it", async () => {
  for (const isThere of [true, false]) {
    const cell = new FakeCell("%%ensemble\n- Do it");
    let answer = (): void => undefined;
    colourCell(cell, python, (type) => new Promise((resolve, reject) => {
      expect(type).toBe("text/x-ipython");
      answer = (): void => (isThere ? resolve(null) : reject(new Error("no such language")));
    }));
    await settle();
    expect(cell.mimeType).toBe("text/x-ipython");
    answer();
    await settle();
    expect(cell.mimeType).toBe("text/x-yaml");
  }
});

it("is no YAML when it changed, or was given up, while a language was loaded", async () => {
  const cells = [new FakeCell("%%ensemble"), new FakeCell("%%ensemble")] as const;
  const ends = cells.map((cell) => colourCell(cell, python, loaded));
  cells[0].write("1 + 1");
  ends[1]!();
  await settle();
  expect(cells.map((cell) => cell.mimeType)).toEqual(["text/x-ipython", "text/x-ipython"]);
});

it("leaves other cells alone, and all of them in the end", async () => {
  const note = new FakeCell("%%ensemble", "markdown");
  colourCell(note, python, loaded);
  await settle();
  expect(note.mimeType).toBe("text/x-ipython");
  const cell = new FakeCell("1");
  colourCell(cell, python, loaded)();
  cell.write("%%ensemble");
  await settle();
  expect(cell.mimeType).toBe("text/x-ipython");
});
