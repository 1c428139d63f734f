// By what bars are coloured in place of their kind (W33): agent, model, cost or score. What failed, was cut short or waits keeps
// its colour, and whatever a colour says here is said in words, too, by the tooltip and by the drawer.

import { type Hue, labelColorOn } from "../theme/palette";
import { paintHue, PAINTS } from "../theme/paint-palette";
import type { Paint, Theme } from "../theme/theme";
import type { View } from "../view/view";
import type { Row } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { modelNameOf } from "../wording/labels";
import { formatMoney, pluralize } from "../wording/numbers";
import { formatScore } from "../wording/scores";
import { boundsOf, lookOfStep, placeIn } from "./amount-steps";
import type { PaintName } from "./look";
import { settled } from "./kept-values";

/** A colour and what it stands for; null is the grey of all that has no colour of its own. */
export interface LegendEntry {
  readonly place: number | null;
  readonly words: string;
}

export interface Painting extends Paint {
  readonly legend: readonly LegendEntry[];
}

const NAMES = PAINTS.light.names.length;
const STEPS = PAINTS.light.steps.length;

/** How a run is painted by one of these; the same as long as nothing changes. */
export const paintingOf = (view: View, name: PaintName): Painting =>
  settled(view, "paint", name, () => (name === "agent" || name === "model" ? paintNames(view, name) : paintAmounts(view, name)));

/** Whether it would tell bars apart. */
export function canPaint(view: View, name: PaintName): boolean {
  const read = name === "agent" || name === "model" ? (row: Row) => nameIn(view, row, name) : (row: Row) => amountIn(view, row, name);
  const found = new Set<string | number>();
  for (const row of view.present.rows()) {
    const value = read(row);
    if (value != null && found.add(value).size > 1) return true;
  }
  return false;
}

const isRequest = (row: Row): boolean => row.kind === "llm" || traitsOf(row.kind).isLeaf;
const nameIn = (view: View, row: Row, name: "agent" | "model"): string | null =>
  name === "agent" ? nearest(view, row, ({ agent }) => agent) : isRequest(row) ? modelNameOf(row) : null;

/** What a row says, else what the next one around it does. */
function nearest<T>({ present: store }: View, row: Row, read: (row: Row) => T | null | undefined): T | null {
  for (let at: Row | undefined = row, steps = 0; at && steps < 64; at = store.row(at.parent_id ?? ""), steps += 1) {
    const found = read(at);
    if (found != null) return found;
  }
  return null;
}

/** The first of them have a colour each, in order of appearance, so that none changes while a run goes on. */
function paintNames(view: View, name: "agent" | "model"): Painting {
  const places = new Map<string, number>();
  for (const row of view.present.rows()) {
    const found = nameIn(view, row, name);
    if (found !== null && !places.has(found)) places.set(found, places.size);
  }
  const hues = Array.from({ length: NAMES }, (_, place) => paintHue(place));
  const others = places.size - NAMES;
  return {
    ...dresser("names"),
    hueOf: (row) => hues[places.get(nameIn(view, row, name) ?? "") ?? NAMES] ?? null,
    legend: [
      ...[...places].slice(0, NAMES).map(([words, place]) => ({ place, words })),
      ...(others > 0 ? [{ place: null, words: pluralize(others, `other ${name}`) }] : []),
    ],
  };
}

/** A score is that of the row of a map, and stands for all that was done for it. */
const amountIn = (view: View, row: Row, name: "cost" | "score"): number | null =>
  name === "score" ? nearest(view, row, ({ score }) => score) : isRequest(row) ? (row.cost ?? null) : null;

/** In steps from little to much, each with as many as another one. */
function paintAmounts(view: View, name: "cost" | "score"): Painting {
  const amounts = [...view.present.rows()].filter((row) => (name === "cost" ? row.kind === "llm" : row.score != null)).flatMap((row) => amountIn(view, row, name) ?? []);
  const bounds = boundsOf(amounts, STEPS);
  const write = (amount: number): string => (name === "cost" ? formatMoney(amount, view.present.run.value?.currency) : formatScore(amount));
  const places = bounds.map((_, step) => lookOfStep(step, bounds.length, STEPS));
  const hues = places.map(paintHue);
  return {
    ...dresser("steps"),
    hueOf: (row) => {
      const amount = amountIn(view, row, name);
      return amount === null ? null : (hues[placeIn(bounds, amount)] ?? null);
    },
    legend: bounds.map((bound, step) => ({ place: places[step] as number, words: `≤ ${write(bound)}` })),
  };
}

/** Adds colours to a theme, before those it has: what failed is drawn over all others. */
function dresser(kind: "names" | "steps"): Pick<Paint, "dress"> {
  const dressed = new WeakMap<Theme, Theme>();
  return {
    dress: (theme) => {
      const found = dressed.get(theme) ?? dress(theme, kind);
      dressed.set(theme, found);
      return found;
    },
  };
}

function dress(theme: Theme, kind: "names" | "steps"): Theme {
  // Where the system chooses all colours, they are its own.
  const isForced = theme.background === "Canvas";
  const withPaint = (of: Record<Hue, string>, colorOf: (color: string) => string): Record<Hue, string> =>
    ({ ...Object.fromEntries(PAINTS[theme.colorScheme][kind].map((color, place) => [paintHue(place), isForced ? of.llm : colorOf(color)])), ...of });
  return { ...theme, hues: withPaint(theme.hues, (color) => color), labelColors: withPaint(theme.labelColors, labelColorOn) };
}
