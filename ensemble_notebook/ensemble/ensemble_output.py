"""What a run gives back (E7, C31), or raises (E32): results at once, trace and frames when they are first asked for."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, Unpack, overload

from ensemble_notebook.domain.attachments import HeldAttachments
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition, EnsembleFields
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ErrorStrategy,
    ExitReason,
    ReviewPolicy,
    RunStatus,
    TaskNoun,
    Workflow,
)
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.events import BudgetWarning, Event, RunStarted, Warned
from ensemble_notebook.domain.outputs.conversation import Messages
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.outputs.score import ScoreRecord, ScoreValue, list_current
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import Failure, Metrics, Skipped, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.text_filter import DefinitionFilter, mask_event
from ensemble_notebook.domain.wording import format_duration, pluralize
from ensemble_notebook.engine.run.run_result import RunResult
from ensemble_notebook.ensemble.earlier_runs.fork_change import read_fork
from ensemble_notebook.ensemble.earlier_runs.run_journal import RowPlace, RunJournal
from ensemble_notebook.ensemble.many_runs.rerun import Rerun, read_rerun
from ensemble_notebook.ensemble.run_settings import Inputs, PathLike, read_run, takes
from ensemble_notebook.ensemble.scoring import RunToScore, Scorable
from ensemble_notebook.errors import (
    ConstraintViolationError,
    DeadlineExceededError,
    ParallelExecutionError,
    PhaseExecutionError,
    Pickled,
    RunInterrupted,
    TaskExecutionError,
    ValidationError,
    add_origin,
    did_you_mean,
    summarize_error,
)

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
    from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan
    from ensemble_notebook.trace.analysis.run_diff import RunDiff
    from ensemble_notebook.trace.analysis.transcript import Transcript
    from ensemble_notebook.trace.analysis.what_if import Prediction
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.frames import Frames
    from ensemble_notebook.trace.plots import Plots


class RunnableEnsemble(EnsembleDefinition, ABC):
    """An ensemble as its output knows it: all its fields, and that it can run again.

    `Ensemble` derives from it. An ensemble gives outputs and an output names its ensemble; with this class between
    them, their modules need not import each other.
    """

    # Not a definition again: it adds no field, and mypy would show the inherited ones in the form they are given in.
    __slots__ = ()

    def replace(self, **changes: Unpack[EnsembleFields]) -> Self:  # type: ignore[override] # its fields, typed
        """Make a copy with other values of some fields: ``ensemble.replace(llm="openai:gpt-4o-mini", budget="$1")``.

        To compare several values, use `Ensemble.variants`.

        Args:
            **changes: fields of an `Ensemble`, in any form that it takes.

        Raises:
            ValidationError: a field has a wrong value, or does not exist; names the nearest one.
        """
        return super().replace(**changes)

    @abstractmethod
    @takes(read_run)
    def run(self, /, inputs: Inputs = None, **given: Any) -> EnsembleOutput:
        """Run to the end."""

    @abstractmethod
    @takes(read_fork)
    def fork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput:
        """Run again from a span of an earlier run on."""

    @abstractmethod
    @takes(read_fork)
    async def afork(self, run: Any, span: Any, **given: Any) -> EnsembleOutput:
        """The same on the caller's event loop."""

    @abstractmethod
    @takes(read_fork)
    def start_fork(self, run: Any, span: Any, **given: Any) -> Any:
        """The same in the background."""

    @abstractmethod
    @takes(read_rerun)
    def rerun(self, run: Any, span: Any, *, plan: bool = False, **given: Any) -> Any:
        """Make a model call of an earlier run again."""

    @abstractmethod
    @takes(read_rerun)
    async def arerun(self, run: Any, span: Any, **given: Any) -> Rerun:
        """The same on the caller's event loop."""

    @abstractmethod
    @takes(read_rerun)
    def start_rerun(self, run: Any, span: Any, **given: Any) -> Any:
        """The same in the background."""

    @property
    def _can_run(self) -> bool:
        """Whether it is what ran, and not a description of that."""
        return True

    def _with_rows(self, tasks: Sequence[Task], *, error_strategy: ErrorStrategy, concurrency: int) -> Self:
        """The ensemble whose tasks are rows: its budget, listeners and the like are those of this one."""
        return dataclasses.replace(
            self,
            tasks=tasks,
            phases=(),
            agents=(),
            llm=None,
            workflow=Workflow.PARALLEL,
            error_strategy=error_strategy,
            max_concurrency=concurrency,
            manager_llm=None,
            manager_prompt=None,
            hierarchical_constraints=None,
            delegation_policies=(),
            rate_limit=None,
            memory=None,
            review_handler=None,
            review_policy=ReviewPolicy.NEVER,
            inputs={},
        )

    def _plan_fork(self, run: Any, span: Any, **given: Any) -> ForkPlan:
        """What a fork would do."""
        plan: Any = self.fork
        made: ForkPlan = plan(run, span, plan=True, **given)
        return made

    @abstractmethod
    def _start_row_forks(self, result: Any, rows: Sequence[tuple[Any, Any]], span: Any, **given: Any) -> Any:
        """The handle of a map in which these rows fork, each with what it runs; it has not begun."""

    @abstractmethod
    def _prepare_rows(self, source: ChatSource) -> Any:
        """The handle of a run whose tasks are rows, which has not begun."""

    @abstractmethod
    def _load_map(self, word: str) -> Any:
        """The result of a stored map, by its id."""


