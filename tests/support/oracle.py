"""What becomes of each task and phase, told from the rules of E26, E28, E32 and E33 alone.

A second opinion on the scheduler: it looks at a finished story as a whole, and knows no order of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ensemble_notebook.domain.definitions.enums import ErrorStrategy
from ensemble_notebook.domain.planning.graph import Graph

Fate = Literal["done", "failed", "missed", "passed over"]
BAD = ("failed", "missed")


@dataclass
class Script:
    """How everything that starts will end: per task and attempt, and per phase the words of its reviewer.

    `hold` are the conditions that hold, other than defaults, if their source is done. `addresses` are the tasks that a
    wish to retry is meant for, by phase and attempt; None for all of them.
    """

    fail: set[tuple[int, int]] = field(default_factory=set)
    hold: set[tuple[int, int]] = field(default_factory=set)
    verdicts: Mapping[int, list[str]] = field(default_factory=dict)
    addresses: Mapping[tuple[int, int], set[int] | None] = field(default_factory=dict)

    def list_redone(self, graph: Graph, phase: int, attempt: int) -> set[int]:
        """The tasks that a retry after this attempt has done again: those addressed, and what depends on them."""
        everything = set(graph.phases[phase].tasks)
        redone = self.addresses.get((phase, attempt))
        if redone is None:
            return everything
        while True:
            more = {
                each
                for each in everything - redone
                if redone & {*graph.tasks[each].context, *graph.tasks[each].sources}
            }
            if not more:
                return set(redone)
            redone = redone | more

    def verdict(self, phase: int, attempt: int) -> str:
        """``approve``, ``retry`` or ``reject``."""
        words = self.verdicts.get(phase, [])
        return words[attempt - 1] if attempt <= len(words) else "approve"

    def held(self, graph: Graph, source: int, attempt: int) -> frozenset[int]:
        """All conditions on a task that hold once it is done, defaults included."""
        siblings = [each for each in graph.conditions if each.source == source]
        met = {each.index for each in siblings if not each.condition.default and (each.index, attempt) in self.hold}
        return frozenset(met or {each.index for each in siblings if each.condition.default})


class Oracle:
    """The fates under one strategy, CONTINUE_ON_ERROR or PARTIAL; under FAIL_FAST they depend on who is faster."""

    def __init__(self, graph: Graph, strategy: ErrorStrategy, script: Script) -> None:
        self.graph = graph
        self.is_partial = strategy is ErrorStrategy.PARTIAL
        self.script = script
        self.tasks: dict[tuple[int, int], Fate] = {}
        self.phases: dict[int, Fate] = {}
        self.attempts: dict[int, int] = {}

    def task(self, index: int, attempt: int | None = None) -> Fate:
        """Of a task, in an attempt of its phase, the last one unless said otherwise."""
        phase = self.graph.tasks[index].phase
        if attempt is None and phase is not None:
            self.phase(phase)
        attempt = attempt or self.attempts.get(-1 if phase is None else phase, 1)
        attempt = self.last_run(index, attempt)
        if (index, attempt) not in self.tasks:
            self.tasks[index, attempt] = self._task(index, attempt)
        return self.tasks[index, attempt]

    def last_run(self, index: int, attempt: int) -> int:
        """The attempt of the phase, up to this one, in which a task was last done."""
        phase = self.graph.tasks[index].phase
        while (
            phase is not None and attempt > 1 and index not in self.script.list_redone(self.graph, phase, attempt - 1)
        ):
            attempt -= 1
        return attempt

    def phase(self, index: int) -> Fate:
        """Of a phase, its review included."""
        if index not in self.phases:
            self.phases[index] = self._phase(index)
        return self.phases[index]

    def _seen_from(self, index: int, attempt: int, other: int) -> Fate:
        """The fate of another task as a task sees it in its own attempt."""
        is_near = self.graph.tasks[index].phase == self.graph.tasks[other].phase
        return self.task(other, attempt if is_near else None)

    def _task(self, index: int, attempt: int) -> Fate:
        node = self.graph.tasks[index]
        if node.phase is not None and (outside := self._barred(node.phase)) is not None:
            return outside
        reads = [self._seen_from(index, attempt, each) for each in node.context]
        sources = [self._seen_from(index, attempt, each) for each in node.sources]
        if not self.is_partial and any(each in BAD for each in reads):
            return "missed"
        if node.when and not any(self._holds(number, index, attempt) for number in node.when):
            return "missed" if any(each in BAD for each in sources) else "passed over"
        everything = [*reads, *sources]
        if everything and "done" not in everything:
            return "missed" if any(each in BAD for each in everything) else "passed over"
        return "failed" if (index, attempt) in self.script.fail else "done"

    def _holds(self, number: int, index: int, attempt: int) -> bool:
        source = self.graph.conditions[number].source
        if self._seen_from(index, attempt, source) != "done":
            return False
        far = self.graph.tasks[source].phase
        their_attempt = attempt if far == self.graph.tasks[index].phase else self.attempts.get(far or 0, 1)
        return number in self.script.held(self.graph, source, self.last_run(source, their_attempt))

    def _barred(self, index: int) -> Fate | None:
        """The fate of a phase that never opens."""
        node = self.graph.phases[index]
        before = [self.phase(each) for each in node.after]
        if any(each in BAD for each in before):
            return "missed"
        if node.when:
            sources = [self.phase(each) for each in node.sources]
            if any(self._opens(number) for number in node.when):
                return None
            return "missed" if any(each in BAD for each in sources) else "passed over"
        return "passed over" if before and "done" not in before else None

    def _opens(self, number: int) -> bool:
        source = self.graph.conditions[number].source
        far = self.graph.tasks[source].phase
        assert far is not None
        if self.phase(far) != "done" or self.task(source) != "done":
            return False
        return number in self.script.held(self.graph, source, self.last_run(source, self.attempts[far]))

    def _phase(self, index: int) -> Fate:
        if (outside := self._barred(index)) is not None:
            return outside
        attempt = 0
        while True:
            attempt += 1
            self.attempts[index] = attempt
            fates = [self.task(each, attempt) for each in self.graph.phases[index].tasks]
            if any(each in BAD for each in fates):
                return "failed"
            if self.graph.phases[index].phase.review is None or "done" not in fates:
                return "done"
            verdict = self.script.verdict(index, attempt)
            if verdict != "retry":
                return "failed" if verdict == "reject" else "done"
