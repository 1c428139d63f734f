"""What can be wrong with the run store (T31, E71): the run goes on, one warning names the file, nothing is lost."""

import json
import sqlite3
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from functools import partial

import pytest

from ensemble_notebook import CaptureMode, Ensemble, ScriptedChatModel, StoreError, Task, Warned, load_traces
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store import store_file
from ensemble_notebook.trace.store.run_rows import decode_piece
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.run_writer import FinishedTask
from tests.support.store import wait_for_store

WRITES_MANY_RUNS = """
from ensemble_notebook import Ensemble, Task

def say(task):
    return "It."

tasks = [Task(name=f"t{n}", description="Say.", expected_output="It.", handler=say) for n in range(3)]
outputs = [Ensemble(name="crowd", tasks=tasks).run() for _ in range(15)]
print([warning for output in outputs for warning in output.warnings])
"""

FILLS_THE_DISK = """
import resource, signal
from ensemble_notebook import Ensemble, Task

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

def say(task):
    import random
    return "%x" % random.getrandbits(4_000_000)

tasks = [Task(name=f"t{n}", description="Say.", expected_output="It.", handler=say) for n in range(3)]
output = Ensemble(tasks=tasks).run()
print(len(output.raw) > 900_000, output.status.value, len(output.warnings), output.warnings[0])
"""


def run(text: str = "Said.", **options):
    task = Task(name="say", description="Say it.", expected_output="It.", handler=lambda _: text)
    return Ensemble(tasks=[task], **options).run()


def change(path, sql: str, *values) -> None:
    wait_for_store()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, values)


def read_all(path) -> str:
    """All that the files of a store hold, pieces unfolded."""
    wait_for_store()  # the log beside the file goes when the writer closes it
    found = [file.read_bytes().decode("latin-1") for file in path.parent.iterdir()]
    with closing(sqlite3.connect(path)) as connection:
        for table in ("events", "exchanges", "results"):
            pieces = connection.execute(f"SELECT data FROM {table}")
            found += [str(decode_piece(data)) for (data,) in pieces]
    return "\n".join(found)


