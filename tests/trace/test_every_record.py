"""Each field of each record, with a value of each kind that it may have, is read back as it was written (T12).

The fields and their types come from the records: a new field is tried by itself, one of a new type asks for values.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.definition import Converted
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
from ensemble_notebook.domain.planning.map_design import UntilClear
from ensemble_notebook.errors import make_recorded_error
from ensemble_notebook.trace.codec.event_codec import LEFT_OUT, event_to_plain, to_plain
from ensemble_notebook.trace.codec.records import read_event, read_groups, read_value, write_events, write_record
from ensemble_notebook.trace.store.run_facts import RunFacts, RunSummary

EVENTS: Final = [
    each for each in vars(ev).values() if isinstance(each, type) and issubclass(each, ev.Event) and each is not ev.Event
]
VALUES: Final[Mapping[Any, Sequence[Any]]] = {
    str: ("word", "", "45", "true", "ü\n"),
    int: (7, 0, -1),
    bool: (True, False),
    float: (0.5, 45, 45.0, 0),
    Decimal: (Decimal("0.50"), Decimal("1E-9")),
    datetime: (datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
    timedelta: (timedelta(seconds=1.5), timedelta(), timedelta(days=2, microseconds=1)),
    type(None): (None,),
    BaseException: (make_recorded_error("ValueError", "burnt", "a.py:1"), make_recorded_error("KeyError", "", None)),
    RateLimit: (RateLimit(60, 60), RateLimit(2, 0.5, wait_timeout=7)),
    Budget: (
        Budget(max_cost="0.50", max_tokens=7, warn_at=0.5),
        Budget(max_llm_calls=1, allow_unknown_cost=True),
        Budget(max_tokens=3).shared(),
    ),
    CostConfiguration: (
        CostConfiguration(input_rate="0.0000003", output_rate=1, currency="EUR"),
        CostConfiguration(input_rate=0, output_rate=0),
    ),
    UntilClear: (UntilClear(level=0.05), UntilClear(level=0.5, score_count=2, score="right", is_="good", seed=7)),
    Any: ({"a": [1, 1.0, "1", True, {"b": None}]}, "text", 45, 45.0, [], {}),
}
"""Values of each type; the first one stands wherever another field is tried."""


def samples(hint: Any, depth: int = 0) -> list[Any]:
    """Values that a field of this type may have, some of each kind."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in VALUES:
        return list(VALUES[hint])
    if origin in (Union, types.UnionType):
        return [value for each in arguments for value in samples(each, depth)]
    if origin is Literal:
        return list(arguments)
    if origin is Converted:
        return samples(arguments[1], depth)
    if origin is tuple:
        if arguments[-1] is not Ellipsis:
            return [tuple(samples(each, depth)[0] for each in arguments)]
        found = samples(arguments[0], depth)
        return [(), *((value,) for value in found), tuple(found[:2])]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [{}, *({"key": value} for value in samples(arguments[1], depth))]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return list(records(hint, depth + 1))
    raise AssertionError(f"No values of {hint} are known: add some to VALUES.")


def records(kind: Any, depth: int = 0) -> Iterator[Any]:
    """One of a kind, then one for each value of each of its fields."""
    hints = get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind) if each.init and each.name not in LEFT_OUT]
    # Records of their own kind are tried once inside each other.
    ends = {"nested": [None], "managed": [()], "row_plan": [None]} if depth > 3 else {}  # a plan holds plans and tasks
    values = {name: ends[name] if name in ends else samples(hints[name], depth) for name in names}
    needed = [
        each.name
        for each in dataclasses.fields(kind)
        if each.init and each.default is each.default_factory is dataclasses.MISSING
    ]
    usual = {name: values[name][0] for name in needed}
    yield kind(**usual)
    for name in names:
        yield from (kind(**{**usual, name: value}) for value in values[name])


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, and of the same types all the way down."""
    if isinstance(a, BaseException):
        return isinstance(b, BaseException) and to_plain(a) == to_plain(b)
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if type(a) is not type(b):
        return False
    if dataclasses.is_dataclass(a):
        names = [each.name for each in dataclasses.fields(a) if each.name not in LEFT_OUT]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_comes_back_from_a_file(kind: type[ev.Event]) -> None:
    for event in records(kind):
        back = read_event(json.loads(json.dumps(event_to_plain(event))), event.run_id)
        assert same(event, back), (event, back)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_comes_back_from_the_store(kind: type[ev.Event]) -> None:
    every = [dataclasses.replace(event, seq=place) for place, event in enumerate(records(kind))]
    one_by_one = [plain for event in every for plain in read_groups(json.loads(write_events([event])))]
    together = read_groups(json.loads(write_events(every)))
    for event, alone, grouped in zip(every, one_by_one, together, strict=True):
        for plain in (alone, grouped):
            back = read_event(plain, event.run_id)
            assert same(event, back), (event, back)


@pytest.mark.parametrize("kind", [RunFacts, RunSummary, TaskOutput], ids=lambda kind: kind.__name__)
def test_what_the_store_knows_of_a_run_comes_back(kind: type) -> None:
    for record in records(kind):
        back = read_value(json.loads(json.dumps(to_plain(record))), kind)
        assert same(record, back), (record, back)


def test_the_output_of_a_task_comes_back_as_it_is_kept_for_reuse() -> None:
    for output in records(TaskOutput):
        back = read_value(json.loads(write_record(output)), TaskOutput)
        assert same(output, back), (output, back)


def test_blank_settings_of_phases_are_none() -> None:
    plan = next(records(ExecutionPlan))
    once = {**to_plain(plan), "phases": {"opening": []}, "phaseSettings": {"opening": ""}}
    assert read_value(once, ExecutionPlan).phase_settings == {"opening": {}}
    with pytest.raises(ValueError, match=r"phaseSettings\.opening"):
        read_value({**once, "phaseSettings": {"opening": "by look"}}, ExecutionPlan)
