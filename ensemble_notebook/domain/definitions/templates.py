"""Template variables in texts (E6): ``{name}`` is replaced once, ``{{name}}`` is a literal ``{name}``.

The texts of a task that runs for each item also hold ``{item}`` and ``{item.field}``, which are replaced for each of
them (E53).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.output_field import find_part
from ensemble_notebook.domain.value_text import write_value
from ensemble_notebook.errors import PromptTemplateError

ITEM: Final = "item"

_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z0-9_]+)\}\}|\{([A-Za-z0-9_]+)\}", re.ASCII)
_PATH: Final = r"\.[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*"
_OF_ITEM: Final = re.compile(rf"\{{\{{item(?:{_PATH})?\}}\}}|\{{item(?P<path>{_PATH})?\}}", re.ASCII)

_BRACED: Final = re.compile(r"\{([A-Za-z0-9_]+)\}", re.ASCII)


def is_variable_name(value: object) -> bool:
    """True for what may stand between the braces."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def find_input_name(text: str) -> str | None:
    """Find the name of the one variable that a text is, as ``"{documents}"``; None where it is anything else."""
    match = _PLACEHOLDER.fullmatch(text.strip())
    return None if match is None else match[2]


def find_variables(text: str) -> Iterator[str]:
    """Find the names of the variables of a text, in order, with repetitions."""
    if "{" not in text:  # most texts of most runs
        return iter(())
    return (match[2] for match in _PLACEHOLDER.finditer(text) if match[2] is not None)


def escape_variables(text: str) -> str:
    """Write a text so that it is rendered as it is."""
    return _BRACED.sub(r"{{\1}}", text) if "{" in text else text


def escape_name(text: str, name: str) -> str:
    """Write a text so that every ``{name}`` of this one name is rendered as it is."""

    def escape(match: re.Match[str]) -> str:
        return "{" + match[0] + "}" if match[2] == name else match[0]

    return _PLACEHOLDER.sub(escape, text)


def check_variables(texts: Iterable[str], inputs: Mapping[str, Any]) -> None:
    """Check that every variable of every text has a value.

    Raises:
        PromptTemplateError: names all missing ones over all texts, in order, once each.
    """
    missing: dict[str, str] = {}
    for text in texts:
        for name in find_variables(text):
            if name not in inputs:
                missing.setdefault(name, text)
    if missing:
        raise PromptTemplateError(tuple(missing), next(iter(missing.values())))


def render(text: str, inputs: Mapping[str, Any]) -> str:
    """Render the text with its variables filled in: one pass, None becomes empty, other values are written as E47 says.

    Other braces stay as they are, and so do variables without a value (a run has none: `check_variables` came first).
    """

    def fill(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "{" + match[1] + "}"
        value = inputs.get(match[2], match[0])
        return value if isinstance(value, str) else write_value(value, config.max_table_chars).text

    return _PLACEHOLDER.sub(fill, text) if "{" in text else text


def hide_item(text: str) -> str:
    """The text with ``{item}`` as a literal: what stands for the item of a task is no variable of the run.

    ``{item.field}`` is none anyway.
    """
    return _OF_ITEM.sub(lambda match: f"{{{match[0]}}}" if match[0] == "{item}" else match[0], text)


def find_item_paths(text: str) -> Iterator[str]:
    """Find the paths of the fields of an item that a text uses, in order; an empty one for the item itself."""
    if "{" not in text:
        return iter(())
    return ((match["path"] or "")[1:] for match in _OF_ITEM.finditer(text) if not match[0].startswith("{{"))


class ItemTemplate:
    """A text of a task that runs for each item: all is filled in but the item (E53).

    Args:
        text: as it was declared.
        inputs: of the run. What they hold is not looked at again.
    """

    __slots__ = ("_parts",)

    def __init__(self, text: str, inputs: Mapping[str, Any]) -> None:
        self._parts: list[tuple[str, str | None]] = []  # a literal text, and the path of the item's field behind it
        start = 0
        for match in _OF_ITEM.finditer(text):
            if not match[0].startswith("{{"):
                self._parts.append((_render_literal(text[start : match.start()], inputs), (match["path"] or "")[1:]))
                start = match.end()
        self._parts.append((_render_literal(text[start:], inputs), None))

    def fill(self, item: Any) -> str:
        """The text for one item.

        Raises:
            LookupError: the item has no such field; the message is a sentence.
            UnwritableValueError: no prompt can hold it.
        """
        return "".join([literal + _write_part(item, path) for literal, path in self._parts])


def _render_literal(text: str, inputs: Mapping[str, Any]) -> str:
    """A piece of a text in which no ``{item}`` stands for the item; ``{{item.field}}`` is a literal, too."""
    return render(_OF_ITEM.sub(lambda match: match[0] if "." not in match[0] else match[0][1:-1], text), inputs)


def _write_part(item: Any, path: str | None) -> str:
    if path is None:
        return ""
    value = find_part(item, path) if path else item
    return value if isinstance(value, str) else write_value(value, config.max_table_chars).text
