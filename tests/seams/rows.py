"""Which key stands in which cell, at which door, with what after it: all pairs, in few cells."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from tests.seams.aftermath import AFTER
from tests.seams.cells import ABSENT, FORMS, list_factors, make_cell
from tests.seams.doors import DOORS, INPUTS
from tests.support.pairs import Choice, cover_pairs
from tests.support.sample_values import HERE

KEYS: Final = list_factors()
FACTORS: Final[Mapping[str, tuple[Any, ...]]] = {
    "door": tuple(DOORS),
    "after": tuple(AFTER),
    "form": FORMS,
    # Those with many values first, while all of them are still possible: a third fewer rows.
    **dict(sorted(KEYS.items(), key=lambda item: -len(item[1]))),
}
NOTHING: Final = dict.fromkeys(KEYS, ABSENT)


_AGAINST: Final = {
    ("task.count.output_type", "task.count.handler"): 1,  # one that gives a text
    ("agent.system_prompt", "agent.response_format"): 1,
}
"""The value of the second key with which the first one can't stand."""


@functools.cache
def is_refused(form: str, name: str, at: int) -> bool:
    """Whether the language has no such key there: the cell with nothing else in it can't be read."""
    try:
        read_cell(make_cell({**NOTHING, "form": form, name: KEYS[name][at]}), INPUTS).build({})
    except CellError:
        return True
    return False


def clash(a: Choice, b: Choice) -> bool:
    """Whether two choices can't stand in one cell."""
    return any(_clashes(*pair) or _asks_echo(*pair) for pair in ((a, b), (b, a)))


def _asks_echo(a: Choice, b: Choice) -> bool:
    """Whether the echo is to review a phase, which it approves never."""
    (name, at), (other, place) = a, b
    if (name, other) != ("cell.llm", "phase.review") or KEYS[name][at] != "scripted":
        return False
    return "Is it" in str(FACTORS[other][place])


def _clashes(a: Choice, b: Choice) -> bool:
    (name, at), (other, place) = a, b
    if name not in KEYS or at == 0:
        return False
    if (name, KEYS[name][at]) == ("cell.capture_mode", "metadata"):  # a recording keeps texts
        return (other, FACTORS[other][place]) == ("door", "replay")
    if other == "form":
        form = FORMS[place]
        if name == "agent.role" and form == "manager":  # its model and its constraints name the cook by this
            return True
        if form == "manager":
            return name.startswith(("phase.", "task.count", "task.nest", "task.each")) or is_refused(form, name, at)
        return (
            (name.startswith("phase.") and form != "phases")
            or name.startswith(("cell.manager", "cell.hier"))
            or is_refused("chain", name, at)
        )
    if name == "cell.hierarchical_constraints" and other == "cell.manager_llm":  # who obeys it
        return place == 0
    if (name, other) in _AGAINST:
        return place == _AGAINST[name, other]
    if name == "task.each.memory" and other == "cell.memory":  # the items are side by side
        return FACTORS[other][place] != HERE + "store"
    if other == "cell.review_handler":
        return place == 0 and ((name.endswith(".review") and name.startswith("task")) or name == "cell.review_policy")
    return False


@functools.cache
def make_rows() -> tuple[list[dict[str, Any]], int]:
    return cover_pairs(FACTORS, clash)
