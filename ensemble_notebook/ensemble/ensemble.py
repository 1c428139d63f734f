"""The ensemble: a definition that can run (E4)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, make_plan
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.engine.events.event_stream import Sink
from ensemble_notebook.engine.threads.loop_thread import loop_thread
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_inputs import list_texts, merge_inputs, write_inputs
from ensemble_notebook.ensemble.run_preparation import (
    check_runnable,
    make_pricing,
    make_run_spec,
    make_source,
)
from ensemble_notebook.ensemble.run_settings import Inputs, Pace, PathLike, ReplayTools, RunSettings
from ensemble_notebook.errors import EnsembleError


class Ensemble(RunnableEnsemble):
    """Agents and tasks that run together.

    Fields: `tasks` or `phases` (not both), `agents` (optional; if given, every task's agent is in it), `llm` (default
    model; ``"local"`` where nothing is configured), `workflow` (sequential | parallel | hierarchical),
    `error_strategy` (fail_fast | continue_on_error | partial), `listeners` (objects with ``on_event(event)``, or
    callables), `max_concurrency` (tasks at once), `cost` (own rates), `inputs` (default values of template
    variables), `verbose`, `name`.

    For the hierarchical workflow: `manager_llm`, `manager_max_iterations`, `manager_prompt` (a `ManagerPrompt`),
    `hierarchical_constraints`. For any delegation: `delegation_policies`, `max_delegation_depth`.

    Limits, shared by all tasks: `budget`, `rate_limit`. Memory: `memory` (a `MemoryStore` or a LangChain vector
    store; None: one for each run). People: `review_handler` (``(ReviewRequest) -> ReviewDecision``; None: no gates),
    `review_policy` (never | after_every_task | after_last_task). Records: `capture_mode` (metadata | off | standard |
    full; None: as configured), `trace_exporter` (an object with ``export(trace)``, or a callable).

    Each run is independent; one ensemble may run several times at once.

    Raises:
        ValidationError: a field is wrong by itself. Rules between objects are checked by `validate`, which `run` calls
            before anything else, so a mistake never costs a token.
    """

    __slots__ = ()

    def run(
        self,
        inputs: Inputs = None,
        /,
        *,
        timeout: float | None = None,
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        **variables: Any,
    ) -> EnsembleOutput:
        """Run to the end. The same in a script, in a cell of a kernel whose loop is running, and in a thread.

        Args:
            inputs: values of template variables.
            timeout: seconds; past them the run stops and raises.
            record: file that every model exchange and tool answer is written to, secrets masked (E42).
            replay: file, recorded before, that models and tools answer from; no model is contacted, no tool called.
            replay_tools: ``"live"`` to call tools in a replay, too.
            pace: ``"recorded"`` for a replay that takes the time that it took.
            **variables: the same as `inputs`, as keywords.

        Raises:
            ValidationError, PromptTemplateError: before anything was called.
            TaskExecutionError: a task failed; with the partial `output`.
            ConstraintViolationError: the manager ended without a worker that was required; with the `output`.
            DeadlineExceededError: the timeout is over; with the partial `output`.
            RunInterrupted: a person stopped it; with the partial `output`.
        """
        if loop_thread().is_current():
            raise EnsembleError("run() would block the loop that it needs; use `await ensemble.arun()` in async tools.")
        setting = RunSettings(timeout=timeout, record=record, replay=replay, replay_tools=replay_tools, pace=pace)
        handle = self._handle(inputs, variables, setting)
        try:
            handle.begin()
            return handle.result()
        except KeyboardInterrupt:
            return handle.interrupted()

    async def arun(
        self,
        inputs: Inputs = None,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the same word in all four ways to run (E4)
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        **variables: Any,
    ) -> EnsembleOutput:
        """The same on the caller's loop. Cancelling it stops the run; the `CancelledError` carries ``output``, too."""
        setting = RunSettings(timeout=timeout, record=record, replay=replay, replay_tools=replay_tools, pace=pace)
        handle = self._handle(inputs, variables, setting)
        try:
            await handle.drive()
        except asyncio.CancelledError as stopped:
            stopped.output = handle.output  # type: ignore[attr-defined]
            raise
        return await handle

    def start(
        self,
        inputs: Inputs = None,
        /,
        *,
        timeout: float | None = None,
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        listeners: Sequence[Listener] = (),
        review_handler: ReviewHandler | None = None,
        **variables: Any,
    ) -> RunHandle:
        """Run in the background; mistakes are raised here, what happens in the run by the handle.

        All is as in `run`; `listeners` are those of this one run, beside the ensemble's own, and `review_handler` is
        asked where the ensemble has none.
        """
        setting = RunSettings(
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            listeners=listeners,
            review_handler=review_handler,
        )
        handle = self._handle(inputs, variables, setting)
        handle.begin()
        return handle

    async def astream(
        self,
        inputs: Inputs = None,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `arun`
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        **variables: Any,
    ) -> AsyncIterator[Event]:
        """The events of a run on the caller's loop, as they happen, streamed replies included.

        Leaving the iteration early stops the run. After the last event, what `run` raises is raised.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        sink: Sink = queue.put_nowait
        setting = RunSettings(
            timeout=timeout, record=record, replay=replay, replay_tools=replay_tools, pace=pace, streams=True
        )
        handle = self._handle(inputs, variables, setting)
        driving = asyncio.ensure_future(handle.drive([sink]))
        driving.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            if not driving.done():
                driving.cancel()
            await asyncio.wait([driving])
        await handle

    def validate(self) -> tuple[str, ...]:
        """Check the rules between the objects, and that every model can be had here (E5).

        Returns:
            Warnings about what is odd but can run.

        Raises:
            ValidationError: with every problem found.
        """
        return check_runnable(self, make_source(RunSettings()))[1]

    def plan(self, inputs: Inputs = None, /, **variables: Any) -> ExecutionPlan:
        """What a run would do, without doing it. Variables without a value are left as they are."""
        return make_plan(check_ensemble(self)[0], self._write_inputs(inputs, variables))

    def estimate(self, inputs: Inputs = None, /, **variables: Any) -> CostEstimate:
        """What a run would take, from the least to the most, in calls, tokens and cost; no model is started for it.

        Raises:
            ValidationError: the ensemble can't run.
        """
        graph, _ = check_runnable(self, make_source(RunSettings()))
        return estimate(self, graph, self._write_inputs(inputs, variables), make_pricing(self), datetime.now(UTC))

    def _write_inputs(self, inputs: Inputs, variables: Mapping[str, Any]) -> Mapping[str, str]:
        return write_inputs(list_texts(self), merge_inputs(self, inputs, variables))[0]

    def _handle(self, inputs: Inputs, variables: Mapping[str, Any], setting: RunSettings) -> RunHandle:
        """Everything that can be refused is refused here."""
        source = make_source(setting)
        order = make_run_spec(self, inputs, variables, setting, source)
        return RunHandle(self, order, source, SystemClock(), uuid.uuid4().hex[:12], setting)
