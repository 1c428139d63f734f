"""Own rates (T10)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.errors import ValidationError


@pytest.mark.parametrize("rate", [Decimal("0.1"), 0.1, "0.1"], ids=repr)
def test_rates_are_exact_decimals_however_they_are_written_t10(rate: Any) -> None:
    cost = CostConfiguration(input_rate=rate, output_rate=0)
    assert cost.input_rate == Decimal("0.1")
    assert sum([cost.input_rate] * 10, Decimal()) == 1
    assert cost.currency == "USD"


@pytest.mark.parametrize("rate", [-1, "-0.1", "nan", "inf", "free", None, True], ids=repr)
@pytest.mark.parametrize("field", ["input_rate", "output_rate"])
def test_a_rate_is_a_number_not_below_0(field: str, rate: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        CostConfiguration(**{"input_rate": 1, "output_rate": 1, field: rate})
    assert str(caught.value) == f"CostConfiguration {field} must be a price per token >= 0, got {rate!r}."


def test_a_currency_is_not_blank() -> None:
    with pytest.raises(ValidationError, match="CostConfiguration currency must not be blank"):
        CostConfiguration(input_rate=1, output_rate=1, currency=" ")
