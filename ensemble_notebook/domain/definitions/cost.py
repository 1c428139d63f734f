"""What tokens cost (T10). Decimals throughout: no rounding drift."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Protocol

from ensemble_notebook.domain.definitions.definition import Converted, Definition, definition
from ensemble_notebook.domain.outputs.metrics import TokenUsage


@definition
class CostConfiguration(Definition):
    """Your own rates. They replace the public price list for every model of the run.

    Args:
        input_rate: the price of one input token, in `currency`; Decimal, int, float or text, at least 0.
        output_rate: the price of one output token.
        currency: code of the currency, such as ``"EUR"``.

    Raises:
        ValidationError: a field has a wrong value.
    """

    input_rate: Converted[Decimal, Decimal | float | str]
    output_rate: Converted[Decimal, Decimal | float | str]
    currency: str = "USD"

    def __post_init__(self) -> None:
        """Make both rates exact decimals >= 0."""
        for name in ("input_rate", "output_rate"):
            value = getattr(self, name)
            try:
                rate = Decimal(str(value))
            except InvalidOperation:
                rate = Decimal(-1)
            if isinstance(value, bool) or not rate.is_finite() or rate < 0:
                raise self._refuse(name, f"CostConfiguration {name} must be a price per token >= 0, got {value!r}.")
            self._set(name, rate)
        self._require_text("currency")


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

    def __call__(self, usage: TokenUsage, *, provider: str | None, model: str, at: datetime) -> Price | None:
        """The price of one request; None where it is unknown (T3)."""
