"""Events of one kind are written together, and are the same events when they are read."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from ensemble_notebook import Ensemble, Task, load_traces
from ensemble_notebook.domain.events import Event
from ensemble_notebook.trace.codec.event_codec import event_to_plain
from ensemble_notebook.trace.codec.records import read_groups, write_events
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.store_file import VERSION, open_file, opened
from tests.support.event_builder import EventBuilder
from tests.support.store import wait_for_store


def make_events(tasks: int) -> list[Event]:
    names = [f"task_{number}" for number in range(tasks)]
    build = EventBuilder(dict.fromkeys(names, ()))
    for name in names:
        with build.task(name), build.turn():
            build.llm(f"About {name}.", seconds=0.5, input_tokens=120, output_tokens=30)
    return list(build.finish())


def test_what_events_of_a_kind_have_in_common_is_written_once():
    text = write_events(make_events(20)).decode()
    assert text.count("About task_7.") >= 1
    assert text.count('"provider"') == text.count('"LlmCallStarted"') == 1


def test_events_are_in_order_again():
    events = make_events(20)
    numbers = [plain["seq"] for plain in read_groups(json.loads(write_events(events)))]
    assert numbers == [event.seq for event in events]


@pytest.mark.parametrize("count", [3, 20])
def test_a_secret_is_masked_in_its_event_and_the_others_are_as_they_were(count):
    events = make_events(count)
    (number, *_) = (number for number, each in enumerate(events) if hasattr(each, "description"))
    events[number] = replace(events[number], description="Use sk-abcdefghijklmnopqrstuvwxyz for it")
    found = read_groups(json.loads(write_events(events)))
    told = [plain["description"] for plain in found if "description" in plain]
    assert told == [
        "Use *** for it",
        *(each.description for each in events[number + 1 :] if hasattr(each, "description")),
    ]


VALUES = (1, True, 1.0, None, 1)


def test_equal_objects_of_users_stay_apart():
    (event,) = (each for each in make_events(1) if hasattr(each, "output"))
    events = [
        replace(event, seq=n, output=replace(event.output, parsed_output=v)) for n, v in enumerate((1, True, 1.0))
    ]
    assert [plain["output"].get("parsedOutput") for plain in read_groups(json.loads(write_events(events)))] == [
        1,
        True,
        1.0,
    ]


def run_once() -> str:
    task = Task(name="say", description="Say it.", expected_output="It.", handler=lambda _: "Said.")
    return Ensemble(tasks=[task]).run().run_id


def make_store_of_version_1(path, run_id: str) -> None:
    """As the first version has it: each event by itself."""
    plain = [event_to_plain(event) for event in RunStore.open().load_events(run_id)]
    with closing(open_file(path, is_new_allowed=False)) as file:
        file.execute("DELETE FROM events")
        for each in plain:
            file.execute("INSERT INTO events VALUES (?, ?, ?)", (run_id, each["seq"], json.dumps([each]).encode()))
        file.execute("PRAGMA user_version = 1")


def read_version(path) -> int:
    with opened(path) as file:
        return file.execute("PRAGMA user_version").fetchone()[0]


def test_store_of_version_1_is_read_and_becomes_one_of_this_version_when_a_run_is_written(store_path):
    first = run_once()
    wait_for_store()
    events = RunStore.open().load_events(first)
    make_store_of_version_1(store_path, first)
    assert [event_to_plain(each) for each in RunStore.open().load_events(first)] == [*map(event_to_plain, events)]
    assert read_version(store_path) == 1  # nothing is changed for those who only read
    second = run_once()
    wait_for_store()
    assert read_version(store_path) == VERSION
    assert {*load_traces().runs.index} == {first, second}
    assert [event_to_plain(each) for each in RunStore.open().load_events(first)] == [*map(event_to_plain, events)]


@pytest.mark.parametrize("count", [1, 2, 50])
def test_piece_is_never_longer_than_events_one_by_one(count):
    events = make_events(count)
    one_by_one = sum(len(write_events([event])) for event in events)
    assert len(write_events(events)) <= one_by_one
