"""What the teams of the lessons are made of, where it is not what a lesson teaches."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ensemble_notebook import EnsembleOutput, Score

Expectation = Callable[[EnsembleOutput], Score]
Make = TypeVar("Make", bound=Callable[..., Expectation])


def named(make: Make) -> Make:
    """Have the expectations that a function makes called as they are written, in the table of a check."""

    @wraps(make)
    def make_named(*given: object, **more: object) -> Expectation:
        expectation = make(*given, **more)
        written = [*map(repr, given), *(f"{name}={value!r}" for name, value in more.items())]
        expectation.__name__ = f"{make.__name__}({', '.join(written)})"
        return expectation

    return make_named  # type: ignore[return-value]
