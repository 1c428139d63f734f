"""E47: times and gaps of pandas inside dicts and lists are ISO texts and null; what JSON has no form for is told."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ensemble_notebook import Ensemble, Task, ValidationError

TIME = pd.Timestamp("2024-01-02 03:04:05")
RECORDS = pd.DataFrame({"t": [TIME, pd.NaT], "n": pd.array([1, None], dtype="Int64"), "f": [1.5, None]}).to_dict(
    "records"
)
HOLDING: dict[str, Any] = {"deep": []}
HOLDING["deep"].append(HOLDING)

DATA = [
    (RECORDS, [{"t": "2024-01-02T03:04:05", "n": 1, "f": 1.5}, {"t": None, "n": None, "f": None}]),
    ({"gap": pd.NA, "deep": [pd.NaT, float("nan")]}, {"gap": None, "deep": [None, None]}),
    (
        {"day": dt.date(2024, 1, 2), "at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC)},
        {"day": "2024-01-02", "at": "2024-01-02T00:00:00+00:00"},
    ),
    (
        {"n": np.int64(3), "many": np.array([1, 2]), "at": np.datetime64("2024-01-02")},
        {"n": 3, "many": [1, 2], "at": "2024-01-02"},
    ),
]


@pytest.mark.parametrize("given, wanted", DATA)
@pytest.mark.parametrize("door", ["input", "map", "handler"])
def test_times_and_gaps_are_iso_texts_and_null_e47(given: Any, wanted: Any, door: str, tmp_path: Path) -> None:
    say = Task.of("Say {x}", name="say", llm="scripted")
    if door == "handler":
        given_by = Task.of("Give", name="give", handler=lambda task: given)
        output: Any = Ensemble(tasks=[given_by, Task.of("Say", name="say", context=["give"])], llm="scripted").run()
    elif door == "input":
        output = Ensemble(tasks=[say]).run({"x": given})
    else:
        result = Ensemble(tasks=[say]).map([{"x": given}])
        assert len(result.frame) == 1
        for ending in ("csv", "jsonl", "parquet"):
            result.export(tmp_path / f"rows.{ending}")
        output = result[0].output
    assert json.dumps(wanted) in output.raw
    kept = json.loads(output.export(tmp_path / "run.trace.json").read_text())
    assert door != "handler" or "NaT" not in json.dumps(kept)  # of an input, views have what Python calls it
    assert output.export(tmp_path / "run.html").stat().st_size > 0


@pytest.mark.parametrize(
    "given, words",
    [
        (
            {"deep": [pd.DataFrame({"a": [1]})]},
            r"it has a table at deep\[0\]\. Give the table by itself, or its records",
        ),
        ([pd.Series([1])], r"it has a table at \[0\]"),
        (HOLDING, r"it holds itself at deep\[0\], without an end"),
        (
            {"deep": {dt.date(2024, 1, 2): 1}},
            r"it has the key datetime\.date\(2024, 1, 2\) at deep, and keys in JSON are texts",
        ),
        ({TIME: 1}, r"it has the key Timestamp\('2024-01-02 03:04:05'\), and keys in JSON are texts"),
    ],
)
def test_what_json_has_no_form_for_is_told_with_its_place_e47(given: Any, words: str) -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {x}")], llm="scripted")
    with pytest.raises(ValidationError, match=rf"The input 'x' can't be written into a text: {words}"):
        ensemble.run({"x": given})
    with pytest.raises(ValidationError, match=rf"row 0: The input 'x' can't be written into a text: {words}"):
        ensemble.map([{"x": given}])


def test_such_inputs_of_handlers_are_handed_on_as_they_are_e47() -> None:
    table = {"df": pd.DataFrame({"a": [1, 2]})}
    task = Task.of("Count", handler=lambda task: str(len(task.inputs["x"]["df"])))
    assert Ensemble(tasks=[task]).run({"x": table}).raw == "2"
