"""What is said about a cell: mistakes, notices, and the error that shows all mistakes at once (C10).

Knows nothing of what can be wrong. Errors of a run speak Python; here their remedies get the words of a cell.
"""

from __future__ import annotations

import copy
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar, cast

from ensemble_notebook.cell.reading.source_text import OPTIONS, Place, SourceText
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError, find_nearest
from ensemble_notebook.errors.origin import iterate_causes

MOST_MISTAKES: Final = 100
_SHOWN: Final = 20
_MESSAGE_WIDTH: Final = 500
_TEXT_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong in a cell.

    Attributes:
        line: from 1, in the body of the cell; 0 for the options above it.
        column: of the first wrong character, from 1.
        end_column: behind the last one.
        message: what is wrong, with the nearest valid word where there is one.
        hint: one line of help; may be empty.
        file: that the line is in; empty for the cell itself.
    """

    line: int
    column: int
    end_column: int
    message: str
    hint: str = ""
    file: str = ""

    @property
    def where(self) -> str:
        """The line in words."""
        return _describe_line(self.line, self.file)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know about a cell that can run.

    Attributes:
        line, column: as in `Mistake`.
        message: a sentence.
        is_warning: True where the cell probably does not mean what it says.
        file: that the line is in; empty for the cell itself.
    """

    line: int
    column: int
    message: str
    is_warning: bool = False
    file: str = ""

    @property
    def where(self) -> str:
        """The line in words."""
        return _describe_line(self.line, self.file)


class CellError(ValidationError):
    """A cell can't run as written; nothing was imported or called.

    Attributes:
        mistakes: all of them, in the order of the text; at least one.
        is_displayed: a page shows them already, in a form of its own; then the text of the cell's error is short.
    """

    is_displayed = False

    def __init__(self, mistakes: Sequence[Mistake], source: SourceText) -> None:
        self.mistakes = tuple(mistakes)
        self._frames = tuple(_make_frame(mistake, source) for mistake in self.mistakes[:_SHOWN])
        super().__init__([Problem(f"{mistake.where}: {mistake.message}") for mistake in self.mistakes])

    @property
    def title(self) -> str:
        """How many mistakes there are."""
        count = len(self.mistakes)
        files = {mistake.file for mistake in self.mistakes}
        where = " and ".join(sorted(filter(None, files))) if files - {""} else ""
        where = f"this cell and {where}" if where and "" in files else where or "this cell"
        return f"{count} mistake{'s' if count > 1 else ''} in {where}"

    @property
    def shown(self) -> tuple[tuple[Mistake, SourceFrame | None], ...]:
        """The first mistakes, each with the line that it is in; None for one in the options."""
        return tuple(zip(self.mistakes, self._frames, strict=False))

    def _render_lines(self) -> list[str]:
        if self.is_displayed:
            return [f"{type(self).__name__}: {self.title}, shown above"]
        return self.draw()

    def draw(self) -> list[str]:
        """The plain text: each mistake with its line, a caret and a line of help, wrapped between words."""
        lines = [f"{type(self).__name__}: {self.title}"]
        for mistake, frame in self.shown:
            lines += _wrap(f"{mistake.where}: {mistake.message}", "  ")
            lines += [] if frame is None else frame.draw("    ")
            lines += _wrap(mistake.hint, "    ")
        if len(self.mistakes) > _SHOWN:
            lines.append(f"  ... and {len(self.mistakes) - _SHOWN} more")
        return lines

    def _render_traceback_(self) -> list[str]:
        """What IPython shows; asked again (``%tb``), the traceback with all mistakes as plain text."""
        is_again = self._is_rendered
        lines = super()._render_traceback_()
        return [*lines, "", *self.draw()] if is_again else lines


