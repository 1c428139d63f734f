"""Sessions of coding agents in files and folders, as events (T111): a run a session, with its sub-agents."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import TraceFormatError
from ensemble_notebook.importers.coding_sessions.session_lines import Program, tell_program
from ensemble_notebook.importers.coding_sessions.sessions import SessionFile, import_sessions, read_session_file

GZIP: Final = b"\x1f\x8b"
_ENDING: Final = ".jsonl"
_LINES_LOOKED_AT: Final = 20
_NAMED: Final = 3


def is_session(path: Path) -> bool:
    """Whether a file is one of a session, by its first lines; it may be compressed."""
    with path.open("rb") as file:
        is_compressed = file.read(len(GZIP)) == GZIP
    try:
        with gzip.open(path) if is_compressed else path.open("rb") as file:
            return tell_program(b"".join(islice(file, _LINES_LOOKED_AT))) is not None
    except (EOFError, gzip.BadGzipFile):
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
        raise TraceFormatError(
            f"{path} is a session of {program}, but no line of it has a time: there is no run in it."
        )
    others = [file for each in _find_inside(path) if (file := _read(each)) is not None and file.has_times]
    # Of several files in that folder, those of other sessions are left alone.
    ours = [each for each in others if each.agent_id is not None and each.session_id == main.session_id]
    return import_sessions([main, *ours], run_id)[0]


def read_sessions(paths: Iterable[Path]) -> list[tuple[Event, ...]]:
    """The events of the sessions in these files, each with its sub-agents; what several have counts once.

    A file without a time is left out, with a warning that names it.
    """
    files: list[SessionFile] = []
    empty: list[Path] = []
    for path in dict.fromkeys(each for given in paths for each in (given, *_find_inside(given))):
        file = _read(path)
        if file is not None and file.has_times:
            files.append(file)
        elif file is not None:
            empty.append(path)
    _warn(empty, "no line with a time")
    return import_sessions(files)


def find_sessions(folder: Path) -> list[Path]:
    """The sessions in a folder and in those below, in order of their names; with a warning of what is none.

    Raises:
        FileNotFoundError: there is none.
    """
    found = sorted(each for each in folder.rglob(f"*{_ENDING}") if each.is_file())
    sessions = [each for each in found if is_session(each)]
    if not sessions:
        raise FileNotFoundError(
            f"{folder} is a folder without sessions of coding agents ({_ENDING}). "
            f"Its traces: load_traces({str(folder / '*.trace.json')!r})."
        )
    known = set(sessions)
    _warn([each for each in found if each not in known], "no lines of a session")
    return sessions


def _find_inside(path: Path) -> list[Path]:
    """The files of sub-agents of a session: in the folder that has its name."""
    return sorted(each for each in path.with_suffix("").rglob(f"*{_ENDING}") if each.is_file())


def _read(path: Path) -> SessionFile | None:
    """A file of a session; None where it is none."""
    content = path.read_bytes()
    content = gzip.decompress(content) if content[: len(GZIP)] == GZIP else content
    program = tell_program(content)
    return None if program is None else read_session_file(content, path.name, program)


def _warn(paths: Sequence[Path], what: str) -> None:
    if paths:
        names = ", ".join(str(each) for each in paths[:_NAMED])
        more = f" and {pluralize(len(paths) - _NAMED, 'more file')}" if len(paths) > _NAMED else ""
        warnings.warn(f"{names}{more} left out: {what}.", UserWarning, stacklevel=5)
