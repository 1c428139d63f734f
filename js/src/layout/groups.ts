// Rows brought together by what they have in common, in place of their phases (W36): one row for each agent, model, tool or
// status, with what it did in lanes, so that free space is time in which it idled. Opened, what it consists of stands below it.

import { roundsOf } from "../store/rounds";
import type { Store } from "../store/store";
import { agentOf, isHandler, isTask } from "../wire/predicates";
import { type Row, type Status, STATUSES } from "../wire/rows";
import { traitsOf } from "../wire/traits";
import { STATUS_NAMES } from "../wire/words";
import { modelOf } from "../wording/labels";
import { formatDuration, formatPercent, pluralize } from "../wording/numbers";
import { giverOf, rowAbove } from "./handed-on";
import { heatOf } from "./heat";
import type { Arrange, Arranging } from "./layout-builder";
import { isOfAny, type Mark, markOf, WORK } from "./marks";
import { LANE_HEIGHT, PAD, PHASE_HEIGHT } from "./sizes";
import type { Track } from "./tracks";

/** Side by side in more lanes than these, a row shows how much was done at once. */
const MOST_LANES = 6;

/** By what, as it is called, and what one of it is. */
export const GROUPINGS = { agent: "Agent", model: "Model", tool: "Tool", status: "Status" } as const;
export type Grouping = keyof typeof GROUPINGS;

/** The first of these that some of a group have is the state of it. */
const STATE_OF_GROUP: readonly Status[] = ["error", "waiting", "running", "pending", "interrupted", "cancelled", "ok", "skipped"];

type Source = Track["source"];

/** A stretch of work that takes room in a row: a task with all that it did, or one call. */
interface Item {
  readonly row: Row;
  /** Of its task. */
  readonly source: Source;
  readonly lanes: number;
}

/** What of one task, or which review of a phase, belongs to a group. */
interface Part {
  readonly row: Row;
  readonly source: Source;
  readonly lanes: number;
  /** The calls that alone are shown; null: all that the task did. */
  readonly calls: Row[] | null;
  /** All spans that stand in its row. */
  readonly spans: string[];
}

interface Group {
  readonly id: string;
  readonly name: string;
  readonly parts: Map<string, Part>;
  /** The spans that were at work. */
  readonly work: Row[];
}

/** Which groupings a run has: those in which there is somebody, or something, to be told apart from the rest. */
export function groupingsOf(store: Store): Grouping[] {
  let hasAgent = false;
  for (const row of store.rows()) hasAgent ||= isTask(row) && agentOf(row) !== null;
  const has: Record<Grouping, boolean> = { agent: hasAgent, model: store.kinds.has("llm"), tool: store.kinds.has("tool"), status: store.kinds.has("task") };
  return (Object.keys(GROUPINGS) as Grouping[]).filter((grouping) => has[grouping]);
}

/** What arranges the rows of one view by `grouping`; it keeps what does not change from one time to the next. */
export function arrangeBy(grouping: Grouping): Arrange {
  const kept = new Map<string, GroupMarks>();
  const marksOf = (id: string, items: readonly Item[], laneOf: readonly number[], only: ReadonlySet<string> | null): GroupMarks => {
    const marks = kept.get(id) ?? new GroupMarks();
    kept.set(id, marks.hold(items, laneOf, only));
    return marks;
  };
  return (rows) => {
    // What stands on top is in no row of a group, too.
    const above = new Set(rows.tracks.flatMap(({ id, members }) => [id, ...members]));
    const shown = new Set(above);
    for (const group of collect(rows, grouping)) addGroup(rows, grouping, group, marksOf, above, shown);
  };
}

// --- Who belongs to what ------------------------------------------------------------------------------------------------

