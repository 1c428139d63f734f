"""V1, V15: rows of files are as they are written there, and files of rows have every digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import Ensemble, Task, TaskInput, ValidationError
from ensemble_notebook.ensemble.many_runs.rows import read_rows
from ensemble_notebook.trace.row_files import read_row_file

BIG = 9007199254740993


def read(path: Path, text: str) -> list[dict[str, Any]]:
    path.write_text(text, encoding="utf-8")
    return [dict(row.values) for row in read_rows(read_row_file(path)).rows]


def is_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Whether the values are equal, and of one class: 1 is not 1.0."""
    kinds = [[[type(each) for each in row.values()] for row in rows] for rows in (found, wanted)]
    return found == wanted and kinds[0] == kinds[1]


@pytest.mark.parametrize(
    "text, rows",
    [
        ('{"id": 1}\n{"id": null}\n', [{"id": 1}, {"id": None}]),
        (f'{{"id": {BIG}}}\n{{"id": null}}', [{"id": BIG}, {"id": None}]),
        ('{"id": 123456789012345678901234567890}\n', [{"id": 123456789012345678901234567890}]),
        ('\ufeff{"id": 1}\n', [{"id": 1}]),
        ('{"id": 1}\n\n  \n{"word": "tea"}\r\n', [{"id": 1, "word": None}, {"id": None, "word": "tea"}]),
        ('{"id": 1}\n{"id": 2.5}\n', [{"id": 1}, {"id": 2.5}]),
        ('{"sure": true}\n{"sure": null}\n', [{"sure": True}, {"sure": None}]),
        ('{"id": "00123", "date": "2024-01-01"}\n', [{"id": "00123", "date": "2024-01-01"}]),
        (
            '{"deep": {"id": 1, "gap": null}, "many": [1, null]}\n',
            [{"deep": {"id": 1, "gap": None}, "many": [1, None]}],
        ),
        ('{"small": 0.12345678901234568}\n', [{"small": 0.12345678901234568}]),
        ('{"word": "a\u2028b"}\n', [{"word": "a\u2028b"}]),
        ("", []),
    ],
)
def test_v1_rows_of_jsonl_are_as_they_are_written(tmp_path: Path, text: str, rows: list[dict[str, Any]]) -> None:
    assert is_same(read(tmp_path / "rows.jsonl", text), rows)


@pytest.mark.parametrize(
    "text, rows",
    [
        ("id,word\n1,tea\n,rye\n", [{"id": 1, "word": "tea"}, {"id": None, "word": "rye"}]),
        (f"id,word\n{BIG},tea\n,rye\n", [{"id": BIG, "word": "tea"}, {"id": None, "word": "rye"}]),
        (f"id,word\n-{2**70},tea\n,rye\n", [{"id": -(2**70), "word": "tea"}, {"id": None, "word": "rye"}]),
        ("\ufeffid,word\n0, 5\n,\n", [{"id": 0, "word": 5}, {"id": None, "word": None}]),
        ("id,word\n007,1\n,\n", [{"id": "007", "word": 1}, {"id": None, "word": None}]),
        ("id,word\n1.5,1\n,2\n", [{"id": 1.5, "word": 1}, {"id": None, "word": 2}]),
    ],
)
def test_v1_whole_numbers_of_csv_stay_whole_beside_gaps(tmp_path: Path, text: str, rows: list[dict[str, Any]]) -> None:
    assert is_same(read(tmp_path / "rows.csv", text), rows)


def test_v1_whole_numbers_of_parquet_stay_whole_beside_gaps(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"id": [BIG, None], "deep": [{"id": 1}, {"id": None}]}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    found = [dict(row.values) for row in read_rows(read_row_file(tmp_path / "rows.parquet")).rows]
    assert is_same(found, [{"id": BIG, "deep": {"id": 1}}, {"id": None, "deep": {"id": None}}])
    assert type(found[0]["deep"]["id"]) is int


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"id": 1}\n[1]\n', r"line 2 is no JSON object, such as \{\"topic\": \"tides\"\}"),
        ('{"id": 1}\n{"id":\n', "line 2: Expecting value"),
        ('{"id": 1}{"id": 2}\n', "line 1: Extra data"),
        ('{"id": 1, "id": 2}\n', "line 1: the name 'id' stands twice"),
        ("[" * 500 + "]" * 500, "line 1: it is nested too deeply"),
    ],
)
def test_v1_a_line_of_jsonl_that_is_no_row_is_told_with_its_number(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        read(tmp_path / "rows.jsonl", text)


def test_v15_what_is_exported_has_every_digit_and_is_read_back(tmp_path: Path) -> None:
    def weigh(given: TaskInput) -> dict[str, Any]:
        return {"share": 0.12345678901234568, "count": 2**60 + 1}

    task = Task.of("Weigh {id}", output_type={"share": "float", "count": "int"}, handler=weigh)
    result = Ensemble(tasks=[task]).map([{"id": BIG}, {"id": None}])
    assert result.frame["id"].tolist()[0] == BIG
    for ending in ("jsonl", "csv", "parquet"):
        found = read_row_file(result.export(tmp_path / f"rows.{ending}"))
        assert found["input_id"].tolist()[0] == BIG
        assert found["output_count"].tolist() == [2**60 + 1] * 2
        assert found["output_share"].tolist() == [0.12345678901234568] * 2
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert list(lines[0]) == list(pd.read_csv(tmp_path / "rows.csv").columns)
    assert (lines[1]["input_id"], lines[1]["error"]) == (None, None)


LONG = "0.12345678901234567891"


@pytest.mark.parametrize(
    "name, text",
    [
        ("rows.csv", f"x,y\n{LONG},1.5\n2.5,\n"),
        ("rows.csv", f"x,y\n{LONG},1.5\n,2\n123456789012345678901234567890,2\n"),
        ("rows.jsonl", f'{{"x": {LONG}, "y": 1.5}}\n{{"x": 2.5}}\n'),
    ],
)
def test_v1_numbers_with_more_digits_than_a_float_are_sent_as_they_are_written(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    rows = read_row_file(path)
    assert str(rows["x"].dropna().iloc[0]) == LONG
    result = Ensemble(tasks=[Task.of("Say {x} and {y}", llm="scripted")]).map(rows.dropna())
    assert result[0].output is not None
    assert f"Say {LONG} and 1.5" in result[0].output.raw
