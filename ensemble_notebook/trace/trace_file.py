"""Files that hold a trace: written whole or not at all, read back into the same trace (T12)."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.errors import TraceFormatError
from ensemble_notebook.importers.agentensemble import import_events
from ensemble_notebook.importers.coding_sessions.session_lines import tell_program
from ensemble_notebook.importers.foreign_run import import_runs
from ensemble_notebook.importers.span_documents import has_spans, read_spans
from ensemble_notebook.trace.codec.event_codec import event_to_plain
from ensemble_notebook.trace.codec.records import read_event, read_value
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.session_files import read_content, read_session, warn_caller

# --- Whether events from a file can be those of one run: in order, and each in its place (E71) ------------------------
#
# A run's own events are so by construction; a file may have been edited, and what is folded from it must not fail
# later, when somebody looks at it.


_DEEPEST: Final = 300
_LONGEST_S: Final = 50_000 * 86_400.0
# Anchors and offsets come from two clocks, and are written with microseconds.
_TOLERANCE_S: Final = 1e-5


def check_events(events: Sequence[ev.Event]) -> None:
    """Check order, times and the tree of spans. What another process did may stand behind what came after it.

    Raises:
        ValueError: says which event is wrong, by its number, and why.
    """
    depths: dict[str, int] = {}
    parents: dict[str, str | None] = {}
    begins: dict[str | None, float] = {}
    seq = -1
    for event in events:
        if event.seq <= seq:
            raise ValueError(f"event {event.seq} stands behind event {seq}")
        since_s = begins.get(event.span_id, begins.get(event.parent_id, 0.0))
        if not since_s - _TOLERANCE_S <= event.offset_s <= _LONGEST_S:
            raise ValueError(f"event {event.seq} is at {event.offset_s} s, and its span begins at {since_s} s")
        begins.setdefault(event.span_id, event.offset_s)
        seq = event.seq
        _check_span(event, event.span_id, event.parent_id, depths, parents)
        if isinstance(event, ev.PlanMade):
            for span_id in (*event.phase_span_ids, *event.task_span_ids):
                if span_id in depths:
                    raise ValueError(f"event {seq} plans span {span_id!r}, which is there already")
                depths[span_id] = depths[event.span_id] + 1
    starts = [event.seq for event in events if isinstance(event, ev.RunStarted)]
    if len(starts) > 1:
        raise ValueError(f"event {starts[1]} starts the run again")


def _check_span(
    event: ev.Event, span_id: str, parent_id: str | None, depths: dict[str, int], parents: dict[str, str | None]
) -> None:
    if span_id in parents:
        if parents[span_id] != parent_id:
            raise ValueError(f"event {event.seq} has span {span_id!r} in another span than before")
        return
    if parent_id is not None and parent_id not in depths:
        raise ValueError(f"event {event.seq} is in span {parent_id!r}, which is not there")
    parents[span_id] = parent_id
    depth = 0 if parent_id is None else depths[parent_id] + 1
    if depth > _DEEPEST:
        raise ValueError(f"event {event.seq} is more than {_DEEPEST} spans deep")
    depths.setdefault(span_id, depth)


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Have a new file filled, which then takes the place of what was there; gives the path. Folders are made.

    Raises:
        OSError: it can't be written; what was there before is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    draft = Path(name)
    try:
        write(draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return path


_SIGNS_OF_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTrace:
    """What a file holds: the events of a run, what makes its costs, its scores, and the fold of the events.

    Attributes:
        prices: of the attempts, by span id, as they were when it was written; None: to be looked up.
    """

    events: Sequence[Event]
    cost: CostConfiguration | None
    prices: Mapping[str, Price] | None
    fold: TraceFold
    scores: Sequence[ScoreRecord] = ()


def write_trace_file(document: Mapping[str, Any], path: Path) -> Path:
    """Write the document of a trace, compressed where the file's name ends in ``.gz`` (T95); gives the path.

    Raises:
        OSError: it can't be written; what was there before is still there.
    """
    is_compressed = path.suffix.lower() == ".gz"

    def write(draft: Path) -> None:
        with gzip.open(draft, "wt", encoding="utf-8") if is_compressed else draft.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=1, allow_nan=False)
            file.write("\n")

    return write_whole(path, write)


def read_trace_file(path: Path, run_id: str | None = None) -> SavedTrace:
    """The trace in a file, ours or of others, which may be compressed (T95, T106, T111).

    Args:
        path: of the file.
        run_id: that the run is given, as if it were another one; None: its own.

    Raises:
        OSError: there is no such file.
        TraceFormatError: it is no trace, or not a whole one.
    """
    content = read_content(path)
    if (program := tell_program(content)) is not None:
        events = read_session(path, content, program, run_id)
        return SavedTrace(events=events, cost=None, prices=None, fold=TraceFold.from_events(events))
    if has_spans(content):
        runs = read_span_runs(content, path, run_id)
        if len(runs) > 1:
            raise TraceFormatError(f"{path} has {len(runs)} runs. All of them: load_traces({str(path)!r}).")
        with _locate_damage(path, "spans"):
            return _fold_whole(runs[0], None, None)
    try:
        document = _parse(content, path)
    except TraceFormatError as error:
        if path.suffix != ".jsonl":
            raise
        no_session = f"{path} is no session of Claude Code or Codex: none of its first lines is of one."
        raise TraceFormatError(no_session) from error
    if run_id is not None:  # ids of its spans begin with it, and scores name it
        document = _parse(content.replace(document["ensembleId"].encode(), run_id.encode()), path)
    return _read_document(document, path)


def read_span_runs(content: bytes, path: Path, run_id: str | None = None) -> list[tuple[Event, ...]]:
    """The events of the runs in a file of spans; what of it can't be read is left out with a warning (T106).

    Args:
        content: of the file, not compressed.
        path: of the file.
        run_id: that its first run is given; None: its own.

    Raises:
        TraceFormatError: it is no JSON of spans, or no span in it tells of agents, models or tools.
    """
    try:
        file = read_spans(content)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise TraceFormatError(f"{path} is no JSON that can be read: {error.msg} at {place}.") from error
    except UnicodeDecodeError as error:
        raise TraceFormatError(f"{path} is no file of spans: it is no text in UTF-8.") from error
    except ValueError as error:
        raise TraceFormatError(f"{path} can't be read: {error}.") from error
    except _SIGNS_OF_DAMAGE as error:
        raise TraceFormatError(f"The spans in {path} are damaged: {type(error).__name__}: {error}.") from error
    runs = import_runs(file.spans, run_id)
    if not runs:
        what = "none of them tells of an agent, a model or a tool"
        found = (
            f"there are {len(file.spans):,} spans in it, and {what}"
            if len(file.spans) > 1
            else ("its one span tells of no agent, model or tool" if file.spans else "there is no span in it")
        )
        raise TraceFormatError(f"{path} has no run: {'; '.join([found, *file.remarks])}.")
    if file.remarks:
        warn_caller(f"{path}: {'; '.join(file.remarks)}.")
    return runs


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    """The document of a trace, of a version that can be read."""
    try:
        document: Any = json.loads(content, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise TraceFormatError(f"{path} is no trace: it is no text in UTF-8.") from error
    except RecursionError as error:
        raise TraceFormatError(f"{path} is no trace: its values lie too deep in each other.") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise TraceFormatError(
            f"{path} is no whole JSON document: {error.msg} at {place}. If it was cut off, save the trace again."
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("taskTraces"), list):
        raise TraceFormatError(
            f"{path} is JSON, but no execution trace: it has no 'taskTraces'. Files of "
            "`trace.save(path)` and of AgentEnsemble's JsonTraceExporter have them."
        )
    version = str(document.get("schemaVersion", ""))
    if version.partition(".")[0] != "1":
        raise TraceFormatError(f"{path} has schemaVersion {version!r}; versions 1.x can be read.")
    return document


def _read_document(document: dict[str, Any], path: Path) -> SavedTrace:
    if "events" not in document:
        with _locate_damage(path, "taskTraces"):
            # Read as ours are, so that what is no text or number is found here.
            imported = [read_event(event_to_plain(each), each.run_id) for each in import_events(document)]
            return _fold_whole([each for each in imported if each is not None], None, None)
    with _locate_damage(path, "events"):
        run_id, plain_events = str(document["ensembleId"]), list(document["events"])
    events: list[Event] = []
    for place, plain in enumerate(plain_events):
        with _locate_damage(path, f"events[{place}]"):
            event = read_event(plain, run_id)
            events += [] if event is None else [event]
    with _locate_damage(path, "spans"):
        prices = {
            span["spanId"]: Price(read_value(span["costInput"], Decimal), read_value(span["costOutput"], Decimal))
            for span in document["spans"]
            if "cost" in span
        }
    with _locate_damage(path, "costConfiguration"):
        cost = read_value(document.get("costConfiguration"), CostConfiguration | None)
    with _locate_damage(path, "scores"):
        scores = [read_value(each, ScoreRecord) for each in document.get("scores", ())]
    with _locate_damage(path, "events"):
        return replace(_fold_whole(events, cost, prices), scores=scores)


def _fold_whole(
    events: Sequence[Event], cost: CostConfiguration | None, prices: Mapping[str, Price] | None
) -> SavedTrace:
    """The events, folded now, so that what is wrong in them shows here."""
    check_events(events)
    fold = TraceFold.from_events(events, cost, prices)
    if fold.run is None:
        raise ValueError("no run has started")
    return SavedTrace(events=events, cost=cost, prices=prices, fold=fold)


def _refuse_constant(name: str) -> None:
    raise json.JSONDecodeError(f"{name} is no JSON", name, 0)


@contextmanager
def _locate_damage(path: Path, place: str) -> Iterator[None]:
    """Whatever is wrong with a part of the document, say where."""
    try:
        yield
    except _SIGNS_OF_DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise TraceFormatError(
            f"{path} is no execution trace that can be read: {place} is damaged ({reason}). Save the trace again."
        ) from error
