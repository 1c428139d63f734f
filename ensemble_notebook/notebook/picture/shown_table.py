"""A DataFrame that a person reads: one calm line for each row, with what is looked for first on the left.

The data has all columns, in their dtypes. What is made of it, by `head` or a query, shows itself as pandas does.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, Final

import pandas as pd

from ensemble_notebook.domain.definitions.enums import RunKind
from ensemble_notebook.domain.wording import (
    UNKNOWN,
    format_count,
    format_duration,
    format_moment,
    format_money,
    format_zone,
    pluralize,
)
from ensemble_notebook.errors import make_readable
from ensemble_notebook.notebook.picture.html_table import (
    FAINT,
    Bundle,
    Column,
    Line,
    make_bundle,
    tag,
    wrap,
    write_table,
)
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.loading import REMEMBERED_RUNS, TABLES, JoinedFrames
from ensemble_notebook.trace.spans.timeline_wording import name_status
from ensemble_notebook.trace.tables.table import Column as DataColumn
from ensemble_notebook.trace.tables.table import Table

LONGEST: Final = 48
"""Characters of a cell that is shortened."""
LONGEST_IN_A_NARROW_TERMINAL: Final = 20
"""The same where the lines would be longer than those of the terminal."""

_WRAPPED: Final = "white-space:normal;min-width:12em"

Row = Mapping[Hashable, Any]
"""The index and the columns by name; None is unknown."""


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column as a person sees it.

    Attributes:
        head: above it.
        write: makes the text of a row.
        add_on_page: what a page needs to be told behind that, where it may be read elsewhere.
        is_number: it stands on the right. is_faint: it is looked at last. is_whole: it is never shortened.
    """

    head: str
    write: Callable[[Row], str]
    is_number: bool = False
    is_faint: bool = False
    is_whole: bool = False
    add_on_page: Callable[[Row], str] | None = None

    @property
    def column(self) -> Column:
        """The same of a table in HTML."""
        return Column(self.head, self.is_number, self.is_faint, _WRAPPED if self.is_whole else "")

    def read(self, row: Row, longest: int = LONGEST, *, is_page: bool = False) -> str:
        """The text of a row, on one line."""
        added = self.add_on_page(row) if is_page and self.add_on_page else ""
        text = " ".join(make_readable(f"{self.write(row)} {added}").split())
        return text if self.is_whole or len(text) <= longest else f"{text[: longest - 1]}…"


class ShownTable(pd.DataFrame):
    """A frame with a look of its own, as long as its columns are those that it was made with.

    Attributes:
        made_of: names of the columns.
        shown: what is shown of them.
        nothing: what an empty one says.
    """

    made_of: ClassVar[tuple[str, ...]]
    shown: ClassVar[tuple[ShownColumn, ...]]
    nothing: ClassVar[str]

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        """Aligned lines below their heads; in a terminal no longer than its own, so that none of them wraps."""
        if not self._is_as_made:
            return repr(pd.DataFrame(self))
        if self.empty:
            return self.nothing
        room = shutil.get_terminal_size((sys.maxsize, 0)).columns
        columns = self._align_columns(LONGEST)
        if _measure(columns) > room:
            columns = self._align_columns(LONGEST_IN_A_NARROW_TERMINAL)
        while len(columns) > 1 and _measure(columns) > room and not self.shown[len(columns) - 1].is_whole:
            columns.pop()
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        missing = ", ".join(each.head for each in self.shown[len(columns) :])
        told = textwrap.wrap(f"and {missing}, which a wider terminal shows", room) if missing else []
        return "\n".join([*lines, *self._say_rest(), *told])

    def _align_columns(self, longest: int) -> list[list[str]]:
        """The columns, their heads first, each with texts of one length."""
        rows = [[each.head for each in self.shown], *self._read_cells(longest)]
        aligned = []
        for each, texts in zip(self.shown, zip(*rows, strict=True), strict=True):
            width = max(map(len, texts))
            aligned.append([text.rjust(width) if each.is_number else text.ljust(width) for text in texts])
        return aligned

    def _repr_html_(self) -> str | None:
        """The same as a table."""
        if not self._is_as_made:
            html: str | None = pd.DataFrame(self)._repr_html_()  # type: ignore[operator]
            return html
        if self.empty:
            return str(wrap(tag("div", self.nothing)))
        table = write_table(
            [each.column for each in self.shown], (Line(cells=each) for each in self._read_cells(is_page=True))
        )
        return str(wrap(table, *(tag("div", line, style=FAINT) for line in self._say_rest())))

    @property
    def _is_as_made(self) -> bool:
        return tuple(self.columns) == self.made_of

    @property
    def _most(self) -> int:
        """How many rows are shown: as many as pandas shows."""
        most = pd.get_option("display.max_rows")
        return len(self) if not most else min(most, len(self))

    def _read_cells(self, longest: int = LONGEST, *, is_page: bool = False) -> list[list[str]]:
        some = pd.DataFrame(self).iloc[: self._most].reset_index().astype(object)
        rows: list[dict[Hashable, Any]] = some.where(some.notna(), None).to_dict("records")
        return [[each.read(row, longest, is_page=is_page) for each in self.shown] for row in rows]

    def _say_rest(self) -> list[str]:
        left = len(self) - self._most
        return [f"and {pluralize(left, 'more row')}, which this DataFrame has, too"] if left else []


