"""SQL over all remembered runs: what may be asked (T121), and what is read and answered (T122)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from contextlib import closing, suppress
from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from ensemble_notebook import (
    Ensemble,
    MissingPackageError,
    ScriptedChatModel,
    StoreError,
    Task,
    ValidationError,
    config,
    load_traces,
    store,
)
from ensemble_notebook.domain.outputs import secrets
from ensemble_notebook.trace.loading import TABLES, StoredTables
from ensemble_notebook.trace.queries import query
from ensemble_notebook.trace.store.run_facts import RunFacts
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.tables.arrow_tables import write_value
from tests.support.event_builder import EventBuilder
from tests.support.hostile_texts import make_hostile_texts
from tests.support.store import wait_for_store
from tests.support.stream import streams
from tests.trace.test_frames import everything


def keep(events, run_id="run", path=None, **facts):
    """Have the store remember a run with these events."""
    facts = {"run_id": run_id, "name": "demo", "started_at": datetime.now(UTC), **facts}
    writer = RunStore.open(path).begin(RunFacts(**facts))
    for event in events:
        writer.on_event(event)
    writer.close().result(20)


def run(text="It.", **inputs):
    tasks = [Task(name="say", description="Say {topic}.", expected_output="It.")]
    return Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=[text]), name="tide").run(topic="tides", **inputs)


def plain(frame):
    """A frame as SQL has it: the index is a column, words are texts, dicts are JSON text."""
    frame = frame.reset_index(drop=frame.index.name is None)
    for name, column in frame.items():
        if column.dtype == "category":
            frame[name] = column.astype("string")
        elif column.dtype == object:
            known = [each for each in column if each is not None]
            if known and all(isinstance(each, tuple | list) for each in known):
                frame[name] = pd.Series([None if each is None else list(each) for each in column], dtype=object)
            elif name in ("after", "depends_on", "changed"):
                continue
            else:
                frame[name] = column.map(write_value, na_action="ignore").astype("string")
    return frame


def assert_whole(loaded):
    """Every table is the frame of its name."""
    for name in TABLES:
        assert_frame_equal(store.sql(f"select * from {name}"), plain(getattr(loaded, name)), check_column_type=False)


# --- What may be asked ------------------------------------------------------------------------------------------------


REFUSED = {
    "insert into spans values (1)": "SQL refuses INSERT.",
    "update spans set kind = 'x'": "SQL refuses UPDATE.",
    "delete from spans": "SQL refuses DELETE.",
    "create table x as select 1": "SQL refuses CREATE.",
    "drop table spans": "SQL refuses DROP.",
    "copy spans to 'x.csv'": "SQL refuses COPY.",
    "attach 'x.db'": "SQL refuses ATTACH.",
    "install httpfs": "SQL refuses INSTALL.",
    "load json": "SQL refuses LOAD.",
    "set enable_external_access = true": "SQL refuses SET.",
    "pragma version": "SQL refuses PRAGMA.",
    "call pragma_version()": "SQL refuses CALL.",
    "explain analyze select 1": "SQL refuses EXPLAIN.",
    "pivot spans on kind": "SQL refuses PIVOT.",
    "begin": "SQL refuses BEGIN.",
    "select 1; select 2": "SQL refuses a second statement.",
    "": "SQL refuses an empty text.",
    " -- nothing": "SQL refuses an empty text.",
    "describe spans": "SELECT * FROM spans LIMIT 0 has the columns of a table.",
    "select * from (show tables)": "SQL refuses DESCRIBE",
    "summarize spans": "SQL refuses DESCRIBE",
    "with x as (insert into spans values (1) returning *) select * from x": "SQL refuses INSERT.",
    "with x as (delete from spans returning *) select * from x": "SQL refuses DELETE.",
    "select kind from spans where name = $1": "write it into the text (line 1, column 37).",
    "select * from query('drop table spans')": "query() as a table",
    "select * from query_table('spans')": "query_table() as a table",
    "select *\nfrom read_csv('/etc/passwd')": "(line 2, column 6)",
    "select (select content from read_text('/etc/passwd'))": "read_text() as a table",
    "select * from glob('*')": "glob() as a table",
    "select * from duckdb_settings()": "duckdb_settings() as a table",
    "select * from '/etc/passwd'": "there is no table '/etc/passwd' (line 1, column 15).",
    "select * from 'x.parquet'": "there is no table 'x.parquet'",
    "select * from information_schema.tables": "write tables alone",
    "select * from main.spans": "SQL refuses a schema: write spans alone (line 1, column 15).",
    "select * from loaded": "there is no table 'loaded'",  # a variable of Python
    "select * from spanz": "there is no table 'spanz' (line 1, column 15). Did you mean 'spans'?",
    "select * from timeseries": "there is no table 'timeseries'",
    "select kind, 'é',\n  kid from spans": "there is no column 'kid' (line 2, column 3). Did you mean 'kind'?",
    "select s.kin from spans s": "there is no column 'kin' (line 1, column 8). Did you mean 'kind'?",
    "select * from spans join runs using (run_idd)": "there is no column 'run_idd'. Did you mean 'run_id'?",
    "select foo(kind) from spans": "foo does not exist",
    "select kind, count(*) from spans": "must appear in the GROUP BY clause",
    "select sum(kind) from spans": "No function matches",
    "select kind from spans, spans s": "Ambiguous reference",
    "select kind fro": "the FROM clause is missing (line 1, column 8)",
    "selec 1": "(line 1, column 1)",
    "select": "SELECT clause without selection list.",
    "select kind from spans where": "syntax error",
    "select 'x'::int": "Could not convert string 'x' to INT32",
}


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("text", REFUSED)
def test_t121_what_is_no_reading_of_runs_is_refused_before_anything_is_read(text, monkeypatch):
    loaded = pd.DataFrame({"a": [1]})
    monkeypatch.setattr(query, "load_run_tables", lambda *_, **__: pytest.fail("runs were read"))
    with pytest.raises(ValidationError) as error:
        store.sql(text)
    assert REFUSED[text] in str(error.value)
    assert len(loaded) == 1


@pytest.mark.usefixtures("store_path")
def test_t121_files_and_network_are_shut_for_what_is_not_refused(tmp_path):
    file = tmp_path / "out.csv"
    connection = query.connect()
    for text in (f"copy (select 1) to '{file}'", f"attach '{tmp_path}/x.db'", "install httpfs", "set threads = 1"):
        with pytest.raises(Exception, match=r"disabled|locked"):
            connection.execute(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("depth", [50, 400, 2000])
def test_t121_depth_is_an_error_of_ours_or_an_answer(depth):
    for text in ("(" * depth + "1" + ")" * depth, "1" + "+1" * depth, "(select " * depth + "1" + ")" * depth):
        with suppress(ValidationError):
            assert len(store.sql(f"select {text}")) == 1


def test_t121_an_error_shows_no_control_characters_and_no_secrets(store_path):
    run("\x1b[2J key sk-abcdefghijklmnopqrstuvwxyz012345")
    with pytest.raises(ValidationError) as error:
        store.sql("select output::int from tasks")
    assert "\x1b" not in str(error.value)
    assert "abcdefghijklmnop" not in "".join(traceback.format_exception(error.value))


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize(
    "text, told",
    [(None, "not NoneType"), (b"select 1", "not bytes"), ("select '\ud800'", r"character 9, '\ud800'")],
)
def test_t121_what_is_no_text_is_told(text, told):
    with pytest.raises(ValidationError) as error:
        store.sql(text)
    assert told in str(error.value)


def test_t121_store_that_is_off_says_so(monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    with pytest.raises(StoreError, match="the store is 'off'"):
        store.sql("select 1")


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("package", ["duckdb", "pyarrow"])
def test_t121_without_the_extra_the_line_is_told_that_installs_it(monkeypatch, package):
    monkeypatch.setattr(query, "find_spec", lambda name: None if name == package else name)
    with pytest.raises(MissingPackageError, match="SQL needs duckdb and pyarrow") as error:
        store.sql("select 1")
    assert error.value.extra == "sql"


def test_t121_an_interrupt_ends_it(store_path):
    run()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        store.sql("select sum(a.x * b.x) from runs, range(100000) a(x), range(100000) b(x)")


# --- What is read -----------------------------------------------------------------------------------------------------


NAMED = {
    "select kind, duration_ms from spans": {"spans": {"kind", "duration_ms"}},
    "SELECT Kind FROM Spans": {"spans": {"kind"}},
    'select "kind" from "spans"': {"spans": {"kind"}},
    "select count(*) from spans": {"spans": set()},
    "from tasks select task": {"tasks": {"task"}},
    "select s.kind as k from spans s order by k": {"spans": {"kind"}},
    "select kind, sum(cost) as c from spans group by all having c > 1": {"spans": {"kind", "cost"}},
    "select 1 from spans where status = 'ok' qualify row_number() over (order by depth) = 1": {
        "spans": {"status", "depth"}
    },
    "select r.wall_ms from runs r join spans s using (run_id) where s.model is null": {
        "runs": {"wall_ms"},
        "spans": {"model"},
    },
    "with a as (select kind from spans) select kind from a": {"spans": {"kind"}},
    "with spans as (select task from tasks) select task from spans": {"spans": {"task"}, "tasks": {"task"}},
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i, kind from n, spans": {
        "spans": {"kind"}
    },
    "select (select max(depth) from spans) from runs": {"spans": {"depth"}, "runs": set()},
    "select kind from spans union select agent from agents": {"spans": {"kind", "agent"}, "agents": {"agent"}},
    "select list_transform(depends_on, lambda x: x || status) from tasks": {"tasks": {"depends_on", "status"}},
    "select x from tasks, unnest(depends_on) u(x)": {"tasks": {"depends_on"}},
    "select j.key from runs, json_each(inputs) j": {"runs": {"inputs"}},
    "select s.name.foo from (select {'foo': name} as name from runs) s": {"runs": {"name"}},
    "select 1": {},
}
EVERYTHING = [
    "select * from spans",
    "from spans",
    "table spans",
    "select s.* from spans s",
    "select * exclude (kind) from spans",
    "select columns('k.*') from spans",
    "select s from spans s",
    "select spans from spans",
    "select count(s) from spans s",
    "select #1 from spans",
    "select a from spans as t(a)",
    "select 1 from spans natural join runs",
    "from spans pivot (count(*) for kind in ('run'))",
    "select 1 from (unpivot spans on kind, name)",
    "select kind from spans order by all",
]


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("text", [*NAMED, *EVERYTHING])
def test_t122_only_the_tables_and_columns_that_are_named_are_decoded(text, monkeypatch):
    keep(everything())
    load_traces()
    read = {}

    def spy(self, name, columns=None, own=StoredTables.read_columns):
        found = own(self, name, columns)
        read[name] = found.values.keys() - {"run_id"}
        return found

    monkeypatch.setattr(StoredTables, "read_columns", spy)
    store.sql(text)
    if text in NAMED:
        assert read == NAMED[text]
    else:
        assert read["spans"] == {each.name for each in TABLES["spans"].all_columns} - {"run_id"}


def test_t122_a_wide_statement_answers_as_if_all_columns_were_there(store_path, monkeypatch):
    keep(everything())
    for text in NAMED:
        answer = store.sql(text)
        with monkeypatch.context() as patch:
            patch.setattr("ensemble_notebook.trace.queries.statement.Statement._wants_all", True)
            assert_frame_equal(in_one_order(answer), in_one_order(store.sql(text)))


def in_one_order(answer):
    """Rows of a statement without `order by` come as DuckDB's threads have them."""
    texts = answer.astype(str)
    return answer.loc[texts.sort_values([*texts.columns]).index].reset_index(drop=True)


