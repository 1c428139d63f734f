"""E47: times and gaps of pandas inside dicts and lists are ISO texts and null; what JSON has no form for is told."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    Reply,
    ScriptedChatModel,
    Task,
    TaskExecutionError,
    ToolCallCompleted,
    ToolResult,
    ToolUse,
    ValidationError,
)

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
    (
        {"at": np.datetime64(TIME, "ns"), "all": pd.Series([TIME, pd.NaT]).to_numpy(), "is": np.True_},
        {"at": "2024-01-02T03:04:05", "all": ["2024-01-02T03:04:05", None], "is": True},
    ),
    (
        [pd.Timedelta("1h"), dt.timedelta(hours=1), np.timedelta64(1, "h"), np.timedelta64(3600 * 10**9, "ns")],
        ["PT1H"] * 4,
    ),
    ({"days": {TIME}}, {"days": ["2024-01-02T03:04:05"]}),
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
    assert not any(name in json.dumps(kept) for name in ("NaT", "<NA>", "Timestamp(", "np."))
    assert output.export(tmp_path / "run.html").stat().st_size > 0


UNWRITABLE = [
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
    ({"deep": [b"abc"]}, r"it has, at deep\[0\], bytes \(3 bytes\), which no prompt can hold"),
]


@pytest.mark.parametrize("given, words", UNWRITABLE)
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


def export(output: EnsembleOutput, folder: Path) -> list[Any]:
    """The events of a run that is written to a file, which can be read."""
    assert output.export(folder / "run.html").stat().st_size > 0
    return list(json.loads(output.export(folder / "run.trace.json").read_text())["events"])


@pytest.mark.parametrize("given, words", UNWRITABLE)
def test_a_handler_may_give_it_and_who_reads_it_is_told_e47(given: Any, words: str, tmp_path: Path) -> None:
    give = Task.of("Give", name="give", handler=lambda task: given)
    output = Ensemble(tasks=[give]).run()
    assert output["give"].parsed_output is given
    (kept,) = [each["output"] for each in export(output, tmp_path) if each["type"] == "TaskCompleted"]
    assert kept["raw"] == str(given)
    assert "parsedOutput" in kept
    with pytest.raises(TaskExecutionError, match=rf"The output of task 'give' {words.removeprefix('it ')}"):
        Ensemble(tasks=[give, Task.of("Say", context=["give"])], llm="scripted").run()


@pytest.mark.parametrize("given, words", UNWRITABLE)
@pytest.mark.parametrize("has_text", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_model_is_told_why_it_can_not_read_what_a_tool_gave_e47(
    given: Any, words: str, has_text: bool, is_stored: bool, tmp_path: Path
) -> None:
    def look() -> Any:
        """Look."""
        return ToolResult.ok("a text", given) if has_text else given

    llm = ScriptedChatModel(replies=[ToolUse("look", {}), Reply("done")])
    ensemble = Ensemble(tasks=[Task.of("Look", agent=Agent(role="Clerk", goal="Look", tools=[look], llm=llm))])
    output = ensemble.run(record=tmp_path / "look.json") if is_stored else ensemble.run()
    (call,) = [each for each in output.events if isinstance(each, ToolCallCompleted)]
    if has_text:
        assert (call.result, output.raw) == ("a text", "done")
    else:
        assert re.match(rf"Error: the result of tool 'look' can't be shown: {words}", call.result)
    export(output, tmp_path)


def test_inputs_that_handlers_alone_use_are_shown_as_prompts_have_them_e47(tmp_path: Path) -> None:
    task = Task.of("Do", handler=lambda task: "done")
    output = Ensemble(tasks=[task]).run({"rows": RECORDS, "one": {"n": 1}, "text": "x", "ring": HOLDING, "n": 2})
    kept = json.loads(output.export(tmp_path / "run.trace.json").read_text())["inputs"]
    assert kept == {
        "rows": json.dumps(DATA[0][1]),
        "one": '{"n": 1}',
        "text": "x",
        "ring": str(HOLDING),
        "n": "2",
    }


@pytest.mark.parametrize("given", [pd.Timedelta("1h"), dt.timedelta(hours=1), np.timedelta64(1, "h")])
def test_a_duration_alone_is_the_same_text_from_everywhere_e47(given: Any) -> None:
    assert Ensemble(tasks=[Task.of("Do", handler=lambda task: given)]).run().raw == "1:00:00"
    assert "Say 1:00:00\n" in Ensemble(tasks=[Task.of("Say {x}", llm="scripted")]).run({"x": given}).raw
