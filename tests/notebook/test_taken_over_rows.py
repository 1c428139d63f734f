"""Rows that a map did not run itself, in views: taken over from an earlier one (W169), or not needed (W170)."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import Ensemble, ExecutionTrace, MapResult, Task
from ensemble_notebook.notebook.live.run_feed import find_feed_of
from ensemble_notebook.notebook.picture.chart import make_chart
from ensemble_notebook.notebook.picture.static_picture import render_chart_text
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

CITIES = pd.DataFrame({"city": ["Paris", "Rome", "Bern"]}, index=["fr", "it", "ch"])
MORE = pd.concat([CITIES, pd.DataFrame({"city": ["Oslo"]}, index=["no"])]).loc[["fr", "no", "it", "ch"]]


def make(prefix: str = "") -> Ensemble:
    def say(given: Any) -> str:
        if given.inputs["city"] == "Bern":
            raise ValueError("no such city")
        return f"{prefix}{given.inputs['city']}"

    return Ensemble(tasks=[Task.of("Say {city}", name="say", handler=say)])


def is_short(output: Any) -> bool:
    return len(str(output)) < 5


def get_messages(result: MapResult) -> TimelineMessages:
    assert result.timeline is not None
    feed = find_feed_of(result.output)
    assert feed is not None
    return feed.messages


def list_lines(messages: TimelineMessages) -> dict[str, dict[str, Any]]:
    rows = messages.make_snapshot()["rows"]
    return {row["name"]: row for row in rows if row.get("line") is not None}


@pytest.fixture
def resumed() -> MapResult:
    return make().map(MORE, resume=make().map(CITIES, score=is_short), score=is_short)


def test_rows_that_were_taken_over_have_lines_with_answers_and_scores_w169(resumed: MapResult) -> None:
    messages = get_messages(resumed)
    lines = list_lines(messages)
    assert {name: (row["line"], row["status"], row.get("reused", False)) for name, row in lines.items()} == {
        "fr": (0, "ok", True),
        "no": (1, "ok", False),
        "it": (2, "ok", True),
        "ch": (3, "error", False),
    }
    assert {name: row.get("scores") for name, row in lines.items()} == {
        "fr": [False],
        "no": [True],
        "it": [True],
        "ch": None,
    }
    ids = [lines[name]["span_id"] for name in ("fr", "it")]
    assert ids == resumed.frame.run_id[["fr", "it"]].tolist()
    assert [cell[1:] for cell in messages.make_cells(ids)["cells"]] == [
        ["Paris", messages.make_cells(ids)["cells"][0][2], ["Paris"]],
        ["Rome", messages.make_cells(ids)["cells"][1][2], ["Rome"]],
    ]
    assert messages.make_details(ids[0])["output"] == "Paris"
    run = messages.make_snapshot()["run"]
    assert run["sentence"].endswith("; 2 rows taken over")
    assert (run["tasks_total"], run["standing"]["heads"][0]["rows"]) == (2, 4)
    assert messages.search_texts(["Paris"])["spans"][0][0] == ids[0]


def test_views_that_came_early_hear_of_rows_that_were_taken_over_and_saved_ones_have_them_w169(
    resumed: MapResult,
) -> None:
    messages = get_messages(resumed)
    names = {row["name"] for row in messages.make_delta(0)["rows"]}
    assert {"fr", "it"} <= names
    saved = messages.make_saved_view()
    assert {cell[1] for cell in saved["cells"]} == {"Paris", "Oslo", "Rome", None}


def test_earlier_scores_are_told_from_the_first_row_on_w169() -> None:
    earlier = make().map(CITIES, score=is_short)
    seen: list[Any] = []

    class Listener:
        def on_event(self, event: Any) -> None:
            pass

        def on_scores(self, scores: Any) -> None:
            seen.append({each.row: each.passed for each in scores})

    ensemble = make().replace(listeners=[Listener()])
    ensemble.map(MORE, resume=earlier, score=is_short)
    assert seen[0] == {"fr": False, "it": True}


def test_rows_that_a_fork_left_as_they_were_have_lines_w169() -> None:
    forked = make().map(CITIES, score=is_short).fork("it", "say", output="Roma!")
    lines = list_lines(get_messages(forked))
    assert {name: (row["status"], row.get("scores")) for name, row in lines.items()} == {
        "fr": ("ok", [False]),
        "it": ("ok", [False]),
        "ch": ("error", None),
    }
    assert lines["ch"]["error_message"] == "It failed in an earlier map."


def test_a_stored_trace_has_them_too_w169(resumed: MapResult, tmp_path: Any) -> None:
    assert resumed.trace is not None
    path = resumed.trace.export(tmp_path / "map.trace.json")
    lines = list_lines(TimelineMessages(ExecutionTrace.load(path)._fold))
    assert [name for name, row in lines.items() if row.get("reused")] == ["fr", "it"]


def test_views_say_settled_of_rows_that_were_not_needed_w170() -> None:
    def answer(given: Any) -> str:
        return str(given.description)

    ensemble = Ensemble(tasks=[Task(description="{style} {n}", handler=answer)])
    variants = ensemble.variants({name: {"inputs": {"style": name}} for name in ("kindly", "tersely")})
    result = variants.map([{"n": n} for n in range(60)], score=lambda output: "tersely" in output.raw, until_clear=0.05)
    left = sum(each.status == "settled" for each in result)
    messages = get_messages(result)
    run = messages.make_snapshot()["run"]
    assert f", {left} settled" in run["sentence"]
    assert "skipped" not in run["sentence"]
    assert (run["tasks_skipped"], run["tasks_settled"]) == (left, left)
    words = {row.get("outcome") for row in list_lines(messages).values() if row["status"] == "skipped"}
    assert words == {"settled"}
    picture = render_chart_text(make_chart(messages.make_snapshot()))
    assert f"{left} settled" in picture
    assert "skipped" not in picture
