"""The ensemble: a definition that can run (E4)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.planning.ensemble_texts import find_lacking
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.domain.rules.nested_rules import check_inner_variables
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.engine.events.clock import SystemClock
from ensemble_notebook.engine.events.event_stream import Sink
from ensemble_notebook.engine.threads.loop_thread import loop_thread
from ensemble_notebook.ensemble.earlier_runs.resuming import load_resumed_run
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.ensemble_tool import make_ensemble_tool
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, Score
from ensemble_notebook.ensemble.many_runs.map_run import OnError, make_settings, start_map
from ensemble_notebook.ensemble.many_runs.variants import Variants
from ensemble_notebook.ensemble.plannable_ensemble import PlannableEnsemble
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import make_run_spec, make_source
from ensemble_notebook.ensemble.run_settings import (
    Continuable,
    Inputs,
    Pace,
    PathLike,
    ReplayTools,
    Resumable,
    RunSettings,
)
from ensemble_notebook.errors import EnsembleError
from ensemble_notebook.trace.store.run_facts import RunOrigin

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class Ensemble(PlannableEnsemble):
    """Agents and tasks that run together. Immutable; each run is independent, and runs may be concurrent.

    ::

        output = Ensemble(tasks=[facts, brief], llm="openai:gpt-4o-mini").run(topic="tides")

    Args:
        tasks: the tasks, unless there are `phases`.
        phases: the phases, unless there are `tasks`.
        agents: all agents; if given, the agent of every task must be in it.
        llm: the default model: a LangChain chat model or a spec; None: ``"local"``.
        workflow: ``"sequential"``, ``"parallel"`` or ``"hierarchical"``.
        error_strategy: what a failed task means for the others: ``"fail_fast"``, ``"continue_on_error"`` or
            ``"partial"``.
        manager_llm: the manager's model in the hierarchical workflow; None: `llm`.
        manager_max_iterations: the most tool calls of the manager.
        manager_prompt: a `ManagerPrompt` that replaces the manager's prompts.
        hierarchical_constraints: what the manager may and must do.
        delegation_policies: `DelegationPolicy` objects, or functions ``(request, context)``, asked about every
            delegation.
        max_delegation_depth: how deep delegations may nest, at least 1.
        listeners: functions of an `Event`, or objects with ``on_event(event)``; called on a thread of their own.
        capture_mode: what is recorded: ``"metadata"``, ``"off"``, ``"standard"`` or ``"full"``; None: as configured.
        trace_exporter: a function of the `ExecutionTrace`, or an object with ``export(trace)``, called after each run.
        rate_limit: limits the model requests of all tasks together.
        budget: limits what a run may spend.
        max_concurrency: the most tasks that run at the same time; None: no limit.
        memory: a `MemoryStore` or a LangChain vector store; None: a new store in memory for each run.
        review_handler: a plain or async function ``(ReviewRequest) -> ReviewDecision``; None: nobody is asked.
        review_policy: adds reviews: ``"never"``, ``"after_every_task"`` or ``"after_last_task"``.
        cost: your own rates; None: the public price list.
        inputs: default values of template variables.
        verbose: whether all prompts and replies are logged, at INFO.
        name: for views and the list of remembered runs.

    Raises:
        ValidationError: a field has a wrong value. Rules between objects are checked by `validate`, which `run` calls
            first, so that a mistake never costs a token.
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
        reuse: bool = False,
        only: Task | str | None = None,
        resume: Resumable = None,
        continue_from: Continuable = None,
        **variables: Any,
    ) -> EnsembleOutput:
        """Run to the end and return the output.

        Works in scripts, threads, and notebook cells, whose event loop is already running. In async code, use `arun`.

        Args:
            inputs: values of template variables.
            timeout: seconds until the run is stopped.
            record: file to which all model exchanges, tool results and review answers are written, secrets masked
                (E42).
            replay: a recorded file, from which models and tools answer; no model or tool is called.
            replay_tools: ``"live"``: a replay calls tools and reviewers all the same.
            pace: ``"recorded"``: a replay takes as long as the recorded run.
            reuse: run only what has changed since an earlier run, and what depends on it; all other tasks take over
                their earlier output (C34).
            only: a task or its name: run this task alone. The tasks that it depends on are reused where unchanged, and
                run otherwise; all others are skipped.
            resume: an earlier run to continue: its output, its id or a prefix of that, its name, or ``"-1"`` for the
                last run. What it has done is not done again. Its inputs are used unless others are given.
            continue_from: an earlier output; each task continues the conversation of the task of the same name there.
            **variables: more values of template variables, as keywords.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake; nothing was called.
            TaskExecutionError: a task failed.
            ConstraintViolationError: the manager ended without a required worker.
            DeadlineExceededError: the timeout has passed.
            RunInterrupted: the run was interrupted. This and the three above have the partial result as ``output``.
        """
        if loop_thread().is_current():
            raise EnsembleError("run() would block the loop that it needs; use `await ensemble.arun()` in async tools.")
        settings = RunSettings(
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            resume=resume,
            continue_from=continue_from,
        )
        handle = self._handle(inputs, variables, settings)
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
        reuse: bool = False,
        only: Task | str | None = None,
        resume: Resumable = None,
        continue_from: Continuable = None,
        **variables: Any,
    ) -> EnsembleOutput:
        """Run on the caller's event loop; arguments and errors as for `run`.

        Cancelling the call stops the run. The `CancelledError` has the partial result as ``output``.
        """
        settings = RunSettings(
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            resume=resume,
            continue_from=continue_from,
        )
        handle = self._handle(inputs, variables, settings)
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
        reuse: bool = False,
        only: Task | str | None = None,
        resume: Resumable = None,
        continue_from: Continuable = None,
        listeners: Sequence[Listener] = (),
        review_handler: ReviewHandler | None = None,
        origin: RunOrigin | None = None,
        **variables: Any,
    ) -> RunHandle:
        """Start a run in the background and return its handle at once.

        Mistakes raise here, as in `run`; failures of the run raise from the handle. Arguments are as for `run`, and
        three more: `listeners` are added to the ensemble's for this run, `review_handler` is asked if the ensemble has
        none, and `origin`, for notebooks, is the cell that is stored with the run.
        """
        settings = RunSettings(
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            resume=resume,
            continue_from=continue_from,
            listeners=listeners,
            review_handler=review_handler,
            origin=origin,
        )
        handle = self._handle(inputs, variables, settings)
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
        reuse: bool = False,
        only: Task | str | None = None,
        resume: Resumable = None,
        continue_from: Continuable = None,
        **variables: Any,
    ) -> AsyncIterator[Event]:
        """Run on the caller's event loop and yield the events as they happen, including pieces of streamed replies.

        Arguments are as for `run`. Leaving the loop early stops the run. After the last event, errors raise as in
        `run`.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        sink: Sink = queue.put_nowait
        settings = RunSettings(
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
            resume=resume,
            continue_from=continue_from,
            streams=True,
        )
        handle = self._handle(inputs, variables, settings)
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

    def map(
        self,
        rows: Any,
        *,
        on_error: OnError = "keep",
        concurrency: int | None = None,
        executor: Any = None,
        resume: MapResult | Resumable = None,
        timeout: float | None = None,
        record: PathLike | None = None,
        replay: PathLike | None = None,
        replay_tools: ReplayTools = None,
        pace: Pace = None,
        reuse: bool = False,
        only: Task | str | None = None,
    ) -> MapResult:
        """Run once per row, concurrently; the columns are the template variables.

        The map is a single run, with a task for each row, in the trace, the timeline and the store. All rows share one
        budget account and one rate limit. ::

            result = ensemble.map(frame[["topic"]])
            result.frame

        Args:
            rows: a DataFrame, or a list of mappings. Missing values (NaN, NA, NaT) become None, which is an empty text
                in a prompt. The ensemble's `inputs` are used for columns that a row does not have.
            on_error: ``"keep"``: a failed row is a value in the result; ``"raise"``: the first failed row ends the map.
            concurrency: the most rows that run at the same time; None: 10, or twice the number of the executor's
                workers.
            executor: a `concurrent.futures` executor or a Dask distributed ``Client`` that runs the rows; None: this
                process. Functions defined in cells are sent along; models must be given as specs. An interrupt stops
                the rows there; on an executor of another class, only if its workers see the files of this machine.
            resume: a `MapResult`, whose completed rows are taken over where label and values are equal, so that only
                missing and failed rows run; or an earlier map, as in `run`, whose finished tasks are not done again.
            timeout: seconds for the whole map.
            record: as in `run`; one file for all rows.
            replay: as in `run`.
            replay_tools: as in `run`.
            pace: as in `run`.
            reuse: as in `run`, in each row.
            only: as in `run`, in each row.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake, such as missing columns; nothing was called.
            TaskExecutionError: a row failed, with ``on_error="raise"``.
            DeadlineExceededError: the timeout has passed.
            RunInterrupted: the map was interrupted. This and the two above have the partial `MapResult` as ``output``.
        """
        settings, map_settings = make_settings(
            resume,
            on_error=on_error,
            concurrency=concurrency,
            executor=executor,
            timeout=timeout,
            record=record,
            replay=replay,
            replay_tools=replay_tools,
            pace=pace,
            reuse=reuse,
            only=only,
        )
        return start_map(self, rows, settings, map_settings).run_to_end()

    def variants(self, changes: Mapping[str, Mapping[str, Any]], *, score: Score | None = None) -> Variants:
        """Make variants of this ensemble, to run or map them side by side and compare the results.

        ::

            variants = ensemble.variants({"short": {"style": "short"}, "local": {"llm": "local"}})
            variants.run(topic="tides").frame

        Args:
            changes: a name for each variant, with what it changes: fields of the ensemble, ``"task.NAME.FIELD"``,
                ``"agent.ROLE.FIELD"``, or inputs, which then hold for all rows.
            score: ``(output) -> float | dict``, called for each completed run; adds columns to the result's table.

        Raises:
            ValidationError: there is nothing of that name to change, or the value is wrong.
        """
        return Variants(self, changes, score)

    def as_tool(self, name: str, description: str) -> BaseTool:
        """Make a tool that runs this ensemble, for the `tools` of an agent (E54).

        It has a text parameter for each input without a value, and returns the text of the final task. Its run is
        nested in the agent's: the same budget, rate limits, timeout and capture mode hold, and its trace is below the
        tool call.

        Args:
            name: letters, digits and underscores.
            description: what the tool is for; this is all that a model knows about it.

        Raises:
            ValidationError: the name or description is not valid, or the ensemble can't run.
        """
        check_ensemble(self)
        check_inner_variables(self)
        return make_ensemble_tool(self, name, description, tuple(find_lacking(self, {})))

    def _handle(self, inputs: Inputs, variables: Mapping[str, Any], settings: RunSettings) -> RunHandle:
        """Everything that can be refused is refused here."""
        source, resumed, resumed_from = make_source(settings), None, None
        if settings.resume is not None:
            resumed = load_resumed_run(settings.resume)
            inputs, resumed_from = resumed.merge_inputs(inputs, variables), resumed.run.run_id
            continued = resumed.find_continued(settings.continue_from)
            settings = replace(settings, resume=resumed_from, continue_from=continued)
        order = make_run_spec(self, inputs, variables, settings, source, resumed_from)
        return RunHandle(self, order, source, SystemClock(), uuid.uuid4().hex[:12], settings, resumed)
