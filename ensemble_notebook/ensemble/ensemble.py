"""The ensemble: a definition that can run (E4)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.agent import INHERIT
from ensemble_notebook.domain.definition import definition, is_seconds
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.event import Event
from ensemble_notebook.domain.graph import Graph
from ensemble_notebook.domain.plan import ExecutionPlan, make_plan
from ensemble_notebook.domain.rule import check_ensemble
from ensemble_notebook.domain.template import check_variables
from ensemble_notebook.domain.template import variables as template_variables
from ensemble_notebook.engine.clock import SystemClock
from ensemble_notebook.engine.delivery import wants_tokens
from ensemble_notebook.engine.loop import loop_thread
from ensemble_notebook.engine.order import Order
from ensemble_notebook.engine.stream import Sink
from ensemble_notebook.engine.toolbox import Toolbox
from ensemble_notebook.ensemble.handle import RunHandle
from ensemble_notebook.ensemble.output import EnsembleOutput
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError, did_you_mean
from ensemble_notebook.models.source import default_source

Inputs = Mapping[str, Any] | None


@definition
class Ensemble(EnsembleDefinition):
    """Agents and tasks that run together.

    Fields: `tasks` or `phases` (not both), `agents` (optional; if given, every task's agent is in it), `llm` (default
    model; ``"local"`` where nothing is configured), `workflow` (sequential | parallel), `error_strategy` (fail_fast |
    continue_on_error), `listeners` (objects with ``on_event(event)``, or callables), `max_concurrency` (tasks at
    once), `cost` (own rates), `inputs` (default values of template variables), `verbose`, `name`.

    Each run is independent; one ensemble may run several times at once.

    Raises:
        ValidationError: a field is wrong by itself. Rules between objects are checked by `validate`, which `run` calls
            before anything else, so a mistake never costs a token.
    """

    def run(self, inputs: Inputs = None, /, *, timeout: float | None = None, **variables: Any) -> EnsembleOutput:
        """Run to the end. The same in a script, in a cell of a kernel whose loop is running, and in a thread.

        Args:
            inputs: values of template variables.
            timeout: seconds; past them the run stops and raises.
            **variables: the same as `inputs`, as keywords.

        Raises:
            ValidationError, PromptTemplateError: before anything was called.
            TaskExecutionError: a task failed; with the partial `output`.
            DeadlineExceededError: the timeout is over; with the partial `output`.
            RunInterrupted: a person stopped it; with the partial `output`.
        """
        if loop_thread().is_current():
            raise EnsembleError("run() would block the loop that it needs; use `await ensemble.arun()` in async tools.")
        handle = self._handle(inputs, variables, timeout)
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
        **variables: Any,
    ) -> EnsembleOutput:
        """The same on the caller's loop. Cancelling it stops the run; the `CancelledError` carries ``output``, too."""
        handle = self._handle(inputs, variables, timeout)
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
        listeners: Sequence[Any] = (),
        **variables: Any,
    ) -> RunHandle:
        """Run in the background; mistakes are raised here, what happens in the run by the handle.

        All is as in `run`; `listeners` are those of this one run, beside the ensemble's own.
        """
        handle = self._handle(inputs, variables, timeout, listeners=listeners)
        handle.begin()
        return handle

    async def astream(
        self,
        inputs: Inputs = None,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `arun`
        **variables: Any,
    ) -> AsyncIterator[Event]:
        """The events of a run on the caller's loop, as they happen, streamed replies included.

        Leaving the iteration early stops the run. After the last event, what `run` raises is raised.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        sink: Sink = queue.put_nowait
        handle = self._handle(inputs, variables, timeout, streams=True)
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
        return self._checked()[1]

    def plan(self, inputs: Inputs = None, /, **variables: Any) -> ExecutionPlan:
        """What a run would do, without doing it. Variables without a value are left as they are."""
        return make_plan(check_ensemble(self)[0], self._values(inputs, variables))

    def _values(self, inputs: Inputs, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all template variables: own defaults, then `inputs`, then keywords."""
        if inputs is not None and not isinstance(inputs, Mapping):
            raise ValidationError(f"inputs must map names to values, got {type(inputs).__name__}.")
        return {**self.inputs, **(inputs or {}), **variables}

    def _checked(self) -> tuple[Graph, tuple[str, ...]]:
        graph, warnings = check_ensemble(self)
        problems = [*self._llm_problems(graph), *_tool_problems(graph)]
        if problems:
            raise ValidationError(problems)
        return graph, warnings

    def _llm_problems(self, graph: Graph) -> Iterator[Problem]:
        seen: set[object] = set()
        for node in graph.tasks:
            if node.llm is None or node.llm_key in seen:
                continue
            seen.add(node.llm_key)
            try:
                default_source().check(node.llm)
            except ValidationError as error:
                has_own = node.task.agent is not None and node.task.agent.llm is not INHERIT
                owner = node.task if node.task.llm is not None else node.task.agent if has_own else self
                yield from (Problem(problem.message, owner, "llm") for problem in error.problems)

    def _handle(
        self,
        inputs: Inputs,
        variables: Mapping[str, Any],
        timeout: float | None,
        *,
        listeners: Sequence[Any] = (),
        streams: bool = False,
    ) -> RunHandle:
        """Everything that can be refused is refused here."""
        values = self._values(inputs, variables)
        if timeout is not None and not is_seconds(timeout):
            raise ValidationError(f"timeout must be seconds > 0 or None, got {timeout!r}.")
        graph, warnings = self._checked()
        texts = [text for node in graph.tasks for text in (node.task.description, node.task.expected_output)]
        check_variables(texts, values)
        if not any(node.agent is None for node in graph.tasks):
            _refuse_unused(variables, texts)
        listeners = (*self.listeners, *listeners)
        order = Order(
            graph=graph,
            plan=make_plan(graph, values),
            name=self.name,
            workflow=self.workflow.value,
            error_strategy=self.error_strategy,
            inputs=values,
            max_concurrency=self.max_concurrency,
            warnings=warnings,
            streams=streams or wants_tokens(listeners),
        )
        return RunHandle(self, order, default_source(), SystemClock(), uuid.uuid4().hex[:12], timeout, listeners)


def _refuse_unused(variables: Mapping[str, Any], texts: Sequence[str]) -> None:
    """A keyword that no text uses is a misspelt one (E5). Where there are handlers, they may want any variable."""
    used = {name for text in texts for name in template_variables(text)}
    unused = [name for name in variables if name not in used]
    if unused:
        known = [*used, "timeout"]
        raise ValidationError([Problem(f"No text uses {name!r}.{did_you_mean(name, known)}") for name in unused])


def _tool_problems(graph: Graph) -> Iterator[Problem]:
    """Tools that no model can be shown; found now, since in the run it would cost what was done by then."""
    holders = [holder for node in graph.tasks for holder in (node.agent, node.task) if holder and holder.tools]
    for holder in dict.fromkeys(holders):
        try:
            Toolbox(holder.tools)
        except ValidationError as error:
            yield from (Problem(problem.message, holder, "tools", problem.item) for problem in error.problems)
