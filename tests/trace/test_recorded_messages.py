"""The TypeScript tests run on messages of real runs, and on such as are sent today (T28)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from ensemble_notebook.trace.spans.span_kinds import SpanKind
from tests.support.recorded_messages import FOLDER, describe_shape, make_messages

made = cache(make_messages)


@pytest.mark.parametrize("name", ["flat", "nested", "report"])
def test_recorded_messages_consist_of_what_is_sent_today(name: str) -> None:
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    today = json.loads(json.dumps(made()[name]))
    assert describe_shape(today) ^ describe_shape(recorded) == set(), "run `make recorded-messages`"
    assert count_kinds(recorded) == count_kinds(today), "run `make recorded-messages`"


def count_kinds(messages: dict[str, Any]) -> list[str]:
    return sorted(row["kind"] for row in messages["final"]["rows"])


def test_recorded_messages_have_every_kind_that_views_show() -> None:
    kinds = {row["kind"] for messages in made().values() for row in messages["final"]["rows"]}
    assert kinds == {kind.value for kind in SpanKind if kind.traits.is_shown}


def test_two_recordings_of_a_run_have_one_shape() -> None:
    first, second = make_messages(), make_messages()
    assert {name: describe_shape(each) for name, each in first.items()} == {
        name: describe_shape(each) for name, each in second.items()
    }
