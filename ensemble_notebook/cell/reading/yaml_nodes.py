"""YAML 1.2 text as a tree of nodes with positions. Knows no key of the language.

Only the scanner and parser of ruamel.yaml are used, and for plain lists not even these. Their events are composed here
iteratively and within limits: no tag is obeyed, no alias expanded, no depth exhausts the stack (C12). Anchors, aliases,
tags and further documents are mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.reading.mistakes import MOST_MISTAKES, MisreadError, quote
from ensemble_notebook.cell.reading.source_text import Place, SourceText

ALIAS: Final = "a value that starts with '*' is an alias for YAML, and cells have none."
DIRECTIVE: Final = "a line that starts with '%' is a directive for YAML, and cells have none."

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

MOST_CHARACTERS: Final = 1_000_000
MOST_NODES: Final = 20_000
DEEPEST: Final = 32


@dataclass(slots=True, eq=False)
class Node:
    """What all nodes share: `start` and `end` are offsets, `place` is what a caret points at."""

    start: int
    end: int
    place: Place


@dataclass(slots=True, eq=False)
class ScalarNode(Node):
    """A single value, as text."""

    text: str
    is_plain: bool
    is_block: bool = False

    @property
    def is_empty(self) -> bool:
        """True where nothing at all was written."""
        return self.is_plain and not self.text


@dataclass(slots=True, eq=False)
class ListNode(Node):
    """Items in order."""

    items: list[Node] = field(default_factory=list)
    is_flow: bool = False


@dataclass(slots=True, eq=False)
class MappingNode(Node):
    """Pairs in order; keys are texts, each once. `is_partial` where a pair had no such key and was left out."""

    pairs: list[tuple[ScalarNode, Node]] = field(default_factory=list)
    is_flow: bool = False
    is_partial: bool = False


@dataclass(slots=True, eq=False)
class BrokenNode(Node):
    """A value that can't be read; its mistake has been noted, so nothing more is said about it."""


@dataclass(slots=True, eq=False)
class _OpenCollection:
    """A collection being read; of a mapping, the key that waits for its value and the lines of the keys so far."""

    node: ListNode | MappingNode
    is_tagged: bool = False
    key: ScalarNode | None = None
    has_key: bool = False
    lines: dict[str, int] = field(default_factory=dict)


