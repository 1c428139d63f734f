"""Texts that try to become more than text in some reader, a fuzzer that makes more, and a strict reader of pages.

Each payload is inert for a reader that sees text in it. None holds a ``|``, which tears code spans apart and so makes
many of them harmless by luck.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final

PAYLOADS: Final = (
    '<img src=x onerror="alert(1)">',
    "<script>alert(1)</script>",
    '<img src="http://evil.example/i.png">',
    "<iframe src=//evil.example></iframe>",
    "<svg onload=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    "<style>@import 'http://evil.example/s.css';</style>",
    "[x](javascript:alert(1))",
    "[x](//evil.example/y)",
    "[x](y/z.html)",
    "![x](http://evil.example/i.png)",
    "<http://evil.example>",
    "http://evil.example/y",
    "www.evil.example",
    "me@evil.example",
    r"\href{javascript:alert(1)}{x}",
    r"\href{http://evil.example}{x}",
    r"\style{background:url(http://evil.example)}{x}",
    r"\class{c}{x}\cssId{d}{x}\unicode{65}",
    r"\require{html}\includegraphics{http://evil.example/i.png}",
    r"\def\x{\href{http://evil.example}{x}}\x",
)
OPENERS: Final = (
    *("$", "$$", "\\(", "\\[", "\\\\(", "\\\\[", "\\begin{align}", "\\begin{x}", "\\ref{", "{", "\\text{", "%"),
    *("`", "``", "```", "```html\n", "~~~", "\n```\n", "\n~~~\n", "\n    ", "\t", "<code>", "<pre>", "<!--", "<?x "),
    *("<![CDATA[", "<div>", "\n<div>\n", "<b", "&lt;", "&#60;", "[", "![", "[^1]", "\n[^1]: ", "\n[x]: ", "<", "\\<"),
    *("**", "_", "~~", "\\", "\\`", "\\$", "\n- ", "\n1. ", "\n7) ", "\n> ", "\n# ", "\n---\n", "\n===\n", "\n\n"),
    *("| a | b |\n", "|---|:-:|\n", "| ", " | ", ":::", "{{", "@@0@@", "\x00", "\x1b]8;;http://x\x07", "\u202e", "é"),
)
CLOSERS: Final = (
    *("$", "$$", "\\)", "\\]", "\\\\)", "\\\\]", "\\end{align}", "\\end{x}", "}", "`", "``", "```", "~~~", "\n```\n"),
    *("-->", "?>", "]]>", "</code>", "</pre>", "</div>", ">", "]", "](", "](x)", ")", "]: ", "**", "_", "~~", "\\"),
    *("\n", "\n\n", " ", "|\n", "a", "b c"),
)
# Those that ran or fetched when answers were Markdown, and what is near them.
KNOWN: Final = (
    *(f"$a `$ {payload} ` b" for payload in PAYLOADS),
    *(f"\\begin{{align}}a `\\end{{align}} {payload} ` b" for payload in PAYLOADS),
    *(f"{opener}a `{closer} {payload} ` b" for opener, closer in ((r"\\(", r"\\)"), (r"\\[", r"\\]"), ("$$", "$$"))
      for payload in PAYLOADS),
    *(f"$${payload}$$" for payload in PAYLOADS),
    *(f"${payload}$" for payload in PAYLOADS),
    *(f"\\begin{{align}}\n{payload}\n\\end{{align}}" for payload in PAYLOADS),
    *(f"\\({payload}\\) \\[{payload}\\]" for payload in PAYLOADS),
    *(f"a[^1]\n\n[^1]: {payload}" for payload in PAYLOADS),
    *(f"[x][y]\n\n[y]: {payload}" for payload in PAYLOADS),
    *(f"> - 1. {payload}\n\n    {payload}" for payload in PAYLOADS),
    *(f"a\n\n<div>\n\n{payload}\n\n</div>" for payload in PAYLOADS),
    *(f"```{payload}\n{payload}\n```\n{payload}" for payload in PAYLOADS),
    *(f"# {payload}\n\na ` b\nc ` {payload} ` d" for payload in PAYLOADS),
    *(f"<!-- {payload} --> \\<{payload} \\`{payload}`" for payload in PAYLOADS),
    *(f"```mermaid\nclick a \"{payload}\"\n```" for payload in PAYLOADS),
)  # fmt: skip


def make_hostile_texts(count: int, seed: int = 0) -> Iterator[str]:
    """Openers and closers of all readers, mixed, with payloads between them."""
    chance = random.Random(seed)
    for _ in range(count):
        pieces = [
            piece
            for _ in range(chance.randint(1, 5))
            for piece in (
                *chance.choices(OPENERS, k=chance.randint(0, 3)),
                chance.choice((*PAYLOADS, "word ", " ", r"\frac ab ")),
                *chance.choices(CLOSERS, k=chance.randint(0, 3)),
            )
        ]
        yield "".join(pieces)


class Page(HTMLParser):
    """What a page has of HTML: elements with their attributes, all of its text, and the texts that MathJax looks into.

    Attributes:
        elements: tags and attributes, in order.
        text: of all elements but scripts and styles.
        formulas: what MathJax would typeset if it knew no class, as where a sanitiser takes classes away; and whether
            each stands where we want one typeset.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.text = ""
        self.formulas: list[tuple[str, bool]] = []
        self._open: list[tuple[str, str]] = []
        self._string = ""
        self.feed(html)
        self.close()
        self._end_string()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))
        if tag in ("br", "wbr"):
            self._string += "\n"
            self.text += "\n"
            return
        self._end_string()
        if tag not in ("hr", "img", "input", "meta", "link"):
            self._open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        self._end_string()
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if {"script", "style"}.isdisjoint(name for name, _ in self._open):
            self.text += data
        if {"script", "style", "pre", "code", "textarea"}.isdisjoint(name for name, _ in self._open):
            self._string += data

    def _end_string(self) -> None:
        is_wanted = any("mathjax_process" in kind for _, kind in self._open)
        self.formulas += [(each, is_wanted) for each in find_typeset(self._string)]
        self._string = ""

    def find_active(self) -> list[str]:
        """Whatever can load, link, run, or look like another part of the page."""
        return [
            f"{tag} {name}={value}"
            for tag, attributes in self.elements
            for name, value in (*attributes, ("", None))
            if tag in _ACTIVE or name.startswith("on") or name in ("href", "src", "id", "srcset", "data", "action")
        ]


_ACTIVE: Final = {
    *("a", "area", "audio", "b", "base", "button", "embed", "form", "frame", "iframe", "img", "input", "link", "math"),
    *("meta", "object", "script", "source", "style", "svg", "template", "title", "video", "x"),
}
_FORMULA: Final = re.compile(
    r"(?<!\\)\$\$.*?\$\$|(?<![\\$])\$[^$]+?\$|\\\(.*?\\\)|\\\[.*?\\\]|\\begin\{([^}]*)\}.*?\\end\{\1\}"
    r"|\\(?:eq)?ref\{[^}]*\}",
    re.DOTALL,
)


def find_typeset(text: str) -> list[str]:
    """What MathJax takes for formulas in one text, rather more than less."""
    return [match[0] for match in _FORMULA.finditer(text)]
