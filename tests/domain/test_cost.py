"""Own rates (T10)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price
from ensemble_notebook.domain.outputs.task_output import TokenUsage
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


def test_cached_input_has_a_rate_of_its_own_or_that_of_all_input_t10() -> None:
    usage = TokenUsage(input_tokens=1000, output_tokens=10, cache_read_tokens=900)
    plain = CostConfiguration(input_rate=2, output_rate=1)
    assert plain.calculate_price(usage) == Price(Decimal(2000), Decimal(10))
    cached = CostConfiguration(input_rate=2, output_rate=1, cached_input_rate="0.5")
    assert cached.calculate_price(usage) == Price(Decimal(650), Decimal(10))
    assert cached.calculate_price(TokenUsage(input_tokens=1, output_tokens=1)) == Price(Decimal(2), Decimal(1))
    assert cached.calculate_price(TokenUsage(input_tokens=1, output_tokens=1, cache_read_tokens=5)) is None
    assert cached.calculate_price(TokenUsage(input_tokens=1)) is None


@pytest.mark.parametrize("rate", [-1, "dear", True, 3], ids=repr)
def test_a_cached_rate_is_no_more_than_that_of_all_input(rate: Any) -> None:
    with pytest.raises(ValidationError, match="CostConfiguration cached_input_rate must be"):
        CostConfiguration(input_rate=2, output_rate=1, cached_input_rate=rate)
