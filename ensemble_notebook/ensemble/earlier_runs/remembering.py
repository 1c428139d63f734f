"""Has a run remembered: begins its entry in the run store, and ends it (T30, T31)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from ensemble_notebook.domain.definitions.cost import CostConfiguration
from ensemble_notebook.domain.outputs.chat_message import Messages
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.events.clock import Clock
from ensemble_notebook.engine.events.event_stream import Sink
from ensemble_notebook.engine.run.driver import Driver
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.engine.threads.loop_thread import call_on_loop
from ensemble_notebook.ensemble.earlier_runs.failed_tasks import FailedTasks
from ensemble_notebook.ensemble.earlier_runs.resuming import ResumedRun
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.spans.clean_text import clean_text
from ensemble_notebook.trace.store.run_facts import RunFacts, RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import RunWriter

logger: Final = logging.getLogger(__name__)

_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, dict})


def begin_remembering(
    run_id: str,
    spec: RunSpec,
    cost: CostConfiguration | None,
    origin: RunOrigin | None,
    clock: Clock,
    resumed_from: str | None = None,
) -> RunWriter | None:
    """Begin to write a run to the configured store; None if there is none."""
    store = RunStore.find()
    if store is None:
        return None
    is_textless = spec.text_filter is not None
    inputs = {} if is_textless else {name: each for name, each in spec.inputs.items() if _is_kept_whole(name, each)}
    has_conversations = spec.continued_from is not None and not is_textless and _are_kept_whole(spec.conversations)
    facts = RunFacts(
        run_id=run_id,
        name=spec.name or (None if origin is None else origin.variable),
        started_at=clock.now(),
        capture_mode=spec.capture_mode,
        cost=cost,
        origin=replace(origin, text="", options="") if origin is not None and is_textless else origin,
        inputs=inputs,
        lost_inputs=() if is_textless else tuple(name for name in spec.inputs if name not in inputs),
        resumed_from=resumed_from,
        continued_from=spec.continued_from,
        conversations=spec.conversations if has_conversations else None,
    )
    return store.begin(facts)


def _is_kept_whole(name: str, value: Any) -> bool:
    """Whether a value comes back from the store as it was."""
    return type(value) in _PLAIN and to_plain({name: value}) == {name: value}


def _are_kept_whole(conversations: Mapping[str, Messages]) -> bool:
    """Whether these come back from the store as they were."""
    return all(clean_text(each.text) == each.text for each in chain.from_iterable(conversations.values()))


def keep_exchanges(
    source: ChatSource, writer: RunWriter, resumed: ResumedRun | None, graph: Graph, sinks: list[Sink]
) -> ChatSource:
    """The source of a remembered run: what goes through it is kept, and what the resumed run has is not asked again.

    Args:
        source: of the models.
        writer: of this run.
        resumed: the run that it goes on with.
        graph: of this run.
        sinks: of its events; what is to hear them joins these.
    """
    if not writer.facts.keeps_texts:
        return source
    from ensemble_notebook.models.recording.exchange_log import ExchangeJournal, ExchangeLog
    from ensemble_notebook.models.recording.recorder import RecordingSource
    from ensemble_notebook.models.recording.resumer import ResumingSource

    journal = ExchangeJournal(writer.add_exchange)
    if resumed is None:
        log = ExchangeLog(journal)
    else:
        log = ExchangeLog(journal, last_number=resumed.answers.last_number, models=resumed.answers.models)
        resumed.answers.reserve(resumed.list_finished(graph))
    sinks.append(FailedTasks(graph, log.leave_out_reply).on_event)
    recording = RecordingSource(source, log)
    return recording if resumed is None else ResumingSource(recording, resumed.answers)


def tell_at_once(writer: RunWriter, driver: Driver) -> None:
    """Have the run tell what is wrong with the store as soon as that is known, not after hours (T31).

    Args:
        writer: of the run.
        driver: of the run, on the current loop.
    """

    def tell() -> None:
        if not driver.is_concluded:  # else the output tells it, since no view hears of the run any more
            for warning in writer.take_warnings():
                driver.warn(warning)

    writer.on_warning = partial(call_on_loop, asyncio.get_running_loop(), tell)


async def finish_remembering(writer: RunWriter, output: EnsembleOutput | None, limit_s: float) -> None:
    """Wait until the run is stored, at most `limit_s` seconds; problems become warnings of the output."""
    await asyncio.wait([asyncio.wrap_future(writer.close())], timeout=limit_s)
    writer.on_warning = bool  # it holds the run, and connections that are kept open hold the writer for a while
    for warning in writer.take_warnings():
        logger.warning("%s", warning)
        if output is not None:
            output.add_warning(warning)