function collect(rows: Arranging, grouping: Grouping): Group[] {
  const { store, left } = rows;
  const groups = new Map<string, Group>();
  const groupOf = (name: string): Group => {
    let group = groups.get(name);
    if (!group) groups.set(name, (group = { id: `by:${grouping}:${name}`, name, parts: new Map(), work: [] }));
    return group;
  };
  if (grouping === "status" && !store.isOver) for (const status of ["running", "pending", "ok"] as const) groupOf(STATUS_NAMES[status]);
  const isByCall = grouping === "model" || grouping === "tool";
  /** The group of a task, or of a review of a phase. */
  const nameOfWhole = (row: Row): string => {
    if (grouping === "status") return STATUS_NAMES[row.status];
    if (row.kind === "review") return "Reviews";
    return isHandler(row) ? "Handlers" : (row.agent as string);
  };
  const wholes = new Map<string, Group>();
  for (const row of store.rows()) {
    const isReview = row.kind === "review" && store.row(row.parent_id ?? "")?.kind === "phase";
    if (isByCall || !(isTask(row) || isReview)) continue;
    const task = isReview ? null : rows.task(row.span_id);
    // What only frames the work of others is none of its own; of states, those are told that the run counts.
    const isFrame = !(isHandler(row) || agentOf(row)) || (task?.workers.length && (row.item_count != null || row.agent == null));
    if (grouping === "status" ? isInTask(store, row) : isFrame) continue;
    const group = groupOf(nameOfWhole(row));
    wholes.set(row.span_id, group);
    if (left && !left.rows.has(row.span_id)) continue;
    const source = task ?? { marks: row.start_ms == null ? [] : [markOf(row, "review", PAD + WORK.top, WORK.height)] };
    group.parts.set(row.span_id, { row, source, lanes: task?.lanes ?? 1, calls: null, spans: [row.span_id] });
  }
  for (const row of store.rows()) {
    const owner = isTask(row) ? row.span_id : store.ownerOf(row.span_id);
    const parent = store.row(row.parent_id ?? "");
    const call = row.kind === "attempt" || row.kind === "wait" ? parent : row;
    let group = wholes.get(owner);
    if (isByCall) {
      if (call?.kind !== (grouping === "model" ? "llm" : "tool") || isHandOver(store, call)) continue;
      const task = store.row(owner) as Row;
      group = groupOf(grouping === "model" ? modelOf(call) : (call.tool ?? call.name));
      if (left && !left.spans.has(call.span_id)) continue;
      const marks = rows.task(owner);
      const part = group.parts.get(owner) ?? { row: task, source: marks, lanes: marks.lanes, calls: [], spans: [] };
      group.parts.set(owner, part);
      part.spans.push(row.span_id);
      if (row === call) part.calls?.push(call);
    }
    if (group && row.start_ms != null && isWorking(store, row)) group.work.push(row);
  }
  const found = [...groups.values()].filter((group) => group.parts.size > 0 || (!left && grouping === "status"));
  const rank = (group: Group): number => STATUSES.findIndex((status) => STATUS_NAMES[status] === group.name);
  return grouping === "status" ? found.sort((a, b) => rank(a) - rank(b)) : found;
}

function isInTask(store: Store, row: Row): boolean {
  const above = rowAbove(store, row);
  return above !== row.span_id && store.row(above)?.kind === "task";
}

/** A tool by which work is handed on is no work of its own. */
const isHandOver = (store: Store, { kind, span_id }: Row): boolean => kind === "tool" && store.children(span_id).some((child) => child.kind === "delegation");

/** True for what is at work itself; a model call is by its attempts, where these are known. */
function isWorking(store: Store, row: Row): boolean {
  if (row.kind === "llm") return !store.children(row.span_id).some((child) => child.kind === "attempt");
  if (row.kind === "task") return isHandler(row) && row.item_count == null;
  return traitsOf(row.kind).isWork && !isHandOver(store, row);
}

// --- Its rows -----------------------------------------------------------------------------------------------------------

type MarksOf = (id: string, items: readonly Item[], lanes: readonly number[], only: ReadonlySet<string> | null) => GroupMarks;

