// One run on the board: its row, its small picture, and what can be done with it, which unfolds below the row.

import { useSignal } from "@preact/signals";
import { Icon, iconOf } from "../elements/icon";
import { formatCount, formatDuration, formatExactCount, formatMoney, pluralize } from "../wording/numbers";
import type { BoardParts } from "./board-parts";
import { type BoardRow, nameOf, readPicture, statusName } from "./board-rows";

const KIND_NAMES: Record<string, string> = { map: "map", rerun: "called again", fork: "fork", nested: "nested" };
/** Which sign stands for a status: those of spans. */
const SIGNS: Record<string, Parameters<typeof iconOf>[0]> = {
  completed: "ok", completed_with_warnings: "ok", failed: "error", running: "running", pending: "pending", interrupted: "interrupted",
};
const FORMATS = [".html", ".trace.json", ".svg", ".parquet"];
const SHORT_ID = 8;
const DAY_MS = 86_400_000;

export interface RunLineProps {
  row: BoardRow;
  /** How far in it stands, below the run that it came of. */
  depth: number;
  isCurrent: boolean;
  isTicked: boolean;
  isUnfolded: boolean;
  isLive: boolean;
  parts: BoardParts;
  now: number;
  /** The names of the columns that the table has room for. */
  columns: readonly string[];
  open: (row: BoardRow) => void;
  tick: (row: BoardRow) => void;
  unfold: (row: BoardRow | null) => void;
  showFamily: (row: BoardRow) => void;
  say: (text: string) => void;
}

export function RunLine(props: RunLineProps) {
  const { row, depth, isCurrent, isTicked, isUnfolded, isLive, now, open, tick, unfold } = props;
  const name = nameOf(row);
  const tabIndex = isCurrent ? 0 : -1;
  const when = formatWhen(row.start_ms, now);
  return (
    <>
      <tr data-run={row.run_id} data-current={isCurrent} aria-selected={isTicked}>
        <td class="eb-tick">
          <input type="checkbox" data-control="tick" tabIndex={tabIndex} checked={isTicked} disabled={!isLive} aria-label={`Compare ${name}, ${when}`} onChange={() => tick(row)} />
        </td>
        <th scope="row" data-column="run" style={{ "--depth": depth }}>
          {depth > 0 && <span class="eb-branch" aria-hidden="true">└</span>}
          {isLive
            ? <button class="et-link eb-name" data-control="name" tabIndex={tabIndex} title={`Open ${name} below`} onClick={() => open(row)}>{name}</button>
            : <span class="eb-name">{name}</span>}
          {row.kind !== undefined && row.kind in KIND_NAMES && <span class="eb-kind">{KIND_NAMES[row.kind]}{row.changed?.length ? `: ${row.changed.join(", ").replace(/_/g, " ")}` : ""}</span>}
          {row.inputs && <span class="eb-inputs" title={row.inputs}>{row.inputs}</span>}
        </th>
        {props.columns.slice(1).map((column) => <Cell column={column} row={row} when={when} />)}
        <td class="eb-menu">
          <button class="et-button" data-control="menu" tabIndex={tabIndex} aria-expanded={isUnfolded} aria-label={`More about ${name}, ${when}`} title="More" onClick={() => unfold(row)}>⋯</button>
        </td>
      </tr>
      {isUnfolded && <tr class="eb-more-row"><td colSpan={props.columns.length + 2}><RunMenu {...props} /></td></tr>}
    </>
  );
}

function Cell({ column, row, when }: { column: string; row: BoardRow; when: string }) {
  const words = wordsOf(column, row, when);
  const sign = SIGNS[row.status] ?? "cancelled";
  return (
    <td data-column={column} title={column === "start" ? new Date(row.start_ms).toLocaleString() : column === "picture" ? undefined : words}>
      {column === "picture" ? <SmallPicture row={row} />
        : column === "scores" ? row.scores?.map(([score, text]) => <span class="eb-score"><i>{score}</i> {text}</span>)
          : <>{column === "status" && <span class="et-sign" data-status={sign}><Icon name={iconOf(sign)} size={12} /></span>}{words}</>}
    </td>
  );
}

function wordsOf(column: string, row: BoardRow, when: string): string {
  if (column === "status") return statusName(row.status);
  if (column === "start") return when;
  if (column === "time") return row.wall_ms === undefined ? "" : formatDuration(row.wall_ms);
  if (column === "tokens") return row.tokens === undefined ? "" : formatCount(row.tokens);
  if (column === "cost") return row.cost === undefined ? "" : formatMoney(row.cost, row.currency);
  return row.scores?.map(([score, text]) => `${score}: ${text}`).join("\n") ?? "";
}

/** Its tasks as bars; the words for readers of the screen are how many are done. */
function SmallPicture({ row }: { row: BoardRow }) {
  const bars = readPicture(row.picture);
  const lanes = Math.max(3, ...bars.map(({ lane }) => lane + 1));
  const told = row.tasks === undefined ? "" : `${formatExactCount(row.tasks_done)} of ${pluralize(row.tasks, "task")} done`;
  return (
    <svg class="eb-picture" viewBox={`0 0 1000 ${lanes}`} preserveAspectRatio="none" role="img" aria-label={told || "no picture yet"}>
      {told && <title>{told}</title>}
      {bars.map(({ lane, from, to, state }) => <rect data-state={state} x={from} y={lane + 0.14} width={Math.max(14, to - from)} height={0.72} />)}
    </svg>
  );
}

