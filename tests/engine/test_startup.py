"""A model that has to be loaded or started first: a span of the run, on no task's clock (E57)."""

import asyncio

from ensemble_notebook.domain.definitions.enums import ExitReason, SpanStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import WaitEnded, WaitStarted
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.drive import drive, parallel, task, works


class SlowSource(ModelSource):
    """Takes five seconds for every model that is not ready yet, and says so twice."""

    def __init__(self) -> None:
        super().__init__()
        self._ready = set()

    warnings = ()

    async def prepare(self, llm, notice):
        if id(llm) not in self._ready:
            notice("Loading the model ...")
            await asyncio.sleep(2)
            notice("Half of the model is here.")
            await asyncio.sleep(3)
            self._ready.add(id(llm))
        return await super().prepare(llm, notice)


def model():
    return ScriptedChatModel(default="ok")


def startups(events):
    return [span for span in TraceFold.from_events(events).spans.values() if span.wait_kind == "startup"]


def test_startup_is_a_wait_of_the_run_and_ends_before_the_first_call_e57():
    _, events = drive(parallel(Task.of("Write", name="write", llm=model(), timeout=3)), source=SlowSource())
    (span,) = startups(events)
    assert (span.kind, span.parent_id, span.task, span.status) == (SpanKind.WAIT, "r", None, SpanStatus.OK)
    assert (span.name, span.start_ms, span.end_ms) == ("Loading the model", 0, 5000)
    fold = TraceFold.from_events(events)
    (call,) = (each for each in fold.spans.values() if each.kind is SpanKind.LLM)
    assert call.start_ms == 5000
    assert not span.critical


def test_startup_of_one_model_holds_up_nobody_else_e57():
    _, events = drive(
        parallel(Task.of("Write", name="write", llm=model()), task("count", handler=works(9))), source=SlowSource()
    )
    fold = TraceFold.from_events(events)
    assert fold.run.status is SpanStatus.OK
    during = TraceFold.from_events(
        events[: next(i for i, each in enumerate(events) if isinstance(each, WaitStarted)) + 1]
    )
    assert during.run.status is SpanStatus.RUNNING
    assert fold.run.totals.wait_ms == 0


def test_two_tasks_with_one_model_wait_for_one_startup_and_a_ready_model_has_none_e57():
    llm, source = model(), SlowSource()
    made = parallel(Task.of("Write", llm=llm), Task.of("Edit", llm=llm))
    assert len(startups(drive(made, source=source)[1])) == 1
    assert startups(drive(made, source=source)[1]) == []


def test_startup_that_fails_or_is_stopped_says_so_e57():
    _, events = drive(parallel(Task.of("Write", llm="local")))
    (span,) = startups(events)
    assert (span.status, span.error_type, span.error_message) == (SpanStatus.ERROR, "OSError", "the weights are gone")
    _, events = drive(parallel(Task.of("Write", llm="local")), stop_after=2)
    (span,) = startups(events)
    assert (span.status, span.end_ms) == (SpanStatus.CANCELLED, 2000)


def test_stopped_startup_is_over_with_the_run_e57():
    result, events = drive(parallel(Task.of("Write", llm="local")), stop_after=2)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert events[-1].offset_s == 2
    assert sum(isinstance(each, WaitEnded) for each in events) <= 1


def test_startup_that_goes_on_when_the_run_is_stopped_ends_with_it_e57():
    _, events = drive(parallel(Task.of("Write", name="write", llm=model())), stop_after=1, source=SlowSource())
    (ended,) = (each for each in events if isinstance(each, WaitEnded))
    assert (ended.status, ended.waited_s, ended.offset_s) == (SpanStatus.CANCELLED, 1, 1)
