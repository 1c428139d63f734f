"""What a run gives back (E7, C31): results at once, trace and frames when they are first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode, ExitReason, RunStatus
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.events import BudgetWarning, Event, RunStarted, Warned
from ensemble_notebook.domain.events.masked_event import mask_event
from ensemble_notebook.domain.events.textless_event import TextFilter
from ensemble_notebook.domain.outputs.metrics import Metrics
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import Failure, Skipped, TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, find_final_tasks
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.ensemble.run_settings import Inputs, Pace, PathLike, ReplayTools
from ensemble_notebook.errors import Pickled, add_origin, did_you_mean, summarize_error

if TYPE_CHECKING:
    from ensemble_notebook.trace.execution_trace import ExecutionTrace
    from ensemble_notebook.trace.frames import Frames


class RunnableEnsemble(EnsembleDefinition, ABC):
    """An ensemble as its output knows it: all its fields, and that it can run again.

    `Ensemble` derives from it. An ensemble gives outputs and an output names its ensemble; with this class between
    them, their modules need not import each other.
    """

    # Not a definition again: it adds no field, and mypy would show the inherited ones in the form they are given in.
    __slots__ = ()

    @abstractmethod
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
        """Run to the end."""


# What is made from these is made again.
_KEPT: Final = frozenset(
    {
        *("ensemble", "plan", "run_id", "name", "status", "exit_reason", "failures", "skipped", "total_duration"),
        *("_graph", "_events", "_outputs", "_completed", "_late_warnings"),
    }
)


class EnsembleOutput(Pickled):
    """The result of one run, complete or partial.

    Attributes:
        run_id: unique.
        name: of the ensemble, or None.
        status: how the run ended; `exit_reason` says why.
        failures: one per failed task, in order of failure.
        skipped: tasks and phases that never ran, each with its reason.
        total_duration: start to end.
        plan: what had been planned.
        ensemble: to ``run()`` again.
    """

    ensemble: RunnableEnsemble
    plan: ExecutionPlan
    run_id: str
    name: str | None
    status: RunStatus
    exit_reason: ExitReason
    failures: tuple[Failure, ...]
    skipped: tuple[Skipped, ...]
    total_duration: timedelta
    _graph: Graph
    _events: tuple[Event, ...]
    _outputs: Mapping[int, TaskOutput]
    _completed: tuple[TaskOutput, ...]
    _late_warnings: list[str]

    def __init__(
        self,
        *,
        ensemble: RunnableEnsemble,
        graph: Graph,
        plan: ExecutionPlan,
        events: Sequence[Event],
        outputs: Mapping[int, TaskOutput],
        status: RunStatus,
        exit_reason: ExitReason,
        failures: Sequence[Failure],
        skipped: Sequence[Skipped],
        delegated: Sequence[TaskOutput] = (),
    ) -> None:
        vars(self).update(
            ensemble=ensemble,
            plan=plan,
            run_id=events[0].run_id,
            name=ensemble.name,
            status=status,
            exit_reason=exit_reason,
            failures=tuple(failures),
            skipped=tuple(skipped),
            total_duration=timedelta(seconds=events[-1].offset_s),
            _graph=graph,
            _events=tuple(events),
            _outputs=dict(outputs),
            _completed=(*delegated, *outputs.values()),
            _late_warnings=[],
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """What a run gave back does not change.

        Raises:
            FrozenInstanceError: always.
        """
        raise FrozenInstanceError(f"cannot assign to {name!r}: an EnsembleOutput is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """As for assigning.

        Raises:
            FrozenInstanceError: always.
        """
        raise FrozenInstanceError(f"cannot delete {name!r}: an EnsembleOutput is frozen")

    def get_pickled_state(self) -> dict[str, Any]:
        """What everything else is made from; models, tools and functions are described (E63)."""
        state = {name: value for name, value in vars(self).items() if name in _KEPT}
        if self._keeps_texts:
            return state
        strip = TextFilter().apply  # a pickle is no live output (T6a)
        outputs = {index: strip(each) for index, each in self._outputs.items()}
        return {**state, "_completed": strip(self._completed), "_outputs": outputs}

    @property
    def _keeps_texts(self) -> bool:
        first = self._events[0]
        return not isinstance(first, RunStarted) or first.capture_mode is not CaptureMode.METADATA

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The whole stream, in order, secrets masked (E69); every view is made from it."""
        return tuple(mask_event(event) for event in self._events)

    @cached_property
    def trace(self) -> ExecutionTrace:
        """The typed trace: spans, messages, metrics."""
        from ensemble_notebook.trace.execution_trace import ExecutionTrace

        return ExecutionTrace.from_events(self._events, cost=self.ensemble.cost)

    @property
    def frames(self) -> Frames:
        """The trace as pandas DataFrames."""
        return self.trace.frames

    @property
    def metrics(self) -> Metrics:
        """Sums over the whole run."""
        return self.trace.metrics

    @cached_property
    def task_outputs(self) -> tuple[TaskOutput, ...]:
        """Outputs of the completed tasks, in order of completion, each with its trace and metrics.

        Of a hierarchical run, what the workers did, and the manager's last (E22).
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
        """Text of the final task: the one that all others lead to, else the last that completed.

        Empty where the run failed before that task had an output: no intermediate text passes for the answer.
        """
        last = find_final_tasks(self._graph)
        if len(last) == 1 and last[0] in self._outputs:
            return self._outputs[last[0]].raw
        completed = self._completed
        if self.status is RunStatus.FAILED:
            completed = tuple(output for index, output in self._outputs.items() if index in last)
        return completed[-1].raw if completed else ""

    @property
    def total_tool_calls(self) -> int:
        """Executed tool calls over all completed tasks."""
        return sum(output.tool_call_count for output in self._completed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd, in order; what went wrong after the end, such as an export, comes last."""
        told = (event.message for event in self._events if isinstance(event, Warned | BudgetWarning))
        return (*map(mask, told), *self._late_warnings)

    @property
    def timeline(self) -> Any:
        """The explorable timeline widget, where the notebook layer can make one."""
        return render_view("timeline", self)

    def get(self, task: Task | str) -> TaskOutput | None:
        """Output of a task, by the task itself or its name; None when it has none."""
        name = task if isinstance(task, str) else next((n.name for n in self._graph.tasks if n.task is task), None)
        return None if name is None else self._by_name.get(name)

    def __getitem__(self, name: str) -> TaskOutput:
        """Output of the task of this name.

        Raises:
            KeyError: it has none; says why.
        """
        output = self.get(name)
        if output is None:
            raise KeyError(self._explain_absence(name))
        return output

    def __contains__(self, name: object) -> bool:
        """True where the task of this name has an output."""
        return name in self._by_name

    def __iter__(self) -> Iterator[TaskOutput]:
        """The outputs, in order of completion."""
        return iter(self.task_outputs)

    def __len__(self) -> int:
        """Number of completed tasks."""
        return len(self._completed)

    def __bool__(self) -> bool:
        """Always true: an output in which nothing was completed still holds the trace."""
        return True

    @property
    def late_warnings(self) -> tuple[str, ...]:
        """Those of `warnings` that came after the last event, which no view of the events has."""
        return tuple(self._late_warnings)

    def add_warning(self, message: str) -> None:
        """Tell of something that went wrong after the run had ended. For those who finish a run, not for users."""
        self._late_warnings.append(mask(message))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._by_name)

    def __repr__(self) -> str:
        """One line: how it ended, how much was done."""
        done = f"{len(self._outputs)}/{self.plan.total_tasks} tasks"
        return f"<EnsembleOutput {self.status.value}: {done} in {format_duration(self.total_duration)}>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("output", self)

    @cached_property
    def _by_name(self) -> dict[str, TaskOutput]:
        parts = {output.name: self.trace.task(output.name) for output in self._completed}
        return {
            output.name: replace(output, trace=parts[output.name], metrics=parts[output.name].metrics)
            for output in self._completed
        }

    def _explain_absence(self, name: str) -> str:
        for failure in self.failures:
            if failure.name == name:
                return add_origin(f"Task {name!r} failed: {summarize_error(failure.error)}", failure.error)
        for skipped in self.skipped:
            if skipped.name == name:
                return f"Task {name!r} was skipped: {skipped.reason}"
        if any(name == node.name for node in self._graph.managed):
            there = ", ".join(self._by_name) or "nothing"
            return f"Task {name!r} has no output of its own, since a manager had it done. There is: {there}."
        names = [node.name for node in self._graph.tasks]
        return f"Task {name!r} was stopped." if name in names else f"No task {name!r}.{did_you_mean(name, names)}"
