"""Words are found in the texts of a run where these arose, with what is around them (W28)."""

from __future__ import annotations

from typing import Any

from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.text_search import MOST_SNIPPETS
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder


def make_messages(build: EventBuilder) -> TimelineMessages:
    fold = TraceFold()
    for event in build.events:
        fold.add(event)
    return TimelineMessages(fold)


def find(messages: TimelineMessages, *words: str) -> list[tuple[str, list[int], str | None]]:
    found = messages.search_texts(words)
    assert found["words"] == list(words)
    kinds = {row["span_id"]: row["kind"] for row in messages.make_snapshot()["rows"]}
    return [(kinds[span_id], numbers, snippet) for span_id, numbers, snippet in found["spans"]]


def test_w28_each_text_is_found_where_it_arose():
    build = EventBuilder({"a": ()})
    with build.task("a", prompt="Ask the harbour"), build.turn():
        build.llm("I look it up.", asks=["search"])
        build.tool("search", result="Three papers about tides")
        build.llm("Acme is a single supplier.")
    messages = make_messages(build)
    assert find(messages, "HARBOUR") == [("task", [0], "Ask the harbour")]
    assert find(messages, "three papers") == [("tool", [0], "Three papers about tides")]
    assert find(messages, "single", "acme") == [("llm", [0, 1], "Acme is a single supplier.")]
    assert find(messages, "nowhere") == []


def test_w28_what_is_being_written_is_found_too():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=["High ", "tide at six"], hangs=True)
    assert [kind for kind, _, _ in find(make_messages(build), "high tide")] == ["llm"]


def test_w28_a_snippet_is_one_line_around_the_words():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x" * 500 + "\n\nthe  needle\n" + "y" * 500)
    [(_, _, snippet)] = find(make_messages(build), "needle")
    assert snippet is not None
    assert snippet.startswith("…x")
    assert snippet.endswith("y…")
    assert "the needle y" in snippet
    assert len(snippet) < 140


def test_w28_of_very_many_hits_the_first_have_snippets():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        for _ in range(MOST_SNIPPETS + 5):
            with build.turn():
                build.llm("the same reply")
    found = find(make_messages(build), "same reply")
    assert len(found) == MOST_SNIPPETS + 5
    assert sum(snippet is not None for _, _, snippet in found) == MOST_SNIPPETS


def test_w28_a_feed_answers_a_search_and_nothing_that_is_none():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("At high tide")
    feed = RunFeed(make_messages(build))
    sent: list[Any] = []

    class View:
        def send(self, content: Any, buffers: Any = None, /) -> None:
            sent.append(content)

    view = View()
    for words in (["tide"], "tide", [""], [3], None):
        feed.receive(view, {"kind": "search", "words": words})
    [answer] = sent
    assert (answer["kind"], answer["words"], len(answer["spans"])) == ("found", ["tide"], 1)