class MisreadError(Exception):
    """A part of a cell that can't be read, on its way to the report; without a message it has been reported."""

    def __init__(self, place: Place, message: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.place, self.message, self.hint = place, message, hint


class _TooManyMistakesError(Exception):
    """Enough for one reading; what follows would cost time and help nobody."""


class MistakeReport:
    """Collects what is said about one cell. `with report:` ends in a `CellError` if there was any mistake."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.notices: list[Notice] = []
        self._mistakes: list[Mistake] = []
        self._cause: BaseException | None = None

    def add_mistake(self, place: Place, message: str, hint: str = "") -> None:
        """Note a mistake. Keys in the text are masked, long texts cut."""
        found = Mistake(place.line, place.column, place.end_column, _tidy(message), _tidy(hint), place.file)
        if found not in self._mistakes:
            self._mistakes.append(found)
        if len(self._mistakes) >= MOST_MISTAKES:
            raise _TooManyMistakesError

    def add_misread(self, error: MisreadError) -> None:
        """Note what could not be read; the first foreign error behind one is kept for ``%tb``."""
        self._cause = self._cause or error.__cause__
        if error.message:
            self.add_mistake(error.place, error.message, error.hint)

    def add_notice(self, place: Place, message: str, *, is_warning: bool = False) -> None:
        """Note something that is no mistake."""
        found = Notice(place.line, place.column, _tidy(message), is_warning, place.file)
        if found not in self.notices and len(self.notices) < MOST_MISTAKES:
            self.notices.append(found)

    @property
    def has_mistakes(self) -> bool:
        """Whether anything is wrong so far."""
        return bool(self._mistakes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._mistakes and (kind is None or isinstance(error, _TooManyMistakesError | MisreadError)):
            mistakes = sorted(self._mistakes, key=lambda each: (each.file, each.line, each.column))
            raise CellError(mistakes, self.source) from self._cause


def join_names(names: Iterable[str], limit: int = 12) -> str:
    """Join names in a row, the first `limit` of them."""
    shown = list(names)
    return ", ".join(shown[:limit]) + (", ..." if len(shown) > limit else "")


def quote(text: str, limit: int = 60) -> str:
    """Quote a text of the cell for a message: cut, and on one line."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def _tidy(message: str) -> str:
    text = mask(" ".join(message.split()))
    return text if len(text) <= _MESSAGE_WIDTH else text[: _MESSAGE_WIDTH - 4] + " ..."


def _describe_line(line: int, file: str) -> str:
    if line == OPTIONS.line:
        return "options"
    return f"{file}, line {line}" if file else f"line {line}"


def _make_frame(mistake: Mistake, source: SourceText) -> SourceFrame | None:
    place = Place(mistake.line, mistake.column, mistake.end_column, mistake.file)
    return None if place == OPTIONS else make_frame(source, place)


def _wrap(text: str, indent: str) -> list[str]:
    wrapper = textwrap.TextWrapper(_TEXT_WIDTH, indent, indent, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)


# --- A line of a cell with a caret under a place in it. Draws plain text, and knows no mistakes -----------------------


_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A line, or a window of a long one. Keys are masked, and controls hidden.

    Attributes:
        line: its number.
        before, marked, after: its text; nothing is marked where a key in it was masked.
    """

    line: int
    before: str
    marked: str
    after: str

    @property
    def gutter(self) -> str:
        """The number of the line and a rule."""
        return f"{self.line or ' '} | "

    @property
    def caret_gutter(self) -> str:
        """What stands below the number of the line and its rule."""
        return f"{' ' * (len(self.gutter) - 2)}| "

    @property
    def carets(self) -> str:
        """What stands below the marked text; empty where nothing is marked."""
        return "^" * max(1, _measure_width(self.marked)) if self.marked else ""

    def draw(self, indent: str) -> list[str]:
        """The line, and the line with the carets."""
        text = f"{self.gutter}{self.before}{self.marked}{self.after}".rstrip()
        below = f"{self.caret_gutter}{' ' * _measure_width(self.before)}{self.carets}"
        return [f"{indent}{each}" for each in ([text, below] if self.carets else [text])]


def make_frame(source: SourceText, place: Place) -> SourceFrame:
    """Make the frame of a place in a cell."""
    text = source.get_text(place)
    masked = mask(text)
    if masked != text:  # columns of the masked line differ, so its place can't be shown
        return SourceFrame(place.line, _replace_unprintable(masked[:_WIDTH]), "", "")
    first = max(0, place.column - 1 - _WIDTH // 2) if len(text) > _WIDTH else 0
    window = _replace_unprintable(text[first : first + _WIDTH])
    start, end = place.column - 1 - first, place.end_column - 1 - first
    return SourceFrame(place.line, window[:start], window[start:end] or " ", window[end:])


def _replace_unprintable(text: str) -> str:
    return "".join(
        each if each.isprintable() else " " if each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def _measure_width(text: str) -> int:
    """Measure the columns that a text takes in a monospaced font."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


_LONGEST_WORD: Final = 80
_MOST_WORDS: Final = 500


def find_nearest_name(word: str, known: Iterable[str]) -> str | None:
    """Find the known name closest to `word`, or None where none is close."""
    if len(word) > _LONGEST_WORD:
        return None
    names = [name for name in known if len(name) <= _LONGEST_WORD]
    return find_nearest(word, names[:_MOST_WORDS])


def suggest_name(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the nearest known name, or nothing."""
    close = find_nearest_name(word, known)
    return "" if close is None else f" Did you mean {close!r}?"


E = TypeVar("E", bound=BaseException)

# Only words of our own are changed; the table has every remedy that names a field.


_REMEDIES: Final = (
    (r"Raise max_iterations\b", "Raise `max_iterations: ...` under the agent"),
    (r"Raise max_output_retries\b", "Raise `max_output_retries: ...` under the task"),
    (r"Raise the agent's llm_timeout\b", "Raise `llm_timeout: ...` under the agent"),
    (r"Raise the task's timeout\b", "Raise `timeout: ...` under the task"),
    (r"Raise the review's timeout\b", "Raise it by `review: {timeout: ...}`"),
    (r"Raise timeout; what was done is kept in \.output\.", "Raise --timeout; what was done is kept in the output."),
    (r"Raise its max_llm_calls\b", "Raise it by `budget: {max_llm_calls: ...}`"),
    (r"Raise the budget's (max_\w+)", r"Raise it by `budget: {\1: ...}`"),
    (
        r"Raise its wait_timeout or its requests\b",
        "Raise it by `rate_limit: {wait_timeout: ...}` or more `requests: ...`",
    ),
    (r"cost=CostConfiguration\(\.\.\.\)", "`cost: {input_rate: ..., output_rate: ...}`"),
    (r"set allow_unknown_cost=True\b", "write `budget: {allow_unknown_cost: true, ...}`"),
    (
        r"ERROR\.result\.score\((.+), replace=True\)\.",
        r"`%ensemble score NAME \1 --replace`, where NAME is the variable after -o.",
    ),
    (r"it is True or False, and never\b", "it is true or false, and never"),
    (r"Did you mean True\?", "Did you mean true?"),
    (r"Did you mean False\?", "Did you mean false?"),
    (r"limit max_tokens instead\b", "limit `budget: {max_tokens: ...}` instead"),
)


def to_cell_words(text: str) -> str:
    """The same text, its remedies in YAML."""
    for python, words in _REMEDIES:
        text = re.sub(python, words, text)
    return text


def in_cell_words(error: E) -> E:
    """The error of a run as a cell shows it: it and our own errors behind it give their remedies in YAML.

    Returns:
        A copy, since the run keeps the error in Python's words; the error itself where nothing is said otherwise.
    """
    shown: list[BaseException] = []
    for each in reversed(list(iterate_causes(error))):
        cause = shown[-1] if shown else None
        args = tuple(to_cell_words(part) if isinstance(part, str) else part for part in each.args)
        if isinstance(each, EnsembleError) and (
            args != each.args or (cause is not None and cause is not each.__cause__)
        ):
            is_suppressed, each = each.__suppress_context__, copy.copy(each)
            each.args, each.__cause__, each.__suppress_context__ = args, cause, is_suppressed
        shown.append(each)
    return cast("E", shown[-1])
