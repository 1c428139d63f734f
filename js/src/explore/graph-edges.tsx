// The lines of the graph: as wide as what was handed over is long, dashed where something only has to be done before; and what
// stands on them: how long a text was that was handed over, what a manager asked and was answered, and what decides.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import type { GraphEdge, Row } from "../wire/rows";
import { formatCount, formatExactCount } from "../wording/numbers";
import type { GraphModel, Node } from "./graph-model";
import { loopWords, type RowsThen, toPlain, widthOfEdge } from "./graph-state";

/** Of words, before the end of their line: as the layout leaves room for them. */
const WORDS_WIDTH = 132;
/** Before the end of a line to a worker stand two lines of a question above it, and two of the answer below. */
const ASKED_WIDTH = 140;
const DASHED = new Set(["order", "condition"]);

interface Props {
  model: GraphModel;
  then: RowsThen;
  isDimmed: (node: Node) => boolean;
}

export function GraphEdges({ model, then, isDimmed }: Props): VNode {
  // A line that looks as before is the same element, which is not looked at again.
  const known = useRef(new WeakMap<GraphEdge, { look: string; line: VNode }>());
  // What was seen before it was handed over moves along its line then, once.
  const waiting = useRef(new Set<string>());
  const moved = useRef(new Set<string>());
  const told = new Set<Node>();
  const on: VNode[] = [];
  for (const edge of model.edges) {
    const [source, target] = [model.nodes[edge.source] as Node, model.nodes[edge.target] as Node];
    const key = `${source.key} ${target.key}`;
    if (edge.kind === "context" || edge.kind === "items") {
      const size = sizeOf(source, target, then);
      if (size === null) waiting.current.add(key);
      else if (waiting.current.delete(key) && then.isMoving) moved.current.add(key);
      else if (!then.isMoving) moved.current.delete(key);
      if (size === null) continue;
      const text = formatCount(size);
      const [x = 0, y = 0] = edge.way;
      if (moved.current.has(key)) on.push(<span key={`m ${key}`} class="et-graph-size" data-moves role="presentation" style={{ offsetPath: `path("${pathOf(edge)}")` }}>{text}</span>);
      if (!told.has(source)) on.push(<span key={`s ${key}`} class="et-graph-size" role="presentation" style={{ left: `${x + 5}px`, top: `${y - 9}px` }} title={`${formatExactCount(size)} characters handed over`}>{text}</span>);
      told.add(source);
    } else if (edge.kind === "delegation") on.push(<Asked key={key} edge={edge} row={then.row(target.members.at(-1)?.span ?? "")} />);
    else {
      const words = edge.kind === "loop" ? loopWords(target, then, edge.words) : edge.words && edge.kind !== "round" ? `if ${edge.words}` : edge.words;
      if (words) on.push(<Words key={key} edge={edge} target={target} words={words} />);
    }
  }
  return (
    <>
      <svg class="et-graph-lines" width={model.width} height={model.height} aria-hidden="true">
        {model.edges.map((edge) => {
          const ends = [model.nodes[edge.source] as Node, model.nodes[edge.target] as Node] as const;
          const row = rowOf(ends[0], then);
          const isBack = ends.some(isDimmed);
          const look = `${row?.output_characters} ${row?.status} ${isBack}`;
          const kept = known.current.get(edge);
          if (kept?.look === look) return kept.line;
          const line = <Line key={`${edge.source} ${edge.target}`} edge={edge} row={row} isDimmed={isBack} />;
          known.current.set(edge, { look, line });
          return line;
        })}
      </svg>
      {on}
    </>
  );
}

/** How many characters a node has handed to one that has begun; null before that, and where nobody knows. */
function sizeOf(source: Node, target: Node, then: RowsThen): number | null {
  const row = rowOf(source, then);
  const hasBegun = target.members.some(({ span }) => then.row(span)?.start_ms != null);
  return row?.status === "ok" && row.output_characters && hasBegun ? row.output_characters : null;
}

/** What a manager asked, as far as it had by then, and the answer. */
function Asked({ edge: { way, words, answer }, row }: { edge: GraphEdge; row: Row | undefined }): VNode | null {
  const [x = 0, y = 0] = way.slice(-2);
  const place = { left: `${x - ASKED_WIDTH - 12}px`, width: `${ASKED_WIDTH}px` };
  if (!words || !row || row.status === "pending") return null;
  return (
    <>
      <div class="et-graph-asked" role="presentation" style={{ ...place, top: `${y - 36}px` }} title={words}><span>{toPlain(words)}</span></div>
      {answer && row.end_ms != null && <div class="et-graph-asked" data-answer role="presentation" style={{ ...place, top: `${y + 3}px` }} title={answer}><span>{toPlain(answer)}</span></div>}
    </>
  );
}

/** The row of a node that stands for one. */
const rowOf = ({ members }: Node, then: RowsThen): Row | undefined => (members.length === 1 ? then.row(members[0]?.span ?? "") : undefined);

function Line({ edge, row, isDimmed }: { edge: GraphEdge; row: Row | undefined; isDimmed: boolean }): VNode {
  const isHandedOver = edge.kind === "context" || edge.kind === "items";
  const width = isHandedOver ? widthOfEdge(row?.output_characters) : 1.5;
  const [x = 0, y = 0] = edge.way.slice(-2);
  const title = isHandedOver && row?.output_characters != null ? `${row.output_characters} characters` : undefined;
  return (
    <g class="et-graph-line" data-kind={edge.kind} data-done={row?.status === "ok"} data-dimmed={isDimmed}>
      {title && <title>{title}</title>}
      <path d={pathOf(edge)} stroke-width={width} stroke-dasharray={DASHED.has(edge.kind) ? "4 4" : undefined} />
      <path d={edge.kind === "loop" ? `M${x - 4} ${y - 6}l4 6 4-6` : `M${x - 6} ${y - 4}l6 4-6 4`} />
    </g>
  );
}

/** A way as it is drawn; `graph_ways.to_path` in Python has the same, and says how. */
export function pathOf({ kind, way }: GraphEdge): string {
  const [x0, y0, x1 = 0, y1 = 0] = way;
  if (kind === "loop") return `M${x0} ${y0}v-6a6 6 0 0 0-6-6H${x1 + 6}a6 6 0 0 0-6 6v6`;
  const isDown = x0 === x1;
  let path = `M${x0} ${y0}${isDown ? `V${y1 - 5}q0 5 5 5` : ""}`;
  for (let k = isDown ? 4 : 2; k < way.length; k += 2) {
    const [ax, ay, bx, by] = way.slice(k - 2, k + 2) as [number, number, number, number];
    const middle = (ax + bx) / 2;
    path += `C${middle} ${ay} ${middle} ${by} ${bx} ${by}`;
  }
  return path;
}

function Words({ edge, target, words }: { edge: GraphEdge; target: Node; words: string }): VNode {
  const [x = 0, y = 0] = edge.way.slice(-2);
  const place = edge.kind === "loop"
    ? { left: `${target.x + 4}px`, width: `${target.width - 76}px`, top: `${target.y - 19}px` }
    : { left: `${x - WORDS_WIDTH - 10}px`, width: `${WORDS_WIDTH}px`, top: `${y - 20}px` };
  return <div class="et-graph-words" role="presentation" style={place} title={words}>{words}</div>;
}
