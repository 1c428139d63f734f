"""Has a run remembered: begins its entry in the run store, and ends it (T30, T31)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.domain.outputs.secrets import is_secret_name
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource, make_task_path
from ensemble_notebook.engine.events.event_stream import Clock, Sink
from ensemble_notebook.engine.loop_thread import call_on_loop
from ensemble_notebook.engine.run.driver import Driver
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.engine.task_lifecycle import list_causes
from ensemble_notebook.ensemble.earlier_runs.claims import claim_here
from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun
from ensemble_notebook.ensemble.earlier_runs.run_journal import MakeDocument, RunJournal
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import RunWriter

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.resuming import ResumedRun


logger: Final = logging.getLogger(__name__)

_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, dict})


def begin_remembering(run_id: str, spec: RunSpec, setting: RunSettings, clock: Clock) -> RunWriter | None:
    """Begin to write a run to the configured store; None if there is none.

    Raises:
        ValidationError: another run goes on with the one that it resumes, and it is not to do so `anyway`.
    """
    if spec.resumed_from is not None:
        claim_here(spec.resumed_from, run_id, clock.now(), is_only=not setting.anyway)
    store, origin = RunStore.find(), setting.origin
    if store is None:
        return None
    is_textless = spec.text_filter is not None
    inputs = {} if is_textless else {name: each for name, each in spec.inputs.items() if _is_kept_whole(name, each)}
    said = chain.from_iterable(spec.conversations.values())
    has_conversations = spec.continued_from is not None and not is_textless
    has_conversations = has_conversations and all(clean_text(each.text) == each.text for each in said)
    model = (spec.forked_from is not None and not is_textless and spec.forked_from.model) or {}
    facts = RunFacts(
        run_id=run_id,
        name=spec.definition.name or spec.variable,
        started_at=clock.now(),
        capture_mode=spec.capture_mode,
        cost=spec.definition.cost,
        origin=replace(origin, text="", options="") if origin is not None and is_textless else origin,
        inputs=inputs,
        lost_inputs=() if is_textless else tuple(name for name in spec.inputs if name not in inputs),
        resumed_from=spec.resumed_from,
        kind=spec.kind,
        forked_from_run=spec.forked_from.run_id if spec.forked_from is not None else None,
        forked_from_span=spec.forked_from.span_id if spec.forked_from is not None else None,
        changed=spec.forked_from.changed if spec.forked_from is not None else (),
        changed_model={name: each for name, each in model.items() if _is_kept_model(name, each)} or None,
        continued_from=spec.continued_from,
        deps=None if spec.deps is None else type(spec.deps).__name__,
        conversations=spec.conversations if has_conversations else None,
    )
    return store.begin(facts, is_only=not setting.anyway)


def _is_kept_model(name: str, value: Any) -> bool:
    """Whether a model, or its parameters, may be kept: it comes back as it was, and names no key."""
    return _is_kept_whole(name, value) and not _names_secret(value)


def _names_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return any(is_secret_name(name) or _names_secret(each) for name, each in value.items())
    return isinstance(value, list) and any(map(_names_secret, value))


def _is_kept_whole(name: str, value: Any) -> bool:
    """Whether a value comes back from the store as it was."""
    try:  # objects in it may be unequal to everything, and say so by an error
        is_json = type(value) in _PLAIN and json.loads(json.dumps(value)) == value
    except (TypeError, ValueError, RecursionError):
        return False
    return is_json and to_plain({name: value}) == {name: value}


def keep_exchanges(
    source: ChatSource,
    journal: RunJournal | None,
    writer: RunWriter | None,
    resumed: ResumedRun | ForkedRun | None,
    graph: Graph,
    sinks: list[Sink],
) -> ChatSource:
    """The source of a run: what goes through it is kept, and what an earlier run has is not asked again.

    Args:
        source: of the models.
        journal: of this run; None where it holds nothing of itself.
        writer: of this run; None where it is not remembered.
        resumed: the run that it goes on with, or forks.
        graph: of this run.
        sinks: of its events; what is to hear them joins these.
    """
    from ensemble_notebook.models.recording.recorder import ExchangeJournal, ExchangeLog, RecordingSource

    def put(make_document: MakeDocument) -> None:
        if journal is not None:
            journal.documents.append(make_document)
        if writer is not None:
            writer.add_exchange(make_document)

    flush = None if writer is None else partial(_wait_for_disk, writer)
    if resumed is None:
        log = ExchangeLog(ExchangeJournal(put, flush))
    else:
        if isinstance(resumed, ForkedRun) or resumed.live is not None:  # the file has those of a stored run by now
            for each in resumed.documents:
                put(each)
        elif journal is not None:
            journal.documents += resumed.documents
        last, models = resumed.answers.last_number, resumed.answers.models
        log = ExchangeLog(ExchangeJournal(put, flush), last_number=last, models=models)
    sinks.append(FailedTasks(graph, log.leave_out_reply).on_event)
    recording = RecordingSource(source, log)
    if resumed is None:
        return recording
    from ensemble_notebook.models.recording.resumer import ResumingSource

    return ResumingSource(recording, resumed.answers)


async def _wait_for_disk(writer: RunWriter) -> None:
    await asyncio.wrap_future(writer.flush())


def tell_at_once(writer: RunWriter, driver: Driver) -> None:
    """Have the run tell what is wrong with the store as soon as that is known, not after hours.

    Args:
        writer: of the run.
        driver: of the run, on the current loop.
    """

    def tell() -> None:
        if not driver.is_concluded:  # else the output tells it, since no view hears of the run any more
            for warning in writer.take_warnings():
                driver.warn(warning)

    writer.on_warning = partial(call_on_loop, asyncio.get_running_loop(), tell)


async def finish_remembering(writer: RunWriter, limit_s: float) -> Sequence[str]:
    """Wait until the run is stored, at most `limit_s` seconds; gives what is to be warned of."""
    await asyncio.wait([asyncio.wrap_future(writer.close())], timeout=limit_s)
    writer.on_warning = bool  # it holds the run, and connections that are kept open hold the writer for a while
    warnings = writer.take_warnings()
    for warning in warnings:
        logger.warning("%s", warning)
    return warnings


class FailedTasks:
    """A sink of one run's events.

    A task of the plan has failed if its event says so. A review task completes even if it objects; but if the phase
    then ends with the objection, it counts as failed, so that a resumed run asks the reviewer again. A task that a call
    of a tool has ended, as the gate before it does, has not failed for the reply that asks for the call.

    Args:
        graph: of the run.
        tell: called with the path of each failed task.
    """

    def __init__(self, graph: Graph, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._reviewers = {each.name: each.reviewer.name for each in graph.phases if each.reviewer is not None}
        self._planned: set[str] = set()
        self._of_tools: set[int] = set()  # by identity: the events hold them as long as this
        self._objected: set[str] = set()

    def on_event(self, event: ev.Event) -> None:
        """Take in the next event."""
        if type(event) not in _OF_TASKS:  # most are not
            return
        match event:
            case ev.TaskStarted() if (
                event.index is not None
            ):  # what is delegated, reviews or is in a nested run has none
                self._planned.add(event.span_id)
            case ev.ToolCallCompleted() if event.error is not None:
                self._of_tools.add(id(event.error))
            case ev.TaskFailed() if event.status is SpanStatus.ERROR and event.span_id in self._planned:
                if event.task is not None and self._of_tools.isdisjoint(map(id, list_causes(event.error))):
                    self._tell(make_task_path(event.task, event.phase))
            case ev.ReviewAnswered() if event.task is None and event.phase is not None:
                if event.decision is None or event.decision.verdict is not Verdict.APPROVE:
                    self._objected.add(event.phase)
            case ev.PhaseRetried():
                self._objected.discard(event.phase or "")
            case ev.PhaseEnded() if event.phase in self._objected and event.phase in self._reviewers:
                self._tell(make_task_path(self._reviewers[event.phase], event.phase))


_OF_TASKS: Final = frozenset(
    {ev.TaskStarted, ev.ToolCallCompleted, ev.TaskFailed, ev.ReviewAnswered, ev.PhaseRetried, ev.PhaseEnded}
)
