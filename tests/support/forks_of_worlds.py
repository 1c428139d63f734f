"""Forks of a random run at its spans, and of each what it had to ask and call, and what it did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from ensemble_notebook import EnsembleOutput, Reply
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.models.langchain.scripted_model import ToolUse
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.fork_world import World, find_first_round, list_places

_DELEGATIONS = ("delegate", "delegate_task")


class WorldFork(NamedTuple):
    """A fork at one span. Places are counted: a request that fails at first is made twice.

    Attributes:
        where: the span, its place, and what was changed.
        expected, asked: the model requests that the oracle expects, and those that the server got.
        expected_calls, called: the tool calls likewise.
        altered: the tasks that were kept, and have another output than in the run.
    """

    where: str
    expected: Counter[str]
    asked: Counter[str]
    expected_calls: Counter[str]
    called: Counter[str]
    altered: list[str]

    def find_fault(self) -> str | None:
        """What is not as expected, in words; None where all is."""
        faults = [
            f"{what}: {dict(counts)}"
            for what, counts in (
                ("not asked", self.expected - self.asked),
                ("asked for nothing", self.asked - self.expected),
                ("not called", self.expected_calls - self.called),
                ("called for nothing", self.called - self.expected_calls),
            )
            if counts
        ]
        faults += [f"altered: {self.altered}"] if self.altered else []
        return f"{self.where}: {'; '.join(faults)}" if faults else None


def fork_world(world: World, *, most: int | None = None, is_stored: bool = False) -> Iterator[WorldFork]:
    """Run a world and fork that at its spans, asking again and giving the same in turn.

    Args:
        world: a new one.
        most: about how many of its spans, spread over it; None: each.
        is_stored: whether to fork the run that the store has, and not the output.
    """
    output = world.ensemble.run()
    asked, called = Counter(world.asked), Counter(world.called)
    points = [*_list_points(output)]
    for number, (span, place) in enumerate(points[:: max(1, len(points) // (most or len(points)))]):
        change = _say_again(output, span) if number % 2 else {}
        world.clear()
        fork = world.ensemble.fork(output.run_id if is_stored else output, span.span_id, **change)
        # What is given is not done: the call itself; of a tool, what it would do inside, too.
        given = {
            at for at in (*asked, *called) if at == place or ("tool_result" in change and at.startswith(f"{place}/"))
        }
        given = given if change else set()
        anew = {at for at in asked if world.depends(at, place)} - given
        tools = {at for at in called if world.depends(at, place) or world.is_around(at, place)} - given
        yield WorldFork(
            where=f"{span.kind.value} at {place}, {[*change]}",
            expected=Counter({at: asked[at] for at in anew}),
            asked=Counter(world.asked),
            expected_calls=Counter({at: called[at] for at in tools}),
            called=Counter(world.called),
            altered=[each.name for each in fork.task_outputs if each.reused and each.raw != output[each.name].raw],
        )


def _list_points(output: EnsembleOutput) -> Iterator[tuple[Span, str]]:
    """The spans that a run can be forked at, each with its place."""
    looks: Counter[str] = Counter()
    for span in output.trace._fold.spans.values():
        match span.kind:
            case SpanKind.LLM if found := list_places([span.output or ""]):
                yield span, found[0]
            case SpanKind.TOOL if span.tool not in _DELEGATIONS:
                yield span, json.loads(span.input or "")["at"].rstrip("/")
            case SpanKind.TASK if span.delegation_id is None and span.item_of is None and span.status is SpanStatus.OK:
                place = find_first_round(span.description or "")
                looks[place] += 1  # a task that reviews has a span for each round
                is_review = place.rpartition("/")[2].startswith("r")
                yield span, place if not is_review else f"{place[:-1]}{looks[place] - 1}"


def _say_again(output: EnsembleOutput, span: Span) -> dict[str, Any]:
    """A change by which the same is said or given as then; none of a task."""
    if span.kind is SpanKind.TOOL:
        return {"tool_result": span.output}
    if span.kind is SpanKind.TASK:
        return {}
    spans = output.trace._fold.spans.values()
    tools = [each for each in spans if each.kind is SpanKind.TOOL and each.parent is span.parent]
    calls = [ToolUse(each.tool or "", json.loads(each.input or "")) for each in tools]
    return {"reply": Reply(text=span.output or "", calls=calls)}
