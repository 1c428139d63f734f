"""Sessions of coding agents in files and folders, as events (T111): a run a session, with its sub-agents."""

from __future__ import annotations

import gc
import gzip
import inspect
import warnings
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import TraceFormatError
from ensemble_notebook.importers.coding_sessions.session_lines import Program, tell_program
from ensemble_notebook.importers.coding_sessions.sessions import SessionFile, import_sessions, read_session_file

_GZIP: Final = b"\x1f\x8b"
_ENDINGS: Final = (".jsonl", ".jsonl.gz")
_LINES_LOOKED_AT: Final = 20
_NAMED: Final = 3


@contextmanager
def without_collection() -> Iterator[None]:
    """Have Python look for no garbage meanwhile: what is made in here stays, and looking took a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_content(path: Path) -> bytes:
    """What is in a file, which may be compressed.

    Raises:
        OSError: there is no such file.
        TraceFormatError: it is compressed, and was cut off.
    """
    content = path.read_bytes()
    try:
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceFormatError(
            f"{path} is no whole gzip file: {error}. If it was cut off, save the trace again."
        ) from error


def is_session(path: Path) -> bool:
    """Whether a file is one of a session, by its first lines; it may be compressed."""
    with path.open("rb") as file:
        start = b"".join(islice(file, _LINES_LOOKED_AT))
    try:
        return tell_program(read_content(path) if start.startswith(_GZIP) else start) is not None
    except TraceFormatError:
        return False  # whoever reads it says what is wrong


def read_session(path: Path, content: bytes, program: Program, run_id: str | None = None) -> tuple[Event, ...]:
    """The events of the session in a file, with its sub-agents in the folder of its name.

    Args:
        path: of the file.
        content: of the file.
        program: that has written it.
        run_id: that the run is given; None: the id of the session.

    Raises:
        TraceFormatError: no line of it has a time.
    """
    main = read_session_file(content, path.name, program)
    if not main.has_times:
        raise _make_timeless(path, main)
    # Of several files in that folder, those of other sessions are left alone.
    ours = [
        each
        for each in _read_files(_find_inside(path))
        if each.agent_id is not None and each.session_id == main.session_id
    ]
    return import_sessions([main, *ours], run_id)[0]


def read_sessions(paths: Iterable[Path], named: Collection[Path]) -> list[tuple[Event, ...]]:
    """The events of the sessions in these files, each with its sub-agents; what several have counts once.

    What is left out is named in a warning: a file without a time, and one of two that have the same id.

    Args:
        paths: of files.
        named: those of them that a person has named, not a folder or a pattern.

    Raises:
        TraceFormatError: no line of one that was named has a time.
    """
    return import_sessions(_read_files((each for given in paths for each in (given, *_find_inside(given))), named))


def _make_timeless(path: Path, file: SessionFile) -> TraceFormatError:
    program = file.lines.program
    return TraceFormatError(f"{path} is a session of {program}, but no line of it has a time: there is no run in it.")


def find_sessions(folder: Path) -> list[Path]:
    """The sessions in a folder and in those below, in order of their names; with a warning of what is none.

    Raises:
        FileNotFoundError: there is none.
    """
    found = _list_files(folder)
    sessions = [each for each in found if is_session(each)]
    if not sessions:
        raise FileNotFoundError(
            f"{folder} is a folder without sessions of coding agents ({_ENDINGS[0]}). "
            f"Its traces: load_traces({str(folder / '*.trace.json')!r})."
        )
    known = set(sessions)
    _warn([each for each in found if each not in known], "no lines of a session")
    return sessions


def _find_inside(path: Path) -> list[Path]:
    """The files of sub-agents of a session: in the folder that has its name."""
    return _list_files((path.with_suffix("") if path.suffix == ".gz" else path).with_suffix(""))


def _list_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.name.endswith(_ENDINGS) and each.is_file())


def _read_files(paths: Iterable[Path], named: Collection[Path] = ()) -> list[SessionFile]:
    """The files among these that are of sessions and have times, one of each session and of each sub-agent."""
    files: list[tuple[Path, SessionFile]] = []
    empty: list[Path] = []
    must_have = {each.resolve() for each in named}
    broken: list[Path] = []
    for path in dict.fromkeys(each.resolve() for each in paths):
        try:
            content = read_content(path)
        except TraceFormatError:
            broken.append(path)
            continue
        program = tell_program(content)
        if program is None:
            continue
        file = read_session_file(content, path.name, program)
        if file.has_times:
            files.append((path, file))
        elif path in must_have:
            raise _make_timeless(path, file)
        else:
            empty.append(path)
    _warn(broken, "no whole gzip file")
    _warn(empty, "no line with a time")
    return _choose(files)


def _choose(files: Iterable[tuple[Path, SessionFile]]) -> list[SessionFile]:
    """Of files with the same id the longest; the others are told of, unless it begins with all that they say."""
    kept: dict[tuple[str, str | None], tuple[Path, SessionFile]] = {}
    for path, file in sorted(files, key=lambda each: len(each[1].lines.rows), reverse=True):
        chosen, longest = kept.setdefault((file.session_id, file.agent_id), (path, file))
        if longest.lines.rows[: len(file.lines.rows)] != file.lines.rows:
            _warn([path], f"{chosen} has the same id, and is read")
    return [file for _, file in kept.values()]


def _warn(paths: Sequence[Path], what: str) -> None:
    """Warn of files that are left out."""
    if not paths:
        return
    names = ", ".join(str(each) for each in paths[:_NAMED])
    more = f" and {pluralize(len(paths) - _NAMED, 'more file')}" if len(paths) > _NAMED else ""
    warn_caller(f"{names}{more} left out: {what}.")


def warn_caller(message: str) -> None:
    """Warn at the line that has called this package."""
    frames = inspect.stack(context=0)
    ours = __name__.partition(".")[0]
    names_of_modules = (str(each.frame.f_globals.get("__name__")) for each in frames)
    level = next((at for at, name in enumerate(names_of_modules, 1) if name.partition(".")[0] != ours), 1)
    warnings.warn(message, UserWarning, stacklevel=level)
