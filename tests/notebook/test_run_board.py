"""The board of remembered runs (W130-W134) as the kernel tells of it; `tests/browser` has what a person sees."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from ensemble_notebook import Ensemble, EnsembleOutput, ScriptedChatModel
from ensemble_notebook.notebook.live.board_feed import BoardFeed
from ensemble_notebook.notebook.live.board_rows import BoardRows
from ensemble_notebook.notebook.live.run_feed import find_feed
from ensemble_notebook.trace.analysis.small_picture import draw_small_picture
from ensemble_notebook.trace.store.run_rows import encode_events
from ensemble_notebook.trace.store.run_store import RunStore
from tests.notebook.conftest import Shell
from tests.support.store import copy_runs, wait_for_store

pytestmark = pytest.mark.usefixtures("store_path")

TEAM = """name: report
llm: model
tasks:
  find: Find facts about {topic}
  brief: {description: Write, context: [find]}
"""
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF"


class Page:
    """A view of the board: what it was told, in order."""

    def __init__(self, feed: BoardFeed) -> None:
        self.feed = feed
        self._told: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._nonce = 0

    def send(self, content: dict[str, Any], buffers: Any = None, /) -> None:
        self._told.put(content)

    def wait(self, kind: str) -> dict[str, Any]:
        """The next message of a kind."""
        end = time.monotonic() + 30
        while True:
            try:
                content = self._told.get(timeout=max(0.01, end - time.monotonic()))
            except Empty:
                raise AssertionError(f"nothing of kind {kind} came") from None
            if content["kind"] == kind:
                return content

    def ask(self, kind: str, answer: str, **facts: Any) -> dict[str, Any]:
        self._nonce += 1
        self.feed.receive(self, {"kind": kind, "nonce": self._nonce, **facts})
        while (found := self.wait(answer)).get("nonce") != self._nonce:
            pass
        return found


def make_team() -> Ensemble:
    return Ensemble.from_yaml(TEAM, {"model": ScriptedChatModel(default="The tide turns.")})


def run_team(topic: str = "tides") -> EnsembleOutput:
    output = make_team().run(topic=topic)
    wait_for_store()
    return output


@pytest.fixture
def page(store_path: Path) -> Iterator[Page]:
    page = Page(BoardFeed(RunStore.open()))
    yield page
    page.feed.receive(page, {"kind": "bye"})


def test_the_board_tells_of_runs_as_they_come_and_go_w130(page: Page) -> None:
    first = run_team(f"tides {KEY}").score(lambda output: len(output.raw) < 99)
    RunStore.open().summarize(first.run_id)
    (row,) = page.ask("hello", "runs")["rows"]
    assert (row["run_id"], row["name"], row["status"], row["tasks_done"]) == (first.run_id, "report", "completed", 2)
    assert KEY not in json.dumps(row)
    assert row["scores"][0][1:] == ["passed", 1.0, True]
    fork = first.fork(first.frames.spans.query("name == 'brief'").index[0])
    changed = page.wait("changed")["rows"]
    assert {(each["kind"], each["parent"], each["family"]) for each in changed} == {
        ("fork", first.run_id, first.run_id)
    }
    wait_for_store()
    page.ask("hello", "runs")
    assert page.ask("forget", "done", run_id=first.run_id)["text"] == f"Forgot run {first.run_id}"
    while not (gone := page.wait("changed")["gone"]):
        pass  # the fork has got its summary
    assert gone == [first.run_id]
    assert [row["run_id"] for row in page.ask("hello", "runs")["rows"]] == [fork.run_id]


def test_the_board_is_a_frame_and_elsewhere_a_table_w130(shell: Shell) -> None:
    run_team()
    table = shell.ip.run_line_magic("ensemble", "runs")
    assert table.name.tolist() == ["report"]
    assert table._repr_mimebundle_() is None
    assert "report" in table._repr_html_()


def test_a_run_is_opened_once_and_two_are_compared_w131(page: Page) -> None:
    first, second = run_team(), run_team("moons")
    page.ask("hello", "runs")
    feed_id = page.ask("open", "opened", run_id=first.run_id)["feed_id"]
    assert page.ask("open", "opened", run_id=first.run_id)["feed_id"] == feed_id
    page.feed.receive(page, {"kind": "feed", "feed_id": feed_id, "content": {"kind": "hello", "have": None}})
    told = page.wait("feed")
    assert told["feed_id"] == feed_id
    assert told["content"]["kind"] == "snapshot"
    both = page.ask("compare", "opened", run_ids=[first.run_id, second.run_id])
    assert "moons" in both["text"]
    assert find_feed(both["feed_id"]) is not None


def test_an_opened_run_that_another_process_goes_on_with_is_followed_w131(page: Page) -> None:
    output = run_team()
    store = RunStore.open()
    elsewhere = ("running", '{"host": "elsewhere"}', time.time())
    with closing(sqlite3.connect(store.path)) as connection, connection:
        (piece,) = connection.execute("SELECT data FROM events").fetchone()
        events = store.load_events(output.run_id)
        connection.execute("UPDATE events SET data = ?", (encode_events(events[:6]),))
        connection.execute("UPDATE runs SET status = ?, owner = ?, seen_at = ?, summary = NULL", elsewhere)
    page.ask("hello", "runs")
    feed_id = page.ask("open", "opened", run_id=output.run_id)["feed_id"]
    page.feed.receive(page, {"kind": "feed", "feed_id": feed_id, "content": {"kind": "hello", "have": None}})
    assert page.wait("feed")["content"]["run"]["status"] == "running"
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE events SET data = ?", (piece,))
        connection.execute("UPDATE runs SET status = 'completed'")
    while page.wait("feed")["content"]["run"]["status"] != "completed":
        pass


@pytest.mark.parametrize("damage", ["UPDATE events SET data = x'00'", "DELETE FROM events"])
def test_a_run_that_can_not_be_read_says_so_where_it_is_opened_w131(page: Page, damage: str) -> None:
    output = run_team()
    with closing(sqlite3.connect(RunStore.open().path)) as connection, connection:
        connection.execute(damage)
    assert page.ask("open", "failed", run_id=output.run_id)["text"].startswith(f"Run {output.run_id} can't be read")
    assert len(page.ask("hello", "runs")["rows"]) == 1


@pytest.mark.parametrize(
    "kind, facts, why",
    [
        ("open", {"run_id": "gone"}, "No run 'gone' is remembered"),
        ("compare", {"run_ids": ["one"]}, "Two runs are compared"),
        ("export", {"format": ".exe"}, "is exported as one of"),
        ("forget", {"run_id": "gone"}, "not in the store"),
        ("spans", {"run_id": None}, "No run 'None'"),
    ],
)
def test_what_the_board_can_not_do_is_said_w132(page: Page, kind: str, facts: dict[str, Any], why: str) -> None:
    run_team()
    assert why in page.ask(kind, "failed", **facts)["text"]


def test_no_message_of_a_page_ends_the_board_w132(page: Page) -> None:
    run_team()
    for content in (None, [], {"kind": 7}, {"kind": "feed"}, {"kind": "leave"}, {"kind": "hello", "nonce": {}}):
        page.feed.receive(page, content)
    assert len(page.ask("hello", "runs")["rows"]) == 1


def test_export_replaces_no_file_and_a_fork_is_offered_its_spans_w132(
    page: Page, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    output = run_team()
    for name in (f"report-{output.run_id[:8]}.svg", f"report-{output.run_id[:8]}-2.svg"):
        assert name in page.ask("export", "done", run_id=output.run_id, format=".svg")["text"]
        assert (tmp_path / name).exists()
    spans = page.ask("spans", "spans", run_id=output.run_id)["spans"]
    assert [words for _, words in spans][:2] == ["task find", "task brief"]
    assert any("model call" in words for _, words in spans)


def test_a_run_that_goes_on_is_not_forgotten_w132(page: Page) -> None:
    output = run_team()
    with closing(sqlite3.connect(RunStore.open().path)) as connection, connection:
        connection.execute(
            "UPDATE runs SET status = 'running', seen_at = ?, owner = ?", (time.time(), '{"host": "elsewhere"}')
        )
    assert "goes on" in page.ask("forget", "failed", run_id=output.run_id)["text"]
    assert len(RunStore.open().list_runs()) == 1


def test_a_thousand_runs_are_listed_without_a_fold_w134(monkeypatch: pytest.MonkeyPatch) -> None:
    output = run_team()
    store = RunStore.open()
    store.summarize(output.run_id)
    copy_runs(999)  # which have no events: to fold one of them would fail
    rows = BoardRows(store)
    began = time.thread_time()
    listed, gone = rows.read()
    assert time.thread_time() - began < 0.5
    assert (len(listed), gone, rows.is_whole) == (1000, [], True)
    assert all(row["picture"] == listed[-1]["picture"] != "" for row in listed)


def test_a_run_without_a_summary_gets_its_row_whole_later_w134() -> None:
    output = run_team()
    store = RunStore.open()
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE runs SET summary = NULL")
    rows = BoardRows(store)
    (row,), _ = rows.read()
    assert "tasks" not in row
    (row,) = rows.fold_some()
    assert row["tasks"] == 2
    assert rows.is_whole
    trace = store.load_trace(store.find_run(output.run_id))
    assert row["picture"] == draw_small_picture(trace._fold, row["wall_ms"])
