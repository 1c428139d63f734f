"""Limits of a run: how often models are asked (E37), how much may be spent (E36), and what tokens cost (T10).

Definitions only; the engine keeps the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.amounts import CURRENCY, DOLLARS, check_currency, read_budget, read_rate
from ensemble_notebook.domain.definitions.definition import (
    Converted,
    Definition,
    converted,
    definition,
    is_seconds,
    show_value,
)
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.errors import SuggestsNames, ValidationError


@definition
class RateLimit(Definition):
    """Allow `requests` model requests per `period`, evenly spaced: a token bucket with a burst of one.

    The object is the bucket: everything that holds the same object shares it, across runs too.

    Args:
        requests: the number of requests, at least 1.
        period: seconds, or a `timedelta`, which is converted to seconds.
        wait_timeout: seconds or `timedelta`; a request that would have to wait longer fails with
            `RateLimitTimeoutError`.

    Attributes:
        set_by: who sets it for all runs of a kernel (E142); empty for one of your own.

    Raises:
        ValidationError: a field has a wrong value.
    """

    requests: int = field(kw_only=False)
    period: Converted[float, float | timedelta] = field(kw_only=False)
    wait_timeout: Converted[float, float | timedelta] = converted(default=30.0)
    set_by: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Check the numbers; durations become seconds."""
        self._require_integer("requests", least=1)
        for name in ("period", "wait_timeout"):
            value: Any = getattr(self, name)
            seconds = value.total_seconds() if isinstance(value, timedelta) else value
            if not is_seconds(seconds):
                raise self._refuse(name, f"RateLimit {name} must be seconds > 0 or a timedelta, got {value!r}.")
            self._set(name, float(seconds))

    @property
    def interval_s(self) -> float:
        """Seconds between two requests."""
        return self.period / self.requests

    def describe(self) -> str:
        """In words: ``60 per 60 s``."""
        return f"{self.requests} per {self.period:g} s"

    def __repr__(self) -> str:
        """As it is written."""
        return f"RateLimit({self.requests}, {self.period:g})"


@definition
class Budget(Definition):
    """Limit what one run may spend. Each run has its own account, so one object can be used for many runs.

    At least one of the three limits must be set.

    Args:
        max_cost: in the currency of the prices; Decimal, int, float or text.
        max_tokens: input and output tokens together.
        max_llm_calls: physical model requests, retries included.
        warn_at: the share of a limit, above 0 and at most 1, at which a `BudgetWarning` is emitted, once.
        allow_unknown_cost: whether models without a known price may be used under `max_cost`; their cost is not
            counted.

    Attributes:
        is_shared: whether all runs that hold this object spend from one account; see `shared`.
        limits: the limits that are set, by field name.
        set_by: who sets it for all runs of a kernel (E142); empty for one of your own.
        remaining: what is left of each limit. Unless the budget is shared, that is all of it: each run starts anew.

    Raises:
        ValidationError: a field has a wrong value, or no limit is set.
    """

    max_cost: Converted[Decimal | None, Decimal | float | str | None] = converted(default=None)
    max_tokens: int | None = None
    max_llm_calls: int | None = None
    warn_at: float = 0.8
    allow_unknown_cost: bool = False
    is_shared: bool = field(default=False, init=False)
    set_by: str = field(default="", init=False)

    def __post_init__(self) -> None:
        """Check each limit; the cost becomes an exact decimal."""
        if self.max_cost is not None:
            amount = _read_decimal(self.max_cost)
            if amount <= 0:
                raise self._refuse("max_cost", f"Budget max_cost must be an amount > 0, got {self.max_cost!r}.")
            self._set("max_cost", amount)
        for name in ("max_tokens", "max_llm_calls"):
            if getattr(self, name) is not None:
                self._require_integer(name, least=1)
        if self.max_cost is None and self.max_tokens is None and self.max_llm_calls is None:
            raise self._refuse("max_cost", "A Budget limits something: max_cost, max_tokens or max_llm_calls.")
        share: Any = self.warn_at
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise self._refuse("warn_at", f"Budget warn_at must be a share above 0, at most 1, got {share!r}.")
        self._require_bool("allow_unknown_cost")

    def shared(self) -> Budget:
        """Make a budget with the same limits and a single account, from which all runs that hold the new object spend.

        This works across concurrent runs, event loops and threads. A copy by `dataclasses.replace` is not shared.
        """
        budget = replace(self)
        budget._set("is_shared", True)
        budget._set("set_by", self.set_by)
        return budget

    def __repr__(self) -> str:
        """Its limits."""
        limits = [f"{name}={value}" for name, value in self.limits.items()]
        return f"Budget({', '.join(limits)}){'.shared()' if self.is_shared else ''}"

    @property
    def limits(self) -> Mapping[str, Decimal | int]:
        """The limits that are set, by field name."""
        names = ("max_cost", "max_tokens", "max_llm_calls")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def remaining(self) -> Mapping[str, Decimal | int]:
        """What is left of each limit now, by field name. Calls in flight are not subtracted."""
        spent = next((found for find in _spending_finders if (found := find(self)) is not None), Spending())
        return {name: max(limit - limit.__class__(spent.get_amount(name)), 0) for name, limit in self.limits.items()}


