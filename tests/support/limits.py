"""Runs that are to meet a time limit while they do a certain thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def meet_limit(run: Callable[[float], T], is_met: Callable[[T], object], first_s: float) -> T:
    """Run with longer and longer limits until one comes where the test wants it.

    How far a run gets in a short time is the machine's affair. On a quiet one the first limit will do.

    Args:
        run: runs once with a limit in seconds, and gives what came of it.
        is_met: whether the limit came in the right place.
        first_s: the first limit; each is ten times as long as the one before.

    Raises:
        AssertionError: none of three limits came there.
    """
    tried = []
    for limit_s in (first_s, 10 * first_s, 100 * first_s):
        tried.append(run(limit_s))
        if is_met(tried[-1]):
            return tried[-1]
    raise AssertionError(f"no limit came in the right place: {tried}")
