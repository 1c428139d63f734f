"""Durations, counts and money in words: Python and TypeScript are held to one table."""

import json
import math
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from ensemble_notebook.domain.wording import (
    UNKNOWN,
    describe_cause,
    format_count,
    format_duration,
    format_moment,
    format_money,
    format_percent,
    format_size,
    format_zone,
    pluralize,
    say_how_many,
)

CASES = json.loads((Path(__file__).parent.parent / "wording_cases.json").read_text())


@pytest.mark.parametrize("milliseconds, text", CASES["durations"])
def test_duration_is_worded_as_in_the_table(milliseconds, text):
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize("number, text", CASES["counts"])
def test_count_is_worded_as_in_the_table(number, text):
    assert format_count(number) == text


def test_size_has_a_space_before_its_unit():
    sizes = {0: "0 B", 812: "812 B", 4_100: "4.1 kB", 287_000: "287 kB", 1_234_567: "1.2 MB", 3_500_000_000: "3.5 GB"}
    assert {number: format_size(number) for number in sizes} == sizes


@pytest.mark.parametrize("amount, currency, text", CASES["money"])
def test_money_is_worded_as_in_the_table(amount, currency, text):
    assert format_money(amount, currency) == text


@pytest.mark.parametrize("share, text", CASES["percents"])
def test_share_is_worded_as_in_the_table(share, text):
    assert format_percent(share) == text


@pytest.mark.parametrize("number, noun, text", CASES["plurals"])
def test_noun_follows_its_number_as_in_the_table(number, noun, text):
    assert pluralize(number, noun) == text


@pytest.mark.parametrize("reason, text", CASES["causes"])
def test_cause_is_worded_as_in_the_table(reason, text):
    assert describe_cause(reason) == text


def test_exact_prices_are_worded_like_those_that_went_through_json():
    assert format_money(Decimal("0.218"), "EUR") == "€0.218"


def test_timedelta_is_worded_as_its_milliseconds():
    assert format_duration(timedelta(minutes=1, seconds=42)) == "1:42"


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_unknown(nothing):
    words = [format_duration(nothing), format_count(nothing), format_money(nothing, "USD"), format_percent(nothing)]
    assert words == [UNKNOWN] * 4


def test_a_moment_is_told_by_the_clock_of_the_computer(monkeypatch):
    monkeypatch.setenv("TZ", "Etc/GMT-2")  # two hours before Greenwich, as POSIX has it
    time.tzset()
    try:
        assert format_moment(datetime(2026, 11, 24, 22, 30, 5, tzinfo=UTC)) == "2026-11-25 00:30:05"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "zone, words", [("UTC0", "UTC"), ("AAA-2", "UTC+2"), ("AAA3:30", "UTC-3:30"), ("AAA-5:45", "UTC+5:45")]
)
def test_a_zone_is_told_by_how_far_it_is_from_greenwich(monkeypatch, zone, words):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert format_zone(datetime(2026, 11, 24, 22, 30, tzinfo=UTC)) == words
    finally:
        monkeypatch.undo()
        time.tzset()


def test_one_is_there_and_several_are():
    assert [say_how_many(number, "row") for number in (0, 1, 1200)] == [
        "there are 0 rows",
        "there is 1 row",
        "there are 1,200 rows",
    ]
