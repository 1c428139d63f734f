"""Numbers and causes as a person reads them: durations, counts, shares, money. Knows nothing of what they measure.

The timeline words them alike (`js/src/wording`): `tests/wording_cases.json` is read by the tests of both. So
that both agree to the last digit, a number is scaled, rounded half up to a whole one, and written digit by digit:
`format` rounds halves to even in Python, and up in JavaScript.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

UNKNOWN: Final = "\N{EN DASH}"

SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
WITHOUT_CENTS: Final = (
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW"),
    *("PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
)
"""Currencies to which ISO 4217 gives no smaller unit."""
_BYTES: Final = {"": "B", "k": "kB", "M": "MB", "B": "GB"}
"""By how a count of as many ends."""
_LEAST_DIGITS: Final = 6
FAULTS: Final = {"429": "too many requests", "5": "server error", "4": "refused"}
"""What a status of HTTP means, by how it begins."""
_HTTP_FAULT: Final = re.compile(r"\b([45]\d\d)\b", re.ASCII)
LONGEST_CAUSE: Final = 24


def format_duration(length: float | timedelta | None) -> str:
    """Format a length of time: ``340 ms``, ``7.9 s``, ``42 s``, ``1:42``, ``1:02:03``.

    Args:
        length: as timedelta, or in milliseconds.
    """
    milliseconds = length.total_seconds() * 1000 if isinstance(length, timedelta) else length
    if milliseconds is None or not math.isfinite(milliseconds):
        return UNKNOWN
    if milliseconds < 1:
        return "0 ms" if milliseconds <= 0 else "<1 ms"
    if milliseconds < 999.5:
        return f"{_round(milliseconds)} ms"
    if milliseconds < 9_950:
        return f"{_fixed(milliseconds / 1000, 1)} s"
    seconds = _round(milliseconds / 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def format_count(number: float | None) -> str:
    """Format a count, e.g. of tokens: ``812``, ``4.1k``, ``84.1k``, ``1.2M``, ``3.5B``."""
    if number is None or not math.isfinite(number):
        return UNKNOWN
    if number < 1000:
        return str(_round(number))
    # Each unit goes as far as it can without rounding up to 1000.
    unit, name = (1e3, "k") if number < 999.5e3 else (1e6, "M") if number < 999.5e6 else (1e9, "B")
    if number < 99.95 * unit:
        return _fixed(number / unit, 1).removesuffix(".0") + name
    return f"{_round(number / unit):,}{name}"


def format_size(number: int) -> str:
    """Format the size of a file, given in bytes: ``812 B``, ``4.1 kB``, ``287 kB``, ``1.2 MB``, ``3.5 GB``."""
    count = format_count(number)
    digits = count.rstrip("".join(_BYTES))
    return f"{digits} {_BYTES[count.removeprefix(digits)]}"


def format_money(amount: float | Decimal | None, currency: str | None) -> str:
    """An amount with at least two telling digits: ``$0``, ``$0.0042``, ``€0.218``, ``$12.40``, ``CHF 1,234.00``."""
    if amount is None or not math.isfinite(amount):
        return UNKNOWN
    value = float(amount)
    symbol = SYMBOLS.get(currency, f"{currency} ") if currency else ""
    if value < 0:
        return f"-{format_money(-value, currency)}"
    if value == 0:
        return f"{symbol}0"
    if value < 0.00001:
        return f"<{symbol}0.00001"
    cents = 0 if currency in WITHOUT_CENTS else 2
    digits = _money_digits(value, cents)
    # What rounds up to more takes the digits of that: 0.9996 is 1.00, as 1 is.
    return symbol + _fixed(value, _money_digits(_round(value * 10**digits) / 10**digits, cents))


def format_percent(share: float | None) -> str:
    """Format a share of one in whole percent: ``61%``."""
    return UNKNOWN if share is None or not math.isfinite(share) else f"{_round(100 * share):,}%"


def format_rate(per_second: float) -> str:
    """Format how many there are in a time: ``38/s``, ``3.8/s``, ``12/min``."""
    if per_second < 1:
        return f"{max(1, _round(60 * per_second))}/min"
    return f"{_fixed(per_second, 1 if per_second < 9.95 else 0)}/s"


def format_roughly(seconds: float) -> str:
    """Format a length of time that nobody knows exactly: ``5 s``, ``40 s``, ``3 min``, ``2 h``."""
    if seconds < 95:
        step = 5 if seconds < 17.5 else 10
        return f"{max(1, _round(seconds / step)) * step} s"
    return f"{_round(seconds / 60)} min" if seconds < 5370 else f"{_round(seconds / 3600)} h"


def format_zone(moment: datetime) -> str:
    """The zone of this computer's clock, for pages, which may be read in another: ``UTC+1``, ``UTC-3:30``."""
    minutes = round((moment.astimezone().utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    ahead = "" if minutes == 0 else f"{'-' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}"
    return f"UTC{ahead}"


def format_moment(moment: datetime) -> str:
    """A moment by the clock of this computer, which is mostly that of the reader: ``2026-11-24 18:05:09``."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def pluralize(number: int, noun: str) -> str:
    """A counted noun: ``1 task``, ``3 tasks``, ``2 retries``, ``2 matches``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def say_how_many(number: int, noun: str) -> str:
    """How many there are, as a clause: ``there is 1 task``, ``there are 3 tasks``."""
    return f"there {'is' if number == 1 else 'are'} {pluralize(number, noun)}"


def describe_cause(reason: str | None) -> str:
    """Why a request was made again, in full: ``too many requests (HTTP 429)``, ``timeout``."""
    if not reason:
        return "retry"
    status = _HTTP_FAULT.search(reason)
    if status is None:
        return reason.replace("_", " ")[:LONGEST_CAUSE]
    code = status[1]
    return f"{FAULTS.get(code) or FAULTS[code[0]]} (HTTP {code})"


def describe_saving(
    cost: float | Decimal | None, tokens: int | None, milliseconds: float | None, currency: str | None
) -> str:
    """What was not done again, as ``$0.012, 4.1k tokens and 12 s saved``; empty where that is nothing, or unknown."""
    parts = [format_money(cost, currency)] if cost else []
    parts += [f"{format_count(tokens)} tokens"] if tokens else []
    parts += [format_duration(milliseconds)] if milliseconds is not None and milliseconds >= 1 else []
    told = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
    return f"{told} saved" if told else ""


def _money_digits(value: float, cents: int) -> int:
    """How many digits stand after the point."""
    if value >= 1:
        return cents if value >= 10 else max(cents, 1)
    if value >= 0.1:
        return 3
    return next((digits for digits in range(3, _LEAST_DIGITS) if value * 10**digits >= 10), _LEAST_DIGITS)


def _round(value: float) -> int:
    """To the nearest whole number, halves up."""
    return math.floor(value + 0.5)


def _fixed(value: float, digits: int) -> str:
    """With so many digits after the point, and commas between thousands."""
    if digits == 0:
        return f"{_round(value):,}"
    whole, rest = divmod(_round(value * 10**digits), 10**digits)
    return f"{whole:,}.{rest:0{digits}}"
