"""Amounts as the sentences of verdicts have them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from ensemble_notebook.evaluation.statistics import ZERO

Unit = Literal["points", "%", ""]
_MOST_DIGITS: Final = 6


class Scale:
    """How the amounts of one sentence are written: all with as many digits as tell them apart, and none as a false 0.

    Args:
        amounts: what is written; shares of one where there is a unit.
        unit: of shares: points of a hundred for differences, percent for others.
        is_round: whether digits that say nothing are left out.
    """

    def __init__(self, amounts: Sequence[float], unit: Unit = "", *, is_round: bool = False) -> None:
        self._unit = unit
        self._is_round = is_round
        self._amounts = [100 * each if unit else float(each) for each in amounts]
        widest = max(self._amounts) - min(self._amounts) or max(map(abs, self._amounts))
        digits = (0 if unit else 1) - math.floor(math.log10(widest)) if widest > 0 else 0
        self._digits = min(max(0, digits), _MOST_DIGITS)
        while self._digits < _MOST_DIGITS and any(each and not round(each, self._digits) for each in self._amounts):
            self._digits += 1

    def write_all(self) -> list[str]:
        """Plain amounts; the first with its unit."""
        first, *rest = map(self._write, self._amounts)
        return [self._add_unit(first), *rest]

    def write_signed(self) -> list[str]:
        """Differences; the last with its unit."""
        *first, last = [f"{'+' if each > 0 else ''}{self._write(each)}" for each in self._amounts]
        return [*first, self._add_unit(last)]

    def _add_unit(self, text: str) -> str:
        if self._unit == "points":
            return f"{text} {'point' if text == '1' else 'points'}"
        return f"{text}{self._unit}"

    def _write(self, amount: float) -> str:
        text = f"{amount:,.{self._digits}f}"
        if self._is_round and "." in text:
            text = text.rstrip("0").rstrip(".")
        return "0" if not float(text.replace(",", "")) else text


def format_p(p: float) -> str:
    """A p with two telling digits, rounded up, so that none reads as smaller than it is: ``= 0.02``, ``< 0.001``."""
    if p < 0.001:
        return "< 0.001"
    digits = 1 - math.floor(math.log10(p)) if p < 0.1 else 2
    raised = min(1.0, math.ceil(p * 10**digits - ZERO) / 10**digits)
    return f"= {raised:.{digits}f}".rstrip("0").rstrip(".") if raised < 1 else "= 1"


def agree(verb: str, number: int) -> str:
    """The plural verb of a sentence, or that of a single one."""
    return verb.replace("are ", "is ").replace("count ", "counts ") if number == 1 else verb
