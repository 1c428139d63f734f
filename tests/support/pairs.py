"""Few rows in which every two values of two factors meet: a covering array of strength two, the same at each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

Choice = tuple[str, int]
"""A factor, and the place of one of its values."""


def cover_pairs(
    factors: Mapping[str, Sequence[Any]], clash: Callable[[Choice, Choice], bool] = lambda a, b: False
) -> tuple[list[dict[str, Any]], int]:
    """The rows, each with a value for every factor, and the number of pairs in them.

    Args:
        factors: the values of each. The first value of one that has clashes must go with everything.
        clash: whether two choices can't stand in one row; such a pair is none.
    """
    choices = [(name, at) for name, values in factors.items() for at in range(len(values))]
    places = {choice: place for place, choice in enumerate(choices)}
    fits = [0] * len(choices)
    for (i, a), (j, b) in combinations(enumerate(choices), 2):
        if a[0] != b[0] and not clash(a, b):
            fits[i] |= 1 << j
            fits[j] |= 1 << i
    missing, count = list(fits), sum(each.bit_count() for each in fits) // 2
    rows = []
    while any(missing):
        first = max(range(len(choices)), key=lambda place: missing[place].bit_count())
        second = (missing[first] & -missing[first]).bit_length() - 1
        row = {choices[place][0]: place for place in (first, second)}
        chosen = 1 << first | 1 << second
        for name, values in factors.items():
            if name in row:
                continue
            possible = [place for at in range(len(values)) if not chosen & ~fits[place := places[name, at]]]
            if not possible:
                break
            # Of equals the one with most left to meet: always the first one would leave the others rows of their own.
            row[name] = max(
                possible, key=lambda place: ((missing[place] & chosen).bit_count(), missing[place].bit_count())
            )
            chosen |= 1 << row[name]
        if len(row) < len(factors):  # nothing goes with these two
            count -= 1
            missing[first] &= ~(1 << second)
            missing[second] &= ~(1 << first)
            continue
        for place in row.values():
            missing[place] &= ~chosen
        rows.append({name: factors[name][choices[row[name]][1]] for name in factors})
    return rows, count
