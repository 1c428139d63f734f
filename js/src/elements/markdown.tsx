// Markdown as elements from a fixed list, built one by one: nothing a model says becomes markup, HTML stays text, links show
// their address and go nowhere, an image is the text that stands for it (W6).

import type { ComponentChild, VNode } from "preact";
import type { Align, Block } from "./markdown-blocks";
import { type Inline, parseInline } from "./markdown-inline";

/** A longer paragraph is no prose: its marks would be elements by the thousand. */
const LONGEST_PARAGRAPH = 20_000;
const ADDRESS_SHOWN = 120;

export function BlockView({ block }: { block: Block }): VNode {
  switch (block.kind) {
    case "heading":
      return <Heading level={block.level}><Words text={block.text} /></Heading>;
    case "code":
      return (
        <figure class="et-code">
          {block.language && <figcaption>{block.language}</figcaption>}
          <pre tabIndex={0} aria-label={block.language ? `${block.language} code` : "code"}><code>{block.text}</code></pre>
        </figure>
      );
    case "quote":
      return <blockquote>{block.blocks.map((each) => <BlockView block={each} />)}</blockquote>;
    case "list":
      return block.start === null
        ? <ul data-tight={block.isTight}>{block.items.map((item) => <Item blocks={item} isTight={block.isTight} />)}</ul>
        : <ol start={block.start} data-tight={block.isTight}>{block.items.map((item) => <Item blocks={item} isTight={block.isTight} />)}</ol>;
    case "table":
      return <Table {...block} />;
    case "rule":
      return <hr />;
    default:
      return <p><Words text={block.text} /></p>;
  }
}

function Heading({ level, children }: { level: number; children: ComponentChild }): VNode {
  // Below the headings of the drawer itself.
  if (level === 1) return <h5 class="et-h1">{children}</h5>;
  return level === 2 ? <h5>{children}</h5> : <h6>{children}</h6>;
}

function Item({ blocks, isTight }: { blocks: Block[]; isTight: boolean }): VNode {
  const [first] = blocks;
  const box = first?.kind === "paragraph" ? /^\[([ xX])\] /.exec(first.text) : null;
  const shown = box && first?.kind === "paragraph" ? [{ ...first, text: first.text.slice(4) }, ...blocks.slice(1)] : blocks;
  return (
    <li class={box ? "et-task-item" : undefined}>
      {box && <span class="et-box">{box[1] === " " ? "☐" : "☑"} </span>}
      {shown.map((block) => (isTight && block.kind === "paragraph" ? <Words text={block.text} /> : <BlockView block={block} />))}
    </li>
  );
}

function Table({ head, aligns, rows }: { head: string[]; aligns: Align[]; rows: string[][] }): VNode {
  return (
    <div class="et-md-table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead><tr>{head.map((cell, k) => <th data-align={aligns[k]}><Words text={cell} /></th>)}</tr></thead>
        <tbody>{rows.map((row) => <tr>{row.map((cell, k) => <td data-align={aligns[k]}><Words text={cell} /></td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

const Words = ({ text }: { text: string }): VNode => (
  <>{text.length > LONGEST_PARAGRAPH ? text : parseInline(text).map(toElement)}</>
);

function toElement(inline: Inline): ComponentChild {
  if (typeof inline === "string") return inline;
  switch (inline.kind) {
    case "code":
      return <code>{inline.text}</code>;
    case "image":
      return <span class="et-alt" title="An image that is not loaded">{inline.text || "image"}</span>;
    case "strong":
      return <strong>{inline.children.map(toElement)}</strong>;
    case "em":
      return <em>{inline.children.map(toElement)}</em>;
    case "strike":
      return <s>{inline.children.map(toElement)}</s>;
    default: {
      const address = inline.address ?? "";
      const isSame = inline.children.length === 1 && inline.children[0] === address;
      const shown = address.length > ADDRESS_SHOWN ? `${address.slice(0, ADDRESS_SHOWN)}…` : address;
      return (
        <span class="et-md-link">
          {inline.children.map(toElement)}
          {address && !isSame && <span class="et-address"> ({shown})</span>}
        </span>
      );
    }
  }
}
