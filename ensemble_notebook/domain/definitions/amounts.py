"""Short texts for limits: ``60/min`` and ``2 per second``, ``$0.50`` and ``20k tokens`` (C2).

Texts in, values by field out. Knows neither nodes nor places; definitions, cells and the options of their first line
share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final, NamedTuple

from ensemble_notebook.errors import did_you_mean

MINUTE: Final = 60.0
CURRENCY: Final = "currency"
"""Of the money in a budget's text; stands beside the fields of the budget."""
DOLLARS: Final = "USD"
"""The currency of the public prices."""

_LONGEST: Final = 100
_RATE_FORM: Final = "Write a rate such as 60/min or 2 per second."
_BUDGET_FORM: Final = "Write limits such as $0.50, 20k tokens or 50 calls."
_HISTORY_FORM: Final = "Write a limit such as 20 turns, 8k tokens, or 8k tokens, summarised."
_SUMMARISED: Final = ("summarised", "summarized")
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_RATE: Final = re.compile(
    r"(?P<requests>[1-9]\d{0,8})(?:\s*(?:requests?|calls?))?(?:\s*/\s*|\s+(?:per|every|in)\s+)"
    r"(?P<count>(?:0|[1-9]\d{0,8})(?:\.\d{1,3})?)?\s*(?P<unit>[a-z]{1,20})",
    re.IGNORECASE,
)
_NUMBER: Final = r"(?P<digits>(?:0|[1-9]\d{0,14})(?:[_,]\d{3})*(?:\.\d{1,12})?)"
_MONEY: Final = re.compile(rf"(?P<sign>[$€£])\s*{_NUMBER}|{_NUMBER.replace('digits', 'plain')}\s*(?P<code>[A-Z]{{3}})")
_COUNT: Final = re.compile(rf"{_NUMBER}\s*(?P<factor>[kKM]?)\s*(?P<unit>[a-zA-Z]{{2,20}})")
_SIGNS: Final = {"$": "USD", "€": "EUR", "£": "GBP"}
_NO_SEPARATORS: Final = str.maketrans("", "", ",_")
_FACTORS: Final = {"": 1, "k": 1000, "K": 1000, "M": 1_000_000}
_COUNTED: Final = {
    **dict.fromkeys(("token", "tokens"), "max_tokens"),
    **dict.fromkeys(("call", "calls", "requests"), "max_llm_calls"),
}


class AmountError(ValueError):
    """A text that is no amount: what is wrong with it, and in `hint` how it is written."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _clean(text: str, form: str) -> str:
    """The text as messages show it.

    Raises:
        AmountError: it is too long to be an amount; nothing below is to work on it.
    """
    shown = text.strip()
    if len(shown) > _LONGEST:
        raise AmountError(f"a text with {len(shown):,} characters is no amount.", form)
    return shown


def is_amount(text: str) -> bool:
    """True for what can't be a name: it begins with a digit or the sign of a currency."""
    return text.strip()[:1].isdigit() or text.strip()[:1] in _SIGNS


def read_rate(text: str) -> dict[str, Any]:
    """Read the fields of a `RateLimit`.

    Raises:
        AmountError: it is no rate.
    """
    shown = _clean(text, _RATE_FORM)
    match = _RATE.fullmatch(shown)
    if match is None:
        raise AmountError(f"{shown!r} is no rate.", _RATE_FORM)
    unit = match["unit"].lower()
    if unit not in _UNITS:
        raise AmountError(f"{match['unit']!r} is no unit of time.{did_you_mean(unit, _UNITS)}", _RATE_FORM)
    return {"requests": int(match["requests"]), "period": float(match["count"] or 1) * _UNITS[unit]}


def read_budget(text: str) -> dict[str, Any]:
    """Read the fields of a `Budget`, money as text, and the `CURRENCY` of the money where there is some.

    The text names one limit of each kind at most, with a comma or ``and`` between them.

    Raises:
        AmountError: a part of it is no limit.
    """
    shown = _clean(text, _BUDGET_FORM)
    found: dict[str, Any] = {}
    for part in re.split(r"\s*,\s+|\s+and\s+", shown):
        money, count = _MONEY.fullmatch(part), _COUNT.fullmatch(part)
        if money is not None:
            amount = (money["digits"] or money["plain"]).translate(_NO_SEPARATORS)
            limit = {"max_cost": amount, CURRENCY: money["code"] or _SIGNS[money["sign"]]}
        elif count is None:
            raise AmountError(f"{part!r} is no limit: it needs a currency, 'tokens' or 'calls'.", _BUDGET_FORM)
        else:
            limit = {_COUNTED[_read_unit(count, _COUNTED, _BUDGET_FORM)]: _read_count(part, count, _BUDGET_FORM)}
        if found.keys() & limit.keys():
            raise AmountError(f"{shown!r} limits the same thing twice.", _BUDGET_FORM)
        found |= limit
    return found


def _read_unit(count: re.Match[str], known: Iterable[str], form: str) -> str:
    unit = count["unit"].lower()
    if unit not in known:
        raise AmountError(f"{count['unit']!r} can't be limited.{did_you_mean(unit, known)}", form)
    return unit


def _read_count(text: str, count: re.Match[str], form: str) -> int:
    number = Decimal(count["digits"].translate(_NO_SEPARATORS)) * _FACTORS[count["factor"]]
    if number != int(number):
        raise AmountError(f"{text!r} is no whole number.", form)
    return int(number)


class HistoryLimit(NamedTuple):
    """How much of an earlier conversation a model is sent.

    Attributes:
        turns: the most turns; None where tokens are limited.
        tokens: the most tokens; None where turns are.
        is_summarised: whether what is left out is summed up.
    """

    turns: int | None
    tokens: int | None
    is_summarised: bool = False


def read_history(text: str) -> HistoryLimit:
    """Read how much of an earlier conversation is sent: ``20 turns``, ``8k tokens``, ``8k tokens, summarised``.

    Raises:
        AmountError: it is no such limit.
    """
    shown = _clean(text, _HISTORY_FORM)
    amount, comma, rest = (each.strip() for each in shown.partition(","))
    count = _COUNT.fullmatch(amount)
    if count is None:
        raise AmountError(f"{amount!r} is no amount of history.", _HISTORY_FORM)
    unit = _read_unit(count, ("turns", "tokens", "turn", "token"), _HISTORY_FORM)
    number = _read_count(amount, count, _HISTORY_FORM)
    if comma and rest.lower() not in _SUMMARISED:
        raise AmountError(f"{rest!r} is nothing that can be done with what is left out.", _HISTORY_FORM)
    turns, tokens = (number, None) if unit.startswith("turn") else (None, number)
    return HistoryLimit(turns, tokens, is_summarised=bool(comma))


def check_currency(given: str, paid: str) -> None:
    """Check that the money of a budget is that of the prices.

    Raises:
        AmountError: it is another currency.
    """
    if given != paid:
        hint = f"Write the amount in {paid}, or give your prices in {given} with `cost`."
        raise AmountError(f"this budget is in {given!r}, and the prices are in {paid!r}.", hint)
