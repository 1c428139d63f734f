"""The rows of a map that are selected in its views, as data (W37)."""

from __future__ import annotations

import pickle
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import Ensemble, MapResult, Task, ValidationError
from ensemble_notebook.notebook.live.run_feed import find_feed_of

CITIES = pd.DataFrame({"city": ["Paris", "Rome", "Bern"]}, index=["fr", "it", "ch"])


def make() -> Ensemble:
    def say(given: Any) -> str:
        return str(given.inputs["city"])

    tasks = [Task.of("Find {city}", name="find", handler=say), Task.of("Say {city}", name="say", handler=say)]
    return Ensemble(tasks=tasks)


@pytest.fixture
def result() -> MapResult:
    return make().map(CITIES)


def ids_of(result: MapResult) -> dict[str, str]:
    """The ids of the rows and of their tasks, by name."""
    assert result.trace is not None
    tasks = [span for span in result.trace.spans if span.kind == "task"]
    return {span.name if span.row is None else f"{span.row}/{span.name}": span.span_id for span in tasks}


def test_w37_what_a_view_selects_is_rows_of_the_frame(result: MapResult) -> None:
    assert result.selection == []
    ids = ids_of(result)
    result.timeline.selection = [ids["ch"], ids["fr"]]
    assert result.selection == ["ch", "fr"]
    assert result.frame.loc[result.selection].city.tolist() == ["Bern", "Paris"]


def test_w37_a_row_counts_where_something_in_it_is_selected(result: MapResult) -> None:
    ids = ids_of(result)
    result.timeline.selection = [ids["it/say"], ids["it/find"], ids["it"]]
    assert result.selection == ["it"]


def test_w37_a_selection_that_is_set_shows_in_all_views(result: MapResult) -> None:
    sent: list[dict[str, Any]] = []

    class Carrier:
        def send(self, content: dict[str, Any], _buffers: Any = None) -> None:
            sent.append(content)

    assert result.timeline is not None
    feed = find_feed_of(result.output)
    assert feed is not None
    feed.subscribe(Carrier())
    frame = result.frame
    result.selection = frame[frame.city != "Rome"].index
    ids = ids_of(result)
    assert sent[-1]["selection"] == [ids["fr"], ids["ch"]]
    assert result.timeline.selection == [ids["fr"], ids["ch"]]
    assert result.selection == ["fr", "ch"]


def test_w37_changes_are_observed_until_nobody_wants_to(result: MapResult) -> None:
    seen: list[tuple[list[str], list[str]]] = []

    def see(change: Any) -> None:
        seen.append((change.old, change.new))

    result.observe(see)
    result.observe(see)
    result.timeline.selection = [ids_of(result)["it"]]
    result.selection = ["fr"]
    result.unobserve(see)
    result.selection = []
    assert seen == [([], ["it"]), (["it"], ["fr"])]


def test_w37_a_label_that_no_row_has_is_refused_with_the_nearest(result: MapResult) -> None:
    result.selection = ["it"]
    with pytest.raises(ValidationError, match=r"The map has no row 'itt'. Did you mean 'it'\? Labels are the index"):
        result.selection = ["fr", "itt"]
    with pytest.raises(ValidationError, match=r"selection takes a list of labels of the frame, got 'it'"):
        result.selection = "it"  # type: ignore[assignment]
    assert result.selection == ["it"]


def test_w37_a_row_that_was_taken_over_is_selected_as_the_others(result: MapResult) -> None:
    more = pd.concat([CITIES, pd.DataFrame({"city": ["Oslo"]}, index=["no"])])
    resumed = make().map(more, resume=result)
    resumed.selection = ["no"]
    assert resumed.frame.loc[resumed.selection].city.tolist() == ["Oslo"]
    resumed.selection = ["fr", "no"]
    assert resumed.timeline.selection == [resumed.frame.run_id["fr"], ids_of(resumed)["no"]]
    assert resumed.selection == ["fr", "no"]


def test_w37_runs_of_a_row_go_by_all_levels_of_the_index() -> None:
    result = make().variants({"plain": {}, "same": {}}).map(CITIES, repeat=2)
    result.selection = [("same", "it", 2)]
    assert result.timeline.selection == [ids_of(result)[result.rows[9].name]]
    assert result.frame.loc[result.selection].city.tolist() == ["Rome"]


def test_w37_rows_without_labels_go_by_their_numbers_and_the_same_ones_together() -> None:
    plain = make().map([{"city": "Paris"}, {"city": "Rome"}])
    plain.selection = [1]
    assert plain.frame.loc[plain.selection].city.tolist() == ["Rome"]
    twice = make().map(CITIES.set_axis(["a", "a", "b"]))
    twice.selection = ["a"]
    assert len(twice.timeline.selection) == 2
    assert twice.selection == ["a"]
    assert twice.frame.loc[twice.selection].city.tolist() == ["Paris", "Rome"]


def test_w37_a_map_without_rows_selects_nothing() -> None:
    result = make().map([])
    assert result.selection == []
    with pytest.raises(ValidationError, match="The map had no row to run, so there is nothing to select"):
        result.selection = [0]


def test_w37_a_scored_or_pickled_result_selects_the_same_rows(result: MapResult) -> None:
    result.selection = ["it"]
    scored = result.score(lambda output: len(output.raw), name="length")
    assert scored.selection == ["it"]
    scored.selection = ["ch"]
    assert result.selection == ["ch"]
    assert pickle.loads(pickle.dumps(result)).selection == []
