"""What stands in the cells of the table of a map, as views ask for it and as it is saved (W152, W153)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.table_cells import LONGEST_ANSWER, LONGEST_INPUT, MOST_CELLS
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

KEY = "sk-" + "a1B2" * 8


def answer(task: Any) -> str:
    """What the only task of a row says."""
    city = task.inputs["city"]
    if city == "nowhere":
        raise ValueError("no such city")
    return {"typed": '{"city": "Rome", "size": 3}', "single": '{"city": "Rome"}', "broken": '{"city": '}.get(city, city)


def run_map(cities: list[Any], **more: Any) -> tuple[TimelineMessages, dict[str, list[Any]]]:
    """A map of these cities under two variants; its messages, and the cells of its rows by name."""
    team = Ensemble(
        tasks=[Task(name="say", description="Say {city} {style}", handler=answer)],
        inputs={"style": "plainly"},
        capture_mode=more.pop("capture_mode", CaptureMode.STANDARD),
    )
    rows = [{"city": city, **more} for city in cities]
    result = team.variants({"terse": {"style": "a"}, "long": {"style": "b"}}).map(rows)
    fold = TraceFold.from_events(result._last_output.events)
    messages = TimelineMessages(fold)
    names = {row["span_id"]: row["name"] for row in messages.make_snapshot()["rows"] if "line" in row}
    return messages, {names[cell[0]]: cell[1:] for cell in messages.make_cells(names)["cells"]}


def test_w152_each_row_says_which_line_and_variant_it_is():
    messages, _ = run_map(["Paris", "Rome"])
    snapshot = messages.make_snapshot()
    places = [(row["name"], row["line"], row["variant"]) for row in snapshot["rows"] if "line" in row]
    assert places == [
        ("terse/row 0", 0, "terse"),
        ("terse/row 1", 1, "terse"),
        ("long/row 0", 0, "long"),
        ("long/row 1", 1, "long"),
    ]
    assert snapshot["run"]["row_inputs"] == ["city"]  # and not the style, by which the variants differ


@pytest.mark.parametrize(
    "city, words",
    [
        ("Paris\n\n  at night", "Paris at night"),
        ("typed", "city: Rome · size: 3"),
        ("single", "Rome"),
        ("broken", '{"city":'),
        ("x" * 2_000_000, "x" * LONGEST_ANSWER + "…"),
        (f"the key {KEY}", "the key ***"),
        ("nowhere", None),
    ],
)
def test_w153_a_cell_has_the_first_words_of_the_answer_or_the_fields_of_a_typed_one(city: str, words: str | None):
    _, cells = run_map([city])
    assert cells["terse/row 0"][0] == words
    assert cells["terse/row 0"][1] == cells["long/row 0"][1]


def test_w153_answers_that_differ_far_behind_are_told_apart():
    _, cells = run_map(["x" * 1000 + "a", "x" * 1000 + "b"])
    (one, digest, _), (other, other_digest, _) = cells["terse/row 0"], cells["terse/row 1"]
    assert one == other
    assert digest != other_digest


def test_w153_inputs_are_values_that_can_be_put_in_order_and_cut_texts():
    wide = {"n": 3, "big": 2**80, "gap": float("nan"), "yes": True, "tags": ["a", "b"], "api_key": "hunter2hunter2"}
    messages, cells = run_map(["Paris"], **wide, long="y" * 1_000_000, image=b"\x89PNG" * 1000)
    given = dict(zip(messages.make_snapshot()["run"]["row_inputs"], cells["terse/row 0"][2], strict=True))
    assert {name: given[name] for name in wide} == {
        "n": 3,
        "big": str(2**80),
        "gap": None,
        "yes": True,
        "tags": '["a", "b"]',
        "api_key": "***",
    }
    assert given["long"] == "y" * LONGEST_INPUT + "…"
    assert len(given["image"]) <= LONGEST_INPUT + 1
    assert json.loads(json.dumps(cells, allow_nan=False)) == cells


def test_w153_without_texts_neither_inputs_nor_answers_are_told():
    messages, cells = run_map(["Paris"], capture_mode=CaptureMode.METADATA)
    assert messages.make_snapshot()["run"]["row_inputs"] == []
    assert {(cell[0], *cell[2]) for cell in cells.values()} == {(None,)}


def test_w153_a_feed_answers_a_page_and_nothing_that_is_none():
    messages, cells = run_map(["Paris", "Rome"])
    sent: list[Any] = []

    class View:
        def send(self, content: Any, buffers: Any = None, /) -> None:
            sent.append(content)

    feed, view = RunFeed(messages), View()
    known = [row["span_id"] for row in messages.make_snapshot()["rows"] if "line" in row]
    feed.receive(view, {"kind": "cells", "span_ids": [*known, "gone"]})
    assert [each[1:] for each in sent.pop()["cells"]] == [*cells.values()]
    for wrong in ("none", [7], [None], None):
        feed.receive(view, {"kind": "cells", "span_ids": wrong})
    assert sent == []
    feed.receive(view, {"kind": "cells", "span_ids": known[:1] * (MOST_CELLS + 5)})
    assert len(sent.pop()["cells"]) == MOST_CELLS


def test_w153_a_saved_view_keeps_short_cells_as_far_as_there_is_room():
    messages, _ = run_map([f"city {number} " + "z" * 500 for number in range(120)])
    saved = messages.make_saved_view(60_000)
    assert len(json.dumps(saved)) <= 60_000
    assert 10 < len(saved["cells"]) < 240
    assert all(len(cell[1]) <= LONGEST_ANSWER / 2 for cell in saved["cells"])
    assert "cells" not in TimelineMessages(TraceFold()).make_saved_view()