# What is made from these is made again.
_KEPT: Final = frozenset(
    {
        *("ensemble", "plan", "run_id", "name", "status", "exit_reason", "failures", "skipped", "total_duration"),
        *("_graph", "_events", "_outputs", "completed_outputs", "_late_warnings", "_only", "_earlier"),
        *("_scores", "_row_place"),
    }
)


class EnsembleOutput(Scorable, Pickled):
    """The result of one run, complete or partial.

    ``output["task"]`` is the output of a task, ``output.raw`` the text of the final one, and ``output.parsed_output``
    its value where it is typed.

    Attributes:
        run_id: unique.
        name: of the ensemble; None if it has none.
        status: how the run ended.
        exit_reason: why it ended.
        failures: one per failed task, in order of failure.
        skipped: tasks and phases that never ran, each with the reason.
        total_duration: from start to end, as a `timedelta`.
        plan: what was planned.
        ensemble: what ran; can run again.
        completed_outputs: as `task_outputs`, but without traces and metrics.
    """

    def __init__(
        self,
        *,
        ensemble: RunnableEnsemble,
        graph: Graph,
        plan: ExecutionPlan,
        events: Sequence[Event],
        result: RunResult,
        only: int | None = None,
        earlier: Mapping[str, Messages] = MappingProxyType({}),
        journal: RunJournal | None = None,
        row_place: RowPlace | None = None,
        attachments: HeldAttachments | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.plan = plan
        self.run_id: str = events[0].run_id
        self.name: str | None = ensemble.name
        self.status: RunStatus = result.status
        self.exit_reason: ExitReason = result.exit_reason
        self.failures: tuple[Failure, ...] = tuple(result.failures)
        self.skipped: tuple[Skipped, ...] = tuple(result.skipped)
        self.total_duration: timedelta = timedelta(seconds=events[-1].offset_s)
        self.completed_outputs: tuple[TaskOutput, ...] = result.completed
        self._graph = graph
        self._events: tuple[Event, ...] = tuple(events)
        self._outputs: dict[int, TaskOutput] = dict(result.outputs)
        self._late_warnings: list[str] = []  # came after the last event, and so are in no view of the events
        self._only = only
        self._earlier: Mapping[str, Messages] = dict(earlier)
        self._journal = journal
        self._row_place = row_place
        self._attachments = attachments
        self._scores: tuple[ScoreRecord, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        """Raise `FrozenInstanceError` once it is made: the result of a run does not change."""
        if "_scores" in vars(self):
            raise FrozenInstanceError(f"cannot assign to {name!r}: an EnsembleOutput is frozen")
        vars(self)[name] = value

    def __delattr__(self, name: str) -> NoReturn:
        """Raise `FrozenInstanceError`."""
        raise FrozenInstanceError(f"cannot delete {name!r}: an EnsembleOutput is frozen")

    def _get_pickled_state(self) -> dict[str, Any]:
        """The state for pickling; models, tools and functions are replaced by descriptions."""
        state = {name: value for name, value in vars(self).items() if name in _KEPT}
        if self._shows_texts:
            return state
        definitions = DefinitionFilter()  # a pickle is no live output (T6a); its task outputs see to themselves
        return {
            **state,
            "ensemble": definitions.apply(self.ensemble, keeps_roles=True),
            "_graph": definitions.apply(self._graph, keeps_roles=False),
            "_scores": tuple(each.without_texts() for each in self._scores),
        }

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The whole stream, in order, secrets masked; every view is made from it."""
        return tuple(mask_event(event) for event in self._events)

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """The template variables of the run as text, secrets masked. Empty texts under `CaptureMode.METADATA`."""
        first = self._events[0]
        return mask_event(first).inputs if isinstance(first, RunStarted) else {}

    @cached_property
    def trace(self) -> ExecutionTrace:
        """The typed trace: spans, messages, metrics."""
        from ensemble_notebook.trace.execution_trace import ExecutionTrace

        return ExecutionTrace(self._events, self.ensemble.cost, scores=self._scores)

    @property
    def score_records(self) -> tuple[ScoreRecord, ...]:
        """The scores of the run that count, in the order in which they were given; of a map, those of its rows."""
        return list_current(self._scores)

    def _with_scores(self, records: Iterable[ScoreRecord]) -> Self:
        """The same output with more scores, of this run or of the rows of a map; this one stays as it is."""
        added = tuple(records)
        made = object.__new__(type(self))
        vars(made).update(vars(self), _scores=(*self._scores, *added))
        if "trace" in vars(self):  # its fold serves again
            vars(made)["trace"] = self.trace._with_scores(added)
        return made

    def annotate(
        self,
        value: ScoreValue,
        name: str = "label",
        reason: str | None = None,
        span: Any = None,
        *,
        range: Sequence[float] | None = None,  # noqa: A002 - as `timeline.range`
        replace: bool = False,
    ) -> Self:
        """Add what a person says of the run. This one stays as it is; the store keeps the score.

        Args:
            value: a bool passes or fails it, a number scores, a text labels it.
            name: of the score.
            reason: why.
            span: the span that it is about, or its id; None: the run as a whole.
            range: the time that it is about, as ``(from_ms, to_ms)`` since the start of the run, such as
                ``timeline.range``.
            replace: whether it takes the place of an earlier score of this name.

        Returns:
            The same with the score.

        Raises:
            ValidationError: the value is no score, there is no such span or time, or there is a score of this name.
        """
        return self._annotate([*self._list_scored()], value, name, reason, span, is_replacing=replace, time=range)

    def _list_scored(self) -> Iterator[RunToScore]:
        """The run, for whoever scores it. Not for users."""
        yield RunToScore(name=self.name or "run", run=self, inputs=self.inputs, place={"run_id": self.run_id})

    @property
    def _shows_texts(self) -> bool:
        """Whether views of it may show texts."""
        return self.capture_mode is not CaptureMode.METADATA

    @property
    def frames(self) -> Frames:
        """The trace as pandas DataFrames."""
        return self.trace.frames

    @property
    def plot(self) -> Plots:
        """Figures of the run: ``plot.tokens()``, ``cost()``, ``waterfall()`` and ``concurrency()``. Needs Altair."""
        return self.trace.plot

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls of reviewed tools that wait for an answer, those of runs inside too; secrets are masked in them.

        ``ensemble.run(resume=output, answers={id: "approve"})`` answers one, here or in another process.
        """
        return self.trace.pending

    @property
    def metrics(self) -> Metrics:
        """Sums over the whole run."""
        return self.trace.metrics

    def diff(self, other: EnsembleOutput | ExecutionTrace) -> RunDiff:
        """Compare this run with another one: spans by path, and the texts that changed.

        Args:
            other: an output or a trace of any run, finished or not.

        Raises:
            ValidationError: it is neither.
        """
        return self.trace.diff(other)

    def what_if(
        self,
        *,
        max_concurrency: int | None = None,
        speedup: Mapping[str, float] | None = None,
        drop_waits: bool | str | Iterable[str] = False,
    ) -> Prediction:
        """Predict how long the run would have taken under other conditions.

        Args:
            max_concurrency: the most tasks that run at the same time; None: as in the run.
            speedup: factors by which a task, by its name, or a kind of span (``"llm"``, ``"tool"``, ...) is faster; 2
                is twice as fast. For a task, the factor divides its time and that of all spans in it. For a kind, it
                divides the own time of its spans: a tool without what it delegates, a model call without waits and
                back-off.
            drop_waits: True for all waits, or the names of those that would have taken no time: ``"rate_limit"``,
                ``"budget"``, ``"connection"``, ``"backoff"``, ``"review"``.

        Raises:
            ValidationError: the run has not ended, or has no task, kind or wait of that name; suggests the nearest.
        """
        return self.trace.what_if(max_concurrency=max_concurrency, speedup=speedup, drop_waits=drop_waits)

    def messages(self, task: str | None = None, agent: str | None = None) -> Transcript:
        """What agents were told and said, in reading order, as a chat: all of it, of a task, or of an agent.

        Args:
            task: the name of a task, with all that was handed on in it; None: all.
            agent: the role of an agent; None: all.

        Raises:
            ValidationError: no task or agent has this name; suggests the nearest.
        """
        return self.trace.messages(task, agent)

    @overload
    def fork(self, span: Any, *, plan: Literal[True], **change: Any) -> ForkPlan: ...
    @overload
    def fork(self, span: Any, **change: Any) -> EnsembleOutput: ...
    def fork(self, span: Any, **change: Any) -> EnsembleOutput | ForkPlan:
        """Run again from a span on, with a change there, and return the output of that run.

        Args:
            span: a model call, a tool call or a task of this run, or its id.
            **change: what is different there, `until` which task it goes, and settings: see `Ensemble.fork`. With
                ``plan=True`` nothing is done, and the result is a `ForkPlan`.

        Raises:
            ValidationError, TaskExecutionError, DeadlineExceededError, RunInterrupted: as of `Ensemble.fork`.
        """
        return self.ensemble.fork(self, span, **change)

    def to_yaml(self, namespace: Mapping[str, Any] | None = None) -> str:
        """Write the body of the cell that a fork came from, with what the fork has changed; see `Rerun.to_yaml`.

        ``output.ensemble.to_yaml()`` writes what ran.

        Args:
            namespace: as there.

        Raises:
            ValidationError: it is no fork, or as there.
            StoreError: it is of an earlier process, and a run of its family is not in the store.
        """
        text: str = render_view("changed_cell", self._make_source(), namespace)
        return text

    def _make_source(self) -> ChangedSource:
        """What the forks by which the run came about have changed, for its cell.

        Raises:
            ValidationError: it is no fork.
            StoreError: it is of an earlier process, and a run of its family is not in the store.
        """
        from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource

        journal: RunJournal | None = getattr(self, "_journal", None)  # a pickle has none
        if journal is None:
            from ensemble_notebook.ensemble.earlier_runs.fork_origin import load_changed_source

            source = load_changed_source(self.run_id, self.ensemble)
        else:
            source = ChangedSource(
                changes=journal.changes, cell=journal.cell, ensemble=self.ensemble, inputs=journal.inputs
            )
        if not source.changes:
            raise ValidationError(
                f"Run {self.run_id} is no fork, so nothing of it is to be put into its cell. output.ensemble.to_yaml() "
                f"writes its ensemble."
            )
        return source

    @overload
    def rerun(self, span: Any, *, plan: Literal[True], **change: Any) -> CostEstimate: ...
    @overload
    def rerun(self, span: Any, **change: Any) -> Rerun: ...
    def rerun(self, span: Any, **change: Any) -> Rerun | CostEstimate:
        """Make one model call again, as it was made, with what is given in place of what it had.

        ::

            shorter = output.rerun(span, system_prompt="Two sentences at most.", repeat=3)
            shorter.frame, shorter.diff(1)

        Its tools are offered and not called, and nothing after the call runs. All replies are one run.

        Args:
            span: the model call, or its id.
            **change: `system_prompt`, `user_prompt`, `messages`, `llm`, and any parameter of the model, such as
                ``temperature=0``; `repeat` for how many replies; and settings: see `Ensemble.rerun`. With ``plan=True``
                nothing is asked, and the result is the `CostEstimate`.

        Raises:
            ValidationError: there is no such call, or what it was told is not kept; nothing was asked.
            DeadlineExceededError, RunInterrupted: it was stopped; has what is there as ``output``.
        """
        made: Rerun | CostEstimate = self.ensemble.rerun(self, span, **change)
        return made

    @overload
    async def afork(self, span: Any, *, plan: Literal[True], **change: Any) -> ForkPlan: ...
    @overload
    async def afork(self, span: Any, **change: Any) -> EnsembleOutput: ...
    async def afork(self, span: Any, **change: Any) -> EnsembleOutput | ForkPlan:
        """Fork on the caller's event loop; arguments and errors as for `fork`."""
        return await self.ensemble.afork(self, span, **change)

    def start_fork(self, span: Any, **change: Any) -> Any:
        """Start a fork in the background and return its `RunHandle` at once; arguments as for `fork`."""
        return self.ensemble.start_fork(self, span, **change)

    async def arerun(self, span: Any, **change: Any) -> Rerun:
        """Make a call again on the caller's event loop; arguments and errors as for `rerun`."""
        return await self.ensemble.arerun(self, span, **change)

    def start_rerun(self, span: Any, **change: Any) -> Any:
        """Make a call again in the background and return the `RerunHandle` at once; arguments as for `rerun`.

        ``handle.events`` has the pieces of the replies as they come.
        """
        return self.ensemble.start_rerun(self, span, **change)

    @cached_property
    def task_outputs(self) -> tuple[TaskOutput, ...]:
        """Outputs of the completed tasks, in order of completion, each with its trace and metrics.

        Of a hierarchical run, what the workers did, and the manager's last.
        """
        return tuple(self._by_name.values())

    @cached_property
    def phase_outputs(self) -> dict[str, tuple[TaskOutput, ...]]:
        """Phase name -> outputs of its completed tasks, in order of declaration; empty for flat ensembles."""
        return {
            phase.name: tuple(
                self._by_name[node.name]
                for index in self._outputs
                if (node := self._graph.tasks[index]).phase == number
            )
            for number, phase in enumerate(self._graph.phases)
        }

    @cached_property
    def raw(self) -> str:
        """Text of the final task: the one that all others lead to, or else the last that completed.

        With ``only``, it is the text of that task. Empty if the run failed, or went on without what failed, before the
        final task had an output: an intermediate text is never taken for the answer.
        """
        output = self.get_final_output()
        return "" if output is None else output.raw

    @property
    def parsed_output(self) -> Any:
        """The value beside `raw`: the typed output of the same task; None where it has none."""
        output = self.get_final_output()
        return None if output is None else output.parsed_output

    def get_final_output(self) -> TaskOutput | None:
        """The output whose text is `raw`; None if there is none."""
        last = find_final_tasks(self._graph) if self._only is None else (self._only,)
        if len(last) == 1 and last[0] in self._outputs:
            return self._outputs[last[0]]
        completed = self.completed_outputs
        # Nothing stands in for a final task in a run that failed, or that bore a failure.
        has_borne = self.status is RunStatus.COMPLETED_WITH_WARNINGS and any(not each.item_of for each in self.failures)
        if self.status is RunStatus.FAILED or has_borne:
            completed = tuple(output for index, output in self._outputs.items() if index in last)
        return completed[-1] if completed else None

    @property
    def capture_mode(self) -> CaptureMode:
        """How much of the run is recorded."""
        first = self._events[0]
        return first.capture_mode if isinstance(first, RunStarted) else CaptureMode.OFF

    def get_conversations(self, *, before: bool = False) -> Mapping[str, Messages]:
        """The conversation of each task by its name, which `run(continue_from=...)` continues.

        A task without an output, because it failed or was stopped, has the conversation that it started from.

        Args:
            before: True for the conversations that this run itself started from.
        """
        made = {} if before else {each.name: each.messages for each in self._outputs.values() if each.messages}
        return {**self._earlier, **made}

    @property
    def total_tool_calls(self) -> int:
        """Executed tool calls over all completed tasks."""
        return sum(output.tool_call_count for output in self.completed_outputs)

    def export(self, path: PathLike) -> Path:
        """Write the run to a .trace.json, .html, .svg, .parquet, .chrome.json or .otlp.json, by the end of the name.

        Args:
            path: of the file.

        Returns:
            The path of the file that was written.

        Raises:
            ValidationError, MissingPackageError, OSError: as `ExecutionTrace.export`.
        """
        return self.trace.export(path)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings, in order. Those from after the end, such as a failed export, come last."""
        told = (event.message for event in self._events if isinstance(event, Warned | BudgetWarning))
        return (*map(mask, told), *self._late_warnings)

    @property
    def timeline(self) -> Any:
        """The interactive timeline; without the notebook layer, None."""
        return render_view("timeline", self)

    def get(self, task: Task | str) -> TaskOutput | None:
        """The output of `task`, given as an object or by name; None if it has none."""
        name = task if isinstance(task, str) else next((n.name for n in self._graph.tasks if n.task is task), None)
        return None if name is None else self._by_name.get(name)

    def __getitem__(self, name: str) -> TaskOutput:
        """Output of the task of this name.

        Raises:
            KeyError: it has none; says why.
        """
        output = self.get(name)
        if output is None:
            raise KeyError(explain_absence(name, self._graph, self.failures, self.skipped, self._by_name))
        return output

    def __contains__(self, name: object) -> bool:
        """True where the task of this name has an output."""
        return name in self._by_name

    def __iter__(self) -> Iterator[TaskOutput]:
        """The outputs, in order of completion."""
        return iter(self.task_outputs)

    def __len__(self) -> int:
        """Number of completed tasks."""
        return len(self.completed_outputs)

    def __bool__(self) -> bool:
        """Always true: an output in which nothing was completed still holds the trace."""
        return True

    def _add_warning(self, message: str) -> None:
        """Add `message` about something that went wrong after the end of the run. Not for users."""
        self._late_warnings.append(mask(message))

    def _take_scores(self, records: Iterable[ScoreRecord]) -> None:
        """Add scores to this output itself, as `check` does, which gives no other one. Not for users."""
        vars(self).update(vars(self._with_scores(records)))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._by_name)

    def __repr__(self) -> str:
        """One line: how it ended, how much was done."""
        reused = sum(output.reused for output in self._outputs.values())
        first = self._events[0]
        noun = first.task_noun if isinstance(first, RunStarted) else TaskNoun.TASK
        done = f"{len(self._outputs):,}/{pluralize(self.plan.total_tasks, noun)}"
        done += f", {reused} of them reused," if reused else ""
        if self.exit_reason is ExitReason.NOBODY_TO_ASK and (waiting := len(self.pending)):
            done += f", {pluralize(waiting, 'call')} left waiting,"
        return f"<EnsembleOutput {self.status.value}: {done} in {format_duration(self.total_duration)}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("output", self)

    @cached_property
    def _by_name(self) -> dict[str, TaskOutput]:
        return {output.name: self._add_trace(output) for output in self.completed_outputs}

    def _add_trace(self, output: TaskOutput) -> TaskOutput:
        if output.reused and output.saving is None:  # of a worker whose manager was reused: this run has no trace of it
            return output
        part, items = self.trace.task(output.name), tuple(map(self._add_trace, output.item_outputs))
        return dataclasses.replace(output, trace=part, metrics=part.metrics, item_outputs=items)


# --- What is said of a run that ended badly: what `run` raises, and why there is no output of a task ------------------


_RETURNED: Final = (ExitReason.USER_EXIT_EARLY, ExitReason.NOBODY_TO_ASK, ExitReason.BUDGET_EXCEEDED)


def make_run_error(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], timeout_s: float | None
) -> BaseException | None:
    """The error that fits the end of a run, its cause set; None where `run` returns.

    It returns where nothing failed, where somebody left early or the budget was used up, whatever had failed by then,
    and always under PARTIAL, whose outcome is told by the status, FAILED included. An
    interrupt and a timeout raise in any case.
    """
    if result.exit_reason is ExitReason.INTERRUPTED:
        return RunInterrupted(f"{len(result.outputs)} of {len(graph.tasks)} tasks are done and kept.")
    if result.exit_reason is ExitReason.TIMEOUT and timeout_s is not None:
        running = ", ".join(repr(graph.tasks[index].name) for index in result.cancelled) or "nothing"
        return DeadlineExceededError("run", timeout_s, running, "Raise timeout; what was done is kept in .output.")
    if not result.failures or strategy is ErrorStrategy.PARTIAL or result.exit_reason in _RETURNED:
        return None
    first = result.failures[0]
    if isinstance(first.error, ConstraintViolationError):
        return first.error  # the manager did its work; what is missing is nobody's failure (E25)
    error = _make_failure_error(result, graph, strategy, inputs, first)
    error.__cause__ = first.error
    return error


def explain_absence(
    name: str, graph: Graph, failures: Iterable[Failure], skipped: Iterable[Skipped], present: Iterable[str]
) -> str:
    """Say why a run has no output of this name; `present` are the names that it has."""
    for failure in failures:
        if failure.name == name:
            return add_origin(f"Task {name!r} failed: {summarize_error(failure.error)}", failure.error)
    for each in skipped:
        if each.name == name:
            return f"Task {name!r} was skipped: {each.reason}"
    if any(name == node.name for node in graph.managed):
        there = ", ".join(present) or "nothing"
        return f"Task {name!r} has no output of its own, since a manager had it done. There is: {there}."
    names = [node.name for node in graph.tasks]
    return f"Task {name!r} was stopped." if name in names else f"No task {name!r}.{did_you_mean(str(name), names)}"


def _make_failure_error(
    result: RunResult, graph: Graph, strategy: ErrorStrategy, inputs: Mapping[str, Any], first: Failure
) -> TaskExecutionError:
    tasks = {node.name: node for node in graph.tasks}
    # A phase that its review rejected has no description of its own.
    description = tasks[first.name].task.description if first.kind == "task" else f"Review of phase {first.name!r}"
    facts: dict[str, Any] = {
        "task_description": render(description, inputs),
        "agent_role": first.agent_role,
        "completed_task_outputs": result.completed,
    }
    what = add_origin(summarize_error(first.error), first.error)
    names = ", ".join(f"{each.name!r} ({each.agent_role})" for each in result.failures if each.kind == "task")
    if graph.phases:
        phases = dict.fromkeys(
            each.name if each.kind == "phase" else graph.get_phase_name(tasks[each.name]) for each in result.failures
        )
        place = f" at task {names}" if names else ""
        message = f"Phase {', '.join(map(repr, phases))} failed{place}: {what}"
        return PhaseExecutionError(message, failures=result.failures, **facts)
    if strategy is ErrorStrategy.CONTINUE_ON_ERROR:
        causes = {failure.name: failure.error for failure in result.failures}
        message = f"{len(causes)} of {len(graph.tasks)} tasks failed: {names}: {what}"
        return ParallelExecutionError(message, failed_task_causes=causes, **facts)
    head = f"Task {first.name!r} ({first.agent_role}) failed: "
    # Of a run in itself, each level would say the same once more.
    return TaskExecutionError(what if head in what else f"{head}{what}", **facts)
