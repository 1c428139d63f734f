"""Where an error came from: the innermost frame of the user's own code, and tracebacks without ours (E48)."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES: Final = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_INSTALLED: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_TYPED: Final = ("<ipython-input", "<stdin>")  # code that somebody typed has no file

_SECRET_LITERAL: Final = re.compile(
    r"((?:(?:api|access|account|auth|private|secret)[_-]?key|(?<![a-z])token|access[_-]?token|secret|passw(?:or)?d"
    r"|passphrase|credentials?|authorization)[\"']?\]?\s*[=:,]\s*[bfru]{0,2})"
    r"([\"'])(?:(?!\2)[^\\]|\\.){8,}\2",
    re.IGNORECASE,
)

_namers: Final[list[Callable[[str], str | None]]] = []


def register_cell_namer(name: Callable[[str], str | None]) -> None:
    """Have files that are cells of a notebook called by the cell: what a cell is, is known above this module."""
    _namers.append(name)


def find_origin(error: BaseException) -> str | None:
    """``file:line in function`` of the user's own code that an error came from; None where it came through none.

    It is the innermost frame of the deepest cause that has one. The code that called us is not where a run failed.
    """
    recorded = getattr(error, "origin", None)
    if isinstance(recorded, str):
        return recorded
    for each in reversed(list(iterate_causes(error))):
        if frames := list(_users_frames(each)):
            code = frames[-1].tb_frame.f_code
            return f"{_name_file(code.co_filename)}:{frames[-1].tb_lineno} in {code.co_name}"
    return None


def find_place(frame: FrameType | None) -> str | None:
    """``file:line in function`` of the innermost frame of the user's own code; None where there is none."""
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame and f"{_name_file(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


def add_origin(text: str, error: BaseException) -> str:
    """What an error says, and where it came from, where that is known."""
    origin = find_origin(error)
    return text if origin is None or f"(at {origin})" in text else f"{text} (at {origin})"


def make_users_traceback(error: BaseException) -> TracebackType | None:
    """The frames of the user's own code that an error came through, without ours: for debuggers."""
    for each in reversed(list(iterate_causes(error))):
        if (shortened := _link(list(_users_frames(each)))) is not None:
            return shortened
    return None


def drop_own_frames(error: BaseException) -> None:
    """Take our frames, and those of whoever called us, out of the traceback of an error and of all behind it.

    A frame keeps all its variables alive, so with ours a failed run would live as long as its error.
    """
    for each in iterate_linked(error):
        frames = list(_frames(each))
        first = next((place for place, frame in enumerate(frames) if _is_ours(_file(frame))), None)
        if first is not None:
            each.__traceback__ = _link([frame for frame in frames[first:] if not _is_ours(_file(frame))])


def iterate_linked(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that it was raised from, during, or of, each once; its links are read after it was given."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [link for link in (each.__cause__, each.__context__) if link is not None]
            waiting += each.exceptions if isinstance(each, BaseExceptionGroup) else ()


def _link(frames: Sequence[TracebackType]) -> TracebackType | None:
    linked: TracebackType | None = None
    for frame in reversed(frames):
        linked = TracebackType(linked, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return linked


def format_short_traceback(error: BaseException) -> list[str]:
    """A traceback from the root cause to the error: its frames from the user's code on, without ours."""
    lines: list[str] = []
    for each in reversed(list(iterate_causes(error))):
        if lines:
            lines += ["", "The above exception was the direct cause of the following exception:", ""]
        frames = list(_shown_frames(each))
        if frames:
            lines.append("Traceback (most recent call last):")
            summary = traceback.StackSummary.extract((frame.tb_frame, frame.tb_lineno) for frame in frames)
            # No text stands behind a name that says that it is a secret: ``token="***"``. Keys that look like keys are
            # masked wherever they are; that the others are secrets, only their names tell.
            code = (line for entry in summary.format() for line in entry.splitlines())
            lines += [_SECRET_LITERAL.sub(r"\1\2***\2", line) for line in code]
            for file in {_file(frame) for frame in frames}:
                lines = [line.replace(f'File "{file}"', f'File "{_name_file(file)}"') for line in lines]
        lines += [line for entry in traceback.format_exception_only(each) for line in entry.splitlines()]
    return lines


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and the chain of its causes. After ``raise error from error`` they form a circle: each comes once."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__


def _users_frames(error: BaseException) -> Iterator[TracebackType]:
    """The frames of the user's own code beneath ours; all of them, where none is ours."""
    frames = list(_frames(error))
    ours = next((place for place, frame in enumerate(frames) if _is_ours(_file(frame))), -1)
    yield from (frame for frame in frames[ours + 1 :] if _is_users(_file(frame)))


def _shown_frames(error: BaseException) -> Iterator[TracebackType]:
    """From the first frame of the user's own code on: what it called in libraries tells what went wrong."""
    is_begun = False
    for frame in _frames(error):
        is_begun = is_begun or _is_users(_file(frame))
        if is_begun and not _is_ours(_file(frame)):
            yield frame


def _frames(error: BaseException) -> Iterator[TracebackType]:
    frame = error.__traceback__
    while frame is not None:
        yield frame
        frame = frame.tb_next


def _file(frame: TracebackType) -> str:
    return frame.tb_frame.f_code.co_filename


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE)


@cache
def _is_users(file: str) -> bool:
    if file.startswith("<"):
        return file.startswith(_TYPED)
    return not (_is_ours(file) or file.startswith(_LIBRARIES) or any(each in file for each in _INSTALLED))


def _name_file(file: str) -> str:
    for namer in _namers:
        if name := namer(file):
            return name
    here = str(Path.cwd()) + os.sep
    return file.removeprefix(here)
