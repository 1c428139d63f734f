"""Arguments of tool calls that are no JSON object, as a small model writes them: kept as text on their way.

LangChain does not check what it parses: it raises over arguments that are a list or a number. So that the model is
told what was wrong with its call, they have to arrive as they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.domain.json_text import read_json

# Before arguments it makes them no JSON, so that LangChain keeps them as they are, among its invalid tool calls. With
# the bracket it sees at once that no JSON can come of them, in place of trying ever shorter texts.
_MARK: Final = "\ufeff]"


def mark_malformed_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Mark the arguments of the calls in one reply, where one of them is no JSON object.

    All are marked or none: LangChain keeps good and bad calls apart, and their order would be lost.
    """
    if all(map(_is_json_object, arguments)):
        return list(arguments)
    return [f"{_MARK}{each or ''}" for each in arguments]


def unmark_arguments(text: str) -> str:
    """Give arguments the text back that the model wrote."""
    return text.removeprefix(_MARK)


def _is_json_object(arguments: Any) -> bool:
    try:
        return isinstance(read_json(arguments or "{}", strict=False), dict)
    except (AttributeError, TypeError, ValueError):
        return False
