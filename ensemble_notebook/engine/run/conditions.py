"""Tests the conditions on the outputs of tasks, and remembers which hold (E21, E81).

Knows nothing of what follows from it: which tasks and phases run is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ensemble_notebook.domain.definitions.output_type import read_field
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import ConditionNode, Graph
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.errors import EnsembleError, summarize_error


class ConditionEvaluator:
    """All conditions of one run, and what is known of them so far."""

    def __init__(self, graph: Graph, caller: FunctionCaller) -> None:
        self._graph = graph
        self._caller = caller
        self._by_source: dict[int, list[ConditionNode]] = {}
        for node in graph.conditions:
            self._by_source.setdefault(node.source, []).append(node)
        self._held: set[int] = set()
        self._faults: dict[int, Exception] = {}

    def has_conditions(self, source: int) -> bool:
        """Whether there is any condition on a task."""
        return source in self._by_source

    async def evaluate(self, source: int, output: TaskOutput, span: SpanEmitter) -> frozenset[int]:
        """Numbers of the conditions on a task for which its output is as wanted; replaces what was known of them.

        A default is, where no other condition on the task is. One whose predicate raises can't be decided: it counts
        as held, so that what it guards is neither silently skipped nor silently run; see `find_fault`.

        Args:
            source: number of the task.
            output: what it left.
            span: of the task; runs that a predicate begins are inside it.
        """
        siblings = self._by_source[source]
        for node in siblings:
            self._held.discard(node.index)
            self._faults.pop(node.index, None)
        with CallingSpan(span):
            for node in siblings:
                await self._test(node, output)
        decided = {node.index for node in siblings if node.index in self._held or node.index in self._faults}
        if not decided:
            decided = {node.index for node in siblings if node.condition.default}
            self._held |= decided
        return frozenset(decided)

    def find_broken(self, source: int) -> frozenset[int]:
        """Numbers of the conditions on a task that can't be decided, since their test broke."""
        return frozenset(node.index for node in self._by_source[source] if node.index in self._faults)

    def find_fault(self, numbers: Iterable[int]) -> EnsembleError | None:
        """Why it can't be told whether one of these conditions holds; None where one does, or it can."""
        if not self._faults:
            return None
        faulty = [number for number in numbers if number in self._faults]
        if not faulty or any(number in self._held for number in numbers):
            return None
        node, cause = self._graph.conditions[faulty[0]], self._faults[faulty[0]]
        name = self._graph.tasks[node.source].name
        error = EnsembleError(f"The condition on {name!r} ({node.condition.test}) broke: {summarize_error(cause)}")
        error.__cause__ = cause
        return error

    async def _test(self, node: ConditionNode, output: TaskOutput) -> None:
        condition = node.condition
        try:
            test: Callable[..., Any] = condition.is_met_by
            value: Any = output.raw
            if condition.predicate is not None:
                test, value = condition.predicate, output
            elif condition.field is not None:
                test, value = condition.is_met_by_value, None
                try:
                    value = read_field(output.parsed_output, condition.field)
                except LookupError as error:
                    # The output type may let it be missing; without one, nothing says why it is.
                    if self._graph.tasks[node.source].task.output_type is None:
                        advice = "Give the task an output_type, and the condition is checked before a run."
                        raise EnsembleError(f"{error} {advice}") from None
            # A search may take its time, too (E67): the loop is for others meanwhile.
            is_slow = condition.predicate is not None or condition.matches is not None
            calling = self._caller.call(f"condition on {output.name}", test, value) if is_slow else None
            is_met = bool(test(value) if calling is None else await calling)
        except Exception as error:  # noqa: BLE001 - it is the user's own function
            self._faults[node.index] = error
        else:
            if is_met:
                self._held.add(node.index)
