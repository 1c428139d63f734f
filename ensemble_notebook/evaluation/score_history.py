"""A score over the maps of a store or of files, in order of time: has it become better since last week?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import DONE, RunStatus
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.errors import BudgetExceededError, Pickled, make_readable
from ensemble_notebook.evaluation.scored_runs import (
    LEAVE_OUT,
    Failed,
    Question,
    ScoredRun,
    Side,
    ask,
    find_ending,
    make_side,
    name_scores,
    shorten_names,
)
from ensemble_notebook.evaluation.summary import SideSummary, describe_side, summarize_side
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame
    from ensemble_notebook.trace.loading import JoinedFrames


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """One map, or one variant of it.

    Attributes:
        map_run_id: of the map.
        name: of its ensemble; None where it has none.
        start_time: when it began, UTC.
        summary: what its score comes to.
    """

    map_run_id: str
    name: str | None
    start_time: datetime
    summary: SideSummary


HISTORY: Final = Table(
    "map that has the score, and variant, in order of time",
    None,
    (
        Column("map_run_id", "string", "of the map", is_nullable=False),
        Column("name", "category", "of its ensemble"),
        Column("start_time", UTC_TIME, "when it began", is_nullable=False),
        Column("variant", "category", "its name", lambda each: each.summary.variant or None),
        Column("rows", "Int64", "that count", "summary.rows", is_nullable=False),
        Column("failed", "Int64", "runs that failed", "summary.failed", is_nullable=False),
        Column("mean", "Float64", "over rows", "summary.mean"),
        Column("low", "Float64", "end of its interval", lambda each: (each.summary.interval or [None])[0]),
        Column("high", "Float64", "the other end", lambda each: (each.summary.interval or [None])[-1]),
    ),
)


class ScoreHistory(Pickled):
    """A score over maps.

    Attributes:
        question: which score.
        points: in order of time.
    """

    def __init__(self, question: Question, points: Sequence[HistoryPoint]) -> None:
        self.question = question
        self.points: tuple[HistoryPoint, ...] = tuple(points)

    @cached_property
    def frame(self) -> RowFrame:
        """A row for each map and variant: when it was, rows, mean and interval."""
        return HISTORY.to_frame(self.points)

    def describe_point(self, point: HistoryPoint) -> str:
        """A map in a line."""
        name = f" {point.name}" if point.name else ""
        return make_readable(
            f"{point.start_time.astimezone():%Y-%m-%d %H:%M}{name} {point.map_run_id[:8]}: "
            f"{describe_side(point.summary, self.question)}"
        )

    def __repr__(self) -> str:
        """A line for each."""
        return "\n".join(map(self.describe_point, self.points))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("score_history", self)


def make_score_history(
    frames: JoinedFrames, score: str, is_: str | None = None, failed: Failed = LEAVE_OUT
) -> ScoreHistory:
    """A score of all maps that have it.

    Args:
        frames: of the maps.
        score: its name.
        is_: the label that counts, of a score that gives labels.
        failed: what a row that failed counts as where the score is a number.

    Raises:
        ValidationError: no map has such a score, or it is of several kinds.
    """
    records = name_scores(
        ScoreRecord(
            name=each["name"],
            kind=ScoreKind(each["kind"]),
            scored_at=each["scored_at"],
            run_id=each["run_id"],
            span_id=each["span_id"],
            passed=None if each["passed"] is None else bool(each["passed"]),
            value=each["value"],
            label=each["label"],
            scorer=each["scorer"],
            pair_of=each["pair_of"],
            against=each["against"],
        )
        for each in _list_records(frames.scores)
    )
    maps: dict[str, dict[str, list[ScoredRun]]] = defaultdict(lambda: defaultdict(list))
    for each in _list_records(frames.rows):
        is_unpaid = each["error_type"] == BudgetExceededError.__name__
        is_failed = each["status"] == RunStatus.FAILED.value and not is_unpaid
        run = ScoredRun(
            variant=each["variant"] or "",
            row=each["row"],
            repeat=int(each["repeat"] or 1),
            ending=find_ending(each["status"], is_done=each["status"] in DONE, is_failed=is_failed),
            scores=records.get(each["run_id"] or "", {}),
            cost=each["cost"],
            active_ms=each["active_ms"],
        )
        maps[each["map_run_id"]][run.variant].append(run)
    names = list(dict.fromkeys(variant for sides in maps.values() for variant in sides if variant))
    short = {"": "", **dict(zip(names, shorten_names(names), strict=True))}
    runs = [run for sides in maps.values() for side in sides.values() for run in side]
    question = ask(runs, score, is_, failed)
    began = frames.runs.start_time.to_dict()
    called = frames.runs.name.astype(object).to_dict()
    points = [
        HistoryPoint(
            map_run_id=map_run_id,
            name=name if isinstance(name := called.get(map_run_id), str) else None,
            start_time=began[map_run_id].to_pydatetime(),
            summary=_summarize(make_side(short[variant], side, question), question),
        )
        for map_run_id, sides in maps.items()
        if any(question.score in run.scores for side in sides.values() for run in side)
        for variant, side in sides.items()
    ]
    return ScoreHistory(question, sorted(points, key=lambda each: each.start_time))


def _summarize(side: Side, question: Question) -> SideSummary:
    """What a variant comes to; a map that ended early, when it was clear, has none of the usual intervals (V60)."""
    found = summarize_side(side, question)
    return replace(found, interval=None) if side.settled else found


def _list_records(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame; what is unknown is None."""
    plain = frame.reset_index().astype(object)
    rows: list[dict[str, Any]] = plain.where(plain.notna(), None).to_dict("records")
    return [
        {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
        for row in rows
    ]
