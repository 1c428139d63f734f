"""Traces that somebody has edited: refused by name, or as good as any other; never a loop or a late error (E71)."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import ExecutionTrace, TraceFormatError
from ensemble_notebook.notebook.picture.static_picture import make_last_bundle
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

SAVED = Path(__file__).parents[1] / "fixtures" / "0.1.0"
# What an editor, or somebody who means harm, may put in place of anything.
ODD = [
    *(None, True, -1, 0, 1e308, 2**70, -1e18, [], {}, [None], {"a": 1}, "", "x", "\0", "\x1b[31m", "9" * 50),
    *("2026-99-99", "PT1e999S", "P9999999999D", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "sNaN", "Infinity"),
]
FRAMES = [name for name, value in vars(Frames).items() if not (name.startswith("_") or isfunction(value))]


def load_document(name: str, *, is_foreign: bool) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SAVED / f"{name}.trace.json").read_text())
    if is_foreign:
        del document["events"]  # what is left is what AgentEnsemble writes
    return document


def places_in(document: Any) -> list[tuple[Any, ...]]:
    """The ways to all values of a document."""
    places: list[tuple[Any, ...]] = []
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(document, ())]
    while waiting:
        value, way = waiting.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((*way, key))
            waiting.append((inner, (*way, key)))
    return places


def find(document: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        document = document[key]
    return document


def mutate(document: Any, places: list[tuple[Any, ...]], rng: random.Random) -> Any:
    """A copy in which a few values were removed, replaced, doubled, shuffled or put elsewhere."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        *way, key = rng.choice(places)
        try:
            around = find(document, tuple(way))
            match rng.randrange(6):
                case 0:
                    del around[key]
                case 1:
                    around[key] = copy.deepcopy(find(document, rng.choice(places)))
                case 2 if isinstance(around, list):
                    around.insert(key, copy.deepcopy(rng.choice(around)))
                case 3 if isinstance(around, list):
                    rng.shuffle(around)
                case _:
                    around[key] = rng.choice(ODD)
        except (LookupError, TypeError):
            continue  # an earlier change has removed it
    return document


def use(trace: ExecutionTrace) -> None:
    """Everything that a trace is for."""
    for value in (trace, trace.metrics, trace.errors, trace.warnings, trace.duration, trace.events, trace.plan):
        repr(value)
    for task in trace.tasks:
        repr((task, task.turns, task.delegations, task.messages, task.metrics))
    for name in FRAMES:
        getattr(trace.frames, name).to_csv()
    trace.frames.timeseries().to_csv()
    json.dumps(trace.to_dict(), allow_nan=False)
    assert pickle.loads(pickle.dumps(trace)).metrics == trace.metrics
    messages = TimelineMessages(trace._fold)
    make_last_bundle(messages)


@pytest.mark.parametrize("is_foreign", [False, True], ids=["ours", "agentensemble"])
@pytest.mark.parametrize("name", ["slow", "storm", "kitchen"])
def test_an_edited_trace_is_refused_or_can_be_used_e71(tmp_path: Path, name: str, is_foreign: bool) -> None:
    document, file = load_document(name, is_foreign=is_foreign), tmp_path / "edited.trace.json"
    places, rng, refused = places_in(document), random.Random(f"{name} {is_foreign}"), 0
    for _ in range(12):
        file.write_text(json.dumps(mutate(document, places, rng)))
        try:
            trace = ExecutionTrace.load(file)
        except TraceFormatError:
            refused += 1
        else:
            use(trace)
    assert refused < 12


def hostile_changes() -> Iterator[tuple[str, Any]]:
    """Changes that once led to a loop, or to an error long after the file had been read."""
    yield "a span inside itself", lambda events: events[3].update(parentId=events[3]["spanId"])
    yield "time that runs backwards", lambda events: events[5].update(offsetS=-1e18)
    yield "a time that no clock shows", lambda events: events[-1].update(offsetS=1e300)
    yield "numbers out of order", lambda events: events[4].update(seq=0)
    yield "a run that starts twice", lambda events: events.insert(1, {**events[0], "seq": 0.5})
    yield "a task without a status", lambda events: events[-1].pop("status")
    yield "a list for a name", lambda events: events[2].update(agent=["a"], task=["b"])


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in hostile_changes()])
def test_what_once_came_late_is_found_when_a_file_is_read_e71(tmp_path: Path, change: Any) -> None:
    document, file = load_document("slow", is_foreign=False), tmp_path / "edited.trace.json"
    change(document["events"])
    file.write_text(json.dumps(document))
    with pytest.raises(TraceFormatError, match="is damaged"):
        ExecutionTrace.load(file)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, '{"taskTraces": NaN}', "\ufeff{", "[1e999999]"])
def test_deep_json_and_what_is_no_json_are_refused_e71(tmp_path: Path, text: str) -> None:
    file = tmp_path / "deep.trace.json"
    file.write_text(text)
    with pytest.raises(TraceFormatError, match=r"deep\.trace\.json is"):
        ExecutionTrace.load(file)


@pytest.mark.parametrize("length, is_refused", [(250, False), (3000, True)])
def test_a_chain_of_spans_is_used_or_refused_e71(tmp_path: Path, length: int, is_refused: bool) -> None:
    document, file = load_document("slow", is_foreign=False), tmp_path / "edited.trace.json"
    turn = next(each for each in document["events"] if each["type"] == "TurnStarted")
    last = document["events"][-1]
    chain = [{**turn, "spanId": f"s{n}", "parentId": f"s{n - 1}" if n else turn["parentId"]} for n in range(length)]
    events = [*document["events"][:-1], *({**each, "offsetS": last["offsetS"]} for each in chain), last]
    document["events"] = [{**each, "seq": number} for number, each in enumerate(events)]
    file.write_text(json.dumps(document))
    if is_refused:
        with pytest.raises(TraceFormatError, match="more than 300 spans deep"):
            ExecutionTrace.load(file)
    else:
        use(ExecutionTrace.load(file))