def test_two_kernels_write_at_once(store_path):
    children = [
        subprocess.Popen([sys.executable, "-c", WRITES_MANY_RUNS], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [child.communicate()[0] for child in children] == ["[]\n", "[]\n"]
    frames = load_traces()
    assert len(frames.runs) == 30
    assert len(frames.tasks) == 90


def test_full_disk_is_one_warning_t31(store_path):
    child = subprocess.run([sys.executable, "-c", FILLS_THE_DISK], stdout=subprocess.PIPE, text=True, check=True)
    assert child.stdout.startswith("True completed 1 The run store")
    assert str(store_path) in child.stdout


def test_place_where_nothing_may_be_made_is_one_warning_t31(monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "/proc/runs/runs.db")
    output = run()
    assert output.raw == "Said."
    (warning,) = output.warnings
    assert "/proc/runs/runs.db" in warning


@pytest.mark.parametrize("capture_mode", [CaptureMode.OFF, CaptureMode.METADATA])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_is_wrong_is_told_once_and_while_the_run_goes_on_t31(
    store_path, monkeypatch, caplog, capture_mode, is_damaged
):
    if is_damaged:
        store_path.parent.mkdir()
        store_path.write_bytes(b"SQLite format 3\0" + b"\x99" * 5000)
        monkeypatch.setattr(store_file, "find_default_store", lambda: store_path)
    else:
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "/proc/runs/runs.db")
    told = threading.Event()

    def listen(event):
        if isinstance(event, Warned) and "The run store" in event.message:
            told.set()

    task = Task(name="say", description="Say it.", expected_output="It.", handler=lambda _: str(told.wait(20)))
    with caplog.at_level("WARNING", logger="ensemble_notebook"):
        output = Ensemble(tasks=[task], capture_mode=capture_mode, listeners=[listen]).run()
    assert output.raw == "True"
    (warning,) = output.warnings
    assert warning.startswith("The run store")
    assert [each.getMessage() for each in caplog.records if "run store" in each.getMessage()] == [warning]
    assert str(output._repr_mimebundle_()["text/plain"]).count("The run store") == 1


def test_locked_file_is_one_warning_t31(store_path, monkeypatch):
    monkeypatch.setattr(store_file, "LOCK_LIMIT_S", 0.1)
    run()
    with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        output = run()
        other.execute("ROLLBACK")
    (warning,) = output.warnings
    assert str(store_path) in warning
    assert "locked" in warning
    assert len(RunStore.open().list_runs()) == 1
    assert run().warnings == ()


@pytest.mark.parametrize("is_whole_header", [True, False])
def test_damaged_store_is_kept_aside_and_a_new_one_begun_t31(store_path, monkeypatch, is_whole_header):
    run("Old.")
    wait_for_store()
    damaged = store_path.read_bytes()
    damaged = damaged[:100] + b"\x99" * (len(damaged) - 100) if is_whole_header else b"\x99" * len(damaged)
    store_path.write_bytes(damaged)
    monkeypatch.setattr(store_file, "find_default_store", lambda: store_path)
    output = run("New.")
    (warning,) = output.warnings
    assert "is damaged" in warning
    (aside,) = store_path.parent.glob("runs.damaged-*.db")
    assert aside.name in warning
    assert aside.read_bytes() == damaged
    assert [each.run_id for each in RunStore.open().list_runs()] == [output.run_id]
    assert run().warnings == ()


def make_text_file(path):
    path.write_text("My notes, which are nobody else's business.\n" * 100)


def make_other_database(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE runs (distance REAL)")
        connection.execute("INSERT INTO runs VALUES (42.2)")


def make_newer_store(path):
    run()
    change(path, "PRAGMA user_version = 99")


def make_store_with_trigger(path):
    run()
    change(path, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END")


@pytest.mark.parametrize("make", [make_text_file, make_other_database, make_newer_store, make_store_with_trigger])
def test_file_that_is_not_ours_is_left_alone_t31(store_path, make):
    store_path.parent.mkdir()
    make(store_path)
    wait_for_store()
    before = store_path.read_bytes()
    output = run()
    assert output.raw == "Said."
    (warning,) = output.warnings
    assert str(store_path) in warning
    assert "left alone" in warning
    assert store_path.read_bytes() == before
    with pytest.raises(StoreError, match="left alone"):
        RunStore.open().list_runs()


def make_piece(value: object) -> bytes:
    return zlib.compress(json.dumps(value).encode())


def make_group(each: object, same: object = {}) -> bytes:
    return make_piece([{"type": "RunStarted", "same": same, "each": each}])


DEEP = zlib.compress(b"[" * 200_000 + b"]" * 200_000)
HOSTILE_EVENTS = [
    *("text", 17, None, b"", b"no piece", make_piece({}), make_piece(["event"]), make_piece([{"type": 7}]), DEEP),
    *(make_piece([{"type": "RunStarted", "seq": seq}]) for seq in (-1, 10**30, "0", None)),
    make_piece([{"type": "RunEnded", "seq": 0, "spanId": "a", "parentId": "a", "time": "1970-01-01", "offsetS": 0}]),
    zlib.compress(b"\xff\xfe"),
    *(make_group(each) for each in (None, [], {}, {"seq": 5}, {"seq": ["0"]}, {"seq": [None]}, {"seq": [[]]})),
    *(make_group({"seq": [1, 2], "spanId": other}) for other in (["a"], None, 3, "ab")),
    *(make_group({"seq": [1, 2]}, same) for same in (None, 3, "text", {"seq": "0"})),
    make_group({"seq": [0] * 1_000_001}),
    make_piece([{"type": "RunStarted", "seq": 0}, {"each": {"seq": [1]}}, "event"]),
]


@pytest.mark.parametrize("data", HOSTILE_EVENTS)
def test_damaged_events_are_a_clear_error_and_the_other_runs_load_t31(store_path, data):
    bad, good = run(), run()
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE events SET data = coalesce(?, data || x'00') WHERE run_id = ?", (data, bad.run_id))
    store = RunStore.open()
    with pytest.raises(StoreError, match=bad.run_id):
        store.load_trace(store.find_run(bad.run_id))
    with pytest.warns(UserWarning, match=bad.run_id):
        assert list(load_traces().runs.index) == [good.run_id]
    assert make_run_table(store).tasks.isna().tolist() == [False, True]


def test_piece_that_unfolds_without_end_is_refused_t31(store_path, monkeypatch):
    bad = run()
    change(store_path, "UPDATE events SET data = ?", zlib.compress(b" " * 5_000_000 + b"[]"))
    monkeypatch.setattr("ensemble_notebook.trace.store.run_rows.LARGEST", 1_000_000)
    with pytest.raises(StoreError, match="too large"):
        RunStore.open().load_events(bad.run_id)


@pytest.mark.parametrize("column", ["facts", "status", "started_at", "owner", "ended_at", "summary", "seen_at"])
@pytest.mark.parametrize(
    "value", ["", "{", "[]", "null", '{"runId": 7}', "[" * 100_000, b"\x00\xff", 10**15, "\x1b[2J"]
)
def test_odd_row_of_a_run_never_raises_t31(store_path, column, value):
    run()
    change(store_path, f"UPDATE runs SET {column} = ?", value)
    store = RunStore.open()
    for each in store.list_runs():
        repr(store.load_trace(each))
    repr(make_run_table(store).to_dict())


def test_result_of_another_run_that_is_damaged_is_passed_over_t31(store_path):
    output = run()
    facts = RunStore.open().list_runs()[0].facts
    for number in range(2):
        writer = RunStore.open().begin(type(facts)(run_id=f"r{number}", name="n", started_at=facts.started_at))
        writer.add_result(partial(FinishedTask, "say", "k", {"description": "d"}, output["say"]))
        writer.close().result(5)
    store = RunStore.open()
    results = store.open_results()
    assert results.find("k").run_id == results.find_last(["r1", "r0"], "say").run_id == "r1"
    change(store_path, "UPDATE results SET data = x'00' WHERE run_id = 'r1'")
    assert results.find("k").run_id == "r0"
    assert results.find("k").output.raw == "Said."
    results.close()
    assert store.load_results("r1") == []


def test_secrets_never_reach_the_store_t7(store_path, monkeypatch):
    key = "sk-kanarie" + "x" * 20
    monkeypatch.setenv("VOGEL_API_KEY", "kanarievogel-in-a-cage")
    task = Task(
        name="say",
        description=f"Use {key} and kanarievogel-in-a-cage for {{place}}",
        expected_output="It.",
        handler=lambda _: f"I used {key}",
    )
    failing = Task(name="fail", description="Fail", expected_output="It.", handler=fail_with_key)
    output = Ensemble(tasks=[task, failing], name=key, inputs={"place": key}, error_strategy="continue_on_error")
    with pytest.raises(RuntimeError):
        output.run()
    asked = Task(name="ask", description=f"Use {key}", expected_output="It.")
    Ensemble(tasks=[asked], llm=ScriptedChatModel(replies=[f"I used {key}"])).run()
    found = RunStore.open().list_runs()[0]
    writer = RunStore.open().begin(type(found.facts)(run_id="r", name=None, started_at=found.facts.started_at))
    writer.add_result(partial(FinishedTask, "say", "k", {}, run(key)["say"]))
    writer.close().result(5)
    assert "kanarie" not in read_all(store_path)
    results = RunStore.open().open_results()
    assert results.find("k") is None
    results.close()
    (result,) = RunStore.open().load_results("r")
    assert "looks like a secret" in result.obstacle


def fail_with_key(_) -> str:
    raise ValueError("it was sk-kanarie" + "x" * 20)


def test_metadata_leaves_no_text_in_the_file_t6a(store_path):
    task = Task(name="say", description="Say kanarie", expected_output="kanarie", handler=lambda _: "kanarie")
    output = Ensemble(tasks=[task], capture_mode=CaptureMode.METADATA, inputs={"x": "kanarie"}).run()
    assert output.raw == "kanarie"
    assert "kanarie" not in read_all(store_path)
