"""The base of every error, and how an error says what happened: on one line, without secrets, short in a cell."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

_LINE_LIMIT = 300
_masks: list[Callable[[str], str]] = []


def register_mask(mask: Callable[[str], str]) -> None:
    """Have what errors say to people go through `mask` first (T7): what a secret is, is known above this module."""
    _masks.append(mask)


def _mask(text: str) -> str:
    for mask in _masks:
        text = mask(text)
    return text


def rebuild(cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """An unpickled error: its facts, without its constructor."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def get_message(error: BaseException) -> str:
    """Get what an error says; the name of its type where it says nothing, or can't."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error with a broken text must not become two errors
        return type(error).__name__


def summarize_error(error: BaseException) -> str:
    """An error in words, without secrets: ours as it is; a foreign one with its type, on one line, cut if too long."""
    if isinstance(error, EnsembleError):
        return _mask(str(error))
    kind, text = type(error).__name__, _mask(" ".join(get_message(error).split()))
    if len(text) > _LINE_LIMIT:
        text = text[:_LINE_LIMIT] + " ..."
    return kind if text == kind else f"{kind}: {text}"


def _find_root_cause(error: BaseException) -> BaseException:
    """The last link of the chain of causes. ``raise error from error`` makes a ring, which is left where it closes."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


class EnsembleError(Exception):
    """Base of every error of this package.

    Attributes:
        output: the partial ``EnsembleOutput`` of the run that raised it; None where nothing had started (E32).
    """

    output: Any = None
    _is_rendered = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors pickle with their facts; constructors take more than ``args``."""
        return rebuild, (type(self), self.args, self.__dict__)

    def _render_lines(self) -> list[str]:
        """Render the short form for a cell: this error and its root cause."""
        lines = [f"{type(self).__name__}: {summarize_error(self)}"]
        root = _find_root_cause(self)
        if summarize_error(root) not in lines[0]:
            lines.append(f"  caused by {summarize_error(root)}")
        return lines

    def _render_traceback_(self) -> list[str]:
        """Render what IPython shows: the short form in the cell; asked again (``%tb``), the whole traceback (C13)."""
        if self._is_rendered:
            return _mask("".join(traceback.format_exception(self))).splitlines()
        self._is_rendered = True
        return self._render_lines()
