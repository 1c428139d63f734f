"""What a fork would do, before it does anything: fork(..., plan=True) (E117)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, ForkPlan, SqliteMemory, Task
from tests.support.openai_server import Answer, OpenAIServer

CALLS: list[str] = []


def look(place: str) -> str:
    """Look at a place."""
    CALLS.append(f"look {place}")
    return "calm"


def book(place: str) -> str:
    """Book a boat there."""
    CALLS.append(f"book {place}")
    return "booked"


def send(_: Any) -> str:
    """Tell everybody."""
    CALLS.append("send")
    return "sent"


def make_crossing(llm: str, folder: Any, review: str | None = None) -> Ensemble:
    pilot = Agent(role="Pilot", goal="Cross", tools=[look])
    wind = Task.of("Report the wind", name="wind", agent=pilot, review=review)
    boat = Task.of("Book a boat", name="boat", agent=Agent(role="Clerk", goal="Book"), tools=[book], memory="boats")
    other = Task.of("Say hello", name="hello", handler=lambda _: "hello")
    tell = Task.of("Tell all", name="tell", handler=send, context=[wind, boat])
    return Ensemble(
        tasks=[other, wind, boat, tell],
        llm=llm,
        memory=SqliteMemory(folder / "boats.db"),
        trace_exporter=folder / "traces",
    )


def find_call(output: Any, task: str) -> Any:
    return next(each for each in output.trace.spans if each.kind == "llm" and each.task == task)


@pytest.fixture
def crossing(server: OpenAIServer, llm: str, tmp_path: Any) -> Any:
    looks = Answer(None, calls=[("look", {"place": "bay"})])
    server.script(looks, Answer("Calm."), Answer("A boat."))
    output = make_crossing(llm, tmp_path).run()
    CALLS.clear()
    return output


def test_e117_a_plan_names_what_is_kept_done_anew_and_may_have_effects(
    server: OpenAIServer, crossing: Any, tmp_path: Any
) -> None:
    asked = len(server.requests)
    traces = len([*(tmp_path / "traces").iterdir()])
    plan = crossing.fork(find_call(crossing, "wind"), plan=True)
    assert isinstance(plan, ForkPlan)
    assert {each.name: each.fate for each in plan.tasks} == {
        "hello": "kept",
        "wind": "anew",
        "boat": "kept",
        "tell": "anew",
    }
    effects = [(each.kind, each.name, each.task, each.call_count) for each in plan.effects]
    assert effects == [
        ("tool", "look", "wind", 1),
        ("handler", "send", "tell", None),
        ("exporter", str(tmp_path / "traces"), "", None),
    ]
    assert (plan.kept_call_count, plan.anew_call_count) == (1, 2)
    assert plan.estimate is not None
    assert [each.name for each in plan.estimate.tasks] == ["wind", "tell"]
    assert (len(server.requests), CALLS, len([*(tmp_path / "traces").iterdir()])) == (asked, [], traces)
    whole = crossing.fork(find_call(crossing, "boat"), plan=True)
    kinds = {(each.kind, each.name) for each in whole.effects}
    assert {("tool", "book"), ("memory", "boats"), ("handler", "send")} <= kinds


def test_e117_a_plan_counts_no_call_that_the_fork_gives(crossing: Any) -> None:
    plan = crossing.fork(find_call(crossing, "boat"), reply="A raft.", plan=True)
    assert (plan.kept_call_count, plan.anew_call_count) == (2, 0)
    boat = next(each for each in crossing.trace.spans if each.kind == "task" and each.name == "boat")
    given = crossing.fork(boat, output="A raft.", plan=True)
    assert [each.fate for each in given.tasks] == ["kept", "kept", "given", "anew"]
    assert "book" not in {each.name for each in given.effects}
    left = crossing.fork(find_call(crossing, "wind"), until="wind", plan=True)
    assert [each.name for each in left.list_tasks("left out")] == ["hello", "boat", "tell"]
    assert "send" not in {each.name for each in left.effects}


def test_e117_every_door_gives_the_plan_as_text_and_as_a_page(crossing: Any) -> None:
    call = find_call(crossing, "wind")
    again = crossing.ensemble
    plans = [
        again.fork(crossing, call, plan=True),
        asyncio.run(crossing.afork(call, plan=True)),
        again.start_fork(crossing, call.span_id, plan=True),
    ]
    assert len({str(each) for each in plans}) == 1
    bundle = plans[0]._repr_mimebundle_()
    assert "look" in bundle["text/plain"]
    assert "1 call in the run from there on" in bundle["text/plain"]
    assert "send" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


def test_e117_a_plan_says_before_which_calls_somebody_is_asked(server: OpenAIServer, llm: str, tmp_path: Any) -> None:
    server.script(Answer("Calm."), Answer("A boat."))
    output = make_crossing(llm, tmp_path, review="during").run(review_handler=lambda _: None)
    plan = output.fork(find_call(output, "wind"), plan=True)
    assert [each.is_asked for each in plan.effects if each.name == "look"] == [True]
