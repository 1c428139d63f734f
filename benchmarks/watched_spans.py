"""What goes to a page of a run of another framework while it goes on, beside a run of ours with as many spans (T103).

Both are painted after every hundred events: what is counted does not depend on how fast the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from benchmarks.row import Row
from ensemble_notebook import Ensemble, Event, ScriptedChatModel, Task
from ensemble_notebook.importers.foreign_run import ForeignRuns
from ensemble_notebook.importers.foreign_span import ForeignSpan
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

_SPANS_OF_TASK: Final = 4
"""In the timeline: the task, its turn, the call, the attempt."""
_AT_ONCE: Final = 100
_BEGAN_NS: Final = 1_800_000_000 * 10**9
_STEP_NS: Final = 50_000_000


def measure(*, quick: bool) -> list[Row]:
    return [_compare(spans) for spans in ((40,) if quick else (100, 1_000, 10_000))]


def _compare(spans: int) -> Row:
    tasks = spans // _SPANS_OF_TASK
    ours, floor = _count_bytes(_make_foreign(tasks)), _count_bytes(_make_ours(tasks))
    return Row(
        what=f"bytes to the page for {spans:,} foreign spans live",
        ours=ours / 1e3,
        floor=floor / 1e3,
        beside="as many of ours",
        unit="kB",
        ratio=ours / floor,
        most_ratio=1.1,
    )


def _count_bytes(events: Sequence[Event]) -> int:
    fold = TraceFold(None)
    feed, page = RunFeed(TimelineMessages(fold)), _Page()
    feed.subscribe(page)
    feed.receive(page, {"kind": "hello"})
    for number, event in enumerate(events, 1):
        fold.add(event)
        if number % _AT_ONCE == 0 or number == len(events):
            feed.paint(number == len(events))
    return page.sent


class _Page:
    """A subscriber that counts what it is sent."""

    def __init__(self) -> None:
        self.sent = 0

    def send(self, message: dict[str, Any], buffers: Sequence[Any] | None = None) -> None:
        self.sent += len(json.dumps(message)) + sum(len(bytes(each)) for each in buffers or ())


def _make_ours(count: int) -> Sequence[Event]:
    tasks = [Task.of(_describe(number), name=f"agent-{number}") for number in range(count)]
    llm = ScriptedChatModel(replies=["A part."] * count)
    return Ensemble(tasks=tasks, workflow="sequential", llm=llm).run().events


def _describe(number: int) -> str:
    return f"Work on part {number}."


def _make_foreign(count: int) -> Sequence[Event]:
    runs = ForeignRuns()
    told: list[Event] = []
    for span in _make_spans(count):
        step: Callable[[ForeignSpan], Iterable[Event]] = runs.start if span.end_ns is None else runs.end
        told += step(span)
    return [*told, *runs.close()]


def _make_spans(count: int) -> Iterator[ForeignSpan]:
    """Starts and ends of a workflow of agents, each of which asks a model once."""
    root = {"gen_ai.operation.name": "invoke_workflow"}
    yield _make_span(0, None, "work", 0, root)
    for number in range(count):
        name = f"agent-{number}"
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "scripted"}
        asked = [{"role": "user", "parts": [{"type": "text", "content": _describe(number)}]}]
        said = [{"role": "assistant", "parts": [{"type": "text", "content": "A part."}]}]
        usage = {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3}
        texts = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
        first, second, at = 2 * number + 1, 2 * number + 2, 4 * number
        yield _make_span(first, 0, f"invoke_agent {name}", at, agent)
        yield _make_span(second, first, "chat scripted", at + 1, call)
        yield _make_span(second, first, "chat scripted", at + 1, {**call, **usage, **texts}, at + 2)
        yield _make_span(first, 0, f"invoke_agent {name}", at, agent, at + 3)
    yield _make_span(0, None, "work", 0, root, 4 * count + 1)


def _make_span(
    number: int, around: int | None, name: str, at: int, attributes: dict[str, Any], end: int | None = None
) -> ForeignSpan:
    return ForeignSpan(
        trace_id=f"{7:032x}",
        span_id=f"{number + 1:016x}",
        parent_id=None if around is None else f"{around + 1:016x}",
        name=name,
        start_ns=_BEGAN_NS + at * _STEP_NS,
        end_ns=None if end is None else _BEGAN_NS + end * _STEP_NS,
        attributes=attributes,
        scope="of a framework",
    )