@settings(max_examples=5, deadline=None)  # each makes sixty frames
@given(events=streams())
def test_t122_every_table_is_the_frame_of_its_name(tmp_path_factory, events):
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("store") / "runs.db"
        patch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(path))
        keep(events, events[0].run_id)
        for _ in range(2):  # made from events, then from what is kept
            assert_whole(load_traces())


@pytest.mark.usefixtures("store_path")
def test_t122_a_run_in_which_everything_happens_is_answered_whole():
    keep(everything())
    keep(EventBuilder({"plan": ()}, run_id="other").finish(), "other")
    assert_whole(load_traces())
    assert store.sql("select distinct run_id from spans order by run_id").run_id.tolist() == ["other", "run"]


@pytest.mark.usefixtures("store_path")
def test_t122_without_runs_the_tables_are_empty_and_have_their_types():
    assert_whole(load_traces())
    assert store.sql("select count(*) n, sum(cost) c from spans").values.tolist() == [[0, pd.NA]]
    run()
    for name in TABLES.keys() - {"rows"}:
        assert store.sql(f"select * from {name}").dtypes.equals(store.sql(f"select * from {name} where false").dtypes)


@pytest.mark.usefixtures("store_path")
def test_t122_rows_of_maps_have_their_inputs_and_outputs_as_columns():
    tasks = [Task(name="say", description="Say {topic} {size}.", expected_output="It.")]
    team = Ensemble(tasks=tasks, llm=ScriptedChatModel(replies=["Hi"] * 2), name="tide")
    team.map([{"topic": "tides", "size": 2}, {"topic": "moon", "size": 3}])
    assert_whole(load_traces())
    found = store.sql("select input_topic, input_size * 2 as twice, output from rows where input_size > 2")
    assert found.values.tolist() == [["moon", 6, "Hi"]]
    with pytest.raises(
        ValidationError, match=r"no column 'input_topik' \(line 1, column 8\). Did you mean 'input_topic'"
    ):
        store.sql("select input_topik from rows")


