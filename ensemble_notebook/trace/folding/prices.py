"""What a request cost (T10): own rates, or the public price list of genai-prices, read from its package.

The list is never updated from here: no price opens a connection (E43).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.amounts import DOLLARS
from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.trace.folding.event_handlers import EventFold, on
from ensemble_notebook.trace.spans.usage_totals import UsageTotals

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice


FREE_PROVIDERS: Final = frozenset({"local", "scripted"})

NOTHING: Final = Price(Decimal(0), Decimal(0))

_MILLION: Final = Decimal(1_000_000)
_rates: Final[dict[int, tuple[ModelPrice, _Rates | None]]] = {}
"""By the identity of the prices on the list, which stay as long as they are here."""


def calculate_price(
    usage: TokenUsage,
    *,
    provider: str | None,
    model: str,
    at: datetime,
    rates: CostConfiguration | None = None,
    currency: str = DOLLARS,
) -> Price | None:
    """The price of one request, exact; None when the tokens, the provider or the model's price are unknown.

    Args:
        usage: of the one request. Nothing used costs nothing, whoever refused it.
        provider: who served it. No provider is guessed from a model's name: a server of one's own may use any name.
        model: its name, as the provider or the request calls it.
        at: when; list prices depend on the date, and some on the time of day.
        rates: used instead of the list, for models that run here, too.
        currency: of the price. One in another currency is unknown: nobody knows what it comes to.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if usage.input_tokens == 0 and usage.output_tokens == 0:
        return NOTHING
    if rates is not None:
        return rates.calculate_price(usage) if rates.currency == currency else None
    if provider in FREE_PROVIDERS:
        return NOTHING
    if provider is None or currency != DOLLARS or not _is_listed(provider, model):
        return None
    read, written, output = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0, usage.output_tokens or 0
    fresh = (usage.input_tokens or 0) - read - written
    listed = _find_rates(provider, model, at)
    if listed is None or min(fresh, read, written, output) < 0 or max(fresh + read + written, output) > listed.longest:
        return _ask_list(usage, provider, model, at)
    paid = fresh * listed.fresh / _MILLION + read * listed.read / _MILLION + written * listed.written / _MILLION
    return Price(paid, output * listed.output / _MILLION)


@lru_cache(maxsize=4096)
def _ask_list(usage: TokenUsage, provider: str, model: str, at: datetime | None) -> Price | None:
    """What the list says itself. Remembered, because that takes it a fifth of a millisecond."""
    from genai_prices import Usage, calc_price

    tokens = Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        found = calc_price(tokens, model, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):  # not on the list; or a provider's counts contradict each other
        return None
    return Price(found.input_price, found.output_price)


class _Rates(NamedTuple):
    """What a million tokens of each kind cost, in requests of no more than `longest` tokens of input or output."""

    fresh: Decimal
    read: Decimal
    written: Decimal
    output: Decimal
    longest: float


