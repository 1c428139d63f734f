"""What the timeline was sent of real runs: a snapshot, and deltas up to the end, for the TypeScript tests (T28).

``make recorded-messages`` writes the files, which are committed. Runs are under virtual time, so that they come out the
same, but for random ids; a test holds that what they consist of is what is sent today.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.tool import TaskInput
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.ensemble.scoring import RowCalls
from ensemble_notebook.evaluation.scorer import Scorer
from ensemble_notebook.models.langchain.scripted_model import Fail, Reply, ScriptedChatModel, ToolUse
from ensemble_notebook.models.model_source import ModelSource
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.chart_lines import GAP
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.drive import drive, drive_nested, fails, task, works
from tests.support.span_summaries import write_summaries

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "messages"
EVENTS_IN_A_DELTA: Final = 7


class LoadingSource(ModelSource):
    """Every model takes a second to load."""

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> Any:
        """Load it."""
        notice("Loading a model ...")
        await asyncio.sleep(1)
        return await super().prepare(llm, notice)


class Notes:
    """A memory that needs no thread."""

    async def store(self, scope: str, entry: MemoryEntry) -> None:
        """Keep nothing."""

    async def retrieve(self, scope: str, query: str, limit: int) -> list[MemoryEntry]:
        """Give one entry."""
        return [MemoryEntry(text="The tide turns.", created_at=None)]


async def search(query: str) -> str:
    """Look something up."""
    await asyncio.sleep(0.4)
    if query == "nothing":
        raise LookupError("empty shelf")
    return f"All about {query}."


def make_agent(role: str, *replies: Any, **fields: Any) -> Agent:
    """An agent with a script; every reply takes half a second."""
    timed = [Reply(each, delay=0.5) if isinstance(each, str) else each for each in replies]
    return Agent(role=role, goal="Work", llm=ScriptedChatModel(replies=timed), **fields)


def make_report() -> EnsembleDefinition:
    """Phases, one sent back, with tools side by side, retries, a delegation, a fallback, memory, reviews, a failure."""
    decisions = iter([ReviewDecision.retry("shorter"), ReviewDecision.approve()])

    async def look(request: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(1)
        return next(decisions)

    calls = [ToolUse("search", {"query": "tides"}), ToolUse("search", {"query": "nothing"})]
    scout = make_agent(
        "Scout", Fail(429, retry_after=1), Reply(calls=calls, delay=0.3), "Tides.", "Tides!", tools=[search]
    )
    mate = make_agent("Mate", "Peeled.", "Peeled again.")
    asked = ToolUse("delegate", {"agent_role": "Mate", "task_description": "Peel"})
    lead = make_agent("Lead", Reply(calls=[asked]), "Done.", "Better.", allow_delegation=True)
    lost, net = make_agent("Lost", Fail(401)), make_agent("Net", "Caught.")
    draft = Task.of("Write", name="draft", agent=lead, memory=("notes",), review=Review())
    return EnsembleDefinition(
        name="report",
        agents=(scout, mate, lead, lost, net),
        phases=(
            Phase(name="research", tasks=(Task.of("Look", name="look", agent=scout),), review=PhaseReview(look)),
            Phase.of("write", draft, Task.of("Fall", name="fall", agent=lost, fallback=net), after=["research"]),
            Phase.of("print", task("burn", handler=fails(1)), after=["write"]),
            Phase.of("sell", task("sell", handler=works(1)), after=["print"]),
        ),
        error_strategy="partial",
        budget=Budget(max_tokens=50_000),
        review_handler=make_reviewer(),
    )


def make_reviewer() -> Callable[[ReviewRequest], Any]:
    """A person that wants it done once more, and is content then."""
    decisions = iter([ReviewDecision.retry("more salt"), ReviewDecision.approve()])

    async def decide(request: ReviewRequest) -> ReviewDecision:
        await asyncio.sleep(2)
        return next(decisions)

    return decide


def make_flat() -> EnsembleDefinition:
    """Tasks without phases, of which some wait for a place, and a model that streams, until somebody stops the run."""
    poet = make_agent("Poet", "An ode to the sea, in many words.", "Another one.")
    tasks = (Task.of("Write", name="ode", agent=poet), *(task(f"count_{number}") for number in range(3)))
    slow = task("sleep", handler=works(60))
    return EnsembleDefinition(name="flat", tasks=(*tasks, slow), workflow="parallel", max_concurrency=2)


def make_nested() -> EnsembleDefinition:
    """Runs inside a handler, a tool, a guardrail, a scorer and a review: one with phases, one whose model loads."""

    async def compose(given: TaskInput) -> str:
        await asyncio.sleep(0.5)
        poem = (Task.of("Think", name="think", agent=poet), Task.of("Write", name="write", agent=poet))
        made = await drive_nested(EnsembleDefinition(name="haiku", tasks=poem), "haiku")
        await RowCalls().call(Scorer(name="calm", shown="calm"), judge)  # as a map does after the run of a row
        return made.outputs[1].raw

    async def judge() -> bool:
        await drive_nested(EnsembleDefinition(name="critic", tasks=(task("weigh"),)), "critic")
        return True

    async def ask(question: str) -> str:
        """Ask the others."""
        halves = (Phase.of("one", task("first")), Phase.of("two", task("second"), after=["one"]))
        await drive_nested(EnsembleDefinition(name="others", phases=halves), "others")
        return "They agree."

    async def check(output: TaskOutput) -> None:
        await drive_nested(EnsembleDefinition(name="proof", tasks=(task("read"),)), "proof")

    async def look(request: ReviewRequest) -> ReviewDecision:
        await drive_nested(EnsembleDefinition(name="jury", tasks=(task("judge"),)), "jury")
        return ReviewDecision.approve()

    poet = make_agent("Poet", "Of the sea.", "The sea, the sea.")
    asker = make_agent("Asker", Reply(calls=[ToolUse("ask", {"question": "why"})], delay=0.5), "So.", tools=[ask])
    compose_task = task("compose", handler=compose, output_guardrails=[check])
    return EnsembleDefinition(
        name="nested",
        phases=(
            Phase(name="make", tasks=(compose_task, Task.of("Ask", name="ask", agent=asker)), review=PhaseReview(look)),
        ),
        workflow="parallel",
    )


def record(events: list[Event]) -> dict[str, Any]:
    """The messages of a run: the first snapshot, every delta that follows it, and all at the end in all forms."""
    fold, latest = TraceFold(), [events[0].time]
    messages = TimelineMessages(fold, lambda: latest[0])

    def take(event: Event) -> None:
        latest[0] = event.time
        fold.add(event)

    def follow() -> Iterator[dict[str, Any]]:
        since = fold.count
        for start in range(since, len(events), EVENTS_IN_A_DELTA):
            for event in events[start : start + EVENTS_IN_A_DELTA]:
                take(event)
            yield messages.make_delta(since)
            since = fold.count

    for event in events[:2]:  # the run and its plan
        take(event)
    first, deltas = messages.make_snapshot(), list(follow())
    details = {row["span_id"]: messages.make_details(row["span_id"]) for row in messages.make_snapshot()["rows"]}
    head, buffers = messages.pack_snapshot()
    return {
        "snapshot": first,
        "deltas": deltas,
        "final": messages.make_snapshot(),
        "packed": {"head": head, "buffers": [b64encode(each).decode() for each in buffers]},
        "saved": messages.make_saved_view(),
        "picture": draw_picture(messages),
        "details": details,
    }


def draw_picture(messages: TimelineMessages) -> dict[str, Any]:
    """The static picture in parts, which the timeline's rows are held to (W14): what it says, and its lines."""
    chart = make_chart(messages.make_snapshot())
    lines = [
        {
            "span_id": line.span_id,
            "name": line.name,
            "status": line.status,
            "depth": line.depth,
            "is_worker": line.is_worker,
            "time": line.cells[0],
            "marks": sorted({piece.kind for piece in line.bar} - {GAP, "task"}),
        }
        for line in chart.lines
    ]
    return {"title": chart.title, "sentence": chart.sentence, "lines": lines}


