"""Runs with scores, made without a run: for tests of what is said of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.evaluation.comparison import Comparison, compare_sides
from ensemble_notebook.evaluation.scored_runs import Ending, Failed, ScoredRun, ask

WHEN: Final = datetime(2026, 11, 24, tzinfo=UTC)
FAILED: Final = Ending.FAILED
CUT: Final = Ending.INCOMPLETE
NOTHING: Final = None


def make_record(value: Any, name: str = "accuracy", **facts: Any) -> ScoreRecord:
    """A score: a bool passes or fails, a number is one, a text is a label, None is no opinion."""
    measure: dict[str, Any] = {"label": value} if isinstance(value, str) else {} if value is None else {"value": value}
    if isinstance(value, bool | np.bool_):
        measure = {"passed": bool(value), "value": float(value)}
    return ScoreRecord(**{"name": name, "kind": ScoreKind.CODE, "scored_at": WHEN, "run_id": "r", **measure, **facts})


def make_runs(
    values: Sequence[Any] | npt.NDArray[Any],
    *,
    name: str = "accuracy",
    cost: float | None = None,
    start: int = 0,
    active_ms: float | None = None,
    **facts: Any,
) -> list[ScoredRun]:
    """Runs of one variant.

    Args:
        values: of each row, or a list of those of its repeats; an `Ending` where it has none.
        name: of the score.
        cost: of each run.
        start: number of the first row.
        active_ms: of each run.
        facts: of the records.
    """
    runs = []
    for row, given in enumerate(values, start):
        for repeat, value in enumerate(given if isinstance(given, list | np.ndarray) else [given], 1):
            is_ending = isinstance(value, Ending)
            scores: Mapping[str, ScoreRecord] = {} if is_ending else {name: make_record(value, name, **facts)}
            ending = value if isinstance(value, Ending) else Ending.DONE
            runs.append(
                ScoredRun(
                    variant="",
                    row=row,
                    repeat=repeat,
                    ending=ending,
                    scores=scores,
                    cost=cost,
                    active_ms=active_ms,
                )
            )
    return runs


def compare(
    a: Sequence[ScoredRun],
    b: Sequence[ScoredRun],
    *,
    score: str | None = None,
    is_: str | None = None,
    failed: Failed = None,
    detect: float | None = None,
    names: tuple[str, str] = ("tersely", "kindly"),
) -> Comparison:
    """The verdict on two sides."""
    question = ask([*a, *b], score, is_, failed)
    pair = compare_sides((names[0], a), (names[1], b), question, currency="USD")
    return Comparison([pair], detect)
