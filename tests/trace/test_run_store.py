"""The run store through runs from Python: what it holds, and what it tells."""

import stat
import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial

import pytest

from ensemble_notebook import CaptureMode, Ensemble, RunStatus, ScriptedChatModel, StoreError, Task, config, load_traces
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_facts import RunFacts, RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import FinishedTask
from ensemble_notebook.trace.store.store_file import opened
from ensemble_notebook.trace.store.store_writer import trim
from tests.support.store import wait_for_store

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def run(*replies: str, **options):
    tasks = [
        Task(name=f"task_{number}", description=f"Do {number}", expected_output="It.") for number in range(len(replies))
    ]
    return Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=list(replies)), workflow="sequential", **options).run()


def test_run_is_remembered_with_its_trace(store_path):
    output = run("One.", "Two.", name="poem")
    (remembered,) = RunStore.open().list_runs()
    assert (remembered.run_id, remembered.facts.name, remembered.status) == (output.run_id, "poem", output.status)
    trace = RunStore.open().load_trace(remembered)
    assert trace.frames.spans.equals(output.frames.spans)
    assert trace.frames.runs.equals(output.frames.runs)


def test_file_and_folder_are_for_their_owner_alone(store_path):
    run("One.")
    assert stat.S_IMODE(store_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store_path.parent.stat().st_mode) == 0o700


def test_runs_are_listed_newest_first(store_path):
    first, second = run("One.", name="a"), run("One.", "Two.", name="b")
    table = make_run_table(RunStore.open())
    assert list(table.index) == [second.run_id, first.run_id]
    assert list(table.tasks_done) == [2, 1]
    assert make_run_table(RunStore.open()).equals(table)


def test_run_is_found_by_beginning_name_and_place(store_path):
    first, second = run("One.", name="one"), run("One.", name="two")
    store = RunStore.open()
    assert store.find_run(first.run_id[:6]).run_id == first.run_id
    assert store.find_run("-1").run_id == second.run_id
    assert store.find_run("-2").run_id == store.find_run("one").run_id == first.run_id
    assert store.find_run("one").run_id != run("One.", name="one").run_id == store.find_run("one").run_id  # the newest
    with pytest.raises(StoreError, match="No run 'zz' is remembered"):
        store.find_run("zz")
    with pytest.raises(StoreError, match="There is no run -9: 3 are remembered, from -1, the last, to -3"):
        store.find_run("-9")
    with pytest.raises(StoreError, match="There is no run -0"):
        store.find_run("-0")


def test_where_nothing_is_remembered_that_is_said_of_every_word(store_path):
    for word in ("-1", "one", ""):
        with pytest.raises(StoreError, match=f"No run {word!r} is remembered: there is none yet in "):
            RunStore.open().find_run(word)


def test_beginning_of_several_ids_names_them_and_a_name_comes_first(store_path):
    facts = {"started_at": datetime(2026, 11, 23, 14, 3, tzinfo=UTC)}
    for run_id, name in (("abcd01", "tides"), ("abcd02", None), ("face03", "moon"), ("beef04", "face")):
        RunStore.open().begin(RunFacts(run_id=run_id, name=name, **facts)).close().result(5)
    store = RunStore.open()
    with pytest.raises(StoreError, match="'abcd' may be any of 2 runs: ") as raised:
        store.find_run("abcd")
    assert "abcd01 (tides, 2026-11-23 14:03:00 UTC, " in str(raised.value)
    assert str(raised.value).endswith("Type more of the id.")
    assert store.find_run("abcd02").run_id == "abcd02"
    assert store.find_run("face").run_id == "beef04"
    assert store.find_run("face0").run_id == "face03"
    with pytest.raises(StoreError, match="No run 'fac' is remembered"):
        store.find_run("fac")


def test_off_writes_nothing_anywhere(monkeypatch, tmp_path):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run("One.")
    assert [*tmp_path.rglob("*")] == []
    with pytest.raises(StoreError, match="'off'"):
        RunStore.open()


