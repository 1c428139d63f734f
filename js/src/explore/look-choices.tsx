// The switches of columns, lane and colours (W33). What the run has nothing for is not offered.

import { PAINTS } from "../theme/paint-palette";
import type { View } from "../view/view";
import { Choice, Choices } from "./choices";
import { columnsFor } from "./row-columns";
import { LANES } from "./lane";
import { changeLook, lookOf, PAINT_NAMES, type PaintName, toggleColumn } from "./look";
import { canPaint, paintingOf } from "./paint";

const PAINT_TITLES: Record<PaintName, string> = { agent: "Agent", model: "Model", cost: "Cost", score: "Score" };

export function LookChoices({ view }: { view: View; change: number }) {
  view.store.version.value;
  // Of the whole run, so that no switch goes away while a person looks back.
  const run = view.present.run.value;
  const look = lookOf(view);
  const columns = columnsFor(view);
  const lanes = LANES.filter((lane) => run && lane.has(run));
  const paints = PAINT_NAMES.filter((name) => name === look.paint || canPaint(view, name));
  return (
    <>
      {columns.length > 0 && (
        <Choices name="Columns">
          {columns.map(({ name, title, help }) => <Choice name={title} title={help} isOn={look.columns.includes(name)} act={() => toggleColumn(view, name)} />)}
        </Choices>
      )}
      {lanes.length > 0 && (
        <Choices name="Lane">
          {lanes.map(({ name, short, title }) => (
            <Choice name={short} title={run ? title(run) : short} isOn={look.lane === name} act={() => changeLook(view, { lane: look.lane === name ? null : name })} />
          ))}
        </Choices>
      )}
      {paints.length > 0 && (
        <Choices name="Bars by">
          <Choice name="Kind" isOn={look.paint === null} act={() => changeLook(view, { paint: null })} />
          {paints.map((name) => <Choice name={PAINT_TITLES[name]} isOn={look.paint === name} act={() => changeLook(view, { paint: name })} />)}
          {look.paint && <Legend view={view} paint={look.paint} />}
        </Choices>
      )}
    </>
  );
}

function Legend({ view, paint }: { view: View; paint: PaintName }) {
  const kind = paint === "agent" || paint === "model" ? "names" : "steps";
  return (
    <ul class="et-legend" aria-label="Colours">
      {paintingOf(view, paint).legend.map(({ place, words }) => (
        <li><i class="et-swatch" style={place === null ? undefined : { "--et-on-light": PAINTS.light[kind][place], "--et-on-dark": PAINTS.dark[kind][place] }} aria-hidden="true" />{words}</li>
      ))}
    </ul>
  );
}
