"""What a request cost (T10): own rates, or the public price list of genai-prices, read from its package.

The list is never updated from here: no price opens a connection (E43).
"""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ensemble_notebook.domain.definitions.cost import CostConfiguration, Price
from ensemble_notebook.domain.outputs.metrics import TokenUsage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

FREE_PROVIDERS: Final = frozenset({"local", "scripted"})

NOTHING: Final = Price(Decimal(0), Decimal(0))

_MILLION: Final = Decimal(1_000_000)
_rates: Final[dict[int, tuple[ModelPrice, _Rates | None]]] = {}
"""By the identity of the prices on the list, which stay as long as they are here."""


def calculate_price(
    usage: TokenUsage, *, provider: str | None, model: str, at: datetime, rates: CostConfiguration | None = None
) -> Price | None:
    """The price of one request, exact; None when the tokens, the provider or the model's price are unknown (T3).

    Args:
        usage: of the one request. Nothing used costs nothing, whoever refused it.
        provider: who served it. No provider is guessed from a model's name: a server of one's own may use any name.
        model: its name, as the provider or the request calls it.
        at: when; list prices depend on the date, and some on the time of day.
        rates: used for every model instead of the list, those that run here included.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if usage.input_tokens == 0 and usage.output_tokens == 0:
        return NOTHING
    if rates is not None:
        return Price(usage.input_tokens * rates.input_rate, usage.output_tokens * rates.output_rate)
    if provider in FREE_PROVIDERS:
        return NOTHING
    if provider is None or not _is_listed(provider, model):
        return None
    return _look_up_price(usage, provider, model, at)


def _look_up_price(usage: TokenUsage, provider: str, model: str, at: datetime) -> Price | None:
    """As the list has it."""
    read, written, output = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0, usage.output_tokens or 0
    fresh = (usage.input_tokens or 0) - read - written
    rates = _find_rates(provider, model, at)
    if rates is None or min(fresh, read, written, output) < 0 or max(fresh + read + written, output) > rates.longest:
        return _ask_list(usage, provider, model, at)
    paid = fresh * rates.fresh / _MILLION + read * rates.read / _MILLION + written * rates.written / _MILLION
    return Price(paid, output * rates.output / _MILLION)


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
