"""One run, from the outside: watch it, stop it, wait for it (E4, E35)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, RunStatus
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.seams.chat_port import ChatSource, make_task_path
from ensemble_notebook.domain.seams.kept_tasks import KeptTasks
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.agent.preparation import PreparedTools
from ensemble_notebook.engine.events.event_stream import EventStream, Sink, SystemClock
from ensemble_notebook.engine.events.listeners import DRAIN_LIMIT_S, ListenerDelivery, leave_out_heard
from ensemble_notebook.engine.events.nested_events import NestedEvents, find_calling_span
from ensemble_notebook.engine.events.run_log import RunLogger
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.loop_thread import LoopThread, loop_thread, replace_loop_thread
from ensemble_notebook.engine.run.driver import Driver
from ensemble_notebook.engine.run_services import find_parent_run, make_context_of_nobody
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.ensemble.earlier_runs.call_answers import ResumedCalls
from ensemble_notebook.ensemble.earlier_runs.claims import release_here
from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun, ForkedTasks
from ensemble_notebook.ensemble.earlier_runs.remembering import (
    begin_remembering,
    finish_remembering,
    keep_exchanges,
    tell_at_once,
)
from ensemble_notebook.ensemble.earlier_runs.resuming import ResumedRun
from ensemble_notebook.ensemble.earlier_runs.reuse import NestedTasks, RememberedTasks, ResumedTasks
from ensemble_notebook.ensemble.earlier_runs.run_journal import JournalledTasks, RowPlace, RunJournal
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble, make_run_error
from ensemble_notebook.ensemble.person import find_waiting_person
from ensemble_notebook.ensemble.read_inputs import describe_reading, read_inputs
from ensemble_notebook.ensemble.run_settings import KeptConversations, RunSettings
from ensemble_notebook.errors import (
    DeadlineExceededError,
    EnsembleError,
    RunInterrupted,
    SuggestsNames,
    TaskExecutionError,
    make_users_traceback,
)
from ensemble_notebook.models.langchain.tracing import no_tracing_by_environment
from ensemble_notebook.models.openai.connections import masked_logs
from ensemble_notebook.trace.folding.prices import TaskSpending
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import RunWriter

logger = logging.getLogger(__name__)

_lock: Final = threading.Lock()  # one for all, since it is held for a moment and runs are many
_AS_IT_IS: Final = contextlib.nullcontext()

SLICE_S: Final = 0.2
INTERRUPT_LIMIT_S: Final = 2.0
GRACE_S: Final = 0.5
ANSWER_LIMIT_S: Final = 0.3
_INTERVAL_S: Final = 0.2
_LOOK_S: Final = 0.02
EXPORT_LIMIT_S: Final = 0.5
_BLOCKED: Final = (
    "The event loop is blocked{place}, as by time.sleep or a request in an async function. It is left to itself, and "
    "later runs get a new one. Use a plain function, which runs on a thread, or await."
)
_STUCK: Final = (
    f"the run has not ended within {INTERRUPT_LIMIT_S:g} s. Something blocks its event loop, such as time.sleep or a "
    f"request in an async function; it ends after that."
)


class RunHandle(SuggestsNames):
    """A run that has been started. Thread-safe, and awaitable on any event loop.

    Made by `Ensemble.start`.

    Attributes:
        run_id: unique.
        name: of the ensemble; None if it has none.
        plan: what will run.
        output: the `EnsembleOutput`, once the run has ended, failed or been interrupted; None until then.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        spec: RunSpec,
        source: ChatSource,
        run_id: str,
        setting: RunSettings,
        resumed: ResumedRun | ForkedRun | None = None,
    ) -> None:
        self.run_id = run_id
        self.name: str | None = ensemble.name
        self._text_filter = spec.text_filter
        plan = spec.get_told_plan()
        self.plan: ExecutionPlan = plan if self._text_filter is None else self._text_filter.apply(plan)
        self.output: EnsembleOutput | None = None
        self._ensemble = ensemble
        self._spec = spec
        self._source = source
        self._clock = SystemClock()
        self._setting = setting
        self._resumed = resumed
        self._answers: ResumedCalls | None = None
        if isinstance(resumed, ResumedRun):
            self._answers = resumed.answer_calls(setting.answers, anyway=setting.anyway)
            self._answers.begin(run_id)
            resumed.prepare(spec, setting.redo, anyway=setting.anyway)
        self._person = find_waiting_person(setting.review_handler)
        self._parent = find_parent_run()
        self._calling_span = None if self._parent is None else find_calling_span()
        self._error: BaseException | None = None
        self._driver: Driver | None = None
        self._reading: asyncio.Task[None] | None = None
        self._tools: PreparedTools | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream: EventStream | None = None
        self._is_cancelled = False
        self._thread: LoopThread | None = None
        self._store_writer: RunWriter | None = None
        self._journal: RunJournal | None = None
        self._is_claimed = False  # somebody ends the run, or has ended it
        self._is_over = False
        self._over: Future[None] | None = None

    @property
    def status(self) -> RunStatus:
        """The current status of the run."""
        if self.output is not None:
            return self.output.status
        if self._is_over:  # before its first event
            return RunStatus.INTERRUPTED if isinstance(self._error, RunInterrupted) else RunStatus.FAILED
        return RunStatus.PENDING if self._driver is None else RunStatus.RUNNING

    @property
    def is_done(self) -> bool:
        """Whether the run has ended, so that `result` does not wait."""
        return self._is_over

    @property
    def events(self) -> Sequence[ev.Event]:
        """The events so far. Read only; grows while the run goes on."""
        return self._stream.events if self._stream is not None else ()

    @property
    def timeline(self) -> Any:
        """The timeline of the run, live while it goes on; None where the run ended before its first event."""
        return render_view("run_timeline", self)

    def cancel(self) -> None:
        """Stop the run; returns at once. Finished tasks are kept. Does nothing after the end."""
        is_first, self._is_cancelled = not self._is_cancelled, True
        if self._loop is not None and not self.is_done:
            self._loop.call_soon_threadsafe(self._stop_driver)
        if is_first and self._thread is not None:
            self._watch_loop(self._thread, ExitReason.INTERRUPTED)

    def result(
        self, timeout: float | None = None, *, while_waiting: Callable[[], object] | None = None
    ) -> EnsembleOutput:
        """Wait for the end and return the output. The wait can be interrupted.

        Args:
            timeout: seconds to wait; the run goes on after that. None: no limit.
            while_waiting: called several times a second on this thread, for example to ask a question.

        Raises:
            TimeoutError: the run has not ended yet.
            EnsembleError, RunInterrupted: as `Ensemble.run`.
        """
        if loop_thread().is_current() and not self.is_done:
            raise EnsembleError("result() would block the loop that the run needs; use `await handle` in async tools.")
        waited = 0.0
        while not self.is_done:
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"Run {self.run_id} is still going after {timeout:g} s; it was not stopped.")
            pause = SLICE_S if timeout is None else min(SLICE_S, timeout - waited)
            wait([self._get_end()], timeout=pause)
            waited += pause
            if while_waiting is not None:
                while_waiting()
            elif self._person is not None:
                self._person.attend_alone(self.cancel)
        return self._get_outcome()

    def __await__(self) -> Generator[Any, None, EnsembleOutput]:
        """The result, on any loop."""
        if not self.is_done:  # the loop need not be woken for a run that it has driven itself
            yield from asyncio.shield(asyncio.wrap_future(self._get_end())).__await__()
        return self._get_outcome()

    def _keep_scores(self, scores: Iterable[ScoreRecord]) -> None:
        """Have the store keep scores with the run, which goes on, and views hear of them. Not for users.

        Args:
            scores: of the run, or of the rows of a map. Those of a nested run are not kept: it is a part of another.
        """
        given = tuple(scores)
        if self._store_writer is not None:
            for each in given:
                self._store_writer.add_score(each)
        self._tell_scores(given)

    def _tell_scores(self, given: Sequence[ScoreRecord]) -> None:
        """Have views hear of scores. Not for users."""
        for listener in self._listeners:
            if (hear := getattr(listener, "on_scores", None)) is not None:
                hear(given)

    def __repr__(self) -> str:
        """Id and status."""
        return f"<RunHandle {self.name or self.run_id}: {self.status.value}>"

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        """In a notebook a line that says how far the run is, and what can be asked of it."""
        name = self.name or self.run_id
        if self.is_done:
            printer.text(f"{name}: {self.status.value.replace('_', ' ')}. Its handle: `.result()` gives the output.")
            return
        planned = {task.name for task in self.plan.tasks}
        done = planned & {event.task for event in self.events if isinstance(event, ev.TaskCompleted)}
        said = f"{len(done)} of {pluralize(len(planned), 'task')} done"
        printer.text(f"{name} goes on, {said}. Its handle: `.result()` waits for the end, `.cancel()` stops it.")

    def _begin(self) -> None:
        """Start the run on the loop thread of the process. `Ensemble.start` has done so."""
        self._thread = loop_thread()
        self._thread.submit(self._run_here())
        if (limit_s := self._setting.timeout) is not None:
            self._watch_loop(self._thread, ExitReason.TIMEOUT, after_s=limit_s)

    def interrupted(self) -> EnsembleOutput:
        """Stop the run after a `KeyboardInterrupt` and wait a moment for its end; a second interrupt ends the wait.

        Raises:
            RunInterrupted: always, with the partial output.
        """
        self.cancel()
        with contextlib.suppress(KeyboardInterrupt):
            wait([self._get_end()], timeout=INTERRUPT_LIMIT_S)
        if isinstance(self._error, RunInterrupted):
            raise self._error from None
        error = RunInterrupted("the run was interrupted." if self.is_done else _STUCK)
        error.output = self.output
        raise error from None

    async def _run_here(self, sinks: Sequence[Sink] = ()) -> None:
        """Run on the current event loop. Raises only `CancelledError`; failures of the run are raised by `result`.

        Args:
            sinks: functions that are given each event at once, on the loop.
        """
        with _lock:
            if self._loop is not None:
                return  # the loop was blocked for so long that another one has taken the run over
            self._loop = asyncio.get_running_loop()
        if self._person is not None and threading.current_thread() is threading.main_thread():
            self._person.attend_on(self._loop, self.cancel)
        try:
            if self._spec.complete is not None and not await self._read_inputs():
                return
            if self._parent is None and not self._setting.is_row:
                # A nested one is a part of the run around it; one in a worker is remembered at home.
                self._store_writer = begin_remembering(self.run_id, self._spec, self._setting, self._clock)
            await self._drive(self._loop, sinks)
        except Exception as error:  # noqa: BLE001 - a fault of the machinery itself: whoever waits is told, not left waiting
            if not self._is_claimed:
                self._error = error
        finally:
            if self._person is not None:
                self._person.leave()
            if self._claim_end():
                self._reach_end()

    def _tell_reading(self) -> str | None:
        """Tell what is read before the run begins; None where it has begun, or nothing is. Not for users."""
        if self._spec.complete is None or self._is_over:
            return None
        prompt = getattr(self._setting.continue_from, "prompt", None)
        return describe_reading([*self._spec.inputs.values(), prompt])

    def _wait_for_begin(self) -> bool:
        """Wait until the run has begun; False where it has ended before. Not for users."""
        while self._driver is None and not self._is_over:
            wait([self._get_end()], timeout=_LOOK_S)
        return self._driver is not None

    async def _read_inputs(self) -> bool:
        """Read the inputs that are behind connections; whether the run may begin, and is not stopped meanwhile.

        Raises:
            ValidationError, EnsembleError: one can't be read; nothing has begun.
        """
        began_s = time.monotonic()
        shared = None if self._parent is None else self._parent.tools
        tools = shared if isinstance(shared, PreparedTools) else PreparedTools()
        self._reading = asyncio.ensure_future(self._complete_spec(tools))
        if self._is_cancelled:
            self._reading.cancel()
        try:
            await asyncio.wait([self._reading], timeout=self._spec.timeout)
            if self._is_claimed:
                return False
            if not self._reading.done() or self._reading.cancelled():
                is_late = not self._reading.done()
                self._error = self._make_error_of_reading(ExitReason.TIMEOUT if is_late else ExitReason.INTERRUPTED)
                return False
            self._reading.result()
            if (limit_s := self._spec.timeout) is not None:
                self._spec = replace(self._spec, timeout=limit_s - (time.monotonic() - began_s))
            self._tools = None if tools is shared else tools
            return True
        finally:
            self._reading.cancel()
            if self._tools is None and tools is not shared:
                tools.stop_opening()
                await tools.close(EXPORT_LIMIT_S)

    def _make_error_of_reading(self, reason: ExitReason) -> BaseException:
        """The error of a run that has ended before its first event."""
        if reason is ExitReason.TIMEOUT and (limit_s := self._setting.timeout) is not None:
            return DeadlineExceededError("run", limit_s, "reading its inputs", "Raise timeout; nothing was asked.")
        return RunInterrupted("it was stopped while its inputs were read; nothing was asked.")

    async def _complete_spec(self, tools: PreparedTools) -> None:
        spec, setting = self._spec, self._setting
        prompt = getattr(setting.continue_from, "prompt", None)
        task = None if self._calling_span is None else self._calling_span.span
        found = await read_inputs(spec.inputs, prompt, tools, task)
        if found.messages is not None:  # a fork of this run goes on with what was read now
            self._setting = replace(setting, continue_from=KeptConversations(messages=found.messages))
        assert spec.complete is not None
        made = spec.complete(found.values, found.messages)
        for each in found.attachments:
            made.attachments.add(each)
        # What others have made of the specification before the run began stays.
        kept = {
            name: getattr(spec, name) for name in ("budget", "earlier", "memory", "person", "review_handler", "row")
        }
        self._spec = replace(made, **kept, revision=spec.revision, warnings=(*made.warnings, *found.warnings))
        self._text_filter, plan = made.text_filter, made.get_told_plan()
        self.plan = plan if self._text_filter is None else self._text_filter.apply(plan)

    @property
    def _listeners(self) -> Sequence[Any]:
        exporter = self._ensemble.trace_exporter
        live = (exporter,) if hasattr(exporter, "on_event") else ()  # it sends what there is as the run goes
        return () if self._setting.is_row else (*self._ensemble.listeners, *self._setting.listeners, *live)

    async def _drive(self, loop: asyncio.AbstractEventLoop, sinks: Sequence[Sink]) -> None:
        span = self._calling_span
        around = () if span is None or span.is_over else span.span.stream.listeners
        listeners = leave_out_heard(self._listeners, around)
        remembered = self._store_writer
        hold = None if remembered is None else remembered.hold
        delivery = None
        if listeners:  # what they begin is nobody's (E52)
            delivery = make_context_of_nobody().run(ListenerDelivery, listeners, hold)
        is_row = self._spec.row is not None or (self._parent is not None and self._parent.row is not None)
        log = RunLogger(self._spec.graph, is_verbose=self._ensemble.verbose, is_row=is_row)
        nested = None if span is None else NestedEvents(span)
        outer_sinks = () if nested is None else (nested.put,)
        deliver: list[Sink] = [] if remembered is None else [remembered.on_event]
        deliver += [] if delivery is None else [delivery.put]
        self._journal = self._make_journal()
        remembered_tasks = self._find_kept_tasks(remembered)
        kept_tasks = self._keep_in_journal(remembered_tasks)
        source = self._source
        if self._text_filter is None and (remembered is not None or self._journal is not None):
            source = keep_exchanges(source, self._journal, remembered, self._resumed, self._spec.graph, deliver)
        stream = self._stream = EventStream(
            self.run_id, self._clock, [*deliver, *sinks, *outer_sinks], self._text_filter, log.put
        )
        stream.listeners = (*around, *listeners)
        timed_around = None if nested is None else nested.connect(stream)
        driver = self._driver = Driver(
            self._spec,
            source,
            stream,
            self._clock,
            random.random,
            self._parent,
            timed_around,
            kept_tasks,
            self._answers,
            self._tools,
        )
        if remembered is not None:
            tell_at_once(remembered, driver)
        from ensemble_notebook.models.model_source import get_default_source

        timer = None
        if self._spec.timeout is not None:
            timer = loop.call_later(self._spec.timeout, driver.stop, ExitReason.TIMEOUT)
        if self._is_cancelled:
            loop.call_soon(self._stop_driver)
        try:
            # What is nested in a run is in its context, too.
            is_silent = config.langsmith or self._parent is not None
            async with _AS_IT_IS if is_silent else no_tracing_by_environment():
                with masked_logs:
                    async with _AS_IT_IS if self._parent else get_default_source().connections_held():
                        await driver.run()
        finally:
            if timer is not None:
                timer.cancel()
            if isinstance(remembered_tasks, RememberedTasks | ResumedTasks):
                remembered_tasks.close()
            is_stopped = self._is_claimed or driver.result.exit_reason is ExitReason.INTERRUPTED
            if not self._is_claimed:
                self._make_output(driver)
                self._finish_recording(driver)
                await self._export(EXPORT_LIMIT_S if is_stopped else DRAIN_LIMIT_S)
            await self._finish_remembering(EXPORT_LIMIT_S if is_stopped else DRAIN_LIMIT_S)
            if delivery is not None:
                self._add_warnings(await delivery.drain(0.0 if is_stopped else DRAIN_LIMIT_S))

    def _finish_recording(self, driver: Driver) -> None:
        """Tell the recording that the run has completed; what it could not write by now has been told."""
        from ensemble_notebook.models.recording.recorder import RecordingSource

        source = self._source
        if not isinstance(source, RecordingSource) or driver.result.exit_reason is not ExitReason.COMPLETED:
            return
        told = len(source.warnings)
        source.finish()
        self._add_warnings(source.warnings[told:])

    def _make_journal(self) -> RunJournal | None:
        """What the run holds of itself, so that it can be forked; one inside another is a part of that one."""
        spec = self._spec
        is_whole = (self._parent is None or self._setting.is_row) and not spec.task_noun.is_run
        if not is_whole or self._text_filter is not None:
            return None
        forked = self._resumed if isinstance(self._resumed, ForkedRun) else None
        return RunJournal(
            inputs=spec.inputs,
            deps=spec.deps,
            continued=self._setting.continue_from,
            cell=self._setting.origin if forked is None else forked.origin.cell,
            changes=() if forked is None else forked.changes,
            find_forked=None if forked is None else forked.origin.make_finder(),
            points=() if forked is None else forked.points,
            lineage={self._resumed.run.run_id, *self._resumed.lineage} if isinstance(self._resumed, ResumedRun) else (),
        )

    def _find_row_place(self) -> RowPlace | None:
        """Where the store has the run of a row."""
        if self._calling_span is None or self._spec.row is None:
            return None
        place, task = self._calling_span.span, self._calling_span.span.task or ""
        return RowPlace(map_run_id=place.stream.run_id, row=task, prefix=f"{task}/{self.name or 'run'}/")

    def _keep_in_journal(self, remembered: KeptTasks | None) -> KeptTasks | None:
        """What the tasks of the run are given of earlier ones, and keep."""
        if self._journal is None:
            return remembered
        kept_tasks = JournalledTasks(self._journal, remembered)
        return ForkedTasks(self._resumed, kept_tasks) if isinstance(self._resumed, ForkedRun) else kept_tasks

    def _find_kept_tasks(self, remembered: RunWriter | None) -> KeptTasks | None:
        """What earlier runs have left, and where this one leaves its own."""
        if self._parent is not None:
            task = "" if self._calling_span is None else self._calling_span.span.task or ""
            around = self._parent.kept_tasks
            return None if around is None else NestedTasks(around, f"{task}/{self.name or 'run'}/")
        resumed, is_reusing = self._resumed, self._setting.reuse or self._spec.only is not None
        if remembered is None or not self._spec.keeps_tasks:
            if not isinstance(resumed, ResumedRun):
                return None
            return ResumedTasks(resumed.list_done(self._spec), None, is_reusing=is_reusing)
        currency = self._spec.currency
        spending = TaskSpending(currency)
        remembered.readers.append(spending.on_events)
        graph = self._spec.graph
        paths = [make_task_path(node.name, graph.get_phase_name(node)) for node in graph.tasks]
        is_map, results = self._spec.task_noun.is_run, RunStore.open().open_results()
        kept_tasks = RememberedTasks(results, remembered, spending, currency, paths, is_map=is_map)
        if not isinstance(resumed, ResumedRun):
            return kept_tasks
        return ResumedTasks(resumed.list_done(self._spec), kept_tasks, is_reusing=is_reusing)

    async def _finish_remembering(self, limit_s: float) -> None:
        """Have the rest of the run written to the store, where it is remembered."""
        if self._store_writer is not None:
            self._add_warnings(await finish_remembering(self._store_writer, limit_s))

    def _add_warnings(self, warnings: Iterable[str]) -> None:
        """Tell what went wrong after the end of the run, where it has an output."""
        if self.output is not None:
            for warning in warnings:
                self.output._add_warning(warning)

    async def _export(self, limit_s: float) -> None:
        """Hand the trace to the exporter, if there is one; failed runs have a trace, too."""
        exporter, output = self._ensemble.trace_exporter, self.output
        is_wanted = exporter is not None or self._spec.capture_mode is CaptureMode.FULL
        if output is None or self._setting.is_row or not is_wanted:
            return
        from ensemble_notebook.trace.exporters import export_trace

        caller = FunctionCaller()
        try:
            async with asyncio.timeout(limit_s):
                warning = await caller.call("trace exporter", lambda: export_trace(output.trace, exporter))
        except TimeoutError:
            warning = f"The trace exporter is still busy after {limit_s:g} s; not waiting for it."
            logger.warning("%s", warning)
        finally:
            caller.close()
        if warning is not None:
            output._add_warning(warning)

    def _abandon(self, reason: ExitReason) -> None:
        """End the run on this thread, since its loop is blocked; runs from now on get a new loop."""
        assert self._thread is not None
        place = self._thread.find_place()
        replace_loop_thread(self._thread)
        if self._driver is None and self._reading is not None:
            if self._claim_end():
                self._error = self._make_error_of_reading(reason)
                self._reach_end()
            return
        if self._driver is None:  # it has not begun, since another run blocks the loop
            self._thread = loop_thread()
            self._thread.submit(self._run_here())
            return
        if not self._claim_end():
            return
        try:
            if self.output is not None:
                return  # all is done but the last steps on the loop, which another run blocks
            self._driver.abandon(reason, _BLOCKED.format(place="" if place is None else f" at {place}"))
            self._make_output(self._driver)
            for last in (self._export, self._finish_remembering):
                with contextlib.suppress(TimeoutError):
                    loop_thread().submit(last(EXPORT_LIMIT_S)).result(2 * EXPORT_LIMIT_S)
        except Exception as error:  # noqa: BLE001 - as in `_run_here`
            self._error = error
        finally:
            self._reach_end()

    def _watch_loop(self, thread: LoopThread, reason: ExitReason, *, after_s: float = 0.0) -> None:
        """End the run in another way, from a thread of its own, where its loop does not answer although it is to end.

        Something that blocks in an async function, such as ``time.sleep``, holds the loop: no interrupt and no timeout
        reaches the run through it. The run is to end `after_s` from now, and has half a second more to do so.
        """
        end = self._get_end()

        def watch() -> None:
            wait([end], timeout=after_s + GRACE_S)
            while not end.done():
                if not thread.is_responsive(ANSWER_LIMIT_S):
                    self._abandon(reason)
                    return
                wait([end], timeout=_INTERVAL_S)

        threading.Thread(target=watch, name="ensemble-watchdog", daemon=True).start()

    def _claim_end(self) -> bool:
        """Whether whoever asks is the one that ends the run: its loop, or a thread that has given the loop up."""
        with _lock:
            is_first, self._is_claimed = not self._is_claimed, True
            return is_first

    def _reach_end(self) -> None:
        release_here(self.run_id)
        with _lock:
            self._is_over = True
        if self._over is not None:
            self._over.set_result(None)

    def _get_end(self) -> Future[None]:
        """What is done once the run has ended; made for the first who waits, since nobody does for a row of a map."""
        with _lock:
            if self._over is None:
                self._over = Future()
                if self._is_over:
                    self._over.set_result(None)
            return self._over

    def _stop_driver(self) -> None:
        if self._driver is not None:
            self._driver.stop(ExitReason.INTERRUPTED)
        elif self._reading is not None:
            self._reading.cancel()

    def _make_output(self, driver: Driver) -> None:
        result, spec = driver.result, self._spec
        if self._text_filter is not None:  # before anything is made of it that is shown
            result.failures[:] = self._text_filter.apply(result.failures)
            result.skipped[:] = self._text_filter.apply(result.skipped)
        self.output = EnsembleOutput(
            ensemble=self._ensemble,
            graph=spec.graph,
            plan=self.plan,
            events=self.events,
            result=result,
            only=None if spec.only is None else spec.only.task,
            earlier=spec.conversations,
            journal=self._journal,
            row_place=self._find_row_place(),
            attachments=spec.attachments,
        )
        if self._answers is not None and (unused := self._answers.describe_unused()):
            self.output._add_warning(unused)
        strategy = self._ensemble.error_strategy
        self._error = make_run_error(result, spec.graph, strategy, spec.inputs, self._setting.timeout)
        if self._text_filter is not None and isinstance(self._error, TaskExecutionError):
            self._error.task_description = ""
        spent = result.budget_error
        if spent is not None and self._error is None and self._parent is not None and self._parent.holds(spent.budget):
            self._error = spent  # the budget of the run around this one is used up (E52)
        if isinstance(self._error, EnsembleError | RunInterrupted):
            self._error.output = self.output

    def _get_outcome(self) -> EnsembleOutput:
        if self._error is not None:
            # Debuggers land in the last frame: the user's own, where there is one (E48).
            raise self._error.with_traceback(make_users_traceback(self._error))
        assert self.output is not None
        return self.output
