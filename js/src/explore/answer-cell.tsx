// One cell of the table of answers: its mark, by shape and colour, and its first words.

import type { VNode } from "preact";
import { Icon, iconOf } from "../elements/icon";
import { Thumbnail } from "../elements/pictures";
import { stateOfRow } from "../store/row-state";
import type { Store } from "../store/store";
import type { Row } from "../wire/rows";
import { causeOf, describeSkip } from "../wording/labels";
import { formatScore } from "../wording/scores";
import type { CellText } from "./cell-asker";
import { sayValue, valueOf } from "./measures";

interface Props {
  row: Row | undefined;
  text: CellText | null;
  store: Store;
  measure: string;
  /** The least and the most that a cell of the table is marked by. */
  bounds: readonly [number, number];
  /** What is said of an answer that is not here. */
  missing: string;
}

export function AnswerCell({ row, text, store, measure, bounds, missing }: Props): VNode | null {
  if (!row) return null;
  const { key, name } = stateOfRow(store, row);
  const isDone = row.status === "ok";
  const value = isDone && measure !== "status" ? valueOf(store, row, measure) : undefined;
  const words = isDone ? (text?.answer ?? missing) : row.error_message ?? (row.status === "skipped" ? row.outcome ?? describeSkip(row.reason) : row.reason ? causeOf(row) : name);
  const isSaid = isDone && text?.answer != null;
  return (
    <>
      {value === undefined ? (
        <span class="et-sign" data-status={key} title={row.reused ? "reused" : name}>
          <Icon name={row.reused && isDone ? "retry" : iconOf(key)} size={13} /><span class="et-hidden">{row.reused ? "reused" : name}: </span>
        </span>
      ) : typeof value === "boolean" ? (
        <span class="et-mark" data-look={value ? "passed" : "failed"} title={formatScore(value)}><span aria-hidden="true">{value ? "✓" : "✗"}</span><span class="et-hidden">{formatScore(value)}: </span></span>
      ) : typeof value === "number" ? (
        <span class="et-mark" data-look="number" style={{ "--et-share": `${Math.round(100 * shareOf(value, bounds))}%` }}>{sayAmount(store, value, measure)}</span>
      ) : <span class="et-mark" data-look="word" title={value}>{value}</span>}
      {value !== undefined && row.reused && <span class="et-sign" title="reused"><Icon name="retry" size={11} /><span class="et-hidden">reused: </span></span>}
      {text?.pictures.answer && <Thumbnail picture={text.pictures.answer} />}
      <q data-quiet={!isSaid} data-failed={row.status === "error"} title={isDone ? words : row.reason ?? words}>{words}</q>
    </>
  );
}

const shareOf = (value: number, [least, most]: readonly [number, number]): number => (most > least ? Math.min(1, Math.max(0, (value - least) / (most - least))) : 1);

/** With three digits, as far as there is room in a cell. */
export const sayAmount = (store: Store, value: number, measure: string): string =>
  measure.startsWith("score ") ? formatScore(Number(value.toPrecision(3))) : sayValue(store, value, measure);