def _measure(columns: Sequence[Sequence[str]]) -> int:
    """How long a line of these columns is."""
    return sum(len(texts[0]) for texts in columns) + 2 * (len(columns) - 1)


# --- The remembered runs as a person looks for one: which it was, how it ended, when, what it took, what it was given -


SHORT_ID: Final = 8
"""Characters of an id: enough to name a run by."""


def _write_time(row: Row) -> str:
    began = row["start_time"]
    return UNKNOWN if began is None else format_moment(pd.Timestamp(began).to_pydatetime())


def _write_zone(row: Row) -> str:
    """A page is read by other clocks than that of the kernel, and does not know by which without a script."""
    began = row["start_time"]
    return "" if began is None else format_zone(pd.Timestamp(began).to_pydatetime())


def _write_tokens(row: Row) -> str:
    known = [row[name] for name in ("input_tokens", "output_tokens") if row[name] is not None]
    return format_count(sum(known) if known else None)


def _write_cost(row: Row) -> str:
    cost = format_money(row["cost"], row["currency"])
    total = None if row["resumed_from"] is None else row["total_cost"]
    return cost if total in (None, row["cost"]) else f"{cost} of {format_money(total, row['currency'])} in all"


def _write_run(row: Row) -> str:
    """What came of another run is behind it, and further in."""
    generation = row["generation"] or 0
    branch = f"└{'─' * (generation - 1)} " if generation else ""
    return f"{branch}{row['run_id'][:SHORT_ID]}"


def _write_place(row: Row) -> str:
    resumed = None if row["resumed_from"] is None else f"resumes {row['resumed_from'][:SHORT_ID]}"
    if row["forked_from_run"] is not None:
        verb = "calls again from" if row["kind"] == RunKind.RERUN else "forks"
        changed = f" ({', '.join(row['changed'])})" if row["changed"] else ""
        resumed = f"{verb} {row['forked_from_run'][:SHORT_ID]}{changed}"
    notebook = None if row["notebook"] is None else PurePath(row["notebook"]).name
    place = " ".join(each for each in (notebook, row["cell"]) if each is not None)
    return " · ".join(each for each in (place, resumed) if each)


class RunsTable(ShownTable):
    """The remembered runs, as `REMEMBERED_RUNS` has them: what came of a run stands behind it, and further in."""

    made_of = tuple(each.name for each in REMEMBERED_RUNS.columns)
    nothing = "No run is remembered yet. Each run of a cell, or of ensemble.run, is from now on."
    shown = (
        ShownColumn("run", _write_run),
        ShownColumn("name", lambda row: row["name"] or UNKNOWN),
        ShownColumn("status", lambda row: name_status(row["status"])),
        ShownColumn("began", _write_time, add_on_page=_write_zone),
        ShownColumn(
            "tasks",
            lambda row: UNKNOWN if row["tasks"] is None else f"{row['tasks_done']}/{row['tasks']}",
            is_number=True,
        ),
        ShownColumn("time", lambda row: format_duration(row["wall_ms"]), is_number=True),
        ShownColumn("tokens", _write_tokens, is_number=True),
        ShownColumn("cost", _write_cost, is_number=True),
        ShownColumn(
            "inputs", lambda row: ", ".join(f"{name}: {value}" for name, value in (row["inputs"] or {}).items())
        ),
        ShownColumn("from", _write_place, is_faint=True),
    )


MODELS: Final = Table(
    "form of a model spec",
    DataColumn("spec", "string", "as it is written", is_nullable=False),
    (
        DataColumn("is_ready", "boolean", "it could be used now", is_nullable=False),
        DataColumn("meaning", "string", "what answers", is_nullable=False),
        DataColumn("note", "string", "what it uses, or what is missing", is_nullable=False),
    ),
)


class ModelsTable(ShownTable):
    """What each form of spec comes to here, as `MODELS` has it."""

    made_of = tuple(each.name for each in MODELS.columns)
    nothing = "There is no form of spec."
    shown = (
        ShownColumn("spec", lambda row: str(row["spec"])),
        ShownColumn("ready", lambda row: "yes" if row["is_ready"] else "no"),
        ShownColumn("meaning", lambda row: str(row["meaning"]), is_whole=True),
        ShownColumn("note", lambda row: str(row["note"]), is_whole=True, is_faint=True),
    )


# --- The result of `load_traces` (T24): the number of runs, their times, and the frames -------------------------------


def make_frames_bundle(frames: JoinedFrames) -> Bundle:
    """The frames of many runs as plain text and as HTML: each with its number of rows and what a row is."""
    rows = [(name, count, TABLES[name]) for name, count in frames._count_rows().items()]
    columns = (Column("frame"), Column("rows", is_number=True), Column("one row per", is_faint=True, style=_WRAPPED))
    lines = [
        Line(cells=[tag("code", name), "" if count is None else f"{count:,}", table.short_grain])
        for name, count, table in [*rows, ("timeseries(dt)", None, TIMESERIES)]
    ]
    said = tag("div", tag("strong", frames.describe()))
    return make_bundle(repr(frames), wrap(said, write_table(columns, lines)))
