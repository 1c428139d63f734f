"""Runs that show all a trace can hold, with names alone that every released version has.

Each released version has run this file once and left behind what its users have on their disks: see
`tests/fixtures/README.md`. The same ensembles replay what it recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

from ensemble_notebook import (
    Agent,
    Condition,
    CostConfiguration,
    DeadlineExceededError,
    DelegationPolicyResult,
    Ensemble,
    EnsembleOutput,
    Fail,
    Phase,
    Reply,
    Review,
    ReviewDecision,
    ScriptedChatModel,
    Task,
    ToolUse,
)

# Keys that nobody may find in what is saved. Put together, so that no scanner of sources takes them for real ones.
SECRET = "sk-" + "a1B2" * 8


@dataclass
class Verdict:
    """What a typed reply is read as."""

    score: int
    reason: str


def search(query: str) -> str:
    """Look something up."""
    return f"{query}: high water at 4:12, with the key {SECRET}"


def measure(place: str) -> str:
    """Measure the water, which fails."""
    raise ValueError(f"no gauge in {place}")


def polite(output: Any) -> str | None:
    """A guardrail that lets pass what is polite."""
    return "Be polite." if "damn" in output.raw else None


def report() -> Ensemble:
    """Two phases: tools, retries, a correction, a guardrail, memory, a fallback, reviews of a task and of a phase."""
    reviews = count()

    def decide(request: Any) -> ReviewDecision:
        if next(reviews) == 0:
            return ReviewDecision.retry("Name the hour")
        return ReviewDecision.edit("High water is at 4:12. Bring boots.")

    looks = count()

    def look(request: Any) -> ReviewDecision:
        return ReviewDecision.retry("Look again") if next(looks) == 0 else ReviewDecision.approve()

    llm = ScriptedChatModel.match(
        {
            "Write the report": ["Come at high water.", "Come at 4:12."],
            "could not be read": '{"score": 7, "reason": "two of three"}',
            "Judge the facts": "Seven, I think.",
            "Ask about tides": [
                Reply(
                    "Let me look.",
                    calls=[ToolUse("search", {"query": "tides"}), ToolUse("measure", {"place": "Brest"})],
                ),
                "High water is at 4:12.",
                "High water is at 4:12, again.",
            ],
            "Ask about wind": [Fail(429, retry_after=0.01), "Wind from the west."],
            "Look out of the window": "No rain.",
            "Ask about rain": [Fail(500), Fail(500)],
        }
    )
    radar = Agent(role="Radar", goal="Ask", tools=[search, measure])
    clouds = Agent(role="Clouds", goal="Look at clouds", max_retries=1)
    window = Agent(role="Window", goal="Look out of the window")
    tides = Task.of("Ask about tides", name="tides", agent=radar, memory=["coast"])
    wind = Task.of("Ask about wind", name="wind", agent=radar, output_guardrails=[polite])
    rain = Task.of("Ask about rain on {day}", name="rain", agent=clouds, fallback=window)
    judge = Task.of("Judge the facts", name="judge", context=[tides, wind, rain], output_type=Verdict)
    letter = Task.of("Write the report", name="letter", context=[judge], memory=["coast"], review=Review())
    research = Phase.of("research", tides, wind, rain, workflow="parallel", review=look)
    writing = Phase.of("writing", judge, letter, workflow="sequential", after=[research])
    return Ensemble(
        name="report",
        phases=[research, writing],
        llm=llm,
        inputs={"day": "Monday", "api_key": SECRET},
        review_handler=decide,
        capture_mode="standard",
        cost=CostConfiguration(input_rate=Decimal("0.000003"), output_rate=Decimal("0.000015"), currency="EUR"),
    )


def kitchen() -> Ensemble:
    """A manager with two workers, who is refused once."""

    def refuse_poets(request: Any, context: Any) -> DelegationPolicyResult:
        is_poem = "poem" in request.task_description
        return DelegationPolicyResult.reject("no poems here") if is_poem else DelegationPolicyResult.allow()

    def delegate(role: str, description: str) -> ToolUse:
        return ToolUse("delegate_task", {"agent_role": role, "task_description": description})

    manager = ScriptedChatModel(
        replies=[
            Reply("Two of you.", calls=[delegate("Cook", "Cook a soup"), delegate("Waiter", "Write a poem")]),
            Reply(calls=[delegate("Waiter", "Serve it")]),
            "Soup is served.",
        ]
    )
    return Ensemble(
        name="kitchen",
        workflow="hierarchical",
        agents=[Agent(role="Cook", goal="Cook", background="Careful"), Agent(role="Waiter", goal="Serve")],
        tasks=[Task.of("Make dinner", name="dinner")],
        manager_llm=manager,
        llm=ScriptedChatModel.match({"soup": "A soup.", "Serve": "Served."}),
        delegation_policies=[refuse_poets],
        capture_mode="full",
        trace_exporter=lambda trace: None,
    )


def storm() -> Ensemble:
    """Some tasks fail, some are skipped, some go on without them."""
    llm = ScriptedChatModel.match({"Measure": Fail(401), "Look": "Force 9.", "Guess": "Who knows."})
    wind = Task.of("Measure the wind", name="wind", agent=Agent(role="Radar", goal="Measure", max_retries=0))
    look = Task.of("Look at the sea", name="look")
    warn = Task.of("Warn the ships", name="warn", context=[wind])
    rest = Task.of("Guess", name="guess", when=Condition("look", contains="calm"))
    noted = Task.of("Note it", name="note", handler=lambda task: "noted", context=[look])
    return Ensemble(
        name="storm",
        tasks=[wind, look, warn, rest, noted],
        workflow="parallel",
        error_strategy="partial",
        llm=llm,
        max_concurrency=2,
    )


def slow() -> Ensemble:
    """One task is over in time, another one is not."""
    llm = ScriptedChatModel.match({"quick": "Done.", "long": Reply("Never.", delay=30)})
    tasks = [Task.of("Be quick", name="quick"), Task.of("Take a long time", name="long")]
    return Ensemble(name="slow", tasks=tasks, llm=llm, workflow="sequential")


def finished() -> Iterator[tuple[str, EnsembleOutput]]:
    """The outputs of all, by name."""
    yield "report", report().run()
    yield "kitchen", kitchen().run()
    yield "storm", storm().run()
    try:
        slow().run(timeout=0.2)
    except DeadlineExceededError as error:
        yield "slow", error.output  # type: ignore[misc]


def main(arguments: Sequence[str]) -> None:
    """Write a trace, a recording and a saved view of each into a folder."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, output in finished():
        output.trace.save(folder / f"{name}.trace.json")
        bundle = json.dumps(output._repr_mimebundle_(), indent=1, ensure_ascii=False)
        (folder / f"{name}.view.json").write_text(bundle + "\n", encoding="utf-8")
    for make in (report, kitchen, storm):
        make().run(record=folder / f"{make.__name__}.yaml")


if __name__ == "__main__":
    main(sys.argv[1:])
