"""The base of every error, and how an error says what happened: on one line, without secrets, short in a cell."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from ensemble_notebook.errors.origin import find_origin, format_short_traceback, iterate_causes
from ensemble_notebook.errors.text import make_readable, mask_text

_LINE_LIMIT = 300
_reducers: list[Callable[[BaseException], tuple[Any, ...]]] = []


def register_reducer(reduce: Callable[[BaseException], tuple[Any, ...]]) -> None:
    """Have errors pickled by `reduce`: what belongs into a pickle is known by a module that needs this one."""
    _reducers[:] = [reduce]


def get_message(error: BaseException) -> str:
    """Get what an error says; the name of its type where it says nothing, or can't."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error with a broken text must not become two errors
        return type(error).__name__


def summarize_error(error: BaseException) -> str:
    """An error in words, without secrets: ours as it is; a foreign one with its type, on one line, cut if too long."""
    if isinstance(error, EnsembleError):
        return str(error)
    kind, text = type(error).__name__, make_readable(" ".join(get_message(error).split()))
    if len(text) > _LINE_LIMIT:
        text = text[:_LINE_LIMIT] + " ..."
    return kind if text == kind else f"{kind}: {text}"


class _Readable(BaseException):
    """What all errors of ours share: texts that may be shown, pickles that hold what happened."""

    def __str__(self) -> str:
        """Its words, without secrets and control characters (E69, E71)."""
        return make_readable(super().__str__())

    def __repr__(self) -> str:
        """The same with the arguments."""
        return mask_text(super().__repr__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with its facts and causes; see `errors.pickling` (E63)."""
        (reduce,) = _reducers
        return reduce(self)

    def __copy__(self) -> Self:
        """The same facts and causes."""
        made = type(self).__new__(type(self), *self.args)
        made.args = self.args
        made.__dict__.update(self.__dict__)
        made.__cause__, made.__traceback__ = self.__cause__, self.__traceback__
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same facts and causes: nobody changes an error."""
        return copy.copy(self)


class EnsembleError(_Readable, Exception):
    """Base of every error of this package.

    Attributes:
        output: the partial ``EnsembleOutput`` of the run that raised it; None where nothing had started (E32).
    """

    output: Any = None
    _is_rendered = False

    def _render_lines(self) -> list[str]:
        """The short form for a cell: this error, its root cause, and where that came from (E48)."""
        lines = [f"{type(self).__name__}: {summarize_error(self)}"]
        *_, root = iterate_causes(self)
        if summarize_error(root) not in lines[0]:
            lines.append(f"  caused by {summarize_error(root)}")
        origin = find_origin(self)
        if origin is not None and origin not in lines[0]:
            lines.append(f"  at {origin}")
        return lines

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the short form in the cell; asked again (``%tb``), the traceback without ours (C13)."""
        if self._is_rendered:
            return [make_readable(line) for line in format_short_traceback(self)]
        self._is_rendered = True
        return [make_readable(line) for line in self._render_lines()]


class AbsentObjectError(EnsembleError, AttributeError):
    """A pickle holds only a description of a model, tool or function, and the thing itself was asked for (E63)."""


class RunInterrupted(_Readable, KeyboardInterrupt):
    """A person stopped the run (E35). A `KeyboardInterrupt`, so that "Run All" stops here too.

    Attributes:
        output: the partial ``EnsembleOutput``.
    """

    output: Any = None

    def _render_traceback_(self) -> list[str]:
        """One line: an interrupt is no mistake."""
        return [f"Stopped: {self}"]
