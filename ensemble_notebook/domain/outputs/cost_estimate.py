"""What a run will take, told before anything is called: from the least that is likely to the most that is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

from ensemble_notebook.domain.outputs.record import Record
from ensemble_notebook.domain.wording import format_money

Number = TypeVar("Number", int, Decimal)


@dataclass(frozen=True, slots=True)
class Range(Generic[Number]):
    """From `low` to `high`, both included."""

    low: Number
    high: Number

    def __add__(self, other: Range[Number]) -> Range[Number]:
        """Both together."""
        return Range(self.low + other.low, self.high + other.high)

    def times(self, count: Range[int]) -> Range[Number]:
        """As often as that: the least of it at the least, the most at the most."""
        return Range(self.low * count.low, self.high * count.high)

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


NO_CALLS: Range[int] = Range(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskEstimate(Record):
    """What one agent will take for one task.

    Attributes:
        name: of the task; of a worker that a manager may call, its role.
        agent: its role.
        model: as requested; None for a handler, which takes nothing.
        llm_calls: replies that are asked for.
        input_tokens, output_tokens: of all of them.
        cost: None where the model's price is unknown.
        tasks: of the ensemble that does it, where one does; the sums above are theirs.
    """

    name: str
    agent: str
    model: str | None
    llm_calls: Range[int] = NO_CALLS
    input_tokens: Range[int] = NO_CALLS
    output_tokens: Range[int] = NO_CALLS
    cost: Range[Decimal] | None = None
    tasks: tuple[TaskEstimate, ...] = ()

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models whose price is unknown."""
        if self.tasks:
            return tuple(model for task in self.tasks for model in task.unpriced)
        return (self.model or "",) if self.cost is None else ()

    @property
    def total_tokens(self) -> Range[int]:
        """Input and output."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CostEstimate(Record):
    """What a run will take.

    Attributes:
        tasks: in the order of the plan; the workers that a manager may call come after it.
        currency: of all costs.
    """

    tasks: tuple[TaskEstimate, ...]
    currency: str = "USD"

    @property
    def llm_calls(self) -> Range[int]:
        """Replies asked for."""
        return _add_ranges(task.llm_calls for task in self.tasks)

    @property
    def input_tokens(self) -> Range[int]:
        """Of all replies."""
        return _add_ranges(task.input_tokens for task in self.tasks)

    @property
    def output_tokens(self) -> Range[int]:
        """Of all replies."""
        return _add_ranges(task.output_tokens for task in self.tasks)

    @property
    def total_tokens(self) -> Range[int]:
        """Input and output."""
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> Range[Decimal] | None:
        """None where the price of any model is unknown: see `unpriced`."""
        total = Range(Decimal(0), Decimal(0))
        for task in self.tasks:
            if task.cost is None:
                return None
            total += task.cost
        return total

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models whose price is unknown, once each."""
        return tuple(dict.fromkeys(model for task in self.tasks for model in task.unpriced))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, ready for JSON; costs as text, since they are exact."""
        return {
            "currency": self.currency,
            "unpriced": list(self.unpriced),
            "total": _to_dict(self),
            "tasks": [_task_to_dict(task) for task in self.tasks],
        }

    def __str__(self) -> str:
        """The sums, in a line."""
        cost = f"unknown ({', '.join(self.unpriced)})" if self.cost is None else _cost_text(self.cost, self.currency)
        return f"model calls: {self.llm_calls}; tokens: {self.total_tokens}; cost: {cost}"


def _cost_text(cost: Range[Decimal], currency: str) -> str:
    low, high = (format_money(end, currency) for end in (cost.low, cost.high))
    return low if cost.low == cost.high else f"{low} to {high}"


def _add_ranges(ranges: Iterable[Range[int]]) -> Range[int]:
    return sum(ranges, NO_CALLS)


def _task_to_dict(task: TaskEstimate) -> dict[str, Any]:
    inside = {"tasks": [_task_to_dict(each) for each in task.tasks]} if task.tasks else {}
    return {"name": task.name, "agent": task.agent, "model": task.model, **_to_dict(task), **inside}


def _to_dict(estimate: TaskEstimate | CostEstimate) -> dict[str, Any]:
    counts = {name: getattr(estimate, name) for name in ("llm_calls", "input_tokens", "output_tokens")}
    cost = estimate.cost
    return {
        **{name: [each.low, each.high] for name, each in counts.items()},
        "cost": None if cost is None else [str(cost.low), str(cost.high)],
    }
