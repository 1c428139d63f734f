"""Numbers as a person reads them: durations, counts, money. The widget words them alike; knows nothing of spans."""

from __future__ import annotations

import math
from typing import Final

_SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}


def duration(milliseconds: float) -> str:
    """A length of time: ``340 ms``, ``7.9 s``, ``42 s``, ``1:42``, ``1:02:03``."""
    if milliseconds < 1:
        return "0 ms" if milliseconds <= 0 else "<1 ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 9_950:
        return f"{milliseconds / 1000:.1f} s"
    if milliseconds < 59_500:
        return f"{milliseconds / 1000:.0f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def count(number: int) -> str:
    """A count of tokens: ``812``, ``4.1k``, ``84.1k``, ``1.2M``."""
    if number < 1000:
        return str(number)
    scaled, unit = (number / 1e3, "k") if number < 999_950 else (number / 1e6, "M")
    text = f"{scaled:.1f}" if scaled < 99.95 else f"{scaled:.0f}"
    return text.removesuffix(".0") + unit


def money(cost: float, currency: str = "USD") -> str:
    """A price with at least two telling digits: ``$0.0042``, ``$0.218``, ``$12.40``."""
    symbol = _SYMBOLS.get(currency, f"{currency} ")
    if cost == 0:
        return f"{symbol}0"
    if cost >= 1:
        return f"{symbol}{cost:.2f}"
    if cost >= 0.1:
        return f"{symbol}{cost:.3f}"
    if cost < 0.00001:
        return f"<{symbol}0.00001"
    return f"{symbol}{cost:.{min(6, 1 - math.floor(math.log10(cost)))}f}"


def plural(number: int, noun: str) -> str:
    """``1 retry``, ``2 retries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("ry") else f"{number} {noun}s"
