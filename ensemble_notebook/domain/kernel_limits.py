"""The limits that a class or a hub sets for all runs of a kernel, each with who has set it (E142).

A guard rail, not security: whoever runs code in a kernel can go around them. Nothing is limited where nobody has set
anything. Whoever begins a run asks here; the accounts are the engine's, and what a day has cost is the store's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.definitions.amounts import DOLLARS
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.local_paths import read_path
from ensemble_notebook.domain.wording import format_money, pluralize

ASK: Final = "ask whoever runs this class or hub"


@dataclass(frozen=True, slots=True)
class AllowedModels:
    """The models that runs may ask.

    Attributes:
        patterns: of their specs, such as ``openai:gpt-4.1-*``.
        set_by: who says so.
    """

    patterns: tuple[str, ...]
    set_by: str

    def find_fault(self, spec: str) -> str | None:
        """Why a model may not be asked, and what to do; None where it may."""
        if any(fnmatchcase(spec, each) for each in self.patterns):
            return None
        return (
            f"The model {spec!r} is not allowed in this kernel: {self.set_by} allows {', '.join(self.patterns)}. "
            f"Take one of these, or {ASK}."
        )


@dataclass(slots=True)
class KernelLimits:
    """What holds for all runs that begin in this process; `kernel_limits` is the one there is.

    Attributes:
        cell_budget: of all that one cell begins together; what no cell begins has it for itself.
        kernel_budget: of all runs of the kernel together.
        day_budget: of all runs of a day together.
        class_rate_limit: of all model requests of the kernel.
        allowed_models: None: all.
        recordings: where recordings are looked for that are not in the folder of the notebook.
    """

    cell_budget: Budget | None = None
    kernel_budget: Budget | None = None
    day_budget: Budget | None = None
    class_rate_limit: RateLimit | None = None
    allowed_models: AllowedModels | None = None
    recordings: Path | None = None
    _of_cell: Budget | None = field(default=None, init=False)
    _of_days: dict[date, Budget] = field(default_factory=dict, init=False)

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """All that are set, the widest first."""
        every = (self.day_budget, self.kernel_budget, self.cell_budget)
        return tuple(each for each in every if each is not None)

    def put(self, name: str, value: Any) -> None:
        """Set a limit. What was set so before stays as it is, so that what is spent of it is not forgotten."""
        if _is_same(getattr(self, name), value):
            return
        setattr(self, name, value.shared() if name == "kernel_budget" and value is not None else value)
        if name == "day_budget":
            self._of_days.clear()

    def clear(self) -> None:
        """Limit nothing."""
        for each in fields(self):
            setattr(self, each.name, {} if each.name == "_of_days" else None)

    def find_recording(self, path: str | os.PathLike[str]) -> Path:
        """The file that a path of a recording means: from the present folder, else in that of the class."""
        given = read_path(path, "replay")
        if self.recordings is not None and not given.exists() and (self.recordings / given).exists():
            return self.recordings / given
        return given.absolute()

    def begin_cell(self) -> None:
        """A cell begins: what it begins has one budget together."""
        self._of_cell = None if self.cell_budget is None else self.cell_budget.shared()

    def end_cell(self) -> None:
        """The cell is over; what goes on spends from its budget still."""
        self._of_cell = None

    def find_cell_budget(self) -> Budget | None:
        """The budget of the cell that runs now, or one for a run that no cell begins."""
        if self.cell_budget is None:
            return None
        return self._of_cell or self.cell_budget.shared()

    def find_day_budget(self, today: date) -> Budget | None:
        """The budget of a day, the same for all its runs."""
        if self.day_budget is None:
            return None
        return self._of_days.setdefault(today, self.day_budget.shared())  # runs may begin on several threads


def _is_same(before: Any, value: Any) -> bool:
    """Whether two limits are given alike; each budget and rate limit is equal to itself alone."""
    if not isinstance(before, Budget | RateLimit) or type(before) is not type(value):
        return False
    given = [each.name for each in fields(before) if each.init]
    return all(getattr(before, name) == getattr(value, name) for name in given)


kernel_limits: Final = KernelLimits()


def name_setter(set_by: str) -> str:
    """Say whose limit it is, and what to do: behind a semicolon."""
    return f"this is set by {set_by}, so {ASK}"


def cap_budget(own: Budget | None, most: Budget | None) -> tuple[Budget | None, str]:
    """The budget that views show of a run, and a warning where its own is above what is set for all.

    What is spent is held to `most` in any case, by an account of its own.
    """
    if own is None or most is None:
        return own or most, ""
    above = {name: limit for name, limit in most.limits.items() if own.limits.get(name, limit) > limit}
    if not above:
        return own, ""
    given, left = describe_limits(own, above), describe_limits(most, above)
    warning = f"The budget of {given} is capped at {left}, by {most.set_by}."
    if above.keys() == own.limits.keys() and not own.is_shared:  # nothing of it is left that could hold a run
        return most, warning
    changes: dict[str, Any] = above
    return (own if own.is_shared else replace(own, **changes)), warning


def describe_limits(budget: Budget, names: Sequence[str] | dict[str, Any]) -> str:
    """Say some limits of a budget in words: ``$0.50 and 20,000 tokens``."""
    words = {
        "max_cost": lambda limit: format_money(limit, DOLLARS),
        "max_tokens": lambda limit: pluralize(int(limit), "token"),
        "max_llm_calls": lambda limit: pluralize(int(limit), "call"),
    }
    return " and ".join(words[name](budget.limits[name]) for name in names)
