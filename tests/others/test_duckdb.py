"""Exported tables in DuckDB and polars."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.others.venv import Venv

_EXPORT: Final = """
from ensemble_notebook import Ensemble
team = Ensemble.from_yaml("llm: scripted\\ntasks: ['hello {name}']\\n", {})
team.run(name="Ann").export("run.parquet")
team.map([{"name": "Ann"}, {"name": "Bo"}]).export("rows.parquet")
"""
_SUBTRACT: Final = """
import duckdb, json
print(json.dumps(duckdb.sql('''
    select kind, epoch_ms(max(end_time) - min(start_time)) as lasted, round(max(duration_ms))::bigint as told
    from 'run.parquet' where kind = 'run' group by kind''').fetchall()))
"""


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
