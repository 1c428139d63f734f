"""A gate (V13): whether something is shown, in one of three answers, of which only the first is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import make_readable
from ensemble_notebook.evaluation import statistics

SHOWN = "shown"
WORSE = "shown to be worse"
UNPAIRED = "unpaired"


@dataclass(frozen=True, slots=True)
class Gate:
    """An answer that reads as a boolean, so that ``assert`` in a test says why.

    Attributes:
        status: ``"shown"``, ``"not shown with 40 rows (about 120 would)"``, ``"shown to be worse"``, or, where the map
            did not come to its end, ``"not complete"``, where too many rows of two maps have no partner,
            ``"unpaired"``.
        because: what was found.
    """

    status: str
    because: str

    def __bool__(self) -> bool:
        """Whether it is shown."""
        return self.status == SHOWN

    def __repr__(self) -> str:
        """The answer, and what was found."""
        return make_readable(f"{self.status}: {self.because}")


def decide(
    *,
    mark: float,
    estimate: float | None,
    interval: statistics.Interval | None,
    rows: int,
    spread: float,
    least: Callable[[float], float],
    gaps: Sequence[str],
    because: str,
) -> Gate:
    """Decide.

    Args:
        mark: what is to be reached; more is better.
        estimate: what was found; None where there is nothing.
        interval: of it.
        rows: that it comes from.
        spread: standard deviation over rows.
        least: the rows that the interval needs at a distance from the mark, were there no spread at all.
        gaps: why nothing can be promised.
        because: what was found, in words.
    """
    if gaps:
        incomplete = next((each for each in gaps if each.startswith("not complete")), None)
        if incomplete is not None:
            return Gate("not complete", f"{incomplete.partition(': ')[2]}; {because}")
        return Gate(f"not shown with {pluralize(rows, 'row')}", f"{gaps[0]}; {because}")
    if interval is not None and interval[0] >= mark:
        return Gate(SHOWN, because)
    if interval is not None and interval[1] < mark:
        return Gate(WORSE, because)
    answer = f"not shown with {pluralize(rows, 'row')}"
    distance = 0.0 if estimate is None else estimate - mark
    if distance > statistics.ZERO and interval is not None:
        wanted = max(statistics.find_rows_needed(spread, distance), statistics.round_up(least(distance)))
        if wanted > rows:
            answer += f" (about {wanted:,} would)"
    return Gate(answer, because)
