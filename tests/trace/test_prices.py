import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import genai_prices
import pytest
from genai_prices import data as genai_prices_list

from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.events import LlmCallStarted, RunStarted
from ensemble_notebook.domain.outputs.task_output import NO_USAGE, TokenUsage
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.event_builder import EventBuilder

AT = datetime(2026, 1, 1, tzinfo=UTC)
SOME = TokenUsage(input_tokens=1000, output_tokens=100)


def price(usage=SOME, provider="openai", model="gpt-4o-mini", rates=None):
    return calculate_price(usage, provider=provider, model=model, at=AT, rates=rates)


def test_a_listed_model_has_an_exact_decimal_price():
    found = price()
    assert isinstance(found.total, Decimal)
    assert found.total == found.input + found.output > 0
    assert price(TokenUsage(input_tokens=3000, output_tokens=300)).total == 3 * found.total


def test_cached_input_is_cheaper():
    cached = TokenUsage(input_tokens=1000, output_tokens=100, cache_read_tokens=800)
    assert price(cached).input < price().input


@pytest.mark.parametrize("provider", ["local", "scripted"])
def test_what_runs_here_costs_nothing_and_that_is_known(provider):
    assert price(provider=provider, model="anything").total == 0


@pytest.mark.parametrize(
    "provider, model", [(None, "gpt-4o-mini"), ("openai", "unheard-of"), ("nobody", "gpt-4o-mini")]
)
def test_an_unknown_price_is_none_and_no_provider_is_guessed_from_the_name(provider, model):
    assert price(provider=provider, model=model) is None


@pytest.mark.parametrize("usage", [TokenUsage(), TokenUsage(input_tokens=5), TokenUsage(output_tokens=5)])
def test_unknown_tokens_have_no_price(usage):
    assert price(usage) is None
    assert price(usage, provider="local") is None


def test_a_refused_request_costs_nothing_even_where_prices_are_unknown():
    assert price(NO_USAGE, model="unheard-of").total == 0


def test_counts_that_contradict_each_other_have_no_price():
    assert price(TokenUsage(input_tokens=10, output_tokens=5, cache_read_tokens=20)) is None


def test_own_rates_replace_the_list_for_every_model():
    rates = CostConfiguration(input_rate="0.001", output_rate="0.01")
    for provider, model in (("openai", "gpt-4o-mini"), ("local", "x"), (None, "unheard-of")):
        assert price(provider=provider, model=model, rates=rates).total == Decimal("2.000")


def test_a_price_in_another_currency_is_unknown():
    euro = CostConfiguration(input_rate="0.001", output_rate="0.01", currency="EUR")
    assert price(rates=euro) is None
    for provider, rates, total in (("openai", euro, Decimal("2.000")), ("openai", None, None), ("local", None, 0)):
        found = calculate_price(SOME, provider=provider, model="gpt-4o-mini", at=AT, rates=rates, currency="EUR")
        assert (None if found is None else found.total) == total


def test_no_price_opens_a_connection(monkeypatch):
    def refuse(*_):
        raise AssertionError("a price must not open a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert price(model="gpt-4o").total > 0


def test_many_small_costs_add_up_without_drift():
    rates = CostConfiguration(input_rate="0.0000001", output_rate="0.0000003")
    build = EventBuilder({"a": ()})
    with build.task("a"):
        for iteration in range(1, 101):
            with build.turn(iteration):
                build.llm("x", input_tokens=1, output_tokens=1)
    metrics = ExecutionTrace.from_events(build.finish(), rates).metrics
    assert metrics.cost == Decimal("0.00004")
    assert metrics.cost_complete is True


def test_a_reply_by_another_listed_model_is_priced_as_that_one():
    build = EventBuilder({"a": ()}, provider="openai", model="gpt-4o")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=1000, output_tokens=100, served_as="gpt-4o-mini")
    assert ExecutionTrace.from_events(build.finish()).metrics.cost == price().total < price(model="gpt-4o").total