def test_metadata_leaves_no_text(store_path):
    tasks = [Task(name="say", description="Say kanarie", expected_output="It.", handler=lambda _: "kanarie")]
    Ensemble(tasks=tasks, capture_mode=CaptureMode.METADATA).run()
    trace = RunStore.open().load_trace(RunStore.open().find_run("-1"))
    assert [task.name for task in trace.tasks] == ["say"]
    assert "kanarie" not in repr(trace.events)


def test_runs_of_the_store_load_as_one_set_of_frames(store_path):
    outputs = [run("One.", "Two.", name="a"), run("One.", name="b")]
    frames = load_traces()
    assert list(frames.runs.index) == [each.run_id for each in outputs]
    assert frames.spans.index.is_unique
    assert len(frames.spans) == sum(len(each.frames.spans) for each in outputs)
    assert frames.messages.groupby("run_id", observed=True).size().tolist() == [
        len(each.frames.messages) for each in outputs
    ]
    assert frames.timeseries(1).run_id.nunique() == 2


@pytest.mark.parametrize("name", [name for name, each in vars(Frames).items() if isinstance(each, cached_property)])
def test_frames_of_one_loaded_run_are_its_own_with_run_id(store_path, name):
    own = getattr(run("One.", "Two.", name="a").frames, name)
    loaded = getattr(load_traces(), name)
    assert loaded.drop(columns="run_id", errors="ignore").equals(own.drop(columns="run_id", errors="ignore"))
    assert "run_id" in [*loaded.columns, loaded.index.name]


def test_files_and_patterns_load_once_each(tmp_path):
    outputs = [run("One."), run("Two.")]
    paths = [each.trace.save(tmp_path / f"{number}.trace.json") for number, each in enumerate(outputs)]
    by_pattern = load_traces(tmp_path / "*.trace.json")
    assert list(by_pattern.runs.index) == [each.run_id for each in outputs]
    assert load_traces([paths[0], tmp_path / "*.json"]).runs.equals(by_pattern.runs)
    assert load_traces(str(paths[1])).runs.equals(outputs[1].frames.runs)


def test_nothing_to_load_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="no trace"):
        load_traces(tmp_path / "*.trace.json")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        load_traces(tmp_path)


def test_file_of_a_store_loads_by_its_path(store_path, monkeypatch):
    output = run("One.")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    assert list(load_traces(store_path).runs.index) == [output.run_id]


def test_old_runs_are_forgotten_and_then_the_oldest_ones(store_path, monkeypatch):
    first, *_ = [run("x" * 100_000, name=name) for name in "abc"]
    wait_for_store()
    store = RunStore.open()
    with opened(store.path) as connection:
        connection.execute("UPDATE runs SET started_at = '2001-01-01T00:00:00Z' WHERE run_id = ?", (first.run_id,))
        trim(connection)
        assert [each.facts.name for each in store.list_runs()] == ["c", "b"]
        monkeypatch.setattr(config, "store_max_mb", 0.001)
        trim(connection)
    assert store.list_runs() == []


def test_run_that_goes_on_is_never_forgotten(store_path, monkeypatch):
    output = run("One.")
    wait_for_store()
    with opened(store_path) as connection:
        connection.execute("UPDATE runs SET status = 'running', started_at = '2001-01-01T00:00:00Z'")
        monkeypatch.setattr(config, "store_max_mb", 0.001)
        trim(connection)
    assert RunStore.open().clear() == 0
    assert RunStore.open().find_run(output.run_id).status is RunStatus.RUNNING


@pytest.mark.parametrize("name, value", [("store", 7), ("store", ""), ("store_max_mb", 0), ("store_max_days", "1")])
def test_setting_of_the_store_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        setattr(config, name, value)


