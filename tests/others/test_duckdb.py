"""Exported tables in DuckDB and polars: what pyarrow writes has the same types there (T123)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.loading import TABLES
from ensemble_notebook.trace.tables.table import UTC_TIME
from tests.others.venv import Venv

_EXPORT: Final = """
from ensemble_notebook import Ensemble, load_traces
team = Ensemble.from_yaml("llm: scripted\\ntasks: ['hello {name}']\\n", {})
output = team.run(name="Ann")
output.export("run.parquet")
output.frames.to_parquet("one")
team.map([{"name": "Ann"}, {"name": "Bo"}]).export("rows.parquet")
load_traces(output.export("run.trace.json")).to_parquet("many")
load_traces([]).to_parquet("none")
"""
_SUBTRACT: Final = """
import duckdb, json
print(json.dumps(duckdb.sql('''
    select kind, epoch_ms(max(end_time) - min(start_time)) as lasted, round(max(duration_ms))::bigint as told
    from 'run.parquet' where kind = 'run' group by kind''').fetchall()))
"""
_DUCKDB_TYPES: Final = """
import duckdb, json, pathlib
files = sorted(pathlib.Path(".").glob("*.parquet"))
told = {each.stem: dict(row[:2] for row in duckdb.sql(f"describe from '{each}'").fetchall()) for each in files}
print(json.dumps(told))
"""
_POLARS_TYPES: Final = """
import json, pathlib, polars
told = {each.stem: polars.read_parquet(each).schema for each in sorted(pathlib.Path(".").glob("*.parquet"))}
print(json.dumps({name: {each: str(dtype) for each, dtype in told[name].items()} for name in told}))
"""
_TYPES: Final = {
    "string": ("VARCHAR", "String"),
    "category": ("VARCHAR", "Categorical"),
    "Int64": ("BIGINT", "Int64"),
    "Float64": ("DOUBLE", "Float64"),
    "boolean": ("BOOLEAN", "Boolean"),
    UTC_TIME: ("TIMESTAMP WITH TIME ZONE", "Datetime(time_unit='us', time_zone='UTC')"),
    "object": ("VARCHAR", "String"),
}
"""What a dtype is in DuckDB and in polars."""
_NAMES: Final = ("VARCHAR[]", "List(String)")
"""A list of names."""


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("duckdb", "duckdb", "polars", ours="[parquet]")


@pytest.fixture(scope="module")
def folder(venv: Venv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    venv.run("python", "-c", _EXPORT, cwd=folder)
    return folder


def test_duckdb_subtracts_instants_of_a_run(venv: Venv, folder: Path) -> None:
    ((kind, lasted, told),) = json.loads(venv.run("python", "-c", _SUBTRACT, cwd=folder))
    assert kind == "run"
    assert abs(lasted - told) <= 1


def test_duckdb_reads_rows_of_a_map(venv: Venv, folder: Path) -> None:
    asked = "import duckdb; print(duckdb.sql(\"select input_name from 'rows.parquet' order by row\").fetchall())"
    assert venv.run("python", "-c", asked, cwd=folder).strip() == "[('Ann',), ('Bo',)]"


def test_polars_subtracts_instants_of_a_run(venv: Venv, folder: Path) -> None:
    asked = "import polars as pl; t = pl.read_parquet('run.parquet'); print((t['end_time'] - t['start_time']).dtype)"
    assert venv.run("python", "-c", asked, cwd=folder).strip() == "Duration(time_unit='us')"


@pytest.mark.parametrize("place, asked", [(0, _DUCKDB_TYPES), (1, _POLARS_TYPES)], ids=("duckdb", "polars"))
@pytest.mark.parametrize("tables", ["one", "many", "none"])
def test_types_of_all_tables_are_those_of_the_frames(
    venv: Venv, folder: Path, tables: str, place: int, asked: str
) -> None:
    told = json.loads(venv.run("python", "-c", asked, cwd=folder / tables))
    expected = {
        name: {
            each.name: _NAMES[place] if each.is_list else _TYPES[each.dtype][place]
            for each in table.all_columns
            if not each.name.endswith("_NAME")  # columns of rows of a map, which these runs are not
        }
        for name, table in {**TABLES, "timeseries": TIMESERIES}.items()
    }
    if tables != "one":
        for types in expected.values():
            types.setdefault("run_id", _TYPES["category"][place])
    assert told == expected
