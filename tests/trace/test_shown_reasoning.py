"""Reasoning beside the reply that it came before, in all that shows a conversation (E14)."""

from __future__ import annotations

import json
from dataclasses import replace

from ensemble_notebook.domain.events import LlmCallCompleted
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.span_details import LONGEST_TEXT
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder

KEY = "sk-proj-abcdefghijklmnopqrstuvwx0123"


def make_messages(reasoning: str) -> TimelineMessages:
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("It is 7.")
    fold = TraceFold()
    for event in build.finish():
        fold.add(replace(event, reasoning=reasoning) if isinstance(event, LlmCallCompleted) else event)
    return TimelineMessages(fold)


def find_call(messages: TimelineMessages) -> str:
    return next(row["span_id"] for row in messages.make_snapshot()["rows"] if row["kind"] == "llm")


def test_w6_the_drawer_has_it_beside_the_reply_and_the_rest_on_request() -> None:
    reasoning = "<think>" + "hm, " * LONGEST_TEXT + "</think>"
    messages = make_messages(reasoning)
    call = find_call(messages)
    details = messages.make_details(call)
    said = details["messages"][-1]
    assert (said["text"], details["output"]) == ("It is 7.", "It is 7.")
    assert said["reasoning"] == reasoning[:LONGEST_TEXT]
    field = f"{said['field']}.reasoning"
    assert details["lengths"] == {field: len(reasoning)}
    assert messages.make_piece(call, field, LONGEST_TEXT)["text"] == reasoning[LONGEST_TEXT:][:100_000]


def test_t7_secrets_in_it_are_masked() -> None:
    messages = make_messages(f"<think>The key is {KEY}</think>")
    assert KEY not in json.dumps(messages.make_saved_view())


def test_w14_a_saved_view_has_it_once() -> None:
    reasoning = "<think>" + "Six, or seven? " * 20 + "</think>"
    view = make_messages(reasoning).make_saved_view()
    assert json.dumps(view).count(reasoning) == 1


def test_w28_words_are_found_in_it() -> None:
    messages = make_messages("<think>rather six</think>")
    assert [span_id for span_id, *_ in messages.search_texts(["rather six"])["spans"]] == [find_call(messages)]