def drive_runs() -> dict[str, list[Event]]:
    """The events of all runs, by name."""
    source = {"source": LoadingSource(), "streams": True}
    _, report = drive(make_report(), memory=Notes(), **source)
    _, flat = drive(make_flat(), stop_after=5, **source)
    _, nested = drive(make_nested(), **source)
    return {"report": report, "flat": flat, "nested": nested}


def make_messages() -> dict[str, dict[str, Any]]:
    """The messages of all runs, by name."""
    return {name: record(events) for name, events in drive_runs().items()}


def describe_shape(value: Any, place: str = "") -> set[str]:
    """Which fields there are, and of what type; rows and spans told apart by their kind."""
    if isinstance(value, dict):
        kind = f"<{value['kind']}>" if isinstance(value.get("kind"), str) else ""
        names = {"*": list(value.values())} if place.endswith((".details", ".settings")) else value
        return {each for name, item in names.items() for each in describe_shape(item, f"{place}{kind}.{name}")}
    if isinstance(value, list):
        return {each for item in value for each in describe_shape(item, f"{place}[]")} or {f"{place}[]"}
    return {f"{place}: {'number' if isinstance(value, int | float) else type(value).__name__}"}


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    runs = drive_runs()
    for name, events in runs.items():
        text = json.dumps(record(events), ensure_ascii=False, separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    write_summaries({name: ExecutionTrace.from_events(events).frames.spans for name, events in runs.items()})


if __name__ == "__main__":
    main()
