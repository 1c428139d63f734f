"""Scores among the spans that they are of, for views (W6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ensemble_notebook import CaptureMode, Ensemble, MapResult, Task, scorers
from ensemble_notebook.domain.events import Event
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel
from ensemble_notebook.notebook.live.run_feed import find_feed_of
from ensemble_notebook.notebook.live.run_painter import RunPainter
from ensemble_notebook.notebook.live.timeline_widget import make_timeline
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.row_reader import read_rows

ROWS = [{"city": "Paris"}, {"city": "Rome"}, {"city": "Bern"}]


def is_long(output: Any) -> bool:
    return len(output.raw) > 4


def rate(output: Any) -> float:
    return len(output.raw) / 10


def find_tone(output: Any) -> str:
    return "warm" if "o" in output.raw else "cool"


def make(**fields: Any) -> Ensemble:
    task = Task.of("Say {city}", name="say", handler=lambda given: given.inputs["city"])
    return Ensemble(tasks=[task], **fields)


@pytest.fixture
def result() -> MapResult:
    return make().map(ROWS, score=[is_long, rate, find_tone])


def read(messages: TimelineMessages) -> tuple[list[str], dict[str, Any]]:
    """The names of the scores, and those of the rows of a map by their names, as a view gets them."""
    message, buffers = messages.pack_snapshot()
    rows = {row["name"]: row for row in read_rows(message, buffers) if "scores" in row}
    return message["run"]["score_names"], {name: (row.get("score"), row["scores"]) for name, row in rows.items()}


def test_w6_rows_of_a_map_have_their_scores_in_all_views(result: MapResult) -> None:
    assert result.trace is not None
    names, scores = read(TimelineMessages(result.trace._fold))
    assert names == ["is_long", "rate", "find_tone"]
    assert scores == {
        "row 0": (1.0, [True, 0.5, "cool"]),
        "row 1": (0.0, [False, 0.4, "warm"]),
        "row 2": (0.0, [False, 0.4, "cool"]),
    }
    saved = TimelineMessages(result.trace._fold).make_saved_view()
    assert {row["name"]: row["scores"] for row in read_rows(saved) if "scores" in row} == {
        name: values for name, (_, values) in scores.items()
    }


def test_w6_live_views_hear_of_scores_with_the_row() -> None:
    painter = RunPainter()
    told: list[tuple[str, bool]] = []

    class Watcher:
        def on_event(self, event: Event) -> None:
            painter.on_event(event)
            _, scores = read(painter.messages)
            done = [row for row in painter.messages.make_snapshot()["rows"] if row["status"] == "ok"]
            told.extend((row["name"], row["name"] in scores) for row in done if row["name"].startswith("row"))

        def on_scores(self, scores: Any) -> None:
            painter.on_scores(scores)

    make(listeners=[Watcher()]).map(ROWS, score=is_long)
    assert {name for name, _ in told} == {"row 0", "row 1", "row 2"}
    assert all(is_scored for _, is_scored in told)


def test_w6_scores_may_come_before_the_plan(result: MapResult) -> None:
    assert result.output is not None
    fold = TraceFold()
    fold.add_scores(result.score_records)
    for event in result.output.events:
        fold.add(event)
    assert read(TimelineMessages(fold))[1]["row 1"] == (0.0, [False, 0.4, "warm"])


def test_w6_scores_that_come_later_reach_the_views_that_are_open() -> None:
    result = make().map(ROWS)
    assert result.output is not None
    sent: list[dict[str, Any]] = []

    class Carrier:
        def send(self, content: dict[str, Any], _buffers: Any = None) -> None:
            sent.append(content)

    assert result.timeline is make_timeline(result.output)
    feed = find_feed_of(result.output)
    assert feed is not None
    carrier = Carrier()
    feed.subscribe(carrier)
    feed.receive(carrier, {"kind": "hello", "have": None})
    scored = result.score([scorers.contains("Rome")])
    assert scored.timeline is result.timeline
    delta = sent[-1]
    assert delta["run"]["score_names"] == ["contains"]
    assert {row["name"]: row["scores"] for row in delta["rows"]} == {
        "row 0": [False],
        "row 1": [True],
        "row 2": [False],
    }
    count = len(sent)
    assert scored.timeline is not None
    assert len(sent) == count, "what is known already is told nobody"
    feed.receive(carrier, {"kind": "hello", "have": delta["n"]})
    assert sent[-1]["rows"] == []


def test_w6_a_score_in_place_of_an_earlier_one_counts(result: MapResult) -> None:
    again = result.annotate(1, value=True, name="is_long", replace=True)
    assert again.trace is not None
    assert read(TimelineMessages(again.trace._fold))[1]["row 1"] == (1.0, [True, 0.4, "warm"])


def test_w6_runs_of_a_row_have_scores_of_their_own() -> None:
    variants = make().variants({"plain": {}, "same": {}})
    result = variants.map(ROWS[:2], score=is_long, repeat=2)
    assert result.trace is not None
    _, scores = read(TimelineMessages(result.trace._fold))
    assert {each.name: scores[each.name][1] for each in result} == {each.name: [each.raw == "Paris"] for each in result}
    assert len(scores) == 8


def test_w6_a_run_and_a_span_inside_have_theirs() -> None:
    output = Ensemble(tasks=[Task.of("Find", name="find")], llm=ScriptedChatModel(default="Done.")).run()
    task = next(span for span in output.trace.spans if span.name == "find")
    scored = output.annotate(value=True, name="good").annotate(value=0.25, name="tone", span=task.span_id)
    spans = {span.kind: span.scores for span in scored.trace.spans}
    assert spans["run"] == (True,)
    assert spans["task"] == (None, 0.25)


def test_w6_words_of_people_are_not_told_where_no_texts_are_kept() -> None:
    result = make(capture_mode=CaptureMode.METADATA).map(ROWS, score=is_long)
    labelled = result.annotate(0, value="a secret word", name="said")
    assert labelled.trace is not None
    names, scores = read(TimelineMessages(labelled.trace._fold))
    assert names == ["is_long", "said"]
    assert scores["row 0"] == (1.0, [True, None])


def test_w6_a_trace_with_scores_uses_the_fold_of_its_views(result: MapResult) -> None:
    assert result.output is not None
    live = TraceFold.from_events(result.output.events)
    live.add_scores(result.score_records)
    trace = ExecutionTrace(result.output.events)
    assert trace._take_fold(live)
    assert trace._fold is live


def test_w135_named_ranges_are_in_messages_and_saved_views_and_those_of_other_runs_are_not() -> None:
    output = make().run({"city": "Rome"})
    named = output.annotate(True, "mark", range=(0, 0.5)).annotate("slow", range=(0, 0.25), reason="why")
    fold = TraceFold.from_events(output.events)
    assert fold.add_scores(named.score_records)
    for message in (TimelineMessages(fold).make_snapshot(), TimelineMessages(fold).make_saved_view()):
        ranges = message["run"]["ranges"]
        assert [(each["name"], each["value"], each["to_ms"]) for each in ranges] == [
            ("mark", True, 0.5),
            ("label", "slow", 0.25),
        ]
        assert ranges[1]["reason"] == "why"
    other = TraceFold.from_events(output.events)
    assert other.add_scores([replace(each, run_id="of a row") for each in named.score_records])
    assert TimelineMessages(other).make_snapshot()["run"]["ranges"] is None
