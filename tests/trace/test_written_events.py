"""Events as the store writes them: what the codec of files makes of them, secrets masked (T7)."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.events import TaskCompleted, TaskStarted
from ensemble_notebook.domain.outputs.secrets import mask, protect
from ensemble_notebook.trace.codec.event_codec import event_to_plain
from ensemble_notebook.trace.codec.records import list_fields_where_none_tells, read_event, read_groups, write_events
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams

SECRETS = (
    "sk-abcdefghijklmnopqrstuvwxyz",
    "AKIAABCDEFGHIJKLMNOP",
    "Bearer abcdefghijklmnopqrstuvwxyz",
    "password='hunter2222'",
    '{"password": "hunter2222"}',
    "https://me:word@host/x",
    "https://host/?x=1&api_key=abc",
    "aws_secret_access_key = 'abcdefghijklmnopqrstuvwxyz'",
    '{"client_secret": "abcdefghijklmnopqrstuvwxyz"}',
    "Authorization: Basic dXNlcjpwYXNz",
    "-----BEGIN PRIVATE KEY-----\nabcdef\n-----END PRIVATE KEY-----",
)


def started(text: str) -> TaskStarted:
    with (build := EventBuilder({"say": ()})).task("say"):
        pass
    event = next(each for each in build.finish() if isinstance(each, TaskStarted))
    return replace(event, description=text)


def written(event) -> dict:
    (plain,) = read_groups(json.loads(write_events([event])))
    return plain


@given(streams())
def test_events_come_back_as_from_a_file(events):
    back = [read_event(plain, "run") for plain in read_groups(json.loads(write_events(events)))]
    assert [event_to_plain(event) for event in back] == [event_to_plain(event) for event in events]


def test_none_can_be_left_out_of_every_event():
    kinds = [each for each in vars(ev).values() if isinstance(each, type) and issubclass(each, ev.Event)]
    assert [(kind, names) for kind in kinds if (names := list_fields_where_none_tells(kind))] == []


@given(st.lists(st.one_of(st.sampled_from(SECRETS), st.text(max_size=20)), max_size=4).map(" ".join))
def test_text_is_masked_as_everywhere(text):
    assert mask(written(started(text)).get("description", "")) == written(started(text)).get("description", "")


@pytest.mark.parametrize("secret", SECRETS)
def test_each_kind_of_secret_is_found(secret):
    assert written(started(f"Use {secret} for it"))["description"] == mask(f"Use {secret} for it")


def test_protected_value_is_found_however_json_writes_it():
    protect('of "mine" \\ and\nyours, ü')
    assert written(started('say: of "mine" \\ and\nyours, ü!'))["description"] == "say: ***!"


def test_half_a_character_becomes_a_mark():
    assert written(started("a\ud800b"))["description"] == "a\N{REPLACEMENT CHARACTER}b"


def test_value_that_contains_itself_is_written_as_python_shows_it():
    loop: list = []
    loop.append(loop)
    with (build := EventBuilder({"say": ()})).task("say"):
        pass
    event = next(each for each in build.finish() if isinstance(each, TaskCompleted))
    (told,) = json.loads(write_events([replace(event, output=replace(event.output, parsed_output=loop))]))
    assert told["output"]["parsedOutput"] == "[[...]]"
