"""Well-formed streams of events, written by hand on a clock of their own: for tests of everything that folds events.

Knows nothing of the engine; the plan in a stream is made by the domain from real definitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from ensemble_notebook.domain import event as ev
from ensemble_notebook.domain.agent import Agent
from ensemble_notebook.domain.choice import ExitReason, PhaseStatus, RunStatus, SpanStatus, ToolOutcome, Workflow
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.graph import build_graph
from ensemble_notebook.domain.metric import NO_USAGE, TokenUsage
from ensemble_notebook.domain.model import ToolCall
from ensemble_notebook.domain.output import TaskOutput
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.plan import make_plan
from ensemble_notebook.domain.role import HANDLER_ROLE
from ensemble_notebook.domain.task import Task
from ensemble_notebook.testing.writer import EventWriter

_TOOL_STATUS: Final = {
    ToolOutcome.SUCCESS: SpanStatus.OK,
    ToolOutcome.FAILURE: SpanStatus.ERROR,
    ToolOutcome.SKIPPED_MAX_ITERATIONS: SpanStatus.SKIPPED,
}


class EventBuilder(EventWriter):
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
        name, workflow, inputs, max_concurrency, run_id: of the run.
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
        run_id: str = "run",
    ) -> None:
        super().__init__(run_id)
        self._model = model
        self._provider = provider
        self._roles = {task: (agents or {}).get(task, "Writer") for task in tasks}
        self._asked: list[ToolCall] = []
        self._call_count = 0
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
            ev.RunStarted, name=name, workflow=workflow.value, inputs=inputs or {}, max_concurrency=max_concurrency
        )
        self._emit(
            ev.PlanMade,
            plan=self._plan,
            task_span_ids=tuple(scope.span_id for scope in self._tasks.values()),
            phase_span_ids=tuple(scope.span_id for scope in self._phases.values()),
        )

    # --- The run ------------------------------------------------------------------------------------------------------

    def finish(self) -> tuple[ev.Event, ...]:
        """The run ends by itself, failed where a task failed. Gives all events."""
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

    def note(self, message: str) -> None:
        """Something is being prepared."""
        self._emit_in(self._run, ev.Noted, message=message)

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
        """A task runs. Its text is `output`, else the last reply of its model."""
        role, description = self._roles[name], f"Do {name}."
        started_s = self.now_s

        def end(status: SpanStatus) -> None:
            if status is not SpanStatus.OK:
                self._emit(ev.TaskFailed, agent=role, error=scope.error or KeyboardInterrupt(), status=status)
                return
            made = TaskOutput(
                name=name,
                raw=output if output is not None else scope.reply or "",
                task_description=description,
                agent_role=role,
                completed_at=self.now,
                duration=timedelta(seconds=self.now_s - started_s),
                tool_call_count=scope.tool_calls,
            )
            self._emit(ev.TaskCompleted, output=made)

        with self._inside(self._tasks[name]) as scope:
            scope.end = end
            index, total = list(self._tasks).index(name), len(self._tasks)
            self._emit(ev.TaskStarted, agent=role, description=description, index=index, total=total, queued_s=queued_s)
            system = "" if role == HANDLER_ROLE else f"You are {role}."
            self._emit(
                ev.TaskInputPrepared,
                system_prompt=system,
                user_prompt=prompt or description,
                context=self._plan.tasks[index].context,
            )
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

    # --- Turns, model calls, tools ------------------------------------------------------------------------------------

    @contextmanager
    def turn(self, iteration: int = 1) -> Iterator[None]:
        """A round of the agent loop."""
        with self._inside(self._child()) as scope:
            self._emit(ev.TurnStarted, agent=self._role, iteration=iteration)
            scope.end = lambda status: self._emit(ev.TurnEnded, status=status)
            yield

    def llm(
        self,
        text: str = "",
        *,
        seconds: float = 1.0,
        input_tokens: int | None = 10,
        output_tokens: int | None = 5,
        cache_read_tokens: int | None = None,
        asks: Sequence[str] = (),
        retries: Sequence[tuple[str, float]] = (),
        error: BaseException | None = None,
        stream: Sequence[str] = (),
        hangs: bool = False,
        model: str | None = None,
        provider: str | None = None,
        served_as: str | None = None,
    ) -> None:
        """A model call.

        Args:
            text: of the reply.
            seconds: of each attempt.
            input_tokens: usage of the last attempt, as the other two; None is unknown.
            output_tokens: of the last attempt.
            cache_read_tokens: of the last attempt.
            asks: names of the tools that the reply asks for; `tool` answers them.
            retries: reason and delay in seconds of each failed attempt before the last one.
            error: the last attempt fails with it.
            stream: pieces that make up the text; they come evenly within the last attempt.
            hangs: no answer comes; everything around stays open.
            model: asked for, instead of the builder's.
            provider: instead of the builder's.
            served_as: name of the model in the reply, where it differs.
        """
        model, provider = model or self._model, provider or self._provider
        usage = TokenUsage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            source="scripted" if provider == "scripted" else "provider",
        )
        text = "".join(stream) or text
        asked_at_s = self.now_s
        with self._inside(self._child()) as call:
            self._emit(
                ev.LlmCallStarted,
                agent=self._role,
                model=model,
                provider=provider,
                max_attempts=len(retries) + 1,
                is_scripted=provider == "scripted",
            )
            for attempt, (reason, delay_s) in enumerate(retries, start=1):
                failure = ConnectionError(reason)
                self._attempt(attempt, seconds, NO_USAGE, failure)
                self._emit(ev.LlmCallRetried, attempt=attempt, delay_s=delay_s, reason=reason, error=failure)
                self.wait(delay_s)
            first_s = self.now_s + seconds / len(stream) - asked_at_s if stream else None

            def end(status: SpanStatus) -> None:
                if status is not SpanStatus.OK:
                    self._emit(ev.LlmCallFailed, error=call.error or KeyboardInterrupt(), status=status)
                    return
                self._emit(
                    ev.LlmCallCompleted,
                    text=text,
                    tool_calls=tuple(map(self._ask, asks)),
                    usage=usage,
                    model=served_as or model,
                    finish_reason="tool_calls" if asks else "stop",
                    time_to_first_token_s=first_s,
                )

            call.end = end
            self._attempt(len(retries) + 1, seconds, usage, error, stream, hangs=hangs)
            if error is not None:
                self.fail(error)
        for scope in self._scope.outwards():
            scope.reply = text

    def _attempt(
        self,
        number: int,
        seconds: float,
        usage: TokenUsage,
        error: BaseException | None,
        stream: Sequence[str] = (),
        *,
        hangs: bool = False,
    ) -> None:
        call = self._scope

        def end(status: SpanStatus) -> None:
            spent = {SpanStatus.OK: usage, SpanStatus.ERROR: NO_USAGE}.get(status, TokenUsage())
            self._emit(ev.LlmAttemptEnded, attempt=number, status=status, usage=spent, error=scope.error)

        with self._inside(self._child()) as scope:
            scope.end, scope.error = end, error
            self._emit(ev.LlmAttemptStarted, attempt=number)
            for piece in stream:
                self.wait(seconds / len(stream))
                self._emit_in(call, ev.LlmToken, text=piece)
            self.wait(0.0 if stream else seconds)
            if hangs:
                self._hang()

    def tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result: str = "ok",
        seconds: float = 1.0,
        error: BaseException | None = None,
        outcome: ToolOutcome = ToolOutcome.SUCCESS,
        hangs: bool = False,
    ) -> None:
        """A tool call; answers the oldest open request for this tool. The failure of a tool stops nothing (E13)."""
        asked = next((call for call in self._asked if call.name == name), None) or self._ask(name)
        self._asked.remove(asked)
        outcome = outcome if error is None else ToolOutcome.FAILURE

        def end(status: SpanStatus) -> None:
            is_over = status is not SpanStatus.CANCELLED
            self._emit(
                ev.ToolCallCompleted,
                tool=name,
                tool_call_id=asked.id,
                status=_TOOL_STATUS[outcome] if is_over else status,
                outcome=outcome if is_over else None,
                result="" if not is_over else result if error is None else f"Tool error: {error}",
                error=error,
            )

        with self._inside(self._child()) as scope:
            scope.end = end
            text = json.dumps(arguments or {})
            self._emit(ev.ToolCallStarted, agent=self._role, tool=name, tool_call_id=asked.id, arguments=text)
            self.wait(seconds)
            if hangs:
                self._hang()
        for around in self._scope.outwards():
            around.tool_calls += outcome is not ToolOutcome.SKIPPED_MAX_ITERATIONS

    def _ask(self, tool: str) -> ToolCall:
        self._call_count += 1
        call = ToolCall(id=f"call-{self._call_count}", name=tool, arguments={})
        self._asked.append(call)
        return call

    @property
    def _role(self) -> str:
        return self._roles[self._scope.task or ""]


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


def _task(name: str, role: str, context: Sequence[str]) -> Task:
    facts: dict[str, Any] = {"name": name, "context": tuple(context)}
    if role == HANDLER_ROLE:
        return Task.of(f"Do {name}.", handler=str, **facts)
    return Task.of(f"Do {name}.", agent=Agent(role=role, goal="Help.", llm="scripted"), **facts)
