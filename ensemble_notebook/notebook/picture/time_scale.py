"""Where on its axis the times of a run are: startups in which nothing else went on are folded, as in a view (W8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ensemble_notebook.trace.analysis.timeseries import Interval, list_startup_times, list_times
from ensemble_notebook.trace.spans.span_kinds import SpanKind

if TYPE_CHECKING:
    from ensemble_notebook.trace.folding.trace_fold import TraceFold

FOLD: Final = 104.0
"""Pixels of what is folded: as many as its words need. It would take at least twice as many."""


@dataclass(frozen=True, slots=True)
class TimeScale:
    """An axis from 0 to `end`, in milliseconds, on `width` pixels.

    Attributes:
        folds: from when to when it is folded, in order.
    """

    end: float
    width: float
    folds: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, fold: TraceFold, end: float, width: float) -> Self:
        """That of a run up to `end`."""
        asked = [each for span in fold.spans.values() if span.kind is SpanKind.REVIEW for each in list_times(span, end)]
        idle = (
            (start, stop)
            for start, stop in list_startup_times(fold)
            if (stop - start) / end * width > 2 * FOLD
            and not any(began < stop and ended > start for began, ended in asked)
        )
        folds = tuple(idle)
        is_all = end - sum(stop - start for start, stop in folds) < 1
        return cls(end, width, () if is_all else folds)

    def find_x(self, at: float) -> float:
        """How many pixels from the left a time is; those before and after the run are at the ends."""
        at = min(max(at, 0.0), self.end)
        x, left_ms, all_ms = 0.0, at, self.end
        for start, stop in self.folds:
            gone = min(max(at - start, 0.0), stop - start)
            x += FOLD * gone / (stop - start)
            left_ms -= gone
            all_ms -= stop - start
        return x + (self.width - FOLD * len(self.folds)) * left_ms / all_ms
