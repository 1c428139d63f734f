"""Changes single values in the text of a cell: all other characters stay (F5).

What comes out is read again, and is given only if nothing but that value is another one. Knows no key of the language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.values import to_plain_value
from ensemble_notebook.cell.reading.yaml_nodes import ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.cell.reading.yaml_tree import read_tree
from ensemble_notebook.cell.writing.yaml_text import Digits, write_flow, write_yaml
from ensemble_notebook.errors import ValidationError

Path = tuple[str | int, ...]
_AROUND: Final = (0, 8, 24, 60)
"""Characters beside a change by which its place is told from others."""
_STEP: Final = "  "


class TextEdit:
    """The text of a cell, value by value.

    Args:
        text: its body.

    Attributes:
        text: as it is by now; its lines end with a line feed.
    """

    def __init__(self, text: str) -> None:
        self.text = SourceText(text).text
        self.root = _read(self.text)

    def find(self, path: Path) -> Node | None:
        """The node at a path of keys and numbers of items; None where there is none."""
        node: Node | None = self.root
        for part in path:
            if isinstance(node, MappingNode):
                node = next((value for key, value in node.pairs if key.text == part), None)
            elif isinstance(node, ListNode) and isinstance(part, int) and part < len(node.items):
                node = node.items[part]
            else:
                return None
        return node

    def find_path(self, start: int, end: int) -> Path | None:
        """The path of the value that stands there; None where there is none."""
        return next((path for path, node in _walk(self.root, ()) if (node.start, node.end) == (start, end)), None)

    def get_data(self, path: Path) -> Any:
        """The value at a path as data that can be written again; numbers keep their digits."""
        return _to_data(self.find(path), keeps_digits=True)

    def set(self, path: Path, value: Any, *, after: str | None = None) -> None:
        """Put a value at a path, in place of what is there or as a new key.

        Args:
            path: of the value.
            value: plain data.
            after: the key of the same mapping that a new one follows; None: it is the last.

        Raises:
            ValidationError: it can't be written there so that nothing else changes.
        """
        wanted = _put(_to_data(self.root), path, _normalize(value))
        node = self.find(path)
        texts = self._add(path, value, after) if node is None else self._replace(path, node, value)
        for text in texts:
            try:
                root = _read(text)
            except ValidationError:
                continue
            if _to_data(root) == wanted:
                self.text, self.root = text, root
                return
        raise ValidationError(f"The change can't be written at {write_path(path)} so that all else stays as it is.")

    # What stands there is replaced: by a change of some words first, then as a whole, in the form that it has, then in
    # another one.

    def _replace(self, path: Path, node: Node, value: Any) -> Iterator[str]:
        start, end = node.start, _find_end(self.text, node)
        raw, column = self.text[start:end], self._find_column(path)
        is_inside = any(getattr(self.find(path[:size]), "is_flow", False) for size in range(len(path)))
        forms: list[str] = []
        if isinstance(value, str) and isinstance(node, ScalarNode):
            before = node.text.rstrip() if node.is_block else node.text
            forms += _change_words(raw, before, value, node.is_block)
            forms += _write_alike(raw, value, " " * (column + 2))
        if isinstance(value, str) and "\n" in value and not is_inside:
            forms.append(_write_literal("|-", value, " " * (column + 2)))
        if isinstance(value, Mapping) and not is_inside and isinstance(node, ScalarNode) and "description" in value:
            yield self._write_with_keys(path, start, end, value)
        forms.append(write_flow(value, is_inside=is_inside))
        if isinstance(value, str):
            forms.append(json.dumps(value, ensure_ascii=False))
        yield from (self.text[:start] + each + self.text[end:] for each in forms)

    def _write_with_keys(self, path: Path, start: int, end: int, value: Mapping[str, Any]) -> str:
        """A text that becomes the first value of a mapping: it stays as it is, with what is behind it on its line."""
        first, *others = value
        indent = " " * (self._find_column(path) + 2)
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end
        before = self.text[:start] if isinstance(path[-1], int) else f"{self.text[:start].rstrip(' ')}\n{indent}"
        below = _indent(write_yaml({name: value[name] for name in others}), indent)
        return f"{before}{first}: {self.text[start:line_end]}\n{below}{self.text[line_end:]}"

    # What is not there is added to its mapping; a text becomes a mapping by the caller.

    def _add(self, path: Path, value: Any, after: str | None) -> Iterator[str]:
        parent, key = self.find(path[:-1]), str(path[-1])
        if not isinstance(parent, MappingNode) or not parent.pairs:
            return
        name, last = next((pair for pair in parent.pairs if pair[0].text == after), parent.pairs[-1])
        end = _find_end(self.text, last) if not (isinstance(last, ScalarNode) and last.is_empty) else name.end + 1
        if parent.is_flow:
            yield f"{self.text[:end]}, {write_flow({key: value})[1:-1]}{self.text[end:]}"
            return
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end
        indent = " " * self._column_at(parent.pairs[0][0].start)
        yield f"{self.text[:line_end]}\n{_indent(write_yaml({key: value}), indent)}{self.text[line_end:]}"

    def _find_column(self, path: Path) -> int:
        """The column of the key or of the dash that a value belongs to."""
        parent = self.find(path[:-1])
        if isinstance(parent, MappingNode):
            return self._column_at(next(key.start for key, _ in parent.pairs if key.text == path[-1]))
        node = self.find(path)
        return 0 if node is None else max(0, self._column_at(node.start) - 2)

    def _column_at(self, offset: int) -> int:
        return offset - (self.text.rfind("\n", 0, offset) + 1)


def write_path(path: Path) -> str:
    """A path as people read it: ``agents.Critic.goal``, ``tasks[1].prompt``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _read(text: str) -> Node:
    report = MistakeReport(SourceText(text))
    with report:
        root = read_tree(report)
    if root is None:
        raise ValidationError("The cell is empty.")
    return root


