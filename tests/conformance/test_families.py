"""Runs that came of others (T90, T91, T92): forks, calls made again, and what is summed and listed of them."""

from __future__ import annotations

from pathlib import Path

from ensemble_notebook import Ensemble, EnsembleOutput, RunKind, Task, load_traces
from ensemble_notebook.notebook.picture.shown_table import RunsTable
from ensemble_notebook.trace.loading import make_run_table
from ensemble_notebook.trace.store.run_store import RunStore
from tests.conformance.scene import agent, done


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


def test_t91_families_stand_together_in_the_order_of_their_newest_run(store_path: Path) -> None:
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
