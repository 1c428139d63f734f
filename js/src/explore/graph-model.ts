// The graph of a run as the kernel laid it out (W32): what stands where, and which spans it stands for. Pure. What comes from
// elsewhere is looked at here, so that whoever draws it can rely on it.

import { readTable } from "../wire/columns";
import { isObject } from "../wire/guards";
import { GRAPH_EDGE_COLUMNS, GRAPH_MEMBER_COLUMNS, GRAPH_NODE_COLUMNS, type GraphEdge, type GraphMember, type GraphNode } from "../wire/rows";

/** A node with what is around it. */
export interface Node extends GraphNode {
  readonly place: number;
  /** The spans it stands for, and of each which go at its work; null for all of it. */
  readonly members: readonly { readonly span: string; readonly go: number | null }[];
  readonly inside: readonly Node[];
  readonly around?: Node;
  readonly level: number;
}

export interface GraphModel {
  readonly nodes: readonly Node[];
  readonly edges: readonly GraphEdge[];
  readonly width: number;
  readonly height: number;
  /** What a person must know of it. */
  readonly note: string;
  /** The node of a span, which is the same span in another go where several are. */
  readonly nodeOf: ReadonlyMap<string, Node>;
}

export type GraphMode = "aggregated" | "expanded";

const BOXES = new Set(["phase", "round", "rows"]);

/** A frame around others, which does no work by itself. */
export const isBox = (node: GraphNode): boolean => BOXES.has(node.kind);

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isText = (value: unknown): value is string => typeof value === "string";

/** The graph in this form; null where there is none, or it can't be read. */
export function readGraph(graphs: unknown, mode: GraphMode): GraphModel | null {
  const packed = isObject(graphs) ? graphs[mode] : null;
  if (!isObject(packed)) return null;
  const rows = readTable(packed.nodes, GRAPH_NODE_COLUMNS) as GraphNode[] | null;
  const edges = readTable(packed.edges, GRAPH_EDGE_COLUMNS) as GraphEdge[] | null;
  const members = readTable(packed.members, GRAPH_MEMBER_COLUMNS) as GraphMember[] | null;
  if (!rows || !edges || !members || !rows.every(isNode)) return null;
  const nodes = rows.map((row, place) => ({ ...row, place, members: [] as { span: string; go: number | null }[], inside: [] as Node[], level: 1, around: undefined as Node | undefined }));
  for (const node of nodes) {
    const around = node.parent == null ? undefined : nodes[node.parent];
    if (!around) continue;
    node.level = around.level + 1;
    node.around = around;
    around.inside.push(node);
  }
  const nodeOf = new Map<string, Node>();
  for (const { span_id, node, go } of members) {
    const at = nodes[node];
    if (!at || !isText(span_id)) continue;
    at.members.push({ span: span_id, go: go ?? null });
    nodeOf.set(span_id, at);
  }
  const [width, height] = Array.isArray(packed.size) ? packed.size : [];
  return {
    nodes,
    edges: edges.filter((edge) => nodes[edge.source] && nodes[edge.target] && isText(edge.kind) && isWay(edge.way)),
    width: isNumber(width) ? width : Math.max(0, ...nodes.map((node) => node.x + node.width)),
    height: isNumber(height) ? height : Math.max(0, ...nodes.map((node) => node.y + node.height)),
    note: isText(packed.note) ? packed.note : "",
    nodeOf,
  };
}

/** A box stands before what is in it, so that nothing is inside itself. */
function isNode(row: GraphNode, place: number): boolean {
  const isPlaced = [row.x, row.y, row.width, row.height].every(isNumber);
  return isPlaced && isText(row.key) && isText(row.kind) && isText(row.title) && (row.parent == null || (isNumber(row.parent) && row.parent < place));
}

const isWay = (way: unknown): boolean => Array.isArray(way) && way.length >= 4 && way.length % 2 === 0 && way.every(isNumber);

/** Whether both forms are there, so that there is something to choose. */
export const hasBoth = (graphs: unknown): boolean => isObject(graphs) && isObject(graphs.aggregated) && isObject(graphs.expanded);

export type Direction = "left" | "right" | "up" | "down";

/** The node that a step leads to: along the edges, of what has none of those of what is around it; up and down among those beside it. */
export function step({ nodes, edges }: GraphModel, from: Node, to: Direction): Node | null {
  if (to === "left" || to === "right") {
    for (let at: Node | undefined = from; at; at = at.parent == null ? undefined : nodes[at.parent]) {
      const { place } = at;
      const ends = edges.filter((edge) => edge.kind !== "loop" && (to === "right" ? edge.source === place : edge.target === place));
      const found = ends.map((edge) => nodes[to === "right" ? edge.target : edge.source] as Node).filter((node) => node !== from);
      if (found.length) return nearest(found, from);
    }
    return null;
  }
  const sign = to === "down" ? 1 : -1;
  const [first, last] = [from.inside[0], from.parent == null ? undefined : nodes[from.parent]];
  const beside = nodes.filter((node) => node.parent === from.parent && node !== from && sign * (node.y - from.y) > 0 && node.x < from.x + from.width && from.x < node.x + node.width);
  if (to === "down" && first) return [...from.inside].sort((a, b) => a.x - b.x || a.y - b.y)[0] as Node;
  if (beside.length) return nearest(beside, from);
  return to === "up" ? (last ?? null) : besideOfOuter(nodes, last);
}

/** The next one below what is around. */
function besideOfOuter(nodes: readonly Node[], around: Node | undefined): Node | null {
  for (let at = around; at; at = at.parent == null ? undefined : nodes[at.parent]) {
    const outer = at;
    const below = nodes.filter((node) => node.parent === outer.parent && node.y > outer.y && node.x < outer.x + outer.width && outer.x < node.x + node.width);
    if (below.length) return nearest(below, outer);
  }
  return null;
}

const distance = (one: Node, other: Node): number => Math.abs(one.y - other.y) + Math.abs(one.x - other.x);
const nearest = (found: readonly Node[], from: Node): Node => [...found].sort((a, b) => distance(a, from) - distance(b, from) || a.place - b.place)[0] as Node;