@pytest.mark.usefixtures("store_path")
def test_t122_texts_of_any_kind_come_back():
    for number, text in enumerate([*make_hostile_texts(10), "\ud800", "'; drop table runs; --", "\x00"]):
        keep(EventBuilder({"plan": ()}, run_id=f"run{number}").finish(), f"run{number}", name=text)
    assert store.sql("select name from runs").name.tolist() == load_traces().runs.name.tolist()


def test_t122_values_have_the_types_of_frames(store_path):
    run()
    found = store.sql(
        """select sum(input_tokens) as whole, sum(cost) as part, count(*) > 0 as truth, any_value(kind) as word,
        min(start_time) as instant, min(start_time)::date as date_, date_trunc('month', min(start_time)) as month,
        max(end_time) - min(start_time) as lasted, 1.5 as decimal_, list(kind) as names, {'a': 1} as record,
        map {'k': 1} as map_, null as nothing, interval 2 days as days, interval 1 month as calendar,
        170141183460469231731687303715884105727 as large, '9999-01-01'::timestamp as late, time '10:00' as clock,
        'a'::enum('a', 'b') as enumerated, 1::utinyint as small, 1::float as short from spans"""
    )
    expected = {
        **dict.fromkeys(("whole", "small"), "Int64"),
        **dict.fromkeys(("part", "decimal_", "short"), "Float64"),
        "truth": "boolean",
        **dict.fromkeys(("word", "enumerated"), "string"),
        **dict.fromkeys(("instant", "month"), "datetime64[ns, UTC]"),
        "date_": "datetime64[ns]",
        "late": "datetime64[us]",
        **dict.fromkeys(("lasted", "days"), "timedelta64[ns]"),
    }
    assert {
        name: str(dtype) for name, dtype in found.dtypes.items() if dtype.kind != "O" or str(dtype) == "string"
    } == expected
    (row,) = found.to_dict("records")
    assert (row["record"], row["map_"], row["nothing"]) == ({"a": 1}, {"k": 1}, None)
    assert (row["large"], type(row["large"])) == (2**127 - 1, int)
    assert row["names"][0] == "run"
    assert row["days"] == pd.Timedelta(days=2)
    assert row["decimal_"] == 1.5


