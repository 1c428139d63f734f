"""What a request cost (T10): own rates, or the public price list of genai-prices, read from its package.

The list is never updated from here: no price opens a connection (E43).
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

from ensemble_notebook.domain.definitions.cost import CostConfiguration, Price
from ensemble_notebook.domain.outputs.metrics import TokenUsage

FREE_PROVIDERS: Final = frozenset({"local", "scripted"})

NOTHING: Final = Price(Decimal(0), Decimal(0))


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


@lru_cache(maxsize=4096)
def _look_up_price(usage: TokenUsage, provider: str, model: str, at: datetime | None) -> Price | None:
    """As the list has it. Remembered, because that takes a tenth of a millisecond, and several ask for one request."""
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


@lru_cache(maxsize=1024)
def _is_listed(provider: str, model: str) -> bool:
    """True where the list knows the model. Remembered, because the list is slow to give up on a name."""
    return _look_up_price(TokenUsage(input_tokens=1, output_tokens=1), provider, model, None) is not None
