"""One line of the table of results, and how it is judged and printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LINE: Final = "{:<44} {:>11}  {:>11} {:<34} {:>7}  {:<22} {}"
HEAD: Final = _LINE.format("what", "ours", "floor", "", "ratio", "limit", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement.

    Attributes:
        what: is measured.
        ours, floor: in `unit`.
        beside: what the floor is.
        ratio: ours to floor; the median over rounds, so not always that of the two numbers.
        most, most_ratio: the limits of what a person feels; what nobody feels has none, and is told without a verdict.
    """

    what: str
    ours: float
    floor: float
    beside: str
    unit: str
    ratio: float
    most: float | None = None
    most_ratio: float | None = None

    @property
    def is_ok(self) -> bool:
        """Within all of its limits."""
        fits = self.most is None or self.ours <= self.most
        return fits and (self.most_ratio is None or self.ratio <= self.most_ratio)

    def line(self, *, is_judged: bool = True) -> str:
        """Of the table, under `HEAD`."""
        limits = [] if self.most is None else [f"{self.most:g} {self.unit}"]
        limits += [] if self.most_ratio is None else [f"{self.most_ratio:.2f} x"]
        return _LINE.format(
            self.what,
            f"{self.ours:.4g} {self.unit}",
            f"{self.floor:.4g} {self.unit}",
            f"({self.beside})",
            f"{self.ratio:.2f}",
            ", ".join(limits) or "-",
            ("yes" if self.is_ok else "NO") if is_judged and limits else "-",
        )