def test_t122_what_no_type_of_frames_has_a_place_for_is_there_and_can_be_shown(store_path):
    found = store.sql(
        """select date '0001-01-01' as early, date '5000-01-01 (BC)' as old, date 'infinity' as never,
        interval 400000 days as long, union_value(k := 1) as one_of"""
    )
    assert [str(dtype) for dtype in found.dtypes] == ["datetime64[s]"] * 3 + ["object"] * 2
    assert found.one_of.tolist() == [1]
    assert "-4999-01-01" in found.to_string()


def test_t122_a_name_may_stand_twice(store_path):
    run()
    found = store.sql("select a.kind, b.kind from spans a, spans b where a.kind = 'run' and b.kind = 'task'")
    assert found.columns.tolist() == ["kind", "kind_1"]
    assert found.iloc[0].tolist() == ["run", "task"]
    for names in ("1 a, 2 a, 3 a_1", "1 a, 2 a_1, 3 a", "1 a, 2 b"):  # each is there once
        found = store.sql(f"select {names}")
        assert sorted(found.to_dict("records")[0].values()) == sorted(range(1, found.shape[1] + 1))
    assert store.sql("select 1 a, 2 a_1, 3 a").columns.tolist() == ["a", "a_1", "a_2"]


def test_t122_times_are_told_in_utc_wherever_it_is(store_path):
    run()
    text = "select strftime(start_time, '%H:%M:%S') as clock from runs"
    code = f"from ensemble_notebook import store; print(store.sql({text!r}).clock[0])"
    there = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == f"{load_traces().runs.start_time.iloc[0]:%H:%M:%S}"


