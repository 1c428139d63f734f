"""Files of sessions that belong together: of sub-agents, and of sessions that were resumed (T111)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.secrets import mask_id
from ensemble_notebook.domain.planning.managed_work import cut_words
from ensemble_notebook.importers.coding_sessions import claude_code, codex
from ensemble_notebook.importers.coding_sessions.session import Note, Session
from ensemble_notebook.importers.coding_sessions.session_events import to_events
from ensemble_notebook.importers.coding_sessions.session_lines import Lines, Program, read_lines, read_moment

_LAST = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class SessionFile:
    """A file of a session.

    Attributes:
        session_id: the id of the session that it is of.
        agent_id: the id of the sub-agent whose lines it has; None: it is that of the session itself.
    """

    lines: Lines
    session_id: str
    agent_id: str | None

    @property
    def has_times(self) -> bool:
        """Whether any of its lines says when it was written."""
        return any(read_moment(each) is not None for each in self.lines.rows)


def read_session_file(content: bytes, name: str, program: Program) -> SessionFile:
    """Read a file that a program has written.

    Args:
        content: of the file.
        name: of the file.
        program: as `tell_program` says.
    """
    lines = read_lines(content, name, program)
    if program is Program.CODEX:
        return SessionFile(lines, *codex.find_ids(lines))
    return SessionFile(lines, claude_code.find_session_id(lines) or name, claude_code.find_agent(lines))


def import_sessions(files: Iterable[SessionFile], run_id: str | None = None) -> list[tuple[Event, ...]]:
    """The events of each session, the one that began first first.

    What several sessions have, since one was resumed from the other, counts in the older one. Files of sub-agents whose
    session is not among these are sessions of their own.

    Args:
        files: that have times.
        run_id: that the run is given, of one session; None: its own.
    """
    listed = sorted(files, key=lambda each: _find_times(each.lines))
    groups: dict[str, list[SessionFile]] = {each.session_id: [each] for each in listed if each.agent_id is None}
    for each in listed:
        if each.agent_id is not None:
            root = _find_root(each, listed)
            groups.setdefault(root if root in groups else each.agent_id, []).append(each)
    seen: set[str] = set()
    made = []
    for own_id, parts in groups.items():
        session = _read(parts, seen)
        session.run_id = run_id or mask_id(own_id)
        session.name = session.name or next((cut_words(each.title) for each in session.prompts if each.title), None)
        made.append(to_events(session, str(parts[0].lines.program)))
    return made


def _read(parts: Sequence[SessionFile], seen: set[str]) -> Session:
    main, *others = (each.lines for each in parts)
    if main.program is Program.CODEX:  # a fork says itself what it repeats
        session = codex.read_session(main, others)
    else:
        session = claude_code.read_session(main, others, seen)
    for lines in (main, *others):
        moments = [each for each in map(read_moment, lines.rows) if each is not None]
        if not moments:
            continue
        for place, (number, text) in enumerate(lines.broken):
            is_last = lines.is_cut and place == len(lines.broken) - 1
            what = "is cut" if is_last else "is no JSON"
            said = f"Line {number} of {lines.name} {what}, all else was read: {text[:200]}"
            session.notes.append(Note(max(moments), said, is_warning=True))
    return session


def _find_times(lines: Lines) -> tuple[datetime, bool, datetime]:
    """The order of sessions: what was resumed from another begins with lines of that one, and goes on for longer."""
    moments = [each for each in map(read_moment, lines.rows) if each is not None]
    is_copy = any("forkedFrom" in each for each in lines.rows[:20])
    return (min(moments), is_copy, max(moments)) if moments else (_LAST, is_copy, _LAST)


def _find_root(file: SessionFile, files: Sequence[SessionFile]) -> str:
    """The session that a sub-agent works for, which may have been begun by another one."""
    parents = {each.agent_id: each.session_id for each in files if each.agent_id is not None}
    root, passed = file.session_id, {file.agent_id}
    while root in parents and root not in passed:
        passed.add(root)
        root = parents[root]
    return root
