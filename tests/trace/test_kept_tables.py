"""The tables of runs as columns beside their events (T24): as live, made again where they are not sound (E71)."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from ensemble_notebook import CaptureMode, Ensemble, ScriptedChatModel, StoreError, Task, load_traces
from ensemble_notebook.domain.events import LlmToken
from ensemble_notebook.domain.outputs import secrets
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.loading import FRAMES, TABLES, make_run_table
from ensemble_notebook.trace.store import run_store
from ensemble_notebook.trace.store.kept_tables import read_columns, write_columns
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_rows import unfold_first
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.tables.table import TableColumns
from tests.support.event_builder import EventBuilder
from tests.support.store import wait_for_store
from tests.support.stream import streams

KEPT = [name for name in TABLES if name not in ("events", "messages", "scores")]

ENDS_AT_ONCE = """
from ensemble_notebook import Ensemble, Task
from ensemble_notebook.trace.store import run_store

run_store.QUIET_S = 0.0

def say(task):
    return "It."

tasks = [Task(name=f"t{n}", description="Say.", expected_output="It.", handler=say) for n in range(200)]
Ensemble(tasks=tasks).run()
"""


def run(text: str = "Said.", **options):
    tasks = [
        Task(name="say", description="Say it", expected_output="It."),
        Task(name="do", description="Do it", expected_output="It.", handler=lambda _: text),
    ]
    return Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=[text]), workflow="sequential", **options).run()


def query(path, sql: str, *values):
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql, values).fetchall()


def write(events, run_id: str = "run", *, is_open: bool = False):
    writer = RunStore.open().begin(RunFacts(run_id=run_id, name="demo", started_at=datetime.now(UTC)))
    for event in events:
        writer.on_event(event)
    if is_open:
        assert writer._wait_for(events[-1].seq, 20)
        return writer
    writer.close().result(20)
    return writer


def wait_for_keeper() -> None:
    if (thread := RunStore.open()._keeper._thread) is not None:
        thread.join(20)


def assert_same(loaded, own) -> None:
    """All frames of one run as loaded are the live ones, with `run_id` beside them."""
    for name in TABLES:
        frame, live = getattr(loaded, name), getattr(own, name)
        assert_frame_equal(frame.drop(columns="run_id", errors="ignore"), live.drop(columns="run_id", errors="ignore"))
        assert {frame.index.name, *frame.columns} >= {"run_id"}


# --- The text of some columns -----------------------------------------------------------------------------------------


@settings(max_examples=15)  # each makes fifteen frames, twice
@given(streams(), st.data())
def test_columns_of_any_run_come_back_as_they_were(events, data):
    frames = ExecutionTrace.from_events(events[: data.draw(st.integers(0, len(events)))]).frames
    for name, table in TABLES.items():
        columns = FRAMES[name].read_columns(frames)
        text = write_columns(table, columns)
        assert_frame_equal(table.join([read_columns(table, text)]), table.join([columns]))


def test_what_json_has_no_form_for_is_not_written():
    columns = FRAMES["spans"].read_columns(ExecutionTrace.from_events(make_events()).frames)
    for odd in ({"a": (1,)}, {"a": {1}}, {1: "a"}, {"a": datetime.now(UTC)}, [1]):
        values = [odd, *[None] * (columns.count - 1)]
        with pytest.raises((ValueError, TypeError)):
            write_columns(TABLES["spans"], replace(columns, values={**columns.values, "attributes": values}))


def make_events(**options):
    build = EventBuilder({"a": (), "b": ["a"]}, **options)
    for name in ("a", "b"):
        with build.task(name), build.turn():
            build.llm(asks=["search"], retries=[("429", 1.0)])
            build.tool("search", error=OSError("broken") if name == "a" else None)
            build.llm("Done.")
    return build.finish()


def hostile_changes():
    """Changes of a number of rows and their columns that would lead to other rows, to a late error, or to no end."""
    yield "more rows than are written", lambda text: [10**12, text[1]]
    yield "fewer", lambda text: [text[0] - 1, text[1]]
    yield "none at all", lambda text: [-1, text[1]]
    yield "no number", lambda text: ["2", text[1]]
    yield "a column too few", lambda text: [text[0], text[1][:-1]]
    yield "one value for the ids", lambda text: [10**12, [["a"]] * len(text[1])]
    yield "no column at all", lambda text: [0, []]
    for size in (0, 1, -1, 1.5, 10**30, True, None, "1", {}):
        yield f"a column of {size!r} bytes that are not there", lambda text, size=size: [text[0], [*text[1][:-1], size]]
        yield f"ids of {size!r} bytes that are not there", lambda text, size=size: [text[0], [size, *text[1][1:]]]
    yield "columns in another order", lambda text: [text[0], text[1][::-1]]
    odd = ({}, {"same": 1}, None, 7, "a", [], [1e999], ["a", 1], [[["a"]]], [2**63], [True], [None, None], [{"a": 1}])
    for number, column in enumerate(odd):
        yield f"a column {number}", lambda text, column=column: [text[0], [text[1][0], *[column] * (len(text[1]) - 1)]]


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in hostile_changes()])
def test_columns_that_are_none_of_the_table_are_refused_e71(change):
    columns = read_spans()
    text = json.loads(json.dumps([columns.count, [columns.values[each.name] for each in TABLES["spans"].all_columns]]))
    assert read_columns(TABLES["spans"], pack(text)).count == columns.count
    with pytest.raises(ValueError):  # noqa: PT011 - whoever reads them says what it means
        read_columns(TABLES["spans"], pack(change(text)))


def pack(head) -> bytes:
    return zlib.compress(json.dumps(head).encode())


def read_spans():
    return FRAMES["spans"].read_columns(ExecutionTrace.from_events(make_events()).frames)


# --- Columns by themselves --------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(streams(), st.data())
def test_t120_any_columns_alone_are_those_of_the_whole(events, data):
    frames = ExecutionTrace.from_events(events).frames
    for name in KEPT:
        columns = FRAMES[name].read_columns(frames)
        names = data.draw(st.sets(st.sampled_from([each.name for each in TABLES[name].all_columns])))
        found = read_columns(TABLES[name], write_columns(TABLES[name], columns), names)
        assert found == TableColumns(
            columns.count, {each: columns.values[each] for each in columns.values.keys() & names}
        )


def test_t120_damage_of_a_column_that_nobody_reads_is_not_looked_at():
    columns = read_spans()
    data = write_columns(TABLES["spans"], columns)
    cut = data[:-4] + b"\0\0\0\0"  # of the last long column
    with pytest.raises(ValueError):  # noqa: PT011
        read_columns(TABLES["spans"], cut)
    assert read_columns(TABLES["spans"], cut, {"kind"}).values == {"kind": columns.values["kind"]}


@pytest.mark.parametrize("names", [{"kind"}, {"span_id"}, set(), None])
@pytest.mark.parametrize("ids", [["a"], ["a"] * 3, 12])
def test_t120_rows_that_nobody_wrote_are_not_believed_e71(names, ids):
    """By one value for all, whose ids nobody asks for, anyone could claim as many rows as there are numbers."""
    rest = zlib.compress(json.dumps(["a"] * 3).encode())
    told = [len(rest) if ids == 12 else ids, *[[None]] * (len(TABLES["spans"].all_columns) - 1)]
    data = pack([10**12, told]) + (rest if ids == 12 else b"")
    with pytest.raises(ValueError, match="as many rows"):
        read_columns(TABLES["spans"], data, names)


# --- What is kept in the store ----------------------------------------------------------------------------------------


@settings(max_examples=5)  # each makes sixty frames
@given(events=streams())
def test_any_run_loads_as_it_was_first_folded_then_kept(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("store") / "runs.db"
    writer = RunStore.open(path).begin(RunFacts(run_id=events[0].run_id, name="demo", started_at=datetime.now(UTC)))
    for event in events:
        writer.on_event(event)
    writer.close().result(20)
    # Pieces of streamed text are not in the store.
    own = ExecutionTrace.from_events(each for each in events if not isinstance(each, LlmToken)).frames
    assert_same(load_traces(path), own)
    assert len(query(path, "SELECT * FROM kept_tables")) == len(KEPT)
    assert_same(load_traces(path), own)


def test_frames_are_made_of_what_is_kept(store_path):
    run()
    load_traces()
    ((data,),) = query(store_path, "SELECT data FROM kept_tables WHERE name = 'tasks'")
    head, rest = unfold_first(data)
    changed = zlib.compress(head.replace(b'"say"', b'"see"')) + rest
    query(store_path, "UPDATE kept_tables SET data = ? WHERE name = 'tasks'", changed)
    frames = load_traces()
    assert list(frames.tasks.task) == ["see", "do"]
    assert list(frames.spans.task.cat.categories) == ["say", "do"]


def test_what_is_damaged_is_made_again_and_kept_e71(store_path):
    own = run().frames
    load_traces()
    kept = query(store_path, "SELECT name, data FROM kept_tables ORDER BY name")
    for data in (b"", b"[", b"[1,[]]", b"[" * 100_000, b"[3,[[null]]]", b"[3,[[null,null,null]]]", b"\xff", b"null"):
        for damaged in (data, zlib.compress(data), zlib.compress(data)[:-1]):
            query(store_path, "UPDATE kept_tables SET data = ?", damaged)
            assert_frame_equal(load_traces().spans, own.spans)
            assert query(store_path, "SELECT name, data FROM kept_tables ORDER BY name") == kept


@pytest.mark.parametrize("column", ["name", "mark", "count", "data"])
def test_odd_row_of_a_kept_table_changes_nothing_e71(store_path, column):
    own = run().frames
    for value in ("", "spans", -1, 0, 10**15, b"\x00\xff", "\x1b[2J"):
        load_traces()
        query(store_path, f"UPDATE OR IGNORE kept_tables SET {column} = ? WHERE name = 'reviews'", value)
        query(store_path, f"UPDATE OR IGNORE kept_tables SET {column} = ? WHERE name = 'tasks'", value)
        frames = load_traces()
        repr(frames)
        assert_frame_equal(frames.tasks.drop(columns="run_id"), own.tasks)
        assert len(frames.reviews) == 0


def test_store_of_a_time_without_tables_loads_and_keeps_them(store_path):
    own = run().frames
    query(store_path, "DROP TABLE kept_tables")
    assert_same(load_traces(), own)
    assert len(query(store_path, "SELECT * FROM kept_tables")) == len(KEPT)


def test_store_that_nothing_can_be_written_to_loads(store_path, monkeypatch):
    monkeypatch.setattr("ensemble_notebook.trace.store.store_file.LOCK_LIMIT_S", 0.1)
    own = run().frames
    wait_for_store()
    with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert_same(load_traces(), own)
    assert query(store_path, "SELECT * FROM kept_tables") == []


def test_events_that_changed_later_are_looked_at_though_there_are_tables(store_path):
    bad, good = run(), run()
    load_traces()
    query(store_path, "UPDATE events SET data = x'00' WHERE run_id = ?", bad.run_id)
    with pytest.warns(UserWarning, match=bad.run_id):
        assert list(load_traces().runs.index) == [good.run_id]


def test_run_that_goes_on_is_shown_as_far_as_it_has_come_and_not_kept(store_path):
    events = make_events()
    writer = write(events[:12], is_open=True)
    assert load_traces().runs.status.tolist() == ["running"]
    assert query(store_path, "SELECT count(*) FROM kept_tables") == [(0,)]
    for event in events[12:]:
        writer.on_event(event)
    writer.close().result(20)
    assert load_traces().runs.status.tolist() == ["completed"]


def test_run_that_was_cut_off_has_its_end_in_what_is_kept(store_path):
    write(make_events()[:12])
    store = RunStore.open()
    own = store.load_trace(store.find_run("run")).frames
    assert own.runs.status.tolist() == ["interrupted"]
    for _ in range(2):
        assert_same(load_traces(), own)


def test_run_that_is_forgotten_meanwhile_says_so(store_path):
    run()
    load_traces()
    frames = load_traces()
    wait_for_store()
    RunStore.open().clear()
    assert query(store_path, "SELECT * FROM kept_tables") == []
    assert len(frames.spans) > 0
    with pytest.raises(StoreError, match="no longer in the store"):
        frames.messages  # noqa: B018 - it is read then


def test_secret_that_was_none_before_is_masked_in_what_is_kept(store_path, monkeypatch):
    monkeypatch.setattr(secrets, "_protected", dict(secrets._protected))
    run("It is kanarievogel.")
    assert load_traces().tasks.output.tolist() == ["It is kanarievogel."] * 2
    secrets.protect("kanarievogel")
    assert load_traces().tasks.output.tolist() == ["It is ***."] * 2


def test_metadata_leaves_no_text_in_what_is_kept(store_path):
    run("kanarie", capture_mode=CaptureMode.METADATA, inputs={"x": "kanarie"})
    assert load_traces().tasks.output.tolist() == ["", ""]
    kept = [data for (data,) in query(store_path, "SELECT data FROM kept_tables")]
    assert len(kept) == len(KEPT)
    assert b"kanarie" not in b"".join(text for data in kept for text in unfold_all(data))


def unfold_all(data: bytes):
    while data:
        text, data = unfold_first(data)
        yield text


# --- The thread that makes them ---------------------------------------------------------------------------------------


def test_tables_and_summary_of_a_run_are_made_once_it_is_quiet(store_path, monkeypatch):
    monkeypatch.setattr(run_store, "QUIET_S", 0.0)
    other = write(make_events(run_id="other")[:5], "other", is_open=True)
    own = run()
    assert query(store_path, "SELECT * FROM kept_tables") == []
    other.close().result(20)
    wait_for_keeper()
    assert len(query(store_path, "SELECT * FROM kept_tables")) == 2 * len(KEPT)
    assert RunStore.open().load_summaries().keys() == {own.run_id, "other"}
    assert make_run_table(RunStore.open()).tasks_done.tolist() == [2, 0]


def test_process_that_ends_meanwhile_ends_well(store_path):
    child = subprocess.run([sys.executable, "-c", ENDS_AT_ONCE], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")
    assert len(load_traces().tasks) == 200


# --- What is shown ----------------------------------------------------------------------------------------------------


def test_frames_say_what_they_are_of(store_path):
    first, second = run(), run()
    load_traces()
    frames = load_traces()
    assert repr(frames).startswith(f"2 runs, {len(frames.spans)} spans, {first.trace.started_at:%Y-%m-%d %H:%M} to ")
    assert f"{second.trace.ended_at:%Y-%m-%d %H:%M} UTC" in repr(frames)
    assert all(name in repr(frames) for name in (*TABLES, "timeseries(dt)"))
    html = frames._repr_mimebundle_()["text/html"]
    assert f"2 runs, {len(frames.spans)} spans" in html
    assert "<code>llm_calls</code></td>" in html
    assert "<script" not in html


def test_frames_of_nothing_say_so(store_path):
    assert repr(load_traces()).startswith("No runs.\n")
    assert "No runs." in load_traces()._repr_mimebundle_()["text/html"]
