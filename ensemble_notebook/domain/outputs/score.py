"""What a scorer gives for one run (V3): a verdict, with a reason where it has one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ensemble_notebook.domain.outputs.record import Record
from ensemble_notebook.domain.value_text import is_missing
from ensemble_notebook.errors import ValidationError

ScoreValue = bool | int | float | str | None


@dataclass(frozen=True, slots=True, repr=False)
class Score(Record):
    """What a scorer gives where a value alone does not say all.

    Args:
        value: a bool is pass or fail, a number a score, a text a label; None is no opinion.
        reason: why, in words.
        higher_is_better: whether the larger number is the better one. A bool needs no such word: True is better.

    Raises:
        ValidationError: the value is none of these.
    """

    value: ScoreValue
    reason: str | None = None
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        """Make the value a plain one: numpy's numbers and texts are none."""
        object.__setattr__(self, "value", read_score_value(self.value))
        if self.reason is not None and not isinstance(self.reason, str):
            raise ValidationError(f"the reason of a Score is a text or None, got {type(self.reason).__name__}")
        if not isinstance(self.higher_is_better, bool):
            raise ValidationError(f"higher_is_better is True or False, got {self.higher_is_better!r}")


def read_score_value(given: Any) -> ScoreValue:
    """The value of a score: True or False, a number, a text, or None for what is missing (None, NaN, NA).

    Raises:
        ValidationError: it is none of these; the message goes on from the name of the scorer.
    """
    value = given.value if isinstance(given, Enum) else given
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a number or bool of numpy
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if value is None or is_missing(value):
        return None
    if isinstance(value, Mapping | bytes | complex) or not hasattr(value, "__float__"):
        what = "an empty dict" if isinstance(value, Mapping) and not value else f"a {type(value).__name__}"
        raise ValidationError(
            f"it gave {what}, and a score is True or False, a number, a text, a Score, a dict of these by name, or "
            f"None for no opinion"
        )
    number: int | float = value if isinstance(value, int) else float(value)
    if isinstance(number, float) and math.isinf(number):
        raise ValidationError("it gave an infinite number, of which no mean can be made")
    return number
