"""What tokens cost (T10). Decimals throughout: no rounding drift."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ensemble_notebook.domain.definition import Checked, definition


@definition
class CostConfiguration(Checked):
    """Own rates, used for every model of the run instead of the public price list.

    Fields: `input_rate` and `output_rate`, in `currency` per token, as Decimal, int, float or text.
    """

    input_rate: Decimal
    output_rate: Decimal
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