def _walk(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    yield path, node
    if isinstance(node, MappingNode):
        for key, value in node.pairs:
            yield from _walk(value, (*path, key.text))
    elif isinstance(node, ListNode):
        for number, item in enumerate(node.items):
            yield from _walk(item, (*path, number))


def _to_data(node: Node | None, *, keeps_digits: bool = False) -> Any:
    if isinstance(node, MappingNode):
        return {key.text: _to_data(value, keeps_digits=keeps_digits) for key, value in node.pairs}
    if isinstance(node, ListNode):
        return [_to_data(item, keeps_digits=keeps_digits) for item in node.items]
    if not isinstance(node, ScalarNode):
        return None
    try:
        value = to_plain_value(node)
    except MisreadError:
        return Digits(node.text)
    if keeps_digits and isinstance(value, int | float) and not isinstance(value, bool):
        return Digits(node.text)
    return value.rstrip() if node.is_block and isinstance(value, str) else value


def _normalize(value: Any) -> Any:
    """The value as it is read again."""
    if isinstance(value, Mapping):
        return {str(key): _normalize(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_normalize(each) for each in value]
    if isinstance(value, Digits):
        return _to_data(ScalarNode(0, 0, SourceText("").top, value.text, is_plain=True))
    return value


def _put(data: Any, path: Path, value: Any) -> Any:
    """The data with another value at a path."""
    if not path:
        return value
    first, *rest = path
    if isinstance(data, list):
        return [_put(each, tuple(rest), value) if number == first else each for number, each in enumerate(data)]
    return {**data, first: _put(data.get(first), tuple(rest), value)}


def _find_end(text: str, node: Node) -> int:
    """Where a value ends: the parser has the end of one over lines where the next thing begins."""
    if isinstance(node, ScalarNode) or getattr(node, "is_flow", False):
        return node.start + len(text[node.start : node.end].rstrip())
    last = node.items[-1] if isinstance(node, ListNode) else None
    if isinstance(node, MappingNode) and node.pairs:
        key, last = node.pairs[-1]
        if isinstance(last, ScalarNode) and last.is_empty:
            return key.end + 1
    return node.end if last is None else _find_end(text, last)


def _change_words(raw: str, before: str, after: str, is_block: bool) -> Iterator[str]:
    """The text as it is written, with the words changed that differ, where their place is clear."""
    start, end = find_change(before, after)
    left = len(before) - end
    for around in _AROUND:
        first, last = max(0, start - around), min(len(before), end + around)
        old, new = before[first:last], after[first : len(after) - left + (last - end)]
        if not old:
            continue
        # Where lines are folded, one may end at any space; in a literal text each is indented.
        pattern = re.compile(re.sub(r"(?:\\ |\\\n)+", r"\\s+", re.escape(old)))
        found = list(pattern.finditer(raw))
        if len(found) != 1:
            continue
        match = found[0]
        if raw[:1] == "'":
            new = new.replace("'", "''")
        elif raw[:1] == '"':
            new = json.dumps(new, ensure_ascii=False)[1:-1]
        elif is_block and "\n" in new:
            new = re.sub(r"\n(?=[^\n])", f"\n{_find_indent(raw)}", new)
        if "\n" not in match[0] or "\n" in old:
            yield raw[: match.start()] + new + raw[match.end() :]


def find_change(before: str, after: str) -> tuple[int, int]:
    """Where the first text differs from the second: from which character to which one."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    same = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, len(before) - same


def _find_indent(raw: str) -> str:
    """How far the lines of a block are indented."""
    lines = [line for line in raw.split("\n")[1:] if line.strip()]
    return min((line[: len(line) - len(line.lstrip(" "))] for line in lines), key=len, default=_STEP)


def _write_alike(raw: str, value: str, indent: str) -> Iterator[str]:
    """A text in the form of the one that it stands in place of."""
    if raw[:1] == "'" and "\n" not in value:
        yield "'" + value.replace("'", "''") + "'"
    elif raw[:1] == '"':
        yield json.dumps(value, ensure_ascii=False)
    elif raw[:1] in ("|", ">"):
        own = _find_indent(raw) or indent
        header = raw.partition("\n")[0]
        if raw[:1] == ">" and "\n" not in value:
            yield _fold(header, value, own)
        yield _write_literal(header.replace(">", "|", 1), value, own)


def _write_literal(header: str, value: str, indent: str) -> str:
    return "\n".join([header, *(f"{indent}{line}" if line else "" for line in value.split("\n"))])


def _fold(header: str, value: str, indent: str, width: int = 100) -> str:
    lines, line = [], ""
    for word in value.split(" "):
        if line and len(indent) + len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([header, *(f"{indent}{each}" for each in (*lines, line))])


def _indent(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" if line else "" for line in text.rstrip("\n").split("\n"))
