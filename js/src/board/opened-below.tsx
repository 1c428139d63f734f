// What a person opened stands below the board: the timeline of a run, or two runs in numbers, in one timeline, and in words.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../elements/icon";
import { formatCount, formatDuration, formatMoney } from "../wording/numbers";
import type { BoardConnection } from "./board-connection";
import type { ShowTimeline } from "./board-parts";
import { type BoardRow, nameOf, statusName } from "./board-rows";
import { formatWhen } from "./run-line";

export interface Opened {
  readonly kind: "run" | "two";
  /** The run, or the two, the older one first. */
  readonly rows: readonly BoardRow[];
}

interface Props {
  opened: Opened;
  connection: BoardConnection;
  showTimeline: ShowTimeline;
  close: () => void;
}

export function OpenedBelow({ opened, connection, showTimeline, close }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const state = useSignal<"coming" | "here">("coming");
  const fault = useSignal("");
  const words = useSignal("");
  useEffect(() => {
    let isHere = true;
    let end = (): void => undefined;
    const run_ids = opened.rows.map(({ run_id }) => run_id);
    const show = async (): Promise<void> => {
      const answer = await (opened.kind === "run" ? connection.ask("open", { run_id: run_ids[0] }) : connection.ask("compare", { run_ids }));
      if (!isHere) return;
      words.value = typeof answer.text === "string" ? answer.text : "";
      const leave = await showTimeline(place.current as HTMLElement, connection, String(answer.feed_id));
      state.value = "here";
      if (isHere) end = leave;
      else leave();
    };
    show().catch((error: Error) => (fault.value = error.message));
    return () => {
      isHere = false;
      end();
    };
  }, []);
  const [first, second] = opened.rows;
  const now = Date.now();
  const say = (row: BoardRow): string => `${nameOf(row)}${row.kind === "fork" ? " (fork)" : ""}, ${formatWhen(row.start_ms, now)}`;
  const title = opened.kind === "run" ? say(first as BoardRow) : `A ${say(first as BoardRow)} · B ${say(second as BoardRow)}`;
  return (
    <section class="eb-below" aria-label={opened.kind === "run" ? `Run ${title}` : `Comparison of ${title}`}
      onKeyDown={(event) => event.key === "Escape" && !event.defaultPrevented && (event.target as HTMLElement).closest(".eb-below-head") && close()}>
      <div class="eb-below-head">
        <b>{title}</b>
        <span class="et-spring" />
        <button class="et-button" aria-label="Close" title="Close" onClick={close}><Icon name="error" size={12} /></button>
      </div>
      {opened.kind === "two" && first && second && <Numbers a={first} b={second} />}
      {fault.value && <p class="eb-fault" role="alert">{fault.value}</p>}
      {!fault.value && state.value === "coming" && <p class="et-empty">Opening…</p>}
      <div ref={place} />
      {words.value && <details class="eb-words"><summary>What changed, in words</summary><pre tabIndex={0} aria-label="What changed">{words.value}</pre></details>}
    </section>
  );
}

/** Both runs, number by number, and how much more the second one has. */
function Numbers({ a, b }: { a: BoardRow; b: BoardRow }) {
  const isOneCurrency = a.currency === b.currency;
  const names = [...new Set([...(a.scores ?? []), ...(b.scores ?? [])].map(([name]) => name))];
  const score = (row: BoardRow, name: string) => row.scores?.find(([each]) => each === name);
  return (
    <table class="eb-numbers">
      <thead><tr><th scope="col"><span class="et-hidden">Of what</span></th><th scope="col">A</th><th scope="col">B</th><th scope="col">B − A</th></tr></thead>
      <tbody>
        <tr><th scope="row">State</th><td>{statusName(a.status)}</td><td>{statusName(b.status)}</td><td /></tr>
        <Amount name="Time" a={a.wall_ms} b={b.wall_ms} format={formatDuration} />
        <Amount name="Tokens" a={a.tokens} b={b.tokens} format={formatCount} />
        <Amount name="Cost" a={a.cost} b={b.cost} format={(value) => formatMoney(value, a.currency)} formatB={(value) => formatMoney(value, b.currency)} isAlike={isOneCurrency} />
        {names.map((name) => {
          const [scoreA, scoreB] = [score(a, name), score(b, name)];
          const more = scoreA?.[2] == null || scoreB?.[2] == null ? null : scoreB[2] - scoreA[2];
          const better = more === null ? 0 : scoreA?.[3] === false ? -more : more;
          return (
            <tr>
              <th scope="row">{name}</th>
              <td><Told text={scoreA?.[1]} isBetter={better < 0} /></td>
              <td><Told text={scoreB?.[1]} isBetter={better > 0} /></td>
              <td>{more === null ? "" : signed(more, (value) => String(Number(value.toPrecision(3))))}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

interface AmountProps {
  name: string;
  a: number | undefined;
  b: number | undefined;
  format: (value: number) => string;
  formatB?: (value: number) => string;
  /** Whether the two can be subtracted. */
  isAlike?: boolean;
}

function Amount({ name, a, b, format, formatB = format, isAlike = true }: AmountProps) {
  const isBoth = a !== undefined && b !== undefined;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td><Told text={a === undefined ? "" : format(a)} isBetter={isBoth && isAlike && a < b} /></td>
      <td><Told text={b === undefined ? "" : formatB(b)} isBetter={isBoth && isAlike && b < a} /></td>
      <td>{a === undefined || b === undefined || !isAlike ? "" : signed(b - a, format)}</td>
    </tr>
  );
}

/** A value; the better one of two is told in bold, and by a sign with a word. */
const Told = ({ text, isBetter }: { text: string | undefined; isBetter: boolean }) =>
  (isBetter ? <b><span role="img" aria-label="better">✓</span> {text}</b> : <>{text}</>);

const signed = (value: number, format: (value: number) => string): string => (value === 0 ? "±0" : `${value < 0 ? "−" : "+"}${format(Math.abs(value))}`);
