"""How a map stands: the heads of its table, and its verdict by now (V62)."""

from __future__ import annotations

from typing import Any

from ensemble_notebook import Ensemble, Event, Task, TaskInput, load_traces
from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

VARIANTS = {name: {"inputs": {"style": name}} for name in ("kindly", "tersely")}
ROWS = [{"n": place} for place in range(60)]


def answer(given: TaskInput) -> str:
    return given.description


ENSEMBLE = Ensemble(name="answers", tasks=[Task(description="{style} {n}", handler=answer)])


def is_right(output: Any) -> bool:
    """Right under the second variant, and under the first in every third row."""
    style, number = output.raw.split()
    return bool(style == "tersely" or int(number) % 3 == 0)


def tell(fold: TraceFold) -> Any:
    return TimelineMessages(fold).make_snapshot()["run"]["standing"]


class Watcher:
    """Asks how the map stands after so many rows."""

    def __init__(self, after: int) -> None:
        self.fold, self.found, self._after = TraceFold(), None, after

    def on_event(self, event: Event) -> None:
        self.fold.add(event)
        if type(event).__name__ == "TaskCompleted" and event.parent_id == self.fold.run_id:
            self._after -= 1
            if not self._after:
                self.found: Any = tell(self.fold)

    def on_scores(self, scores: tuple[ScoreRecord, ...]) -> None:
        self.fold.add_scores(scores)


def test_map_that_goes_on_tells_means_that_hold_after_each_row_v62() -> None:
    watcher = Watcher(80)
    ENSEMBLE.variants(VARIANTS).map(ROWS, score=is_right, listeners=[watcher])
    kindly, tersely = watcher.found["heads"]
    assert (kindly["variant"], kindly["score"], tersely["mean"]) == ("kindly", "is_right", 1)
    assert kindly["rows"] + tersely["rows"] == 80
    assert kindly["low"] < kindly["mean"] < kindly["high"]
    assert kindly["kind"] == "95% after each row at once"
    assert watcher.found["sentence"].startswith("tersely is better (1.00 beside 0.")
    assert "after each row at once" in watcher.found["reason"]


def test_map_that_is_over_has_the_usual_intervals_v62() -> None:
    result = ENSEMBLE.variants(VARIANTS).map(ROWS, score=is_right)
    standing = tell(result.trace._fold)
    summary = result.summary()
    assert [(each["mean"], round(each["low"], 3)) for each in standing["heads"]] == [
        (round(mean, 3), round(low, 3)) for mean, low in zip(summary["mean"], summary["low"], strict=True)
    ]
    assert standing["heads"][0]["kind"] == "95%"
    assert standing["reason"] == repr(result.compare())


def test_stored_map_stands_as_it_did_v62(tmp_path: Any) -> None:
    result = ENSEMBLE.variants(VARIANTS).map(ROWS, score=is_right, until_clear=0.05)
    result.export(tmp_path / "map.trace.json")
    loaded = load_traces(tmp_path / "map.trace.json").load_map(result.run_id)
    standing = tell(loaded.trace._fold)
    assert standing == tell(result.trace._fold)
    assert standing["reason"] == repr(result.compare())
    assert standing["sentence"].endswith(" rows saved")


def test_still_picture_has_the_verdict_v62() -> None:
    result = ENSEMBLE.variants(VARIANTS).map(ROWS, score=is_right)
    told = result.trace._repr_mimebundle_()["text/plain"]
    assert "Verdict: tersely is better (1.00 beside 0.33; +0.5" in told


def test_score_of_one_variant_has_a_head_and_no_verdict_v62() -> None:
    standing = tell(ENSEMBLE.map([{"n": 1, "style": "kindly"}], score={"tone": lambda output: "warm"}).trace._fold)
    assert [(each["variant"], each["score"]) for each in standing["heads"]] == [(None, "tone=warm")]
    assert standing["sentence"] is None


def test_run_without_scores_stands_nowhere_v62() -> None:
    assert tell(ENSEMBLE.map([{"n": 1, "style": "kindly"}]).trace._fold) is None
    assert tell(ENSEMBLE.run({"n": 1, "style": "kindly"}).trace._fold) is None
