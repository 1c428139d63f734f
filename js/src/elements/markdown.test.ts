// Holds W6: what a text may become, and that no text makes it slow.

import { describe, expect, it } from "vitest";
import { type Block, MarkdownText, type TopBlock } from "./markdown-blocks";
import { type Inline, parseInline } from "./markdown-inline";

const parseMarkdown = (text: string): readonly TopBlock[] => new MarkdownText(text).readTo(Infinity);
const blocks = (text: string): Block[] => parseMarkdown(text).map(({ block }) => block);

/** Inline marks in a short form: `<em>a</em>`. Only for reading here; nothing is ever shown so. */
const show = (parts: Inline[]): string =>
  parts.map((part) => {
    if (typeof part === "string") return part;
    if ("text" in part) return `<${part.kind}>${part.text}</${part.kind}>`;
    return `<${part.kind}${part.address === undefined ? "" : ` ${part.address}`}>${show(part.children)}</${part.kind}>`;
  }).join("");

describe("inline marks", () => {
  it.each([
    ["plain", "plain"],
    ["*a* _b_", "<em>a</em> <em>b</em>"],
    ["**a** __b__", "<strong>a</strong> <strong>b</strong>"],
    ["***a***", "<em><strong>a</strong></em>"],
    ["**a *b* c**", "<strong>a <em>b</em> c</strong>"],
    ["*a **b** c*", "<em>a <strong>b</strong> c</em>"],
    ["~~gone~~ ~kept~", "<strike>gone</strike> ~kept~"],
    ["snake_case_name and 2*3*4", "snake_case_name and 2<em>3</em>4"],
    ["a * b * c", "a * b * c"],
    ["**open", "**open"],
    ["*a**", "<em>a</em>*"],
    ["*a **b* c**", "<em>a <em><em>b</em> c</em></em>"],
    ["\\*not\\* \\a", "*not* \\a"],
    ["`a*b*` ``x`y``", "<code>a*b*</code> <code>x`y</code>"],
    ["`` ` ``", "<code>`</code>"],
    ["`open", "`open"],
    ["**`code`**", "<strong><code>code</code></strong>"],
    ["[a *b*](https://x.example)", "<link https://x.example>a <em>b</em></link>"],
    ['[a](x "title")', "<link x>a</link>"],
    ["[a](x y)", "[a](x y)"],
    ["[a](p(q))", "<link p(q)>a</link>"],
    ["[a] (x) [b]", "[a] (x) [b]"],
    ["![an *alt* text](x.png)", "<image>an alt text</image>"],
    ["[![alt](i.png)](https://x.example)", "<link https://x.example><image>alt</image></link>"],
    ["*a [b*](c)", "*a <link c>b*</link>"],
    ["wow![", "wow!["],
    ["日本**語**です", "日本<strong>語</strong>です"],
  ])("reads %s", (text, read) => expect(show(parseInline(text))).toBe(read));

  it.each(["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<a href='javascript:alert(1)'>x</a>", "&lt;b&gt;", "<https://x.example>"])(
    "leaves %s as text", (text) => expect(parseInline(text)).toEqual([text]),
  );

  it("keeps every address as a text", () => {
    expect(parseInline("[x](javascript:alert(1))")).toEqual([{ kind: "link", children: ["x"], address: "javascript:alert(1)" }]);
  });

  it("shows emphasis that is deeper than anybody writes without its marks", () => {
    const deep = parseInline(`${"*a **b ".repeat(5000)}${"** *".repeat(5000)}`);
    expect(JSON.stringify(deep).length).toBeGreaterThan(10_000);
  });
});