/** `14:03` today, `Nov 21, 14:03` this year, else with the year. */
export function formatWhen(ms: number, now: number): string {
  const [at, today] = [new Date(ms), new Date(now)];
  const time = { hour: "numeric", minute: "2-digit" } as const;
  if (at.toDateString() === today.toDateString() && Math.abs(now - ms) < DAY_MS) return at.toLocaleTimeString([], time);
  const day = { month: "short", day: "numeric" } as const;
  return at.toLocaleString([], at.getFullYear() === today.getFullYear() ? { ...day, ...time } : { ...day, year: "numeric" });
}

/** What can be done with a run, and all that the table may have no room for. */
function RunMenu({ row, isLive, parts, open, unfold, showFamily, say }: RunLineProps) {
  const { connection, writeBelow } = parts;
  const spans = useSignal<readonly (readonly [string, string])[] | null>(null);
  const isForgetting = useSignal(false);
  const isBusy = useSignal(false);
  const fault = useSignal("");
  const chosen = useSignal("");
  const line = useSignal("");
  const ask = async (kind: string, facts: Record<string, unknown> = {}): Promise<Record<string, unknown> | null> => {
    if (connection === null) return null;
    isBusy.value = true;
    fault.value = "";
    try {
      return await connection.ask(kind, { run_id: row.run_id, ...facts });
    } catch (error) {
      fault.value = (error as Error).message;
      return null;
    } finally {
      isBusy.value = false;
    }
  };
  // Where no cell can be written, the line stands there to be copied.
  const write = (source: string): void => {
    if (writeBelow) {
      writeBelow(source);
      say(`${source} is in the cell below. It has not run yet.`);
    } else line.value = source;
  };
  const resumeLine = `%ensemble resume ${row.run_id}${row.variable ? ` -o ${row.variable}` : ""}`;
  const startFork = async (): Promise<void> => {
    const answer = await ask("spans");
    if (!answer) return;
    spans.value = (answer.spans as [string, string][]) ?? [];
    chosen.value = spans.value[0]?.[0] ?? "";
  };
  const done = async (kind: string, facts: Record<string, unknown> = {}): Promise<void> => {
    const answer = await ask(kind, facts);
    if (!answer) return;
    say(String(answer.text));
    if (kind === "forget") unfold(null);
  };
  return (
    <div class="eb-menu-parts">
      {isLive && (
        <div class="eb-actions" role="group" aria-label="What can be done with this run" aria-busy={isBusy}>
          <button class="et-tool" onClick={() => open(row)}>Open</button>
          {row.is_resumable && <button class="et-tool" title={`Writes ${resumeLine} into a cell below`} onClick={() => write(resumeLine)}>Resume</button>}
          {row.is_forkable && <button class="et-tool" aria-expanded={spans.value !== null} title="Choose a task or call from which another run goes on" onClick={() => (spans.value ? (spans.value = null) : void startFork())}>Fork…</button>}
          <select class="eb-choice" aria-label="Export as" value="" onChange={(event) => {
            const format = event.currentTarget.value;
            event.currentTarget.value = "";
            if (format) void done("export", { format });
          }}>
            <option value="">Export…</option>
            {FORMATS.map((format) => <option value={format}>{format}</option>)}
          </select>
          <button class="et-tool" title="Show the runs that came of the same one alone" onClick={() => showFamily(row)}>Family</button>
          {row.status !== "running" && (isForgetting.value
            ? <span class="eb-question">Forget it for good? <button class="et-tool eb-danger" onClick={() => void done("forget")}>Forget</button><button class="et-tool" onClick={() => (isForgetting.value = false)}>Keep</button></span>
            : <button class="et-tool" onClick={() => (isForgetting.value = true)}>Forget…</button>)}
        </div>
      )}
      {spans.value && (
        <div class="eb-actions">
          <select class="eb-choice eb-spans" aria-label="Fork at" value={chosen.value} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            {spans.value.map(([id, words]) => <option value={id} selected={id === chosen.value}>{words}</option>)}
          </select>
          <button class="et-tool" disabled={!chosen.value} title="Writes the line into a cell below, where what changes can be added" onClick={() => write(`%ensemble fork ${row.run_id} ${chosen.value}`)}>Fork here</button>
        </div>
      )}
      {line.value && <p class="eb-line">Run <code>{line.value}</code></p>}
      {fault.value && <p class="eb-fault" role="alert">{fault.value}</p>}
      <dl class="eb-facts">
        <Fact name="Run" value={row.run_id} />
        <Fact name="State" value={statusName(row.status)} />
        <Fact name="Began" value={new Date(row.start_ms).toLocaleString()} />
        <Fact name="Tasks" value={row.tasks === undefined ? undefined : `${formatExactCount(row.tasks_done)} of ${formatExactCount(row.tasks)} done`} />
        <Fact name="Time" value={row.wall_ms === undefined ? undefined : formatDuration(row.wall_ms)} />
        <Fact name="Tokens" value={row.tokens === undefined ? undefined : formatExactCount(row.tokens)} />
        <Fact name="Cost" value={row.cost === undefined ? undefined : formatMoney(row.cost, row.currency)} />
        <Fact name="From" value={[row.notebook, row.cell, row.framework].filter(Boolean).join(" ") || undefined} />
        <Fact name="Came of" value={row.parent && `${row.parent.slice(0, SHORT_ID)}${row.changed?.length ? ` (${row.changed.join(", ")})` : ""}`} />
        {row.scores?.map(([name, text]) => <Fact name={name} value={text} />)}
        <Fact name="Inputs" value={row.inputs} />
      </dl>
    </div>
  );
}

const Fact = ({ name, value }: { name: string; value: string | undefined }) => (value ? <div><dt>{name}</dt><dd>{value}</dd></div> : null);