function addGroup(rows: Arranging, grouping: Grouping, group: Group, marksOf: MarksOf, above: ReadonlySet<string>, shown: Set<string>): void {
  const { store, left } = rows;
  const { id, name } = group;
  const parts = [...group.parts.values()];
  const whole = parts.flatMap(({ calls, row }) => calls ?? [row]);
  // What a search leaves is open, and else what a person opened.
  const isExpanded = parts.length > 0 && rows.toggled.has(id) === (left === null);
  const own = parts.filter((part) => part.calls !== null || !above.has(part.row.span_id));
  // A task with calls of several models stands in the first row of these.
  const spans = own.flatMap((part) => (part.calls && !shown.has(part.row.span_id) ? [...part.spans, part.row.span_id] : part.spans));
  for (const span of spans) shown.add(span);
  const items = parts.flatMap(({ row, source, lanes, calls }): Item[] =>
    calls ? calls.map((call) => ({ row: call, source, lanes: 1 })) : [{ row, source, lanes }]).filter(({ row }) => row.start_ms != null);
  const packed = isExpanded ? null : packLanes(items);
  const only = grouping === "model" || grouping === "tool" ? new Set(whole.map((row) => row.span_id)) : null;
  const statuses = new Set(whole.map((row) => row.status));
  const status = STATE_OF_GROUP.find((each) => statuses.has(each)) ?? "pending";
  rows.add({
    id, row: { span_id: id, kind: "group", name, status, parent_id: null }, kind: "group", depth: 0, isWorker: false, isExpanded, hasChildren: parts.length > 0,
    heat: packed ? null : { ...heatOf(group.work), errors: heatOf(whole).errors }, height: packed ? packed.count * LANE_HEIGHT + 2 * PAD : PHASE_HEIGHT,
    errors: whole.filter((row) => row.status === "error").length, members: isExpanded ? [] : spans, rounds: [], parent: null, giver: null,
    ...tell(store, grouping, group, whole.length),
  }, packed ? marksOf(id, items, packed.lanes, only) : { marks: [] });
  if (!isExpanded) return;
  for (const { row, source, lanes, calls, spans: inside } of own) {
    const first = calls?.[0]?.span_id;
    const only = calls && new Set(calls.map((call) => call.span_id));
    const marks = only && first ? marksOf(first, [{ row, source, lanes }], [0], only) : source;
    const giver = only ? null : giverOf(store, row);
    rows.add({
      id: first ?? row.span_id, row, kind: "task", depth: 1, isWorker: false, isExpanded: false, hasChildren: false, heat: null,
      height: lanes * LANE_HEIGHT + 2 * PAD, errors: 0, members: only ? (inside.concat(spans.includes(row.span_id) ? row.span_id : [])) : [], rounds: roundsOf(store, row),
      parent: giver === null ? (row.parent_id ?? null) : rowAbove(store, row), giver,
    }, marks);
  }
}

/** What a group did, and how much of the run it idled. */
function tell(store: Store, grouping: Grouping, group: Group, count: number): Pick<Track, "told" | "toldInWords"> {
  const now = store.elapsed(performance.now());
  const [busy, critical] = [timeOf(group.work, now), timeOf(group.work.filter((row) => row.critical), now)];
  const number = pluralize(count, grouping === "agent" || grouping === "status" ? "task" : "call");
  const work = `${formatDuration(busy)} of work`;
  if (grouping === "status") return { told: number, toldInWords: [number, work].join(", ") };
  const idle = 1 - busy / Math.max(now, busy, 1);
  return {
    told: `${formatDuration(busy)} · ${formatPercent(idle)} idle`,
    toldInWords: [number, work, critical > 0 ? `${formatDuration(critical)} of it on the critical path` : "", `idle for ${formatPercent(idle)} of the run`].filter(Boolean).join(", "),
  };
}

