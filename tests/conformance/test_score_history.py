"""V12: a score over the maps that are kept, in order of time, with its interval each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, EnsembleOutput, Task, TaskInput, ValidationError, load_traces
from tests.support.store import wait_for_store

ROWS = [{"word": number} for number in range(20)]
STYLES = {"style=kindly": {"style": "kindly"}, "style=tersely": {"style": "tersely"}}


def run(right: int, *, is_varied: bool = False) -> None:
    """A map of which so many rows are right, and one fails."""

    def answer(given: TaskInput) -> str:
        if given.inputs["word"] == 19:
            raise ValueError("no")
        return "right" if given.inputs["word"] < right else "wrong"

    def is_right(output: EnsembleOutput) -> bool:
        return output.raw == "right"

    task = Task.of("Say {word}, {style}", name="say", handler=answer)
    ensemble = Ensemble(tasks=[task], name="sayer", inputs={} if is_varied else {"style": "plainly"})
    if is_varied:
        ensemble.variants(STYLES, score=is_right).map(ROWS)
    else:
        ensemble.map(ROWS, score=is_right)


def test_v12_a_score_over_the_maps_of_the_store_has_a_point_for_each_and_counts_failed_rows(store_path: Path) -> None:
    for right in (5, 10, 15):
        run(right)
    Ensemble(tasks=[Task.of("Say hello", handler=lambda _: "hello")], name="other").run()
    run(18, is_varied=True)
    wait_for_store()
    history = load_traces().score_history("is_right")
    frame = history.frame
    assert frame["mean"].tolist() == [0.25, 0.5, 0.75, 0.9, 0.9]
    assert frame["failed"].tolist() == [1] * 5
    assert frame["variant"].astype(object).tolist()[-2:] == ["kindly", "tersely"]
    assert (frame.low < frame["mean"]).all()
    lines = repr(history).splitlines()
    assert " sayer " in lines[0]
    assert lines[0].endswith("is_right 25% (95%: 11 to 47; 20 rows); 1 row failed and counts as not passed.")
    page = history._repr_mimebundle_()["text/html"]
    assert page.count("<circle") == 5
    assert "is_right over 4 maps, with 95% intervals" in page


def test_v12_a_score_that_no_map_has_is_refused_with_the_nearest(store_path: Path) -> None:
    run(5)
    wait_for_store()
    with pytest.raises(ValidationError, match=r"No score is called 'is_rigth'\. Did you mean 'is_right'"):
        load_traces().score_history("is_rigth")
