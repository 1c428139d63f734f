"""The base of every error, and how it says what happened: on one line, without secrets, with the nearest word."""

from __future__ import annotations

import copy
import copyreg
import difflib
import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from ensemble_notebook.errors.origin import find_origin, format_short_traceback, iterate_causes


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Find the known word closest to `word`, ignoring case, or None when nothing is close."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known word, else the known words (at most eight), else nothing."""
    names = list(known)
    close = find_nearest(word, names)
    if close is not None:
        return f" Did you mean {close!r}?"
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
    return f" Known: {shown}."


class SuggestsNames:
    """The base of public objects: who asks one for an attribute that it does not have is told the nearest name."""

    __slots__ = ()

    if not TYPE_CHECKING:  # to a type checker, a class with this method has every attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Raise `AttributeError`. Called only where an attribute was not found."""
            if hasattr(type(self), name):  # there is one, and its own code raised: that error is the one to see
                object.__getattribute__(self, name)
            message = f"{type(self).__name__} has no attribute {name!r}."
            # What is private is asked for by pickle, copy and IPython, often, and by nobody who could read an answer.
            if not name.startswith("_"):
                own = tuple(vars(self)) if type(self).__dictoffset__ else ()
                if close := _find_nearest_attribute(type(self), own, name):
                    message += f" Did you mean {close!r}?"
            # Python would add its own guess behind ours, if it knew the object.
            raise AttributeError(message, name=name, obj=None)


@functools.lru_cache(maxsize=1000)  # code that asks by `hasattr` asks many objects
def _find_nearest_attribute(kind: type, own: tuple[str, ...], name: str) -> str | None:
    return find_nearest(name, (each for each in (*dir(kind), *own) if not each.startswith("_")))


# ESC, NUL and their like; line breaks and tabs stay.
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_HALVES: Final = re.compile("[\ud800-\udfff]")  # no terminal and no file takes one
# What turns the direction of text, or hides in it: all format characters but the joiners and the hyphen that scripts
# and emoji are written with.
_HIDDEN: Final = re.compile(
    "[\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_masks: Final[list[Callable[[str], str]]] = []


def register_mask(mask: Callable[[str], str]) -> None:
    """Have what errors say to people go through `mask` first: what a secret is, is known above this module."""
    _masks.append(mask)


def mask_text(text: str) -> str:
    """The text without secrets."""
    for mask in _masks:
        text = mask(text)
    return text


def remove_control_characters(text: str) -> str:
    """The text without control characters, so that nobody's words move the cursor or write a title."""
    return _CONTROLS.sub("", text)


def show_hidden_characters(text: str) -> str:
    """The text with what turns its direction or hides in it as ``[U+202E]``: who approves it sees what it says."""
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def make_readable(text: str) -> str:
    """The text as it may be shown in a terminal: without secrets, control characters and halves of characters."""
    return mask_text(_HALVES.sub("\ufffd", remove_control_characters(text)))


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


class _Readable(SuggestsNames, BaseException):
    """What all errors of ours share: texts that may be shown, pickles that hold what happened."""

    def __init__(self, *args: Any) -> None:
        """Have it pickled by itself.

        tblib, which Dask imports, has all errors that it finds pickled with their causes as they are, and those need
        not pickle at all.
        """
        copyreg.dispatch_table.pop(type(self), None)
        super().__init__(*args)

    def __str__(self) -> str:
        """Its words, without secrets and control characters."""
        return make_readable(super().__str__())

    def __repr__(self) -> str:
        """The same with the arguments."""
        return mask_text(super().__repr__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles with its facts and causes; see `errors.pickling`."""
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
        output: the partial ``EnsembleOutput`` of the run that raised it; None where nothing had started.
    """

    output: Any = None
    _is_rendered = False

    def _render_lines(self) -> list[str]:
        """The short form for a cell: this error, its root cause, and where that came from."""
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
    """A pickle holds only a description of a model, tool or function, and the thing itself was asked for."""


class RunInterrupted(_Readable, KeyboardInterrupt):
    """A person stopped the run. A `KeyboardInterrupt`, so that "Run All" stops here too.

    Attributes:
        output: the partial ``EnsembleOutput``.
    """

    output: Any = None

    def _render_traceback_(self) -> list[str]:
        """One line: an interrupt is no mistake."""
        return [f"Stopped: {self}"]