/** How much time spans take together: what is side by side counts once. */
function timeOf(rows: Row[], now: number): number {
  let [total, reached] = [0, -Infinity];
  for (const row of rows.sort((a, b) => startOf(a) - startOf(b))) {
    const to = row.end_ms ?? now;
    total += Math.max(0, to - Math.max(startOf(row), reached));
    reached = Math.max(reached, to);
  }
  return total;
}

/** The lane that each item begins in, by time; null where they would take too many. What comes later moves none of them. */
export function packLanes(items: readonly Pick<Item, "row" | "lanes">[]): { lanes: number[]; count: number } | null {
  const order = [...items.keys()].sort((a, b) => startOf((items[a] as Item).row) - startOf((items[b] as Item).row));
  const ends: number[] = [];
  const lanes = new Array<number>(items.length).fill(0);
  for (const k of order) {
    const { row, lanes: needed } = items[k] as Item;
    const isFree = (lane: number): boolean => (ends[lane] ?? -Infinity) <= startOf(row);
    let lane = 0;
    for (let above = lane; above < lane + needed; above += 1) if (!isFree(above)) lane = above + 1;
    if (lane + needed > MOST_LANES) return null;
    for (let each = lane; each < lane + needed; each += 1) ends[each] = row.end_ms ?? Infinity;
    lanes[k] = lane;
  }
  return { lanes, count: Math.max(1, ends.length) };
}

const startOf = (row: Row): number => row.start_ms ?? 0;

/** The marks of several tasks in one row; made when they are asked for, and anew only where some changed. */
class GroupMarks {
  #items: readonly Item[] = [];
  #lanes: readonly number[] = [];
  /** The calls that alone are shown; null: all that the tasks did. */
  #only: ReadonlySet<string> | null = null;
  #sources: readonly Source[] = [];
  #parts: readonly (readonly Mark[])[] | null = null;
  #marks: readonly Mark[] = [];

  hold(items: readonly Item[], lanes: readonly number[], only: ReadonlySet<string> | null): this {
    const isSame = items.length === this.#items.length && items.every((item, k) =>
      item.source === this.#items[k]?.source && item.row.span_id === this.#items[k]?.row.span_id && lanes[k] === this.#lanes[k]);
    if (isSame && only?.size === this.#only?.size) return this;
    [this.#items, this.#lanes, this.#only, this.#parts] = [items, lanes, only, null];
    this.#sources = [...new Set(items.map(({ source }) => source))];
    return this;
  }

  get marks(): readonly Mark[] {
    const parts = this.#sources.map((source) => source.marks);
    if (this.#parts?.every((part, k) => part === parts[k])) return this.#marks;
    this.#parts = parts;
    this.#marks = (this.#only ? this.#placeCalls(this.#only, parts) : this.#placeTasks()).sort((a, b) => a.from - b.from);
    return this.#marks;
  }

  #placeTasks(): Mark[] {
    return this.#items.flatMap(({ source }, k) => source.marks.filter(({ shape }) => shape !== "ghost").map((mark) => lower(mark, this.#lanes[k] as number)));
  }

  #placeCalls(only: ReadonlySet<string>, parts: readonly (readonly Mark[])[]): Mark[] {
    const laneOf = new Map(this.#items.map(({ row }, k) => [row.span_id, this.#lanes[k] as number]));
    return parts.flatMap((part) => part.filter((mark) => isOfAny(mark, only)).map((mark) => {
      const lane = laneOf.get(mark.row.span_id) ?? laneOf.get(mark.row.parent_id ?? "");
      // In the row of its task a call stands where it always does.
      return lane === undefined ? mark : lower({ ...mark, top: PAD + ((mark.top - PAD) % LANE_HEIGHT) }, lane);
    }));
  }
}

const lower = (mark: Mark, lanes: number): Mark => (lanes === 0 ? mark : { ...mark, top: mark.top + lanes * LANE_HEIGHT });
