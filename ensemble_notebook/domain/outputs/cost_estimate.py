"""The estimate of what a run will take, before anything is called: the least, what is likely, the most allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Generic, TypeVar

from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.wording import format_money, pluralize

Number = TypeVar("Number", int, Decimal)


@dataclass(frozen=True, slots=True)
class Range(Generic[Number]):
    """From `low` to `high`, both included.

    Attributes:
        middle: what is likely in between; None: the low end.
    """

    low: Number
    high: Number
    middle: Number | None = field(default=None, compare=False)

    @property
    def likely(self) -> Number:
        """What is likely."""
        return self.low if self.middle is None else self.middle

    def __add__(self, other: Range[Number]) -> Range[Number]:
        """Both together."""
        return Range(self.low + other.low, self.high + other.high, self.likely + other.likely)

    def times(self, count: Range[int]) -> Range[Number]:
        """As often as that: the least of it at the least, the most at the most."""
        return Range(self.low * count.low, self.high * count.high, self.likely * count.likely)

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


NO_CALLS: Range[int] = Range(0, 0)
ONCE: Range[int] = Range(1, 1)


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
        rounds: how often its phase is done; all of the above is for all of them.
        servers: where its requests go, and with which keys, in words.
    """

    name: str
    agent: str
    model: str | None
    llm_calls: Range[int] = NO_CALLS
    input_tokens: Range[int] = NO_CALLS
    output_tokens: Range[int] = NO_CALLS
    cost: Range[Decimal] | None = None
    tasks: tuple[TaskEstimate, ...] = ()
    rounds: Range[int] = ONCE
    servers: tuple[str, ...] = ()

    def times(self, count: Range[int]) -> TaskEstimate:
        """What it takes as often as that."""
        return replace(self, **combine(lambda each: each.times(count), self))

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
        limit: the cost that the budget allows; None where it does not say.
        assumed_reply: tokens of a reply that were assumed to be likely; None where earlier runs tell of all of them.
    """

    tasks: tuple[TaskEstimate, ...]
    currency: str = "USD"
    limit: Decimal | None = None
    assumed_reply: int | None = None

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
        return None if any(task.cost is None for task in self.tasks) else self.known_cost

    @property
    def known_cost(self) -> Range[Decimal]:
        """That of the tasks of which it is known."""
        return sum((task.cost for task in self.tasks if task.cost is not None), Range(Decimal(0), Decimal(0)))

    @property
    def capped_cost(self) -> Range[Decimal] | None:
        """The cost, of which the budget allows no more than its limit; None as for `cost`."""
        cost, limit = self.cost, self.limit
        if cost is None or limit is None:
            return cost
        return Range(min(cost.low, limit), min(cost.high, limit), min(cost.likely, limit))

    @property
    def driver(self) -> TaskEstimate | None:
        """The task that may cost the most, or where no price is known, take the most tokens; None where none asks."""
        asking = [task for task in self.tasks if task.llm_calls.high]
        if self.cost is not None:
            return max(asking, key=lambda task: Decimal(0) if task.cost is None else task.cost.high, default=None)
        return max(asking, key=lambda task: task.total_tokens.high, default=None)

    @property
    def servers(self) -> tuple[str, ...]:
        """Where requests go, and with which keys, in words, once each: ``api.openai.com with the key in ...``."""
        return tuple(dict.fromkeys(server for task in self.tasks for server in task.servers))

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models whose price is unknown, once each."""
        return tuple(dict.fromkeys(model for task in self.tasks for model in task.unpriced))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dicts, ready for JSON; costs as text, since they are exact."""
        return {
            "currency": self.currency,
            "unpriced": list(self.unpriced),
            "servers": list(self.servers),
            "total": {**_to_dict(self), "likely_cost": None if self.cost is None else str(self.cost.likely)},
            "tasks": [_task_to_dict(task) for task in self.tasks],
        }

    def __str__(self) -> str:
        """The sums, in a line, with what drives the most."""
        most = max((task.rounds.high for task in self.tasks), default=1)
        rounds = f"; in {Range(1, most)} rounds" if most > 1 else ""
        asks = f"; asks {', '.join(self.servers)}" if self.servers else ""
        return f"model calls: {self.llm_calls}; tokens: {self.total_tokens}; cost: {self.describe_cost()}{rounds}{asks}"

    def describe_cost(self) -> str:
        """What is likely, and what is the most: ``about $0.15 (at most $46, if every reply were as long as ...)``."""
        cost, capped = self.cost, self.capped_cost
        if cost is None or capped is None:
            known, names = self.known_cost, ", ".join(self.unpriced)
            likely, most = format_money(known.likely, self.currency), format_money(known.high, self.currency)
            told = f"unknown of {names}; about {likely} (at most {most}) of all else"
            return told if known.high else f"unknown ({names})"
        if capped.low == capped.high:
            return format_money(capped.high, self.currency)
        is_capped = capped.high < cost.high
        why = "which is the budget" if is_capped else "if every reply were as long as the model allows"
        drives, task = "", self.driver
        if task is not None and self.llm_calls.high > 1:
            drives = f"; most of that for {task.name!r}, up to {pluralize(task.llm_calls.high, 'call')}"
        assumed = "" if self.assumed_reply is None else f"; a reply is assumed to have {self.assumed_reply} tokens"
        likely, most = format_money(capped.likely, self.currency), format_money(capped.high, self.currency)
        return f"about {likely} (at most {most}, {why}{drives}){assumed}"


def combine(make: Callable[..., Any], *estimates: TaskEstimate | CostEstimate) -> dict[str, Any]:
    """The figures that a function makes of those of estimates, by name; a cost that one of them lacks is None."""
    names = ("llm_calls", "input_tokens", "output_tokens", "cost")
    given = {name: [getattr(each, name) for each in estimates] for name in names}
    return {name: None if None in each else make(*each) for name, each in given.items()}


def _add_ranges(ranges: Iterable[Range[int]]) -> Range[int]:
    return sum(ranges, NO_CALLS)


def _task_to_dict(task: TaskEstimate) -> dict[str, Any]:
    inside: dict[str, Any] = {"tasks": [_task_to_dict(each) for each in task.tasks]} if task.tasks else {}
    if task.rounds != ONCE:
        inside["rounds"] = [task.rounds.low, task.rounds.high]
    return {"name": task.name, "agent": task.agent, "model": task.model, **_to_dict(task), **inside}


def _to_dict(estimate: TaskEstimate | CostEstimate) -> dict[str, Any]:
    counts = {name: getattr(estimate, name) for name in ("llm_calls", "input_tokens", "output_tokens")}
    cost = estimate.cost
    return {
        **{name: [each.low, each.high] for name, each in counts.items()},
        "cost": None if cost is None else [str(cost.low), str(cost.high)],
    }
