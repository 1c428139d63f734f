"""Runs that came of others (T90 to T94): forks, calls made again, and what is summed and listed of them."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Reply,
    RunKind,
    StoreError,
    Task,
    ToolUse,
    ValidationError,
    load_traces,
)
from ensemble_notebook.ensemble.ensemble import start_run
from ensemble_notebook.ensemble.run_settings import RunArguments, RunSettings
from ensemble_notebook.notebook.picture.shown_table import RunsTable
from ensemble_notebook.trace.analysis.joined_runs import JoinedRuns
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_facts import RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.scene import agent, done, lost, scripted


def make(*, name: str = "trip") -> Ensemble:
    """Two tasks of handlers, of which the second reads the first, and a third, of a model, that reads nothing."""
    first = done("first")
    asked = Task(name="asked", description="Ask", expected_output="It", agent=agent(*["It is blue"] * 9))
    return Ensemble(name=name, tasks=[first, done("second", context=[first]), asked])


def find_span(output: EnsembleOutput, name: str, kind: str = "task") -> str:
    spans = output.frames.spans
    return str(spans.index[(spans.kind == kind) & (spans.task == name)][0])


def fork(output: EnsembleOutput, text: str = "another") -> EnsembleOutput:
    return output.fork(find_span(output, "second"), output=text)


def test_t90_run_says_what_it_is_and_what_it_came_of(store_path: Path) -> None:
    origin = make().run()
    forked = fork(origin)
    again = origin.rerun(find_span(origin, "asked", "llm"), user_prompt="Ask nicely")
    rows = make().map([{"n": 1}, {"n": 2}])
    facts = ["kind", "forked_from_run", "forked_from_span", "changed"]

    assert [*origin.frames.runs[facts].fillna("").iloc[0]] == ["run", "", "", ""]
    assert [*forked.frames.runs[facts].iloc[0]] == ["fork", origin.run_id, find_span(origin, "second"), ("output",)]
    assert rows.output.trace.kind is RunKind.MAP
    assert {row.output.trace.kind for row in rows} == {RunKind.NESTED}

    table = make_run_table(RunStore.open())
    kinds = {origin.run_id: "run", forked.run_id: "fork", again.run_id: "rerun", rows.run_id: "map"}
    assert table.kind.to_dict() == kinds
    assert table.loc[again.run_id, "changed"] == ("user_prompt",)
    assert load_traces().runs[facts].loc[forked.run_id].equals(forked.frames.runs[facts].iloc[0])


def test_t91_families_stand_together_in_the_order_of_their_newest_run(store_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a column that finds no room would be named below the rows
    origin, other = make().run(), make(name="other").run()
    first = fork(origin)
    second = fork(origin)
    of_first = fork(first)
    table = make_run_table(RunStore.open())
    assert [*table.index] == [origin.run_id, second.run_id, first.run_id, of_first.run_id, other.run_id]
    assert [*table.generation] == [0, 1, 1, 2, 0]
    assert [*table.family] == [origin.run_id] * 4 + [other.run_id]
    assert RunStore.open().find_run("-1").run_id == of_first.run_id  # the last by time

    lines = repr(RunsTable(table)).splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        origin.run_id[:8],
        f"└ {second.run_id[:8]}",
        f"└ {first.run_id[:8]}",
        f"└─ {of_first.run_id[:8]}",
        other.run_id[:8],
    ]
    assert f"forks {first.run_id[:8]} (output)" in lines[4]


def test_t91_runs_of_a_damaged_file_are_listed_though_they_come_of_each_other_in_a_circle(store_path: Path) -> None:
    first, second, other = make().run(), make().run(), make().run()
    with closing(sqlite3.connect(store_path)) as connection, connection:
        for run, parent in ((first, second), (second, first), (other, other)):
            values = [parent.run_id, run.run_id]
            connection.execute("UPDATE runs SET facts = json_set(facts, '$.forkedFromRun', ?) WHERE run_id = ?", values)
    assert {*make_run_table(RunStore.open()).index} == {first.run_id, second.run_id, other.run_id}
    assert first.metrics.family.run_ids == (first.run_id, second.run_id)
    assert other.metrics.family.run_ids == (other.run_id,)


def test_t92_family_is_summed_when_it_is_asked(store_path: Path, monkeypatch) -> None:
    origin = make().run()
    assert origin.metrics.family.llm_call_count == origin.metrics.llm_call_count == 1
    forked = origin.fork(find_span(origin, "asked", "llm"))
    again = origin.rerun(find_span(origin, "asked", "llm"), repeat=2)
    make(name="other").run()
    assert forked.metrics.llm_call_count == 1
    for each in (origin, forked, again.result.output):
        family = each.metrics.family
        assert family.run_ids == (origin.run_id, forked.run_id, again.run_id)
        assert (family.llm_call_count, family.note) == (4, "")
        assert family.input_tokens == 4 * origin.metrics.input_tokens

    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    alone = origin.metrics.family
    assert (alone.llm_call_count, alone.run_ids) == (1, (origin.run_id,))
    assert alone.note == "No runs are remembered, since the store is off: this run alone."


def test_t22_fork_is_compared_from_where_it_differs(store_path: Path) -> None:
    origin = make().run()
    forked = fork(origin)
    whole = origin.diff(make().run())
    assert (whole.forked_at, {*whole.frame.task.dropna()}) == (None, {"first", "second", "asked"})
    for diff in (origin.diff(forked), forked.diff(origin), load_traces()._load_trace(origin.run_id).diff(forked)):
        assert diff.forked_at == "second"
        assert [*zip(diff.frame.path, diff.frame.status, strict=True)] == [("/", "changed"), ("second", "changed")]
        assert diff.frame.output_changed[1]
        assert len(JoinedRuns(diff).spans) == len(origin.trace.spans) + len(forked.trace.spans) - 1  # drawn whole
        assert diff.frame.delta_input_tokens[0] == 0  # what the fork kept is no difference
    assert origin.diff(forked).notes == (
        "Run B forks run A at second (output). What it kept is left out: first, asked, and all else before that.",
    )
    assert origin.diff(fork(forked)).forked_at is None  # that one forks the fork


def test_t22_fork_in_the_middle_of_a_task_is_compared_from_that_turn(store_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "blue"

    llm = scripted(Reply(calls=[ToolUse("look", {})]), *["It is blue"] * 9)
    cook = Agent(role="Cook", goal="Look", llm=llm, tools=[look])
    origin = Ensemble(tasks=[Task.of("Ask", name="asked", agent=cook)]).run()
    spans = origin.frames.spans
    diff = origin.diff(origin.fork(spans.index[spans.kind == "llm"][1]))
    assert diff.forked_at == "asked/turn#2/llm"
    assert [*diff.frame.path] == ["/", "asked", "asked/turn#2", "asked/turn#2/llm", "asked/turn#2/llm/attempt"]
    assert [*diff.frame.delta_input_tokens] == [0] * 5


CELL = """\
name: trip
llm: model
tasks:
  first: {description: Say it, handler: say}
  second: {description: Say it again, handler: say, context: first}
  asked: Ask
