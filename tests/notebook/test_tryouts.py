"""What is tried in the views of a run, by messages: calls again, forks, marks, other conditions (W113 to W138)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ensemble_notebook import Agent, Ensemble, EnsembleOutput, Reply, ScriptedChatModel, Task, ToolUse
from ensemble_notebook.domain.outputs.secrets import MASK, mask
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.live.run_feed import RunFeed, find_feed, keep_feed
from ensemble_notebook.notebook.live.timeline_widget import offer_tryouts
from ensemble_notebook.notebook.live.tryouts import Tryout, read_parameters, unmask
from ensemble_notebook.notebook.picture.static_picture import make_messages
from tests.support.nested_runs import wait_for
from tests.support.told_view import ToldView

LIMIT_S = 30
SECRET = "sk-" + "a1B2c3D4e5F6" * 3


class View(ToldView):
    """A view of a run: asks, and keeps what it is told."""

    def __init__(self, output: EnsembleOutput) -> None:
        super().__init__()
        self.output = output
        self.feed = RunFeed(make_messages(output))
        keep_feed(output, self.feed)
        offer_tryouts(output, self.feed)

    def ask(self, number: int, word: str, **content: Any) -> Any:
        self.feed.receive(self, {"kind": "tryout", "number": number, **content})
        return self.wait_for(lambda told: told.get("number") == number and told.get(word))

    def find_span(self, kind: str, task: str) -> str:
        spans = self.output.trace._fold.spans.values()
        return next(each.span_id for each in spans if each.kind == kind and each.task == task)


def look(query: str) -> str:
    """Look something up."""
    return f"found {query}"


@pytest.fixture
def view() -> View:
    model = ScriptedChatModel.match(
        {"## Task\nFind": [ToolUse("look", {"query": "tides"}), Reply("Twice a day.")], "shorter": "Short."},
        default="It is known.",
    )
    find = Task(description=f"Find facts with {SECRET}", expected_output="Facts", name="find", tools=[look])
    other = Task(description="Say hello", expected_output="A word", name="other")
    tell = Task(description="Tell them", expected_output="A text", name="tell", context=[find])
    return View(Ensemble(tasks=[find, other, tell], agents=[Agent(role="Writer", goal="Write")], llm=model).run())


def test_a_call_is_offered_with_its_prompts_and_made_again_with_others_w113(view: View) -> None:
    span = view.find_span("llm", "tell")
    offer = view.ask(1, "offer", act="offer", span_id=span)
    assert offer["user_prompt"].startswith("## Context")
    assert offer["output"] == "It is known."
    assert offer["input_tokens"]
    assert offer["models"] == []
    began = view.ask(2, "began", act="rerun", span_id=span, repeat=2, change={"user_prompt": "Tell it shorter"})
    assert (began["kind"], began["changed"]) == ("rerun", ["user_prompt"])
    replies = view.ask(2, "replies")
    assert [each["number"] for each in replies] == [1, 2]
    assert ["added", "Short"] in replies[0]["pieces"] or replies[0]["pieces"][-1] == ["added", "Short."]
    fork = view.ask(3, "began", act="fork", span_id=span, feed_id=began["feed_id"], reply=2)
    assert (fork["span_id"], fork["changed"], fork["at_end"]) == (span, ["reply"], True)


def test_no_secret_goes_to_a_view_and_no_mask_to_a_model_w113(view: View) -> None:
    span = view.find_span("llm", "find")
    offer = view.ask(1, "offer", act="offer", span_id=span)
    assert MASK in offer["user_prompt"]
    change = {"user_prompt": offer["user_prompt"].replace("Find facts", "Say shorter")}
    began = view.ask(2, "began", act="rerun", span_id=span, change=change)
    assert [each["pieces"][-1] for each in view.ask(2, "replies")] == [["added", "Short."]]
    assert began["changed"] == ["user_prompt"]
    assert MASK in view.ask(3, "error", act="rerun", span_id=span, change={"user_prompt": f"Two: {MASK} {MASK}"})
    assert SECRET not in str(view.told)


def test_secrets_go_back_to_their_places_w113() -> None:
    true = f"Ask with {SECRET}, or {SECRET[::-1]}key={SECRET}."
    masked = mask(true)
    assert unmask(masked.replace("Ask", "Do ask"), true) == true.replace("Ask", "Do ask")
    with pytest.raises(ValidationError, match="stands in place of a secret"):
        unmask(masked, masked + "!")


def test_a_fork_goes_by_the_feed_of_its_run_and_is_told_to_who_comes_later_w114(view: View) -> None:
    fork = view.ask(1, "began", act="fork", span_id=view.find_span("llm", "tell"), change={"reply": "Mine."})
    view.feed.receive(view, {"kind": "tryout", "feed_id": fork["feed_id"], "content": {"kind": "hello", "have": -1}})
    content = view.wait_for(lambda told: told.get("feed_id") == fork["feed_id"] and told.get("content"))
    assert content["kind"] == "snapshot"
    view.told.clear()
    view.feed.receive(view, {"kind": "hello", "have": -1})
    [told] = view.wait_for(lambda each: each.get("forks"))
    assert told["feed_id"] == fork["feed_id"]


class AwaitedEnd(threading.Event):
    """Tells that somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.is_awaited.set()
        return super().wait(timeout)