def _read_decimal(value: Any) -> Decimal:
    """An amount, exact; -1 for what is none."""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return Decimal(-1)
    return amount if amount.is_finite() and not isinstance(value, bool) else Decimal(-1)


# The forms in which they may be given (C2).
AnyRateLimit = RateLimit | str | Mapping[str, Any]
AnyBudget = Budget | str | Mapping[str, Any]

_ANY_RATE: Final = "a RateLimit, a text such as '60/min', or a mapping such as {'requests': 60, 'period': 60}"
_ANY_BUDGET: Final = "a Budget, a text such as '$0.50, 20k tokens', or a mapping such as {'max_cost': 0.5}"


def normalize_rate_limit(owner: Definition) -> None:
    """Make the `rate_limit` of a definition a `RateLimit`; its bucket is that of this definition alone.

    Raises:
        ValidationError: it has none of the forms of a rate limit.
    """
    owner._make_part("rate_limit", RateLimit, _ANY_RATE, read_rate)


def normalize_budget(owner: Definition, currency: str) -> None:
    """Make the `budget` of a definition a `Budget`.

    Args:
        owner: the definition.
        currency: of the prices.

    Raises:
        ValidationError: it has none of the forms of a budget, or its amount is in another currency.
    """

    def read(text: str) -> Mapping[str, Any]:
        found = read_budget(text)
        check_currency(found.pop(CURRENCY, currency), currency)
        return found

    owner._make_part("budget", Budget, _ANY_BUDGET, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending(SuggestsNames):
    """What has been spent of a budget, or is held for calls that are running.

    Attributes:
        cost: in the currency of the prices; the part whose price is known.
        tokens: input and output.
        llm_calls: physical requests.
    """

    cost: Decimal = Decimal(0)
    tokens: int = 0
    llm_calls: int = 0

    def __add__(self, other: Spending) -> Spending:
        """Both together."""
        return Spending(
            cost=self.cost + other.cost, tokens=self.tokens + other.tokens, llm_calls=self.llm_calls + other.llm_calls
        )

    def __sub__(self, other: Spending) -> Spending:
        """What is left without the other."""
        return Spending(
            cost=self.cost - other.cost, tokens=self.tokens - other.tokens, llm_calls=self.llm_calls - other.llm_calls
        )

    def get_amount(self, limit: str) -> Decimal:
        """The part that a limit of a `Budget` is about.

        Args:
            limit: field name of the limit; for ``"max_tokens"`` the part is `tokens`.
        """
        return Decimal(getattr(self, limit.removeprefix("max_")))


_spending_finders: Final[list[Callable[[Budget], Spending | None]]] = []


def register_spending_finder(find: Callable[[Budget], Spending | None]) -> None:
    """Let `Budget.remaining` call `find` for what is spent of a budget; the accounts are in a layer above."""
    _spending_finders.append(find)


# --- What tokens cost. Decimals throughout: no rounding drift ---------------------------------------------------------


@definition
class CostConfiguration(Definition):
    """Your own rates: of all models of an ensemble that have none beside them, or of the model that they stand beside.

    They replace the public price list there.

    Args:
        input_rate: the price of one input token, in `currency`; Decimal, int, float or text, at least 0.
        output_rate: the price of one output token.
        cached_input_rate: the price of one input token that the provider had in its cache, at most the `input_rate`;
            None: no other price.
        currency: code of the currency, such as ``"EUR"``.

    Raises:
        ValidationError: a field has a wrong value.
    """

    input_rate: Converted[Decimal, Decimal | float | str]
    output_rate: Converted[Decimal, Decimal | float | str]
    cached_input_rate: Converted[Decimal | None, Decimal | float | str | None] = converted(default=None)
    currency: str = DOLLARS

    def __post_init__(self) -> None:
        """Make the rates exact decimals >= 0."""
        for name in ("input_rate", "output_rate", "cached_input_rate"):
            value = getattr(self, name)
            if value is None and name == "cached_input_rate":
                continue
            rate = _read_decimal(value)
            if rate < 0:
                raise self._refuse(name, f"CostConfiguration {name} must be a price per token >= 0, got {value!r}.")
            self._set(name, rate)
        # A budget reserves input at its input_rate: the dearest that it can be.
        if self.cached_input_rate is not None and self.cached_input_rate > self.input_rate:
            message = f"CostConfiguration cached_input_rate must be at most the input_rate, {self.input_rate}, got "
            raise self._refuse("cached_input_rate", f"{message}{self.cached_input_rate}.")
        self._require_text("currency")

    def calculate_price(self, usage: TokenUsage) -> Price | None:
        """Calculate the price of one request, exact; None where its tokens are unknown or contradict each other.

        Args:
            usage: tokens of the one request.
        """
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        output, cached = usage.output_tokens * self.output_rate, usage.cache_read_tokens or 0
        if self.cached_input_rate is None:
            return Price(usage.input_tokens * self.input_rate, output)
        if cached > usage.input_tokens:
            return None
        return Price((usage.input_tokens - cached) * self.input_rate + cached * self.cached_input_rate, output)


AnyCost = CostConfiguration | Mapping[str, Any]

ANY_COST: Final = "a CostConfiguration, or a mapping such as {'input_rate': 0.000002, 'output_rate': 0.00001}"
COST: Final = "cost"
"""The field of an ensemble, and of a model's mapping, that has the rates."""


def get_currency(cost: CostConfiguration | None) -> str:
    """The currency of the costs of an ensemble with these rates."""
    return DOLLARS if cost is None else cost.currency


def find_rates(llm: object, cost: CostConfiguration | None) -> CostConfiguration | None:
    """The rates of a model: those beside it, else those of its ensemble; None: the public price list.

    Raises:
        ValidationError: what stands beside it are no rates.
    """
    given = llm.get(COST) if isinstance(llm, Mapping) else None
    if given is None:
        return cost
    if isinstance(given, CostConfiguration):
        return given
    if not isinstance(given, Mapping):
        raise ValidationError(f"The cost of a model must be {ANY_COST}, got {show_value(given)}.")
    return CostConfiguration(**{str(name): each for name, each in given.items()})


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of one request's input (cached part included) and output."""

    input: Decimal
    output: Decimal

    @property
    def total(self) -> Decimal:
        """Both."""
        return self.input + self.output


class Pricing(Protocol):
    """The seam between the engine, which holds budgets, and whoever knows prices."""

    def __call__(
        self,
        usage: TokenUsage,
        *,
        provider: str | None,
        model: str,
        at: datetime,
        rates: CostConfiguration | None,
        currency: str,
    ) -> Price | None:
        """The price of one request in a currency; None where it is unknown. `rates` as of `find_rates`."""