@pytest.mark.usefixtures("store_path")
def test_t122_a_run_that_goes_on_is_there_as_far_as_it_has_come():
    writer = RunStore.open().begin(RunFacts(run_id="run", name="demo", started_at=datetime.now(UTC)))
    events = EventBuilder({"plan": ()}).finish()
    for event in events[:-1]:
        writer.on_event(event)
    assert writer._wait_for(events[-2].seq, 20)
    assert store.sql("select status from runs").status.tolist() == ["running"]
    writer.close().result(20)


def test_t122_a_damaged_run_is_told_and_the_rest_answers(store_path):
    bad, good = run(), run()
    store.sql("select 1 from spans")
    wait_for_store()
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute("UPDATE events SET data = x'00' WHERE run_id = ?", (bad.run_id,))
    with pytest.warns(UserWarning, match=bad.run_id) as warned:
        assert store.sql("select run_id from runs").run_id.tolist() == [good.run_id]
    assert warned[0].filename == __file__


def test_t122_stale_tables_are_made_from_events(store_path):
    run()
    whole = store.sql("select * from spans")
    wait_for_store()
    for change in (
        "UPDATE kept_tables SET mark = x'00'",
        "UPDATE kept_tables SET data = x'00'",
        "DROP TABLE kept_tables",
    ):
        with closing(sqlite3.connect(store_path)) as connection, connection:
            connection.execute(change)
        assert_frame_equal(store.sql("select * from spans"), whole)


def test_t122_a_secret_that_was_none_before_is_masked(store_path, monkeypatch):
    monkeypatch.setattr(secrets, "_protected", dict(secrets._protected))
    run("It is kanarievogel.")
    load_traces()
    secrets.protect("kanarievogel")
    assert store.sql("select output from tasks").output.tolist() == ["It is ***."]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3))
def test_t122_whole_numbers_of_any_size_are_whole(numbers):
    values = ", ".join(f"({each})" for each in numbers) or "(0)"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "store", "/nowhere/runs.db")
        found = store.sql(f"select sum(n::hugeint) as total, count(*) as rows from (values {values}) v(n)")
    assert int(found.total[0]) == sum(numbers)
