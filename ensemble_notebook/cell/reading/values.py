"""Single values of a cell: nodes to Python values, refusing what was probably meant otherwise (C11, C11a).

Every function raises `MisreadError` for a node of another kind. Knows no keys.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from ensemble_notebook.cell.reading.mistakes import MisreadError, MistakeReport, quote
from ensemble_notebook.cell.reading.source_text import SourceText
from ensemble_notebook.cell.reading.yaml_nodes import BrokenNode, ListNode, MappingNode, Node, ScalarNode
from ensemble_notebook.domain.value_text import FLAGS, OLD_FLAGS, PlainValueError, read_plain_value

_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_SWALLOWED: Final = re.compile(r"[ \t]+#(?=[^\s#])[^\n]*")


def to_plain_value(node: ScalarNode) -> Any:
    """Make a value what YAML 1.2 (its core schema) takes it for: text, int, float, bool or None.

    Raises:
        MisreadError: the number is written in a way that tools read differently.
    """
    if not node.is_plain:
        return node.text
    try:
        return read_plain_value(node.text)
    except PlainValueError as error:
        raise MisreadError(node.place, str(error), error.hint) from None


def expect_value(node: Node, label: str) -> None:
    """Refuse a key without a value.

    Raises:
        MisreadError: there is none, or it was broken before.
    """
    if isinstance(node, BrokenNode):
        raise MisreadError(node.place)
    if isinstance(node, ScalarNode) and node.is_empty:
        raise MisreadError(node.place, f"{label} has no value.", "Write a value after the ':', or remove the line.")


def expect_scalar(node: Node, label: str, wanted: str) -> ScalarNode:
    """Expect the node to be a single value."""
    expect_value(node, label)
    if isinstance(node, ScalarNode):
        return node
    raise make_misfit(node, label, wanted, "Write one value, without brackets and on one level.")


def make_misfit(node: Node, label: str, wanted: str, hint: str) -> MisreadError:
    """Make the mistake of a value that is of another kind than its key takes."""
    return MisreadError(node.place, f"{label} takes {wanted}, and this is {describe_node(node)}.", hint)


def read_text(node: Node, label: str, *, report: MistakeReport, wanted: str = "a text") -> str:
    """Read a text. Folded and literal ones lose the line ends behind them."""
    found = expect_scalar(node, label, wanted)
    value = to_plain_value(found)
    if not isinstance(value, str):
        hint = f'Put it in quotes if it is a text: "{found.text}".' if value is not None else "Write a text."
        raise make_misfit(found, label, wanted, hint)
    if found.is_plain:
        _refuse_hidden_items(found, report.source)
        match = _SWALLOWED.match(report.source.text, found.end)
        if match is not None:
            place = report.source.locate(match.end() - len(match[0].lstrip()), match.end())
            message = f"{quote(match[0].strip())} is a comment for YAML. Put the text in quotes if it belongs to it."
            report.add_notice(place, message, is_warning=True)
    return value.rstrip() if found.is_block else value


def _refuse_hidden_items(node: ScalarNode, source: SourceText) -> None:
    """Refuse a list item that is indented too deep: it would silently become a part of the text above it."""
    for line in range(source.find_line(node.place) + 1, source.line_number(node.end) + 1):
        if source.line(line).lstrip().startswith("- "):
            hint = (
                "Move '- ' to the column of the other items; for a text with dashes use `|` and start it on a new line."
            )
            raise MisreadError(source.locate_line(line), "for YAML this line belongs to the text above it.", hint)


def is_name(text: str) -> bool:
    """True for a name, plain or dotted, that could be one of the notebook's."""
    return _NAME.fullmatch(text) is not None


def is_flag(node: ScalarNode) -> bool:
    """True for true and false, in the spellings of YAML 1.2."""
    return node.is_plain and node.text in FLAGS


def read_flag(node: Node, label: str) -> bool:
    """Read true or false, which YAML 1.2 spells in no other way."""
    found = expect_scalar(node, label, "true or false")
    value = to_plain_value(found)
    if isinstance(value, bool):
        return value
    meant = OLD_FLAGS.get(found.text.lower())
    hint = f"YAML 1.2 has no yes, no, on and off: write {meant}." if meant else "Write true or false, without quotes."
    raise make_misfit(found, label, "true or false", hint)


def read_number(node: Node, label: str, *, wanted: str) -> int | float:
    """Read a number."""
    found = expect_scalar(node, label, wanted)
    value = to_plain_value(found)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise make_misfit(found, label, wanted, "Write digits, without quotes.")


def read_names(node: Node, label: str, *, wanted: str, report: MistakeReport) -> list[ScalarNode]:
    """Read a single name, or a list of names, each once; report an item that is no name, and leave it out."""
    expect_value(node, label)
    if isinstance(node, ScalarNode):
        # several names in one text are a list without its brackets
        value = to_plain_value(node)
        if value is None or isinstance(value, bool) or "," in node.text:
            hint = f"Write [{node.text if ',' in node.text and len(node.text) <= 40 else 'first, second'}]."
            raise make_misfit(node, label, wanted, hint)
        if isinstance(value, str):
            read_text(node, label, report=report)
        return [node]
    if not isinstance(node, ListNode):
        raise make_misfit(node, label, wanted, "Write [first, second].")
    found: dict[str, ScalarNode] = {}
    for item in node.items:
        try:
            each = expect_scalar(item, f"an item of {label}", "a name")
        except MisreadError as misread:
            report.add_misread(misread)
            continue
        first = found.setdefault(each.text, each)
        if first is not each:
            message = f"{quote(each.text)} stands twice in {label}; the first one is in line {first.place.line}."
            report.add_mistake(each.place, message, "Remove one of them.")
    return list(found.values())


def read_data(node: Node, label: str) -> Any:
    """Read any value as plain Python data; dates stay texts, and mappings have text keys."""
    expect_value(node, label)
    if isinstance(node, ScalarNode):
        return to_plain_value(node)
    if isinstance(node, ListNode):
        return [read_data(item, label) for item in node.items]
    if isinstance(node, MappingNode):
        return {key.text: read_data(value, label) for key, value in node.pairs}
    raise MisreadError(node.place)


def describe_node(node: Node) -> str:
    """Say what a node is, for a message."""
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if not isinstance(node, ScalarNode):
        return "something that can't be read"
    try:
        value = to_plain_value(node)
    except MisreadError:
        return "a number"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the value {node.text}"
    if isinstance(value, int | float):
        return f"the number {node.text}"
    return f"the text {quote(value, 30)}"