def test_the_name_in_the_reply_decides_where_the_one_asked_for_is_not_listed():
    build = EventBuilder({"a": (), "b": ()}, provider="openai", model="my-alias")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=1000, output_tokens=100, served_as="gpt-4o-mini", retries=[("429", 1.0)])
    with build.task("b"), build.turn():
        build.llm("x", input_tokens=1000, output_tokens=100)
    trace = ExecutionTrace.from_events(build.finish())
    known, unknown = trace.task("a").metrics, trace.task("b").metrics
    assert (known.cost, known.cost_complete) == (price().total, True)
    assert (unknown.cost, unknown.cost_complete) == (None, False)
    assert (trace.metrics.cost, trace.metrics.cost_complete) == (price().total, False)
    served = [(span.model_requested, span.model) for span in trace.spans if span.kind is SpanKind.LLM]
    assert served == [("my-alias", "gpt-4o-mini"), ("my-alias", "my-alias")]


def test_the_list_is_asked_a_few_times_however_many_requests_there_are(monkeypatch):
    asked = []
    monkeypatch.setattr(
        genai_prices,
        "calc_price",
        lambda *args, calc=genai_prices.calc_price, **named: asked.append(args) or calc(*args, **named),
    )
    for number in range(1, 100):
        usage = TokenUsage(input_tokens=10 * number, output_tokens=number, cache_read_tokens=number)
        found = calculate_price(usage, provider="openai", model="gpt-4o-mini", at=AT + timedelta(seconds=number))
        assert found.total == number * price(TokenUsage(input_tokens=10, output_tokens=1, cache_read_tokens=1)).total
    assert len(asked) <= 5


@pytest.mark.parametrize("provider", ["anthropic", "deepseek", "google", "groq", "mistral", "openai"])
def test_what_a_request_costs_is_what_the_list_says_whenever_it_was_and_however_long(provider):
    listed = [each for known in genai_prices_list.providers if known.id == provider for each in known.models]
    usages = [
        {"input_tokens": 1_234, "output_tokens": 567, "cache_read_tokens": 890, "cache_write_tokens": 11},
        {"input_tokens": 100_001, "output_tokens": 3, "cache_write_tokens": 77},
        {"input_tokens": 300_001, "output_tokens": 150_003, "cache_read_tokens": 200_001},
        {"input_tokens": 7, "output_tokens": 8, "cache_read_tokens": 4, "cache_write_tokens": 4},
        {"input_tokens": 0, "output_tokens": 999},
    ]
    for place, model in enumerate(listed):
        at = AT + timedelta(days=23 * (place % 16), minutes=97 * place)
        for usage in usages:
            try:
                found = genai_prices.calc_price(
                    genai_prices.Usage(**usage), model.id, provider_id=provider, genai_request_timestamp=at
                )
                told = (found.input_price, found.output_price)
            except (LookupError, ValueError):  # another name comes before; or more came from the cache than there was
                told = None
            ours = calculate_price(TokenUsage(**usage), provider=provider, model=model.id, at=at)
            assert (ours and (ours.input, ours.output)) == told, (model.id, usage, at)


def test_rates_of_the_run_price_what_tells_none_in_files_of_earlier_versions_alone_t10():
    build = EventBuilder({"a": ()}, provider="host", model="m")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=10, output_tokens=1)
    old, rates = build.finish(), CostConfiguration(input_rate=1, output_rate=1)
    assert ExecutionTrace.from_events(old, rates).metrics.cost == 11
    new = [replace(each, currency="USD") if isinstance(each, RunStarted) else each for each in old]
    assert ExecutionTrace.from_events(new, rates).metrics.cost is None
    told = [replace(each, rates=rates) if isinstance(each, LlmCallStarted) else each for each in new]
    assert ExecutionTrace.from_events(told).metrics.cost == 11