"""


def run_as_cell(**names: Any) -> EnsembleOutput:
    """A run of the cell as a notebook does it, which keeps its text."""
    settings = RunSettings(origin=RunOrigin(cell="In[1]", variable="trip", text=CELL, options="-o trip"))
    return start_run(Ensemble.from_yaml(CELL, names), RunArguments({}, {}, settings)).result()


def test_t93_only_the_runs_that_are_wanted_are_read(store_path: Path, tmp_path: Path) -> None:
    first, other = make().run(), make(name="other").run()
    last = make().run()
    first.trace.save(tmp_path / "first.trace.json")
    make().replace(tasks=[lost("gone")], error_strategy="partial").run()

    def find(where: Any = None, **wanted: Any) -> list[str]:
        return [*load_traces(where, **wanted).runs.index]

    assert find(name="trip", status=["completed"]) == [first.run_id, last.run_id]
    assert find(status="completed", last=1) == find(since=last.trace.started_at, status="completed") == [last.run_id]
    assert find(until=other.trace.started_at) == [first.run_id]
    assert find(since="2 days", name="other") == find(since=timedelta(hours=1), name=["other"]) == [other.run_id]
    assert find(until="1 hour ago") == find(since="2100-01-01") == []
    places = [tmp_path / "*.trace.json", store_path]
    assert find(places, name="trip", status="completed") == [first.run_id, last.run_id]

    with closing(sqlite3.connect(store_path)) as connection, connection:  # reading another one would be an error
        connection.execute("UPDATE events SET data = 'broken' WHERE run_id != ?", [other.run_id])
        connection.execute("DELETE FROM kept_tables")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find(name="other") == [other.run_id]


@pytest.mark.parametrize(
    "wanted, message",
    [
        ({"name": "tripp"}, "No run is called 'tripp'. Did you mean 'trip'?"),
        ({"status": "complete"}, "status can't be 'complete'. Did you mean 'completed'?"),
        (
            {"since": "2 moons"},
            "since must be a time, a date, a timedelta or ISO text as '2026-11-01', or how long ago",
        ),
        ({"until": 3}, "until must be a time, a date, a timedelta"),
        ({"since": "1 day", "until": "2 days"}, "No run began since"),
        ({"last": 0}, "last is how many runs, 1 or more, got 0."),
        ({"last": True}, "last is how many runs, 1 or more, got True."),
    ],
)
def test_t93_what_is_no_filter_is_refused_by_name(store_path: Path, wanted: dict[str, Any], message: str) -> None:
    make().run()
    with pytest.raises(ValidationError) as raised:
        load_traces(**wanted)
    assert str(raised.value).startswith(message)


def test_t94_loaded_run_is_forked_as_its_cell_declares_it(store_path: Path) -> None:
    names = {"say": lambda task: f"Said {task.name}", "model": scripted(*["It is blue"] * 9)}
    origin = run_as_cell(**names)
    loaded = load_traces().load_output(origin.run_id, names)
    assert {each.name: each.raw for each in loaded} == {each.name: each.raw for each in origin}
    forked = loaded.fork(find_span(loaded, "second"), output="another")
    assert (forked["second"].raw, forked["first"].reused, forked["asked"].reused) == ("another", True, True)
    names_listed = make_run_table(RunStore.open())[["name", "cell"]].to_numpy().tolist()
    assert names_listed == [["trip", "In[1]"]] * 2  # the fork was made in Python, and is known by that cell
    of_fork = load_traces().load_output(forked.run_id, names)  # begun in Python, from a run of a cell
    assert of_fork.fork(find_span(of_fork, "first"), output="1", until="first")["first"].raw == "1"

    nameless = load_traces().load_output(origin.run_id)
    assert nameless["asked"].raw == "It is blue"
    for run in (nameless, load_traces().load_output(origin.run_id).trace):
        with pytest.raises(ValidationError, match=r"(?s)The cell of run .*In\[1\].* can't be read .*'say'"):
            run.fork(find_span(nameless, "second"), output="another")
    with pytest.raises(ValidationError, match="can't be read with the names"):
        load_traces().load_output(origin.run_id, {})
    with pytest.raises(ValidationError, match="No run 'gone' is among these"):
        load_traces().load_output("gone")


def test_t94_run_without_a_cell_or_a_store_is_not_forked(store_path: Path, tmp_path: Path, monkeypatch) -> None:
    origin = make().run()
    loaded = load_traces().load_output(origin.run_id)
    assert loaded.raw == origin.raw
    with pytest.raises(ValidationError, match="was begun in Python, so no cell tells what ran"):
        loaded.fork(find_span(loaded, "first"), output="1")
    silent = make().replace(capture_mode="metadata").run()
    with pytest.raises(ValidationError, match=r"this run kept no texts \(capture_mode metadata\)"):
        load_traces().load_output(silent.run_id).fork(find_span(silent, "first"), output="1")
    file = origin.trace.save(tmp_path / "a.trace.json")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "other.db"))
    with pytest.raises(StoreError, match="is not in the store"):
        ExecutionTrace.load(file).fork(find_span(origin, "first"), output="1")
    with pytest.raises(StoreError, match="is not in the store"):
        load_traces(file).load_output(origin.run_id).fork(find_span(origin, "first"), output="1")
