"""The frames of several runs as one (T24)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from ensemble_notebook.domain.outputs.score import ScoreRecord
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.tables.table import (
    FrameProperty,
    Table,
    TableColumns,
    document_table,
    join_values,
    list_frames,
)

if TYPE_CHECKING:
    import pandas as pd


FRAMES: Final = list_frames(Frames)
TABLES: Final[Mapping[str, Table]] = {name: each.table for name, each in FRAMES.items()}
"""The tables of the frames by their names."""


class RunTables(Protocol):
    """The tables of one run, wherever they come from."""

    def count_rows(self, name: str) -> int | None:
        """How many rows a table has; None where that can't be told at once."""

    def read_columns(self, name: str) -> TableColumns:
        """The rows of a table, column by column."""

    def timeseries(self, dt: float | timedelta | None) -> pd.DataFrame:
        """As `Frames.timeseries`."""

    def load_trace(self) -> ExecutionTrace:
        """The trace of the run."""

    def with_scores(self, scores: Iterable[ScoreRecord]) -> RunTables:
        """The same with more scores."""


class FoldedTables:
    """The tables of a run that is in memory, as `RunTables`."""

    def __init__(self, trace: ExecutionTrace) -> None:
        self._trace, self._frames = trace, trace.frames

    def count_rows(self, name: str) -> int:
        return FRAMES[name].count_rows(self._frames)

    def read_columns(self, name: str) -> TableColumns:
        return FRAMES[name].read_columns(self._frames)

    def timeseries(self, dt: float | timedelta | None) -> pd.DataFrame:
        return self._frames.timeseries(dt)

    def load_trace(self) -> ExecutionTrace:
        return self._trace

    def with_scores(self, scores: Iterable[ScoreRecord]) -> FoldedTables:
        return FoldedTables(self._trace._with_scores(scores))


class JoinedFrames(Frames):
    """The frames of several runs: the same tables, run after run, each with the column `run_id`.

    Ids of spans are unique across runs. Names and numbers of messages and events are those of their run.

    Args:
        parts: the tables of each run, by its id.
    """

    def __init__(self, parts: Mapping[str, RunTables]) -> None:
        self._parts = dict(parts)

    def make_frame(self, frame: FrameProperty) -> pd.DataFrame:
        """The frame of the rows of all runs, with `run_id` as a column."""
        tables = {run_id: each.read_columns(frame.name) for run_id, each in self._parts.items()}
        made = frame.table.join([*tables.values()])
        if frame.finish is None and "run_id" not in [each.name for each in frame.table.all_columns]:
            made["run_id"] = join_values([(each.count, [run_id]) for run_id, each in tables.items()], "category")
        return made

    def load_trace(self, run_id: str) -> ExecutionTrace:
        """The trace of one of the runs.

        Args:
            run_id: of the run.

        Raises:
            ValidationError: it is none of these; names the nearest.
            StoreError: it is gone, or damaged.
        """
        if run_id not in self._parts:
            raise ValidationError(f"No run {run_id!r} is among these.{did_you_mean(str(run_id), self._parts)}")
        return self._parts[run_id].load_trace()

    def count_rows(self) -> dict[str, int | None]:
        """How many rows each frame has or will have, by its name; None where that is not known before it is made."""
        counts = {name: [each.count_rows(name) for each in self._parts.values()] for name in TABLES}
        return {name: None if None in each else sum(filter(None, each)) for name, each in counts.items()}

    def describe(self) -> str:
        """How many runs and spans there are, and from when to when, in one line."""
        if not self._parts:
            return "No runs."
        spans = self.count_rows()["spans"] or 0
        begun, ended = self.runs.start_time.min(), self.runs[["start_time", "end_time"]].max().max()
        counts = f"{pluralize(len(self._parts), 'run')}, {pluralize(spans, 'span')}"
        return f"{counts}, {begun:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} UTC"

    def __repr__(self) -> str:
        """What there is, and the names of the frames."""
        return f"{self.describe()}\nframes: {', '.join(TABLES)}, timeseries(dt)"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("frames", self)

    @document_table(TIMESERIES)
    def timeseries(self, dt: float | timedelta | None = None) -> pd.DataFrame:
        """Each run over time, from its own start, in bins of length `dt`; see `Frames.timeseries`."""
        import pandas as pd

        made = {run_id: each.timeseries(dt) for run_id, each in self._parts.items()}
        if not made:
            return TIMESERIES.to_frame([])
        return pd.concat(made, names=["run_id"]).reset_index("run_id")
