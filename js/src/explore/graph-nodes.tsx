// The nodes of the graph as cards and boxes, in the order in which they are read: what is in a box comes after it.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { Icon, iconOf } from "../elements/icon";
import type { View } from "../view/view";
import type { Theme } from "../theme/theme";
import { formatExactCount, pluralize } from "../wording/numbers";
import { monogram } from "../wording/text";
import { type GraphModel, isBox, type Node } from "./graph-model";
import { type NodeState, type RowsThen, stateOf } from "./graph-state";

interface Props {
  view: View;
  model: GraphModel;
  then: RowsThen;
  theme: Theme;
  /** The same one as long as only the clock has gone on. */
  still: object;
  isDimmed: (node: Node) => boolean;
  current: Node | null;
  prefix: string;
  choose: (node: Node, isMore: boolean) => void;
}

export function NodeCards({ view, model, then, theme, still, isDimmed, current, prefix, choose }: Props): VNode {
  // A card whose words are the same is the same element, which is not looked at again.
  const known = useRef(new Map<string, Known>());
  const marked = view.selectedSpans.value;
  const cards: VNode[] = [];
  const next = new Map<string, Known>();
  const cardOf = (node: Node): Known => {
    const kept = known.current.get(node.key);
    if (kept && kept.still === still && !kept.goesOn && kept.isCurrent === (node === current)) return kept;
    const state = stateOf(node, then);
    const isSelected = node === current || node.members.some(({ span, go }) => go === null && marked.has(span));
    const [paint, row] = [view.paint.value, then.row(node.members[0]?.span ?? "")];
    // As bars are coloured where a person wants them to be.
    const color = paint && row ? paint.dress(theme).hues[paint.hueOf(row) ?? "idle"] : undefined;
    const isDim = isDimmed(node);
    const said = JSON.stringify([state, color, isDim, isSelected, node === current, node.x, node.y, node.width, node.height, node.place]);
    const card = kept?.said === said ? kept.card : <Card key={node.key} view={view} node={node} state={state} color={color} isDimmed={isDim} isSelected={isSelected} isCurrent={node === current} id={`${prefix}g${node.place}`} choose={choose} />;
    return { said, card, still, goesOn: state.status === "running" || state.status === "waiting", isCurrent: node === current };
  };
  const add = (node: Node): void => {
    const entry = cardOf(node);
    next.set(node.key, entry);
    cards.push(entry.card);
    for (const inner of node.inside) add(inner);
  };
  for (const node of model.nodes) if (node.level === 1) add(node);
  known.current = next;
  return <>{cards}</>;
}

/** A card as it was last. */
interface Known {
  said: string;
  card: VNode;
  still: object;
  goesOn: boolean;
  isCurrent: boolean;
}

interface CardProps {
  view: View;
  node: Node;
  state: NodeState;
  color: string | undefined;
  isDimmed: boolean;
  isSelected: boolean;
  isCurrent: boolean;
  id: string;
  choose: Props["choose"];
}

function Card({ view, node, state, color, isSelected, isCurrent, isDimmed, id, choose }: CardProps): VNode {
  const place = { left: `${node.x}px`, top: `${node.y}px`, width: `${node.width}px`, height: `${node.height}px` };
  const look = isBox(node) ? "box" : node.inside.length > 0 ? "around" : "card";
  const marks = [
    state.errors > 0 && pluralize(state.errors, "error") + " inside",
    state.retries > 0 && `${formatExactCount(state.retries)} retried`,
    state.isFallback && "fallback",
  ].filter((each) => each !== false);
  const said = [state.title, state.name, state.about, state.figures, ...marks, state.said].filter(Boolean).join(", ");
  const isLong = state.isSaid === "words" || state.isSaid === "error";
  return (
    <div id={id} class="et-node" role="treeitem" aria-level={node.level} aria-selected={isSelected} title={said} data-look={look} data-status={state.status}
      data-kind={node.kind} data-current={isCurrent} data-dimmed={isDimmed} style={place} onClick={(event) => choose(node, event.ctrlKey || event.metaKey)} onDblClick={() => (view.isDrawerOpen.value = view.selected.value !== null)}>
      <div class="et-node-head"><span class="et-sign" data-status={state.status}><Icon name={iconOf(state.status)} size={13} /></span><b>{state.title}</b><span class="et-hidden">, {[state.name, ...marks].join(", ")}, </span>
        {marks.length > 0 && (
          <span class="et-node-marks" aria-hidden="true">
            {state.errors > 0 && <span data-hue="error"><Icon name="error" size={12} />{formatExactCount(state.errors)}</span>}
            {state.retries > 0 && <span data-hue="wait"><Icon name="retry" size={12} />{formatExactCount(state.retries)}</span>}
            {state.isFallback && <span data-hue="wait">↳</span>}
          </span>
        )}
        {(isBox(node) || isLong) && <span class="et-node-figures">{state.figures}</span>}</div>
      {!isBox(node) && (
        <>
          <div class="et-node-about">{state.agent && <abbr class="et-agent" aria-hidden="true" style={{ "--et-painted": color }}>{monogram(state.agent)}</abbr>}<span>{state.about || "\u00a0"}</span></div>
          {!isLong && <div class="et-node-figures">{state.figures || (state.status === "pending" ? (node.model ?? "") : state.name)}</div>}
          {state.said && <div class="et-node-said" data-is={state.isSaid}><bdi>{state.said}</bdi></div>}
        </>
      )}
      {state.done !== null && (
        <div class="et-node-progress"><span style={{ width: `${100 * (state.done - state.failed)}%` }} /><span data-failed style={{ width: `${100 * state.failed}%` }} /></div>
      )}
    </div>
  );
}
