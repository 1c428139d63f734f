"""The ensemble: a definition that can run (E4)."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from ensemble_notebook.domain.definitions.enums import TaskNoun
from ensemble_notebook.domain.definitions.templates import check_variables, find_first_texts
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.secrets import protect_named
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble, check_inner_variables, list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import find_lacking, list_places, list_texts
from ensemble_notebook.domain.planning.execution_plan import (
    ExecutionPlan,
    KnownItems,
    PlanPreview,
    list_tools,
    make_plan,
)
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.engine.loop_thread import loop_thread
from ensemble_notebook.engine.run_spec import ForkPlace
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkArguments, read_fork
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.ensemble_tool import make_tool
from ensemble_notebook.ensemble.improving.improve_settings import read_improve
from ensemble_notebook.ensemble.many_runs.map_settings import read_map, read_repeated
from ensemble_notebook.ensemble.many_runs.rerun import Rerun, read_rerun
from ensemble_notebook.ensemble.run_checks import check_runnable
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.ensemble.run_preparation import (
    PreparedEnsemble,
    ask_person_here,
    find_unused,
    list_gate_warnings,
    make_source,
)
from ensemble_notebook.ensemble.run_settings import (
    SETTING_NAMES,
    Inputs,
    RunArguments,
    RunSettings,
    merge_inputs,
    read_run,
    takes,
    write_inputs,
)
from ensemble_notebook.ensemble.run_stream import RunStream
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan
    from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun
    from ensemble_notebook.ensemble.improving.improvement import Improvement
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
    from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
    from ensemble_notebook.ensemble.many_runs.rerun_run import RerunHandle
    from ensemble_notebook.ensemble.many_runs.variants import Variants
    from ensemble_notebook.evaluation.scorer import AnyScorers


class Ensemble(RunnableEnsemble):
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
        fallback_is_warning: whether a run that a fallback has saved ends as ``"completed_with_warnings"``; if not, as
            ``"completed"``, with a warning for each such task.
        manager_llm: the manager's model in the hierarchical workflow; None: `llm`.
        manager_max_iterations: the most tool calls of the manager.
        manager_prompt: a `ManagerPrompt` that replaces the manager's prompts.
        hierarchical_constraints: what the manager may and must do: `HierarchicalConstraints`, or a mapping of its
            fields.
        delegation_policies: `DelegationPolicy` objects, or functions ``(request, context)``, asked about every
            delegation; one, or a list.
        max_delegation_depth: how deep delegations may nest, at least 1.
        listeners: functions of an `Event`, or objects with ``on_event(event)``, one or a list; called on a thread of
            their own.
        capture_mode: what is recorded: ``"metadata"``, ``"off"``, ``"standard"`` or ``"full"``; None: as configured.
        trace_exporter: a function of the `ExecutionTrace`, or an object with ``export(trace)``, called after each run;
            or the path of a folder or a .json file, for a `JsonTraceExporter`.
        rate_limit: limits the model requests of all tasks together: a `RateLimit`, ``"60/min"``, or a mapping of its
            fields.
        budget: limits what a run may spend: a `Budget`, ``"$0.50, 20k tokens"``, or a mapping of its fields.
        max_concurrency: the most tasks that run at the same time; None: no limit.
        memory: a `MemoryStore`, a LangChain vector store, or the path of a file for a `SqliteMemory`; True: a new store
            in memory, kept from run to run; None: a new one for each run.
        review_handler: a plain or async function ``(ReviewRequest) -> ReviewDecision``, such as `auto_review()`, which
            lets all pass; None: whoever runs it is asked, and where nobody can be, each gate's `on_timeout` decides.
        review_policy: adds reviews: ``"never"``, ``"after_every_task"`` or ``"after_last_task"``.
        cost: your own rates: a `CostConfiguration`, or a mapping of its fields; None: the public price list.
        inputs: default values of template variables.
        texts: what a model is told of a reply that is not good enough, in place of ours: `PromptTexts`, or a mapping
            such as ``{"correction": "Again, please: {error}"}``.
        deps: any object for tools, handlers and other functions that take a `RunContext`, as its ``deps``.
        verbose: whether all prompts and replies are logged, at INFO.
        name: for views and the list of remembered runs.

    Raises:
        ValidationError: a field has a wrong value. Rules between objects are checked by `validate`, which `run` calls
            first, so that a mistake never costs a token.
    """

    __slots__ = ()

    @classmethod
    def _complete_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Make stores and exporters of their short forms: they are in layers that a definition does not know."""
        memory, exporter = values.get("memory"), values.get("trace_exporter")
        if isinstance(memory, bool | str | os.PathLike):
            from ensemble_notebook.memory.vector_store_memory import open_memory

            try:
                values = {**values, "memory": open_memory(memory)}
            except ValidationError as error:
                raise ValidationError(Problem(str(error), cls, "memory")) from error
        if isinstance(exporter, str | os.PathLike):
            from ensemble_notebook.trace.exporters import JsonTraceExporter

            values = {**values, "trace_exporter": JsonTraceExporter(exporter)}
        return values

    @overload
    def run(
        self,
        /,
        inputs: Inputs = None,
        *,
        repeat: int,
        score: AnyScorers | None = None,
        expected: str | None = None,
        **settings_and_variables: Any,
    ) -> MapResult: ...
    @overload
    @takes(read_run)
    def run(self, /, inputs: Inputs = None, **given: Any) -> EnsembleOutput: ...
    @takes(read_run)
    def run(  # noqa: D417 - what is given are the settings that are described here
        self,
        /,
        inputs: Inputs = None,
        *,
        repeat: int | None = None,
        score: AnyScorers | None = None,
        expected: str | None = None,
        **given: Any,
    ) -> EnsembleOutput | MapResult:
        """Run to the end and return the output.

        Works in scripts, threads, and notebook cells, whose event loop is already running. In async code, use `arun`.

        Args:
            inputs: values of template variables.
            repeat: how often it runs, 1 to 1,000, as independent samples; then the result is the `MapResult` of
                one row. None: once.
            score: with `repeat`, as in `map`.
            expected: with `repeat`, as in `map`.
            timeout: seconds until the run is stopped.
            record: file to which all model exchanges, tool results and review answers are written, secrets masked.
            replay: a recorded file, from which models and tools answer; no model or tool is called.
            replay_tools: ``"live"``: a replay calls tools and reviewers all the same.
            pace: ``"recorded"``: a replay takes as long as the recorded run.
            reuse: run only what has changed since an earlier run, and what depends on it; all other tasks take over
                their earlier output.
            only: a task or its name: run this task alone. The tasks that it depends on are reused where unchanged, and
                run otherwise; all others are skipped.
            resume: an earlier run to continue: its output, its id or a prefix of that, its name, or ``"-1"`` for the
                last run. What it has done is not done again. Its inputs are used unless others are given.
            redo: with `resume`, names of tools. A call that was begun, and whose end is not known, may have done its
                work: a person is asked whether to make it again, and where nobody can be asked, the run is refused
                unless its tool is named here.
            anyway: with `resume`, go on although another run, here or in another process, goes on from there now, which
                is refused otherwise, since both would pay for the rest.
            answers: with `resume`, answers to calls of reviewed tools that wait there, by the ids that
                `EnsembleOutput.pending` lists: ``"approve"``, a `ReviewDecision`, or a mapping with ``decision``
                (``"approve"``, ``"edit"`` or ``"reject"``), ``arguments``, ``reason``, ``by`` and ``always``. Each
                counts once.
            continue_from: an earlier output, or the id of a remembered run, its name, or -1 for the last one; each task
                continues the conversation of the task of the same name there. Or a list of messages, or a prompt of an
                MCP server, for the only task that has an agent.
            history: how much of these conversations is sent: ``"20 turns"``, ``"8k tokens"``, ``"8k tokens,
                summarised"``; None: all.
            deps: any object for tools, handlers and other functions that take a `RunContext`, as its ``deps``; None:
                those of the ensemble.
            listeners: of this run, beside the ensemble's own.
            review_handler: is asked if the ensemble has none.
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
        if repeat is not None:
            from ensemble_notebook.ensemble.many_runs.map_run import start_map

            of_map = read_repeated(inputs, given, repeat=repeat, score=score, expected=expected)
            return start_map(self, of_map)._run_to_end()
        if score is not None and not isinstance(score, str | int | float):
            raise ValidationError("score goes with repeat=N here. Of one run, score its output: output.score(...).")
        words = {"score": score, "expected": expected}  # which may be template variables, too
        given |= {name: each for name, each in words.items() if each is not None}
        handle = _prepare_run(self, read_run(inputs, **given))
        return _run_to_end(handle)

    @takes(read_run)
    async def arun(self, /, inputs: Inputs = None, **given: Any) -> EnsembleOutput:
        """Run on the caller's event loop; arguments and errors as for `run`.

        Cancelling the call stops the run. The `CancelledError` has the partial result as ``output``.
        """
        handle = _prepare_run(self, read_run(inputs, **given))
        return await _run_on_callers_loop(handle)

    @takes(read_run)
    def start(self, /, inputs: Inputs = None, **given: Any) -> RunHandle:
        """Start a run in the background and return its handle at once.

        Arguments are as for `run`. Mistakes raise here; failures of the run raise from the handle.
        """
        return start_run(self, read_run(inputs, **given))

    @takes(read_run)
    def stream(self, /, inputs: Inputs = None, **given: Any) -> RunStream:
        """Make a run whose events are read as they come, and whose output is there after the last one.

        ::

            async with ensemble.stream(topic="tides") as run:
                async for event in run:
                    ...
            run.output

        Arguments are as for `run`, and mistakes raise here. The run starts on the caller's event loop when the block
        is entered, and leaving the block early stops it. Errors of the run raise at the end of the block, after
        `RunStream.output` is set.
        """
        return RunStream(_prepare_run(self, read_run(inputs, **given), streams=True))

    @takes(read_run)
    async def astream(self, /, inputs: Inputs = None, **given: Any) -> AsyncIterator[Event]:
        """Run on the caller's event loop and yield the events as they happen, including pieces of streamed replies.

        Arguments are as for `run`. Leaving the loop early stops the run. After the last event, errors raise as in
        `run`.
        """
        async with self.stream(inputs, **given) as run:
            async for event in run:
                yield event

    @overload
    def fork(self, /, run: Any, span: Any, *, plan: Literal[True], **given: Any) -> ForkPlan: ...
    @overload
    @takes(read_fork)
    def fork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput: ...
    @takes(read_fork)
    def fork(  # noqa: D417 - as of `run`
        self, run: Any, span: Any, *, plan: bool = False, **given: Any
    ) -> EnsembleOutput | ForkPlan:
        """Run again from a span of an earlier run on, with a change there, and return the output.

        What ended before the span, or does not depend on it, is kept and costs nothing; what depends on it is done
        anew, even where it comes out equal. No tool that ran before the span runs again. Without a change, the span is
        asked, called or done again.

        Args:
            run: an output, or the id of a remembered run, a beginning of it, its name, or -1 for the last one.
            span: a model call, a tool call or a task of it, or the id of one.
            reply: what the model says there in place of its reply: a text, `Reply`, or a message of LangChain.
            tool_result: what the tool gives in place of its result.
            system_prompt: the agent's, from this call on, in this task alone.
            user_prompt: in place of the task's own prompt of this call; history and results around it stay.
            messages: all that the model is told at this call.
            llm: who is asked from this call on, in this task alone.
            parameters: of that model, such as ``{"temperature": 0}``.
            output: of the task, in place of its own; of its output type, where it has one.
            until: a task or its name: what it does not need is skipped.
            plan: whether nothing is done, and the result is a `ForkPlan`: what would be kept and done anew, and which
                tools, handlers, MCP servers, memories and exporters may run.
            inputs: those of the run that could not be kept.
            timeout: as in `run`.
            history: as in `run`.
            deps: as in `run`; those of a run of this process are used unless others are given.
            listeners: as in `run`.
            review_handler: as in `run`.
            **variables: of the run, in place of those that it had.

        Raises:
            ValidationError, StoreError: there is no such run or span, or the change does not fit it; nothing was asked.
            TaskExecutionError, DeadlineExceededError, RunInterrupted: as of `run`.
        """
        if loop_thread().is_current():
            raise EnsembleError("fork() would block the loop it needs; use `await ensemble.afork()` in async tools.")
        arguments = read_fork(run, span, **given)
        if plan:
            return plan_fork(self, arguments)
        handle = _prepare_fork(self, arguments)
        return _run_to_end(handle)

    @overload
    async def afork(self, /, run: Any, span: Any, *, plan: Literal[True], **given: Any) -> ForkPlan: ...
    @overload
    @takes(read_fork)
    async def afork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput: ...
    @takes(read_fork)
    async def afork(self, run: Any, span: Any, *, plan: bool = False, **given: Any) -> EnsembleOutput | ForkPlan:
        """Fork on the caller's event loop; arguments and errors as for `fork`."""
        arguments = read_fork(run, span, **given)
        if plan:
            return plan_fork(self, arguments)
        handle = _prepare_fork(self, arguments)
        return await _run_on_callers_loop(handle)

    @overload
    def start_fork(self, /, run: Any, span: Any, *, plan: Literal[True], **given: Any) -> ForkPlan: ...
    @overload
    @takes(read_fork)
    def start_fork(self, run: Any, span: Any, **given: Any) -> RunHandle: ...
    @takes(read_fork)
    def start_fork(self, run: Any, span: Any, *, plan: bool = False, **given: Any) -> RunHandle | ForkPlan:
        """Start a fork in the background and return its handle at once; arguments as for `fork`."""
        arguments = read_fork(run, span, **given)
        return plan_fork(self, arguments) if plan else begin_fork(self, arguments)

    @overload
    def rerun(self, /, run: Any, span: Any, *, plan: Literal[True], **given: Any) -> CostEstimate: ...
    @overload
    @takes(read_rerun)
    def rerun(self, run: Any, span: Any, **given: Any) -> Rerun: ...
    @takes(read_rerun)
    def rerun(  # noqa: D417 - what is given is described here
        self, run: Any, span: Any, *, plan: bool = False, **given: Any
    ) -> Rerun | CostEstimate:
        """Make one model call of an earlier run again, as it was made, with what is given in place of what it had.

        Its tools are offered and not called, and nothing after the call runs. All replies are one run, a row each.

        Args:
            run: as in `fork`.
            span: the model call, or its id.
            system_prompt: in place of the agent's.
            user_prompt: in place of the task's own prompt; what was said after it stays.
            messages: all that the model is told.
            llm: who is asked in place of the agent's model.
            repeat: how many replies, 1 to 1,000.
            budget: of all of them, in place of the ensemble's.
            timeout: seconds until they are stopped.
            concurrency: the most replies at the same time; None: 10.
            listeners: of this run, beside the ensemble's own.
            plan: whether nothing is asked, and the result is the `CostEstimate` of what would be.
            **parameters: of the model, such as ``temperature=0``.

        Raises:
            ValidationError, StoreError: there is no such call, or what it was told is not kept; nothing was asked.
            DeadlineExceededError, RunInterrupted: it was stopped; has what is there as ``output``.
        """
        from ensemble_notebook.ensemble.many_runs.rerun_run import estimate_rerun, prepare_rerun

        read = read_rerun(run, span, **given)
        return estimate_rerun(self, read) if plan else prepare_rerun(self, read)._run_to_end()

    @takes(read_rerun)
    async def arerun(self, run: Any, span: Any, **given: Any) -> Rerun:
        """Make a call again on the caller's event loop; arguments and errors as for `rerun`."""
        from ensemble_notebook.ensemble.many_runs.rerun_run import prepare_rerun

        return await prepare_rerun(self, read_rerun(run, span, **given))._run_here()

    @takes(read_rerun)
    def start_rerun(self, run: Any, span: Any, **given: Any) -> RerunHandle:
        """Make a call again in the background and return the handle at once; arguments as for `rerun`.

        ``handle.events`` has the pieces of the replies as they come.
        """
        from ensemble_notebook.ensemble.many_runs.rerun_run import prepare_rerun

        handle = prepare_rerun(self, read_rerun(run, span, **given), streams=True)
        handle._begin()
        return handle

    @takes(read_map)
    def map(self, rows: Any, **given: Any) -> MapResult:  # noqa: D417 - as of `run`
        """Run once per row, concurrently; the columns are the template variables.

        The map is a single run, with a task for each row, in the trace, the timeline and the store. All rows share one
        budget account and one rate limit. ::

            result = ensemble.map(frame[["topic"]])
            result.frame

        Args:
            rows: a DataFrame, or a list of mappings. Missing values (NaN, NA, NaT) become None, which is an empty text
                in a prompt. The ensemble's `inputs` are used for columns that a row does not have.
            score: what scores each row that is done: a scorer, a list of them, or a dict of them by name. A scorer
                is a function with any of the parameters ``output``, ``inputs``, ``expected`` and ``run``, one of
                `ensemble_notebook.scorers`, or an ensemble that judges. Its scores are columns of ``.frame``.
            expected: the column of what a row should come to; None: ``expected``, ``target`` or ``expected_output``.
            id: the column that tells rows apart, in other maps as well, whatever stands before a row; None: ``id``,
                where there is one.
            repeat: how often each row runs, 1 to 1,000, as independent samples; ``repeat`` is then the last level of
                the index of `MapResult.frame`. None: once.
            until_clear: of variants: ends the map when a difference from the first one is shown at this level, as 0.05,
                or of one of several scores, as ``{"right": 0.05}``; None: all rows run.
            seed: of the order in which rows run then.
            is_: the label that counts then, of a score that gives labels.
            on_error: ``"keep"``: a failed row is a value in the result; ``"raise"``: the first failed row ends the map.
            concurrency: the most rows that run at the same time; None: 10, or twice the number of the executor's
                workers, where that is known.
            executor: a `concurrent.futures` executor, a Dask distributed ``Client``, or an object with
                ``submit(function, *arguments)`` whose result has ``result()``, that runs the rows; None: this process.
                Functions defined in cells are sent along; models must be given as specs. An interrupt stops the rows
                there; on an executor of another class, only if its workers see the files of this machine.
            attach: the columns, one name or a list, whose texts are paths of pictures and PDFs: the model is shown the
                files. A value that is a `Path` or an image needs no word.
            resume: a `MapResult`, whose completed rows are taken over where their inputs are the same, so that new,
                missing and failed rows run alone; or an earlier map, as in `run`. What was done in a row that runs is
                not done again, with a result only where the store has that map.
            redo: as in `run`.
            anyway: as in `run`.
            answers: as in `run`: to calls that wait in the rows of that map.
            budget: limits what this map may spend, in place of the ensemble's `budget`; so a map that ended for its
                budget goes on with ``map(rows, resume=result, budget="$2")``.
            timeout: seconds for the whole map.
            record: as in `run`; one file for all rows.
            replay: as in `run`.
            replay_tools: as in `run`.
            pace: as in `run`.
            reuse: as in `run`, in each row.
            only: as in `run`, in each row.
            deps: as in `run`.
            listeners: as in `run`.
            review_handler: as in `run`.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake, such as missing columns; nothing was called.
            TaskExecutionError: a row failed, with ``on_error="raise"``.
            DeadlineExceededError: the timeout has passed.
            RunInterrupted: the map was interrupted. This and the two above have the partial `MapResult` as ``output``.
            ScoringError: a scorer failed for each row; has the whole result as ``result``.
        """
        from ensemble_notebook.ensemble.many_runs.map_run import start_map

        return start_map(self, read_map(rows, **given))._run_to_end()

    def variants(self, changes: Mapping[str, Mapping[str, Any]], *, score: AnyScorers | None = None) -> Variants:
        """Make variants of this ensemble, to run or map them side by side and compare the results.

        ::

            variants = ensemble.variants({"short": {"style": "short"}, "local": {"llm": "local"}})
            variants.run(topic="tides").frame

        Args:
            changes: a name for each variant, with what it changes: fields of the ensemble, ``"task.NAME.FIELD"``,
                ``"agent.ROLE.FIELD"``, or inputs, which then hold for all rows.
            score: what scores each completed run, as for `map`.

        Raises:
            ValidationError: there is nothing of that name to change, or the value is wrong.
        """
        from ensemble_notebook.ensemble.many_runs.variants import Variants

        return Variants(self, changes, score)

    @takes(read_improve)
    def improve(self, /, rows: Any, **given: Any) -> Improvement:  # noqa: D417 - what is given is described here
        """Look for better texts, and have rows that the search never saw say whether they are better.

        gepa (extra ``improve``) proposes texts, which are tried on the rows that are not held out. ::

            better = team.improve(rows, score=right, change="task.label.description", budget="$2")

        Args:
            rows: as for `map`; 9 at the least. What is not held out is what the search sees.
            score: one scorer, as for `map`: a function, a ready-made one or a judge, which passes or gives a number.
            change: places of the texts: ``"task.NAME.description"``, ``.expected_output`` or ``.prompt``, or
                ``"agent.ROLE.goal"``, ``.background`` or ``.system_prompt``; one, or a list.
            budget: what all of it may spend, in place of the ensemble's; the held-out rows are reserved first.
            held_out: how many rows are held out, or which share of them; None: a third.
            seed: of what is drawn; the same one searches in the same way.
            llm: the model that rewrites texts, paid from the budget; None: the ensemble's.
            expected: as in `map`.
            id: as in `map`.
            attach: as in `map`.
            concurrency: as in `map`.
            executor: refused: rows run here.
            timeout: seconds for all of it.
            deps: as in `run`.
            listeners: as in `run`.
            review_handler: as in `run`.

        Returns:
            The verdict: ``changes``, ``ensemble``, ``candidates``, ``comparison``.

        Raises:
            ValidationError, PromptTemplateError: there is a mistake, or the score is none that can get better.
            MissingPackageError: gepa is not installed.
            DeadlineExceededError, RunInterrupted: it was stopped; has the best so far as ``output``.
        """
        from ensemble_notebook.ensemble.improving.improve_run import prepare_improvement

        return prepare_improvement(self, *read_improve(rows, **given))._run_to_end()

    def validate(self) -> tuple[str, ...]:
        """Check the rules between the objects, and that every model is available here.

        Returns:
            Warnings about what is unusual but can run, and about gates at which nobody can be asked here.

        Raises:
            ValidationError: with all problems that were found.
        """
        graph, warnings = check_runnable(self, make_source(RunSettings()))
        return (*warnings, *list_gate_warnings(self, graph))

    def plan(self, /, inputs: Inputs = None, **variables: Any) -> ExecutionPlan:
        """Plan a run without running it. Variables without a value stay as they are.

        Args:
            inputs: values of template variables.
            **variables: more values, as keywords.

        Raises:
            ValidationError: the ensemble can't run.
        """
        graph, values = check_ensemble(self)[0], merge_inputs(self, inputs, variables)
        written, items = self._write_inputs(values), list_known_items(graph, values)
        plan = make_plan(graph, written, items)
        likely = None
        if any(node.agent is not None or node.nested is not None for node in graph.tasks):
            with suppress(Exception):  # without a key, say: a plan needs none
                likely = self._estimate(graph, written, items)
        warnings = list_gate_warnings(self, graph)
        return replace(plan, preview=PlanPreview(tools=list_tools(plan, graph), estimate=likely, warnings=warnings))

    def estimate(
        self,
        /,
        inputs: Inputs = None,
        *,
        rows: Any = None,
        repeat: int | None = None,
        score: AnyScorers | None = None,
        expected: str | None = None,
        attach: str | Sequence[str] = (),
        **variables: Any,
    ) -> CostEstimate:
        """Estimate the model calls, tokens and cost of a run or a map: what is likely, and the most.

        No model is started. Judges among the scorers are counted, too.

        Args:
            inputs: values of template variables.
            rows: what `map` would be given; None: a single run.
            repeat: how often each row, or the run, is done.
            score: what would score it, as in `map`.
            expected: the column of what a row should come to, as in `map`.
            attach: the columns whose texts are paths of pictures and PDFs, as in `map`; pictures are not read.
            **variables: more values, as keywords.

        Raises:
            ValidationError: the ensemble can't run, or an argument is wrong.
        """
        graph, _ = check_runnable(self, make_source(RunSettings()))
        values = merge_inputs(self, inputs, variables)
        if rows is not None or repeat is not None:
            from ensemble_notebook.ensemble.many_runs.map_estimate import estimate_runs
            from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings
            from ensemble_notebook.ensemble.many_runs.rows import attach_files, make_only_row, read_rows

            settings = MapSettings(repeat=repeat, score=score, expected=expected, attach=attach)
            given = attach_files(make_only_row({}) if rows is None else read_rows(rows), settings.attach)
            return estimate_runs([(self, replace(given, rows=[*given.rows] * (repeat or 1)), values)], settings, None)
        found = self._estimate(graph, self._write_inputs(values), list_known_items(graph, values))
        if score is None:
            return found
        from ensemble_notebook.ensemble.many_runs.map_estimate import add_judges

        return add_judges(found, score, expected, values)

    def _estimate(self, graph: Graph, written: Mapping[str, str], items: KnownItems) -> CostEstimate:
        from ensemble_notebook.ensemble.cost_estimation import estimate, find_usual_replies

        replies = find_usual_replies(self.name, graph)
        return estimate(self, graph, written, datetime.now(UTC), items, replies)

    @classmethod
    def from_yaml(cls, source: str | Path, namespace: Mapping[str, Any] | None = None) -> Self:
        """Make an ensemble from a cell.

        Args:
            source: the text of the cell, or the `Path` of a file that holds it. A first line ``%%ensemble ...`` may be
                there; its options about the ensemble (inputs, model, workflow, ...) are used.
            namespace: the variables that the cell may name, such as ``globals()``. Dotted names are imported.

        Raises:
            ValidationError: the file can't be read, or the cell has mistakes; lists all of them with their lines.
        """
        # The cell language is a layer above, so it is called through the registered views.
        made: Self = render_view("from_cell", source, namespace)
        return made

    def to_yaml(self, namespace: Mapping[str, Any] | None = None) -> str:
        """Write the ensemble as the body of a cell. ``from_yaml(e.to_yaml(names), names)`` makes an equal ensemble.

        Args:
            namespace: the variables that the cell may name, such as ``globals()``. None: those that the ensemble was
                read with, if it comes from a cell. Otherwise functions and classes are written by their own or dotted
                names, and other objects can't be written.

        Raises:
            ValidationError: the ensemble can't run, or holds something that a cell can't express, such as a lambda, a
                model object without a variable, an input that is not plain data, or a key. Names the place and the
                remedy.
        """
        text: str = render_view("cell", self, namespace)
        return text

    def as_tool(self, name: str, description: str) -> BaseTool:
        """Make a tool that runs this ensemble, for the `tools` of an agent.

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
        return make_tool(self, name, description, tuple(find_lacking(self, {})))

    def _prepare_rows(self, source: ChatSource) -> RunHandle:
        settings = RunSettings()
        spec = PreparedEnsemble(self, settings, source, task_noun=TaskNoun.ROW).make_spec({})
        return RunHandle(self, spec, source, uuid.uuid4().hex[:12], settings)

    def _start_row_forks(
        self, result: MapResult, rows: Sequence[tuple[RowResult, RunnableEnsemble]], span: Any, **given: Any
    ) -> MapHandle:
        from ensemble_notebook.ensemble.many_runs.forked_rows import start_row_forks

        return start_row_forks(result, rows, span, **given)

    def _load_map(self, word: str) -> MapResult:
        from ensemble_notebook.ensemble.many_runs.loaded_map import load_map

        return load_map(word)

    def _write_inputs(self, values: Mapping[str, Any]) -> Mapping[str, str]:
        return write_inputs(find_first_texts(list_texts(self)), values)[0]


def _run_to_end(handle: RunHandle) -> EnsembleOutput:
    """The output of a run that is begun now; an interrupt stops it. Errors as of `Ensemble.run`."""
    try:
        handle._begin()
        return handle.result()
    except KeyboardInterrupt:
        return handle.interrupted()


async def _run_on_callers_loop(handle: RunHandle) -> EnsembleOutput:
    """The output of a run on the loop of whoever awaits it. Errors as of `Ensemble.arun`."""
    try:
        await handle._run_here()
    except asyncio.CancelledError as stopped:
        stopped.output = handle.output  # type: ignore[attr-defined]
        raise
    return await handle


def start_run(ensemble: Ensemble, given: RunArguments) -> RunHandle:
    """Prepare a run and begin it. Errors as of `_prepare_run`."""
    handle = _prepare_run(ensemble, given)
    handle._begin()
    return handle


def _prepare_fork(ensemble: Ensemble, given: ForkArguments) -> RunHandle:
    """Prepare a fork of a run. Errors as of `_prepare_run`."""
    from ensemble_notebook.ensemble.earlier_runs.fork_origin import find_origin
    from ensemble_notebook.ensemble.earlier_runs.forking import fork_run

    of_run, origin = given.of_run, find_origin(given.run)
    forked = fork_run(origin, given.span, given.change, build_team_graph(ensemble))
    if forked.answers.point is not None and forked.answers.point.llm is not None:
        make_source(of_run.settings).check(forked.answers.point.llm)
    deps = forked.choose_deps(of_run.settings.deps, ensemble.deps)
    change = forked.change
    place = ForkPlace(origin.known_as, forked.span.span_id, change.names, model=change.model)
    cell = of_run.settings.origin or origin.cell  # one that is made in Python is known by the cell of its origin
    settings = replace(of_run.settings, continue_from=origin.continued, deps=deps, forked_from=place, origin=cell)
    inputs = forked.merge_inputs(of_run.inputs, of_run.variables)
    return _prepare_run(ensemble, RunArguments(inputs, of_run.variables, settings), forked=forked)


def begin_fork(ensemble: Ensemble, given: ForkArguments) -> RunHandle:
    """Prepare a fork and begin it. Errors as of `_prepare_run`."""
    handle = _prepare_fork(ensemble, given)
    handle._begin()
    return handle


def plan_fork(ensemble: Ensemble, given: ForkArguments) -> ForkPlan:
    """What a fork would do. Errors as of `_prepare_run`."""
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import make_fork_plan
    from ensemble_notebook.ensemble.earlier_runs.forking import ForkedRun

    handle = _prepare_fork(ensemble, given)
    assert isinstance(handle._resumed, ForkedRun)
    return make_fork_plan(ensemble, handle._spec, handle._resumed)


def _prepare_run(
    ensemble: Ensemble, given: RunArguments, *, streams: bool = False, forked: ForkedRun | None = None
) -> RunHandle:
    """Prepare a run; `RunHandle._begin` begins it. Everything that can be refused is refused here.

    Args:
        ensemble: what runs.
        given: what its door was called with.
        streams: whether replies are streamed in any case.
        forked: the run that it forks; None where it forks none.

    Raises:
        ValidationError, PromptTemplateError: there is a mistake; nothing was called.
    """
    inputs, settings = given.inputs, replace(ask_person_here(given.settings), streams=streams)
    source, resumed, resumed_from = make_source(settings), None, None
    if forked is not None and forked.is_replayed:
        from ensemble_notebook.models.recording.resumer import OneModelSource

        source = OneModelSource(source, forked.change.llm)
    if settings.resume is not None:
        from ensemble_notebook.ensemble.earlier_runs.resuming import load_resumed_run

        resumed = load_resumed_run(settings.resume)
        inputs, resumed_from = resumed.merge_inputs(inputs, given.variables), resumed.run.run_id
        resumed.check_deps(ensemble.deps if settings.deps is None else settings.deps)
        continued = resumed.find_continued(settings.continue_from)
        settings = replace(settings, resume=resumed_from, continue_from=continued)
    if settings.continue_from is not None:
        from ensemble_notebook.ensemble.earlier_runs.continuing import find_continued

        settings = replace(settings, continue_from=find_continued(settings.continue_from))
    values = merge_inputs(ensemble, inputs, given.variables)
    protect_named(values)
    prepared = PreparedEnsemble(ensemble, settings, source, resumed_from)
    check_variables(prepared.variables, values, list_places(ensemble), SETTING_NAMES)
    sources = (*values.values(), getattr(settings.continue_from, "prompt", None))
    if unused := find_unused(ensemble, given.variables, prepared.variables, sources):
        raise ValidationError(unused)
    spec = prepared.make_spec(values)
    if resumed is not None:
        spec = replace(spec, earlier=resumed.trace.metrics.total)
    return RunHandle(ensemble, spec, source, uuid.uuid4().hex[:12], settings, forked or resumed)
