"""The remembered runs as a person looks for one: which it was, how it ended, when, what it took, what it was given."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

import pandas as pd

from ensemble_notebook.domain.wording import UNKNOWN, format_count, format_duration, format_money
from ensemble_notebook.notebook.picture.shown_table import Row, ShownColumn, ShownTable
from ensemble_notebook.trace.store.run_table import REMEMBERED_RUNS

SHORT_ID: Final = 8
"""Characters of an id: enough to name a run by."""


def _write_time(row: Row) -> str:
    began = row["start_time"]
    return UNKNOWN if began is None else f"{pd.Timestamp(began):%Y-%m-%d %H:%M:%S}"


def _write_tasks(row: Row) -> str:
    return UNKNOWN if row["tasks"] is None else f"{row['tasks_done']}/{row['tasks']}"


def _write_tokens(row: Row) -> str:
    known = [row[name] for name in ("input_tokens", "output_tokens") if row[name] is not None]
    return format_count(sum(known) if known else None)


def _write_inputs(row: Row) -> str:
    return ", ".join(f"{name}: {value}" for name, value in (row["inputs"] or {}).items())


def _write_place(row: Row) -> str:
    resumed = None if row["resumed_from"] is None else f"resumes {row['resumed_from'][:SHORT_ID]}"
    notebook = None if row["notebook"] is None else PurePath(row["notebook"]).name
    place = " ".join(each for each in (notebook, row["cell"]) if each is not None)
    return " · ".join(each for each in (place, resumed) if each)


class RunsTable(ShownTable):
    """The remembered runs, newest first, as `REMEMBERED_RUNS` has them."""

    made_of = tuple(each.name for each in REMEMBERED_RUNS.columns)
    nothing = "No run is remembered yet. Each run of a cell, or of ensemble.run, is from now on."
    shown = (
        ShownColumn("run", lambda row: row["run_id"][:SHORT_ID]),
        ShownColumn("name", lambda row: row["name"] or UNKNOWN),
        ShownColumn("status", lambda row: row["status"].replace("_", " ")),
        ShownColumn("began (UTC)", _write_time),
        ShownColumn("tasks", _write_tasks, is_number=True),
        ShownColumn("time", lambda row: format_duration(row["wall_ms"]), is_number=True),
        ShownColumn("tokens", _write_tokens, is_number=True),
        ShownColumn("cost", lambda row: format_money(row["cost"], row["currency"]), is_number=True),
        ShownColumn("inputs", _write_inputs),
        ShownColumn("from", _write_place, is_faint=True),
    )
