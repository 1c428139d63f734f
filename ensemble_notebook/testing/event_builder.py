"""Well-formed streams of events, written by hand on a clock of their own: for tests of everything that folds events.

Knows nothing of the engine; the plan in a stream is made by the domain from real definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ExitReason,
    PhaseStatus,
    RunStatus,
    SpanStatus,
    Workflow,
)
from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.domain.definitions.phase import Phase
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.domain.planning.execution_plan import PlannedAgent, make_plan
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.testing.operation_writer import OperationWriter
from ensemble_notebook.testing.work_writer import DelegationWriter

_STATUS_OF: Final = {
    ExitReason.BUDGET_EXCEEDED: RunStatus.BUDGET_EXCEEDED,
    ExitReason.USER_EXIT_EARLY: RunStatus.EXITED_EARLY,
    ExitReason.COMPLETED: RunStatus.COMPLETED_WITH_WARNINGS,
}


class EventBuilder(DelegationWriter, OperationWriter):
    """Writes the events of one run, in the order and with the times that you tell it.

    Blocks open and close spans; ``seconds`` and `wait` move the clock; `beside` writes what happens at the same time::

        build = EventBuilder({"plan": (), "draft": ["plan"], "check": ["plan"]})
        with build.task("plan"), build.turn():
            build.llm("A plan.", seconds=2, input_tokens=40, output_tokens=10)
        for name in build.beside(["draft", "check"]):
            with build.task(name), build.turn():
                build.llm("Done.", seconds=1)
        events = build.finish()

    What fails makes everything around it fail, up to its phase; what hangs keeps everything around it open until
    `interrupt` or `time_out`. ``events`` gives what was written by now: the stream of a run that is still going on.

    Args:
        tasks: name -> names of the tasks it reads.
        phases: name -> names of its tasks; None for a flat run.
        after: phase name -> names of its predecessors.
        agents: task name -> role, ``"Handler"`` for a handler; ``"Writer"`` where there is none.
        model, provider: of every model call that names no other.
        name, workflow, inputs, max_concurrency, budget, capture_mode, run_id, replayed_from: of the run.
    """

    def __init__(
        self,
        tasks: Mapping[str, Sequence[str]],
        *,
        phases: Mapping[str, Sequence[str]] | None = None,
        after: Mapping[str, Sequence[str]] | None = None,
        agents: Mapping[str, str] | None = None,
        model: str = "scripted",
        provider: str | None = "scripted",
        name: str | None = "demo",
        workflow: Workflow = Workflow.PARALLEL,
        inputs: Mapping[str, str] | None = None,
        max_concurrency: int | None = None,
        budget: Budget | None = None,
        capture_mode: CaptureMode = CaptureMode.OFF,
        run_id: str = "run",
        replayed_from: str | None = None,
    ) -> None:
        super().__init__(run_id, model, provider)
        self._roles = {task: (agents or {}).get(task, "Writer") for task in tasks}
        self._budget = budget
        self._plan = make_plan(build_graph(_definition(self._roles, tasks, phases or {}, after or {}, workflow)))
        self._phases = {name: self._child(phase=name) for name in self._plan.phases}
        self._tasks = {
            task.name: self._child(self._phases.get(task.phase or ""), task=task.name) for task in self._plan.tasks
        }
        for phase_name, preceding in self._plan.phases.items():
            self._phases[phase_name].depends_on = preceding
        for planned in self._plan.tasks:
            self._tasks[planned.name].depends_on = planned.depends_on
        self._emit(
            ev.RunStarted,
            name=name,
            workflow=workflow.value,
            inputs=inputs or {},
            max_concurrency=max_concurrency,
            budget=budget,
            capture_mode=capture_mode,
            replayed_from=replayed_from,
            agents=tuple(map(_planned_agent, sorted({*self._roles.values()} - {HANDLER_ROLE}))),
        )
        self._emit(
            ev.PlanMade,
            plan=self._plan,
            task_span_ids=tuple(scope.span_id for scope in self._tasks.values()),
            phase_span_ids=tuple(scope.span_id for scope in self._phases.values()),
        )

    # --- The run ------------------------------------------------------------------------------------------------------

    def finish(self, exit_reason: ExitReason | None = None) -> tuple[ev.Event, ...]:
        """The run ends by itself, failed where a task failed, or for this reason. Gives all events."""
        if exit_reason is not None:
            self._emit(ev.RunEnded, status=_STATUS_OF[exit_reason], exit_reason=exit_reason)
            return self.events
        errors = [scope.error for scope in self._tasks.values() if scope.error is not None]
        status, reason = (RunStatus.FAILED, ExitReason.ERROR) if errors else (RunStatus.COMPLETED, ExitReason.COMPLETED)
        self._emit(ev.RunEnded, status=status, exit_reason=reason, error=errors[0] if errors else None)
        return self.events

    def interrupt(self) -> tuple[ev.Event, ...]:
        """A person stops the run: what hangs is cancelled, innermost first. Gives all events."""
        self._cancel_hanging()
        self._emit(ev.RunEnded, status=RunStatus.INTERRUPTED, exit_reason=ExitReason.INTERRUPTED)
        return self.events

    def time_out(self) -> tuple[ev.Event, ...]:
        """The run's time is up: what hangs is cancelled, innermost first. Gives all events."""
        self._cancel_hanging()
        self._emit(ev.RunEnded, status=RunStatus.FAILED, exit_reason=ExitReason.TIMEOUT)
        return self.events

    def warn(self, message: str) -> None:
        """A warning, where we are."""
        self._emit(ev.Warned, message=message)

    def warn_of_budget(self, message: str, spent: Spending) -> None:
        """A share of the budget is used up."""
        assert self._budget is not None
        self._emit_in(self._run, ev.BudgetWarning, message=message, spent=spent, budget=self._budget)

    def note(self, message: str) -> None:
        """Something is being prepared."""
        self._emit_in(self._run, ev.Noted, message=message)

    @contextmanager
    def startup(self, subject: str) -> Iterator[None]:
        """A model is loaded, fetched or started, for the task that we are in, if we are in one (E57)."""
        scope, began_s, around = self._child(self._run), self.now_s, tuple(self._scope.outwards())

        def end(status: SpanStatus) -> None:
            waited_s = self.now_s - began_s
            for each in around:
                each.startup_s += waited_s
            self._emit(ev.WaitEnded, cause="startup", waited_s=waited_s, status=status, error=scope.error)

        with self._inside(scope):
            self._emit(ev.WaitStarted, cause="startup", subject=subject)
            scope.end = end
            yield

    # --- Phases and tasks ---------------------------------------------------------------------------------------------

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase runs; it fails with the tasks in it."""

        def end(status: SpanStatus) -> None:
            ended = PhaseStatus.COMPLETED if status is SpanStatus.OK else PhaseStatus.FAILED
            self._emit(ev.PhaseEnded, status=ended, is_cancelled=status is SpanStatus.CANCELLED)

        with self._inside(self._phases[name]) as scope:
            self._emit(ev.PhaseStarted)
            scope.end = end
            yield

    @contextmanager
    def task(self, name: str, *, output: str | None = None, queued_s: float = 0.0, prompt: str = "") -> Iterator[None]:
        """A task runs, in a phase that was sent back perhaps again. Its text is `output`, else its model's last."""
        index, total = list(self._tasks).index(name), len(self._tasks)
        place = {"index": index, "total": total, "queued_s": queued_s}
        with self._working(self._tasks[name], f"Do {name}.", output, prompt, self._plan.tasks[index].context, **place):
            yield

    def skip(self, name: str, reason: str = "not started") -> None:
        """A task will not run."""
        self._emit_in(self._tasks[name], ev.TaskSkipped, reason=reason)

    def skip_phase(self, name: str, reason: str = "not started") -> None:
        """A phase and its tasks will not run."""
        self._emit_in(self._phases[name], ev.PhaseSkipped, reason=reason)
        for task in self._plan.tasks:
            if task.phase == name:
                self.skip(task.name, f"phase {name!r} was skipped")


def _definition(
    roles: Mapping[str, str],
    tasks: Mapping[str, Sequence[str]],
    phases: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    workflow: Workflow,
) -> EnsembleDefinition:
    made = {name: _task(name, roles[name], context) for name, context in tasks.items()}
    if not phases:
        return EnsembleDefinition(tasks=tuple(made.values()), workflow=workflow)
    groups = tuple(
        Phase(name=name, tasks=tuple(made[task] for task in members), after=tuple(after.get(name, ())))
        for name, members in phases.items()
    )
    return EnsembleDefinition(phases=groups, workflow=workflow)


def _planned_agent(role: str) -> PlannedAgent:
    return PlannedAgent(role=role, goal="Help.", background=None, tools=(), allow_delegation=False)


def _task(name: str, role: str, context: Sequence[str]) -> Task:
    facts: dict[str, Any] = {"name": name, "context": tuple(context)}
    if role == HANDLER_ROLE:
        return Task.of(f"Do {name}.", handler=str, **facts)
    return Task.of(f"Do {name}.", agent=Agent(role=role, goal="Help.", llm="scripted"), **facts)