def test_runs_alike_are_those_of_the_cell_then_of_the_name_then_those_with_most_of_the_tasks(store_path):
    def remember(run_id: str, name: str, cell_id: str, *paths: str) -> None:
        origin = RunOrigin(cell_id=cell_id)
        writer = RunStore.open().begin(RunFacts(run_id=run_id, name=name, started_at=NOW, origin=origin))
        for path in paths:
            writer.add_result(partial(FinishedTask, path, f"{run_id}/{path}", {}, output))
        writer.close().result(5)

    (output,) = run("One.").task_outputs
    remember("most", "b", "2", "gather", "brief", "end")
    remember("some", "b", "2", "gather", "brief")
    remember("cell", "b", "1", "gather")
    remember("name", "a", "2", "brief")
    remember("last cell", "c", "1", "brief")
    remember("items", "b", "2", "end[0]")
    remember("rows", "b", "2", "brief/run/write")
    remember("else", "d", "2", "other")
    with closing(RunStore.open().open_results()) as results:
        now = RunFacts(run_id="now", name="a", started_at=NOW, origin=RunOrigin(cell_id="1"))
        runs = results.list_runs_alike(now, ["gather", "brief", "end"])
        assert runs == ["last cell", "cell", "name", "most", "some", "rows", "items"]
        found = [results.find_last(runs, path) for path in ("gather", "brief", "end", "other")]
    assert [None if each is None else each.run_id for each in found] == ["cell", "last cell", "most", None]


def test_what_was_answered_does_not_wait_until_all_else_is_encoded_t30(store_path):
    store, go, is_slow = RunStore.open(), threading.Event(), threading.Event()

    def make_slowly():
        is_slow.set()
        assert go.wait(60)
        raise ValueError("no result")

    writer = store.begin(RunFacts(run_id="answered", name=None, started_at=datetime.now(UTC)))
    writer.add_exchange(lambda _: {"exchange": 1})
    writer.add_result(make_slowly)
    assert is_slow.wait(60)
    writer.add_exchange(lambda _: {"exchange": 2})
    deadline = time.monotonic() + 60
    while len(store.load_exchanges("answered")) < 2:
        assert time.monotonic() < deadline
    assert not go.is_set()
    assert [each["exchange"] for each in store.load_exchanges("answered")] == [1, 2]
    go.set()
    writer.close().result(60)
    (warning,) = writer.take_warnings()
    assert "no result" in warning


def test_a_run_whose_last_batch_takes_long_to_encode_is_begun_and_ended_once_t30(store_path):
    store, go, is_slow = RunStore.open(), threading.Event(), threading.Event()
    (output,) = run("One.").task_outputs

    def make_slowly():
        is_slow.set()
        assert go.wait(60)
        return FinishedTask("a", "key", {}, output)

    first, second = (
        store.begin(RunFacts(run_id=run_id, name=None, started_at=datetime.now(UTC))) for run_id in ("first", "second")
    )
    first.add_result(make_slowly)
    closed = first.close()
    assert is_slow.wait(60)
    second.add_exchange(lambda _: {"exchange": 1})
    deadline = time.monotonic() + 60
    while not store.load_exchanges("second"):  # then what there is of the first was taken once more
        assert time.monotonic() < deadline
    go.set()
    closed.result(60)
    second.add_exchange(lambda _: {"exchange": 2})
    second.close().result(60)
    assert first.take_warnings() + second.take_warnings() == []
    assert len(store.load_exchanges("second")) == 2


def test_a_run_that_ended_before_an_event_of_it_was_stored_has_begun_and_was_interrupted(store_path):
    store = RunStore.open()
    writer = store.begin(RunFacts(run_id="early", name="desk", started_at=datetime.now(UTC)))
    writer.add_exchange(lambda _: {"exchange": 1})
    writer.close().result(60)
    run = replace(store.find_run("early"), status=RunStatus.INTERRUPTED)
    trace = store.load_trace(run)
    assert (trace.name, trace.status, trace.plan) == ("desk", RunStatus.INTERRUPTED, None)
    assert trace.metrics.total.llm_call_count == 0
    assert len(trace.frames.spans) == 1