def _find_rates(provider: str, model: str, at: datetime) -> _Rates | None:
    """The rates of a model at some time; None where not each token costs the same."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, listed = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:  # whoever uses this process has put another list in place
        return None
    prices = listed.get_prices(at)
    known = _rates.get(id(prices))
    if known is None or known[0] is not prices:
        known = _rates[id(prices)] = prices, _ask_rates(provider, model, at, prices)
    return known[1]


def _ask_rates(provider: str, model: str, at: datetime, prices: ModelPrice) -> _Rates | None:
    """The same, by what the list says that a thousand tokens of each kind cost."""
    starts = [tier.start for price in vars(prices).values() for tier in getattr(price, "tiers", ())]
    kinds = (
        TokenUsage(input_tokens=1000, output_tokens=0),
        TokenUsage(input_tokens=1000, output_tokens=0, cache_read_tokens=1000),
        TokenUsage(input_tokens=1000, output_tokens=0, cache_write_tokens=1000),
        TokenUsage(input_tokens=0, output_tokens=1000),
    )
    found = [price for usage in kinds if (price := _ask_list(usage, provider, model, at)) is not None]
    longest = min(starts, default=math.inf)
    if len(found) < len(kinds) or longest < 1000:
        return None
    fresh, read, written, output = (price.total.scaleb(3) + 0 for price in found)
    return _Rates(fresh, read, written, output, longest)


@lru_cache(maxsize=1024)
def _is_listed(provider: str, model: str) -> bool:
    """True where the list knows the model. Remembered, because the list is slow to give up on a name."""
    return _ask_list(TokenUsage(input_tokens=1, output_tokens=1), provider, model, None) is not None


@dataclass(slots=True)
class _Attempt:
    """One physical request: what it used, when, and as whose."""

    usage: TokenUsage
    at: datetime
    provider: str | None
    model: str
    rates: CostConfiguration | None
    served_model: str | None = None

    def find_cost(self, currency: str) -> Decimal | None:
        """As the fold prices it: under the name that the provider gave, where that has a price."""
        facts: dict[str, Any] = {"at": self.at, "rates": self.rates, "currency": currency}
        for model in (self.served_model, self.model):
            if model is None:
                continue
            price = calculate_price(self.usage, provider=self.provider, model=model, **facts)
            if price is not None:
                return price.total
        return None


class TaskSpending(EventFold):
    """Adds up the requests of each task of the plan, those of delegated work and of nested runs included.

    As little of the fold as the results in the store need while the run goes on. Why not the fold itself: it keeps
    every span and text, and costs several times as much an event.

    Each item of a task that runs for each of a list has its own part, which counts in that task, too.

    Args:
        currency: of the run.
    """

    def __init__(self, currency: str) -> None:
        self._currency = currency
        self._parents: dict[str, str | None] = {}  # by span
        self._paths: dict[str, str] = {}  # of tasks, by span: the engine knows tasks by that
        self._lists: dict[str, str] = {}  # paths of tasks that run for each item, by span
        self._wholes: dict[str, str] = {}  # what a task is a part of, by path: an item, or a task of a nested run
        self._prefixes: dict[str, str] = {}  # of the paths of the tasks of nested runs, by span
        self._calls: dict[str, tuple[str | None, str, CostConfiguration | None]] = {}
        self._tasks: dict[str, list[_Attempt]] = {}  # by path
        self._last: dict[str, _Attempt] = {}

    def on_events(self, events: Iterable[ev.Event]) -> None:
        """Take in the next events of the run."""
        for event in events:
            self._parents.setdefault(event.span_id, event.parent_id)
            self.take_in(event)

    @on(ev.NestedRunStarted)
    def _note_run(self, event: ev.NestedRunStarted) -> None:
        self._prefixes[event.span_id] = f"{self._find_prefix(event.parent_id)}{event.task or ''}/{event.name}/"

    @on(ev.TaskStarted)
    def _note_task(self, event: ev.TaskStarted) -> None:
        around = self._find_first(event.parent_id, self._paths, self._prefixes)
        if around in self._paths and around not in self._lists:
            return  # what is delegated is of the task around it
        path = self._find_prefix(event.parent_id) + make_task_path(event.task or "", event.phase)
        self._paths[event.span_id] = path
        self._tasks.setdefault(path, [])
        if (whole := self._find_owner(around)) is not None:
            self._wholes[path] = whole

    @on(ev.ItemsListed)
    def _note_items(self, event: ev.ItemsListed) -> None:
        if (path := self._paths.get(event.span_id)) is not None:
            self._lists[event.span_id] = path

    @on(ev.LlmCallStarted)
    def _note_call(self, event: ev.LlmCallStarted) -> None:
        self._calls[event.span_id] = (event.provider, event.model, event.rates)
        if event.rates is None and event.provider is not None and event.provider not in FREE_PROVIDERS:
            _is_listed(event.provider, event.model)  # the list is read while the model is asked, and not later

    @on(ev.LlmAttemptEnded)
    def _note_attempt(self, event: ev.LlmAttemptEnded) -> None:
        path, call = self._find_owner(event.parent_id), self._calls.get(event.parent_id or "")
        if path is None or call is None:
            return
        attempt = self._last[event.parent_id or ""] = _Attempt(event.usage, event.time, *call)
        around: str | None = path
        while around is not None:
            self._tasks[around].append(attempt)
            around = self._wholes.get(around)

    @on(ev.LlmCallCompleted)
    def _note_reply(self, event: ev.LlmCallCompleted) -> None:
        attempt = self._last.pop(event.span_id, None)
        if attempt is not None and event.model:
            attempt.served_model = event.model

    def _find_owner(self, span_id: str | None) -> str | None:
        """The path of the task around a span, or of its item; that one included. None: there is none."""
        while span_id is not None:  # for each request: a loop of its own
            if (path := self._paths.get(span_id)) is not None:
                return path
            span_id = self._parents.get(span_id)
        return None

    def _find_prefix(self, span_id: str | None) -> str:
        """What paths of tasks begin with in the nested run around a span, that one included; else nothing."""
        return self._prefixes.get(self._find_first(span_id, self._prefixes) or "", "")

    def _find_first(self, span_id: str | None, *known: dict[str, str]) -> str | None:
        """The innermost span around a span, that one included, that is known."""
        while span_id is not None and not any(span_id in each for each in known):
            span_id = self._parents.get(span_id)
        return span_id

    def sum_task(self, path: str) -> UsageTotals | None:
        """What the task at this path has spent by now; None for one that has not begun."""
        if path not in self._tasks:
            return None
        totals = UsageTotals()
        for attempt in self._tasks[path]:
            totals.add_attempt()
            totals.add_usage(attempt.usage)
            totals.add_cost(attempt.find_cost(self._currency))
        return totals