describe("blocks", () => {
  it("reads headings, rules and paragraphs", () => {
    expect(blocks("# One\n\nTwo\nthree\n***\n## Five ##\n#six")).toEqual([
      { kind: "heading", level: 1, text: "One" },
      { kind: "paragraph", text: "Two\nthree" },
      { kind: "rule" },
      { kind: "heading", level: 2, text: "Five" },
      { kind: "paragraph", text: "#six" },
    ]);
  });

  it("reads code as it is, closed or not", () => {
    expect(blocks("```python\nif a:\n\tb\n```\nx\n~~~\nopen *a*")).toEqual([
      { kind: "code", language: "python", text: "if a:\n\tb" },
      { kind: "paragraph", text: "x" },
      { kind: "code", language: "", text: "open *a*" },
    ]);
  });

  it("reads lists in lists, with code in them", () => {
    expect(blocks("1. one\n  - a\n  - b\n2. two\n\n   ```\n   x\n   ```\n\n- other")).toEqual([
      {
        kind: "list", start: 1, isTight: false,
        items: [
          [{ kind: "paragraph", text: "one" }, { kind: "list", start: null, isTight: true, items: [[{ kind: "paragraph", text: "a" }], [{ kind: "paragraph", text: "b" }]] }],
          [{ kind: "paragraph", text: "two" }, { kind: "code", language: "", text: "x" }],
        ],
      },
      { kind: "list", start: null, isTight: true, items: [[{ kind: "paragraph", text: "other" }]] },
    ]);
  });

  it("takes a very long list apart, which counts on", () => {
    const list = blocks(Array.from({ length: 250 }, (_, k) => `${k + 1}. item`).join("\n"));
    expect(list.map((block) => block.kind === "list" && [block.start, block.items.length])).toEqual([[1, 100], [101, 100], [201, 50]]);
  });

  it("reads quotes, and what goes on in them", () => {
    expect(blocks("> a\nb\n> - c\n\nd")).toEqual([
      { kind: "quote", blocks: [{ kind: "paragraph", text: "a\nb" }, { kind: "list", start: null, isTight: true, items: [[{ kind: "paragraph", text: "c" }]] }] },
      { kind: "paragraph", text: "d" },
    ]);
  });

  it("reads tables", () => {
    expect(blocks("| a | b |\n|:-:|--:|\n| 1 \\| 2 | 3 | 4 |\n| 5 |\n\nend")).toEqual([
      { kind: "table", head: ["a", "b"], aligns: ["center", "right"], rows: [["1 | 2", "3"], ["5"]] },
      { kind: "paragraph", text: "end" },
    ]);
    expect(blocks("a | b\nc | d")).toEqual([{ kind: "paragraph", text: "a | b\nc | d" }]);
  });

  it("keeps the lines of each block, so that what is finished is not read again", () => {
    expect(parseMarkdown("# a\n\nb\nc\n\n- d").map(({ source }) => source)).toEqual(["# a", "\nb\nc", "\n- d"]);
  });

  it.each(["> ".repeat(10_000), "- ".repeat(10_000), "1. ".repeat(10_000), `${"  ".repeat(50)}- a`])("ends at some depth", (text) => {
    expect(JSON.stringify(blocks(text)).length).toBeLessThan(70_000);
  });
});

describe("a text that grows", () => {
  const text = "# One\n\nTwo *words*\n- a\n- b\n\n```\nx\n\ny\n```\n| a |\n|---|\n| 1 |\n\n> z\n";

  it.each([1, 2, 3, 5, 7, 11])("is read as if it had come at once, in pieces of %s", (size) => {
    const growing = new MarkdownText("");
    for (let end = 0; end <= text.length + size; end += size) {
      growing.update(text.slice(0, end));
      growing.readTo(Infinity);
    }
    expect(growing.readTo(Infinity)).toEqual(parseMarkdown(text));
  });

  it("keeps the blocks that are finished", () => {
    const growing = new MarkdownText("# One\n\nTwo");
    const [first] = growing.readTo(Infinity);
    growing.update("# One\n\nTwo and more");
    expect(growing.readTo(Infinity)[0]).toBe(first);
  });

  it("is read only as far as it is shown", () => {
    const long = new MarkdownText("a\n\n".repeat(300_000));
    expect(long.readTo(300).length).toBeLessThan(110);
  });
});

describe("time", () => {
  // Machines are busy: what is linear takes a fraction of a second, what is quadratic takes minutes.
  const long = 200_000;
  const fill = (piece: string): string => piece.repeat(Math.ceil(long / piece.length));
  const hostile: [string, string][] = [
    ["stars", "*".repeat(10_000)], ["brackets", "[".repeat(10_000)], ["many stars", fill("*")], ["brackets by the thousand", fill("[")],
    ["pairs", fill("*a*")], ["open stars", fill("*a ")], ["closed stars", fill(" a*")], ["mixed", fill("*a **b _c __d ~~e ")],
    ["mixed and closed", fill("*a **b** c_ __d*_")], ["links", fill("[a](b)")], ["open links", fill("[a](")], ["closing", `${fill("[](")})`],
    ["images", fill("![a](")], ["closed brackets", fill("]")], ["spaces in links", fill(`[a](b${" ".repeat(900)}c)`)],
    ["ticks", fill("`")], ["ticks of growing length", Array.from({ length: 1400 }, (_, k) => `${"`".repeat(k)} `).join("")],
    ["escapes", fill("\\*")], ["spaces", fill(" ")], ["spaced dashes", `|\n${fill("- ")}x`], ["a rule with a tail", `${fill("- ")}x`],
    ["quotes", fill("> ")], ["quote lines", fill("> a\n")], ["list lines", fill("- a\n")], ["deeper lists", Array.from({ length: 1000 }, (_, k) => `${" ".repeat(k)}- a`).join("\n")],
    ["fences", fill("```\n")], ["wide table", `${fill("a|")}\n${fill("-|")}\n${"1\n".repeat(1000)}`], ["pipes", fill("a|b\n")], ["hashes", fill("# # #")],
    ["lines", fill("a\n")], ["words", fill("plain words ")], ["ordered", fill("1. a\n\n")], ["underlines", fill("a\n-\n")],
  ];

  it.each(hostile)("is no more for %s than for words", (_, text) => {
    const began = performance.now();
    for (const { block } of parseMarkdown(text)) {
      if (block.kind === "paragraph" || block.kind === "heading") parseInline(block.text);
    }
    parseInline(text);
    expect(performance.now() - began).toBeLessThan(5000);
  });
});