def test_a_fork_that_is_shown_as_over_is_put_into_the_cell_at_once_w110(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of the fork comes only once a person has asked for what it changed."""
    is_over, end = AwaitedEnd(), Tryout.end

    def end_late(tryout: Tryout, result: Any) -> None:
        tryout.is_over = is_over
        view_saw_end.set()
        is_over.is_awaited.wait(LIMIT_S)
        end(tryout, result)

    view_saw_end = threading.Event()
    monkeypatch.setattr(Tryout, "end", end_late)
    fork = view.ask(1, "began", act="fork", span_id=view.find_span("llm", "tell"), change={"reply": "Mine."})
    assert view_saw_end.wait(LIMIT_S)
    feed: Any = find_feed(fork["feed_id"])
    wait_for(lambda: not feed.is_live)  # the last picture is painted by a thread of its own
    view.feed.receive(view, {"kind": "tryout", "number": 2, "act": "source", "feed_id": fork["feed_id"]})
    told = view.wait_for(lambda each: each if each.get("number") == 2 else None)
    assert "still going on" not in str(told)
    assert told["source"]


def test_a_fork_that_goes_on_has_nothing_to_put_into_the_cell_w110() -> None:
    goes_on = threading.Event()
    goes_on.set()
    model = ScriptedChatModel.match({"Tell": lambda _: "Told." if goes_on.wait(LIMIT_S) else "Too late."})
    tell = Task(description="Tell them", expected_output="A text", name="tell", llm=model)
    view = View(Ensemble(tasks=[tell]).run())
    goes_on.clear()
    fork = view.ask(1, "began", act="fork", span_id=view.find_span("llm", "tell"))
    assert "still going on: wait for its end" in view.ask(2, "error", act="source", feed_id=fork["feed_id"])
    goes_on.set()


@pytest.mark.parametrize("kind, name", [("tool", "tool_result"), ("task", "output")])
def test_another_result_or_output_is_gone_on_with_w115(view: View, kind: str, name: str) -> None:
    span = view.find_span(kind, "find")
    assert view.ask(1, "offer", act="offer", span_id=span)["output"]
    assert view.ask(2, "began", act="fork", span_id=span, change={name: "another"})["changed"] == [name]


@pytest.mark.parametrize(
    "content, said",
    [
        ({"act": "rerun", "span_id": "none"}, "no such span"),
        ({"act": "fork", "span_id": 7}, "no such span"),
        ({"act": "rerun", "change": {"parameters": "hot"}}, "temperature: 0.2"),
        ({"act": "fork", "change": {"llm": "nobody:x"}}, "nobody"),
        ({"act": "fork", "change": {"tool_result": "x"}}, "tool_result"),
        ({"act": "score", "feed_id": "none", "scorer": "length"}, "no such scorer"),
    ],
)
def test_what_is_refused_is_said_and_the_next_works_w116(view: View, content: dict[str, Any], said: str) -> None:
    span = view.find_span("llm", "tell")
    assert said in view.ask(1, "error", **{"span_id": span, **content})
    assert view.ask(2, "offer", act="offer", span_id=span)


def test_two_forks_go_on_at_once_and_one_is_stopped_w116() -> None:
    gate = threading.Event()
    gate.set()

    async def wait(_task: object) -> str:
        await asyncio.to_thread(gate.wait, 20)
        return "done"

    find = Task(description="Find", expected_output="Facts", name="find")
    late = Task(description="Wait", expected_output="A word", name="late", handler=wait, context=[find])
    view = View(Ensemble(tasks=[find, late], llm=ScriptedChatModel(default="Known.")).run())
    gate.clear()
    span = view.find_span("llm", "find")
    forks = [view.ask(n, "began", act="fork", span_id=span, change={"reply": f"no {n}"})["feed_id"] for n in (1, 2)]

    def tell(feed: str, **content: Any) -> None:
        view.feed.receive(view, {"kind": "tryout", "feed_id": feed, "content": content})

    def wait_for_end(feed: str) -> Any:
        def find_end(told: dict[str, Any]) -> Any:
            status = told.get("content", {}).get("run", {}).get("status") if told.get("feed_id") == feed else None
            return status not in (None, "running", "pending") and status

        return view.wait_for(find_end)

    for feed in forks:
        tell(feed, kind="hello", have=-1)
    tell(forks[0], kind="stop")
    assert wait_for_end(forks[0]) == "interrupted"
    gate.set()
    assert wait_for_end(forks[1]) == "completed"


def test_a_run_without_texts_is_refused_by_the_name_of_its_mode_w116() -> None:
    task = Task(description="Find", expected_output="Facts", name="find")
    ensemble = Ensemble(tasks=[task], llm=ScriptedChatModel(default="Known."), capture_mode="metadata")
    view = View(ensemble.run())
    for number, act in enumerate(("offer", "rerun", "fork")):
        assert "capture_mode metadata" in view.ask(number, "error", act=act, span_id=view.find_span("llm", "find"))


def test_what_makes_no_sense_changes_nothing_w116(view: View) -> None:
    for content in [{"act": "poke"}, {"feed_id": "none", "content": {"kind": "stop"}}, {"act": 7}, {}]:
        view.feed.receive(view, {"kind": "tryout", "number": 1, **content})
    assert view.told == []


def test_parameters_are_read_as_a_person_writes_them() -> None:
    assert read_parameters("temperature: 0.2, max_tokens: 300") == {"temperature": 0.2, "max_tokens": 300}
    assert read_parameters("temperature: 0.2\nseed: 7") == {"temperature": 0.2, "seed": 7}
    assert read_parameters(" ") == {}


def test_a_mark_is_a_score_of_a_person_that_is_told_at_once_w125(view: View) -> None:
    span = view.find_span("llm", "tell")
    assert view.ask(1, "marked", act="mark", span_id=span, value=False) == span
    view.ask(2, "marked", act="mark", span_id=span, value=" too kind ", note="says nothing of the moon")
    told = view.output.trace._fold
    assert (told.score_names, told.spans[span].scores) == (["mark", "label"], (False, "too kind"))
    assert "Say in a word what it is" in view.ask(3, "error", act="mark", span_id=span, value=" ")
    assert "no such span" in view.ask(4, "error", act="mark", span_id="x", value=True)


def test_a_run_under_other_conditions_is_told_to_the_view_that_asks_w138(view: View) -> None:
    told = view.ask(1, "prediction", act="predict", scenario={"speedup": {"llm": 2, "find": 4}, "max_concurrency": 8})
    found = view.output.what_if(speedup={"llm": 2, "find": 4}, max_concurrency=8)
    assert (told["summary"], told["path"]) == (found.summary, list(found.critical_path))
    assert [(span, end) for span, _, end, _ in told["tasks"]] == [
        (each.span.span_id, round(each.predicted_end_ms, 3)) for each in found.tasks
    ]
    waits = view.ask(2, "prediction", act="predict", scenario={"drop_waits": ["rate_limit"]})
    assert waits["wall_ms"] == pytest.approx(view.output.what_if(drop_waits="rate_limit").wall_ms, abs=0.001)
    assert "must be a whole number from 1, got 0" in view.ask(
        3, "error", act="predict", scenario={"max_concurrency": 0}
    )
    assert "no task of this run" in view.ask(4, "error", act="predict", scenario={"speedup": {"finds": 2}})
    assert view.ask(5, "prediction", act="predict", scenario="none")["path"]


def test_a_range_is_named_and_told_to_all_views_and_to_the_cell_w136(view: View) -> None:
    renewed: list[bool] = []
    view.feed.renew_picture = lambda: renewed.append(True)
    view.feed.subscribe(view)
    for number, content in enumerate(
        ({"value": True}, {"value": "slow"}, {"value": "too slow", "note": SECRET}, {"value": False}), 1
    ):
        assert view.ask(number, "marked", act="mark", range=[0, 0.5], **content) == "range"
    ranges = next(each["run"]["ranges"] for each in reversed(view.told) if "run" in each)
    assert [(each["name"], each["value"], each["to_ms"]) for each in ranges] == [
        ("label", "too slow", 0.5),
        ("mark", False, 0.5),
    ]
    assert SECRET not in str(view.told)
    assert len(renewed) == 4
    assert "range= must be a time of the run" in view.ask(8, "error", act="mark", range=[5, 2], value=True)
    assert "range= takes (from_ms, to_ms)" in view.ask(9, "error", act="mark", range="all", value=True)