class NodeComposer:
    """One attempt to compose a text; `mistakes` are those that did not stop it, `last` is the node read last."""

    def __init__(self, source: SourceText, text: str, broken: Collection[int] = ()) -> None:
        self.mistakes: list[MisreadError] = []
        self.last: Node | None = None
        self.root: Node | None = None
        self._source, self._text, self._broken = source, text, broken
        self._open: list[_OpenCollection] = []
        self._count = 0

    def run(self) -> Node | None:
        """The root, or None for an empty text.

        Raises:
            MisreadError: too deep or too large.
            ruamel.yaml.error.YAMLError: (or worse) the text is no YAML.
        """
        if not self._broken and (items := find_plain_items(self._text)) is not None:
            locate, text = self._source.locate, self._text
            node = ListNode(0, 0, locate(0, 0))
            self._open.append(_OpenCollection(node))
            for start, end in items:
                self._add(ScalarNode(start, end, locate(start, end), text[start:end], is_plain=True))
            self._finish(len(text))
            return self.root
        documents = 0
        from ruamel.yaml import YAML

        events: Iterator[Event] = YAML(typ="safe", pure=True).parse(self._text)
        for event in events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                documents += 1
                if self._is_foreign(event, documents):
                    break
            elif name in ("SequenceStartEvent", "MappingStartEvent"):
                self._begin(event, ListNode if name.startswith("Seq") else MappingNode)
            elif name in ("SequenceEndEvent", "MappingEndEvent"):
                self._finish(event.end_mark.index)
            elif name == "ScalarEvent":
                self._add(self._make_scalar(event))
            elif name == "AliasEvent":
                start, end = event.start_mark.index, event.end_mark.index
                place = self._source.locate(start, end)
                self._note(place, ALIAS, "Put the value in quotes.")
                self._add(BrokenNode(start, end, place))
        return self.root

    @property
    def open_flow(self) -> int | None:
        """Offset of the outermost [...] or {...} that is not finished."""
        return next((each.node.start for each in self._open if each.node.is_flow), None)

    def _is_foreign(self, event: Any, documents: int) -> bool:
        """Notes a second document or a directive."""
        line = self._source.line_number(event.start_mark.index)
        if documents > 1:
            message, hint = "a second document starts here.", "A cell is one document: remove this line."
        elif getattr(event, "version", None) or getattr(event, "tags", None):
            message, hint = DIRECTIVE, "Remove it."
            line = 1
        else:
            return False
        self._note(self._source.locate_line(line), message, hint)
        return documents > 1

    def _note(self, place: Place, message: str, hint: str) -> None:
        self.mistakes.append(MisreadError(place, message, hint))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise MisreadError(place)

    def _make_scalar(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        place = self._source.locate(start, end)
        if start in self._broken or self._is_decorated(event):
            return BrokenNode(start, end, place)
        try:
            event.value.encode()
        except UnicodeEncodeError:
            self._note(place, "this text holds half of a character (a lone surrogate).", "Write the character itself.")
            return BrokenNode(start, end, place)
        return ScalarNode(start, end, place, event.value, event.style is None, event.style in ("|", ">"))

    def _is_decorated(self, event: Any) -> bool:
        """Notes an anchor or a tag before a value."""
        start = event.start_mark.index
        if event.anchor is not None:
            message = "a value that starts with '&' is an anchor for YAML, and cells have none."
        elif event.tag is not None:
            message = "a value that starts with '!' is a tag for YAML, and cells have none."
        else:
            return False
        word = self._text[start : self._source.line_end(self._source.line_number(start))].split(maxsplit=1)
        self._note(self._source.locate(start, start + len(word[0])), message, "Put the value in quotes.")
        return True

    def _begin(self, event: Any, kind: type[ListNode | MappingNode]) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        place = self._source.locate(start, end)
        if len(self._open) >= DEEPEST:
            raise MisreadError(place, f"this is nested deeper than {DEEPEST} levels.", "A cell needs about six.")
        is_tagged = self._is_decorated(event) and event.tag is not None
        self._open.append(_OpenCollection(kind(start, end, place, is_flow=bool(event.flow_style)), is_tagged=is_tagged))

    def _finish(self, end: int) -> None:
        closed = self._open.pop()
        node = closed.node
        node.end = end
        if node.is_flow:
            node.place = self._source.locate(node.start, end)
        is_brace = False
        if isinstance(node, MappingNode) and node.is_flow and len(node.pairs) == 1:
            key, value = node.pairs[0]
            is_lone = key.is_plain and isinstance(value, ScalarNode) and value.is_empty
            is_brace = is_lone and ":" not in self._text[key.end : node.end]
        if is_brace:  # `{name}`, which can only be meant as a template variable
            self._note(node.place, *describe_brace_pitfall(self._text[node.start : end]))
        self._add(BrokenNode(node.start, end, node.place) if is_brace or closed.is_tagged else node)

    def _add(self, node: Node) -> None:
        """Put a finished node where it belongs."""
        self._count += 1
        if self._count > MOST_NODES:
            message = f"this cell has more than {MOST_NODES:,} values."
            raise MisreadError(node.place, message, "Split it, or load data in Python.")
        self.last = node
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if isinstance(parent.node, ListNode):
            parent.node.items.append(node)
        elif not parent.has_key:
            parent.key, parent.has_key = self._read_key(node), True
        else:
            if parent.key is None:
                parent.node.is_partial = True
            else:
                self._add_pair(parent, parent.node, parent.key, node)
            parent.has_key = False

    def _read_key(self, node: Node) -> ScalarNode | None:
        """Take the node as a key; note it, and give None, when it can't be one."""
        if isinstance(node, ScalarNode) and not node.is_empty:
            return node
        if isinstance(node, ScalarNode):
            self._note(node.place, "there is no key before this ':'.", "Write `key: value`.")
        elif not isinstance(node, BrokenNode):
            hint = "Write `key: value`, and put a text with brackets in quotes."
            self._note(node.place, "a key must be a text.", hint)
        return None

    def _add_pair(self, parent: _OpenCollection, mapping: MappingNode, key: ScalarNode, value: Node) -> None:
        if key.text in parent.lines:
            first = parent.lines[key.text]
            where = "on this line" if first == key.place.line else f"in line {first}"
            message = f"the key {quote(key.text)} stands twice; the first one is {where}."
            self._note(key.place, message, "YAML would drop one of them silently: rename or remove one.")
            return
        if isinstance(value, ScalarNode) and value.is_empty:
            value.place = key.place  # the parser puts nothing where the next thing starts
        parent.lines[key.text] = key.place.line
        mapping.pairs.append((key, value))


def describe_brace_pitfall(text: str) -> tuple[str, str]:
    """Word the mistake of an unquoted `{topic}` at the start of a value."""
    line = text.partition("\n")[0].strip()
    end = line.find("}") + 1
    name = line[: end + (line[end : end + 1] == "}")] if end else line
    message = f"a value that starts with {quote(name, 40)} is a mapping for YAML, not a text."
    return message, f'Put the whole value in quotes: "{line if len(line) <= 60 else line[:57] + "..."}"'


# The parser takes forty microseconds for each item, as much as everything else that is done with a task before it
# starts.

# A letter first, and no sign that could mean anything to YAML behind it: such a line can only be read as it stands.
_ITEM: Final = re.compile(r"- [^\W\d_](?:[\w {}()\[\],.;!?'\"/&%+=*-]{0,900}[\w{}()\[\],.;!?'\"/&%+=*-])?")
_MARK: Final = 2  # characters of "- "


def find_plain_items(text: str) -> list[tuple[int, int]] | None:
    """Offsets of the start and the end of each item; None where the text is anything else than such a list."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    items, start = [], 0
    for line in lines:
        if _ITEM.fullmatch(line) is None:
            return None
        end = start + len(line)
        items.append((start + _MARK, end))
        start = end + 1
    return items or None
