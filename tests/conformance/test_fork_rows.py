"""A row of a map forks, and all other rows are as they were (E118)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ensemble_notebook import Ensemble, ForkPlan, MapResult, Task, ValidationError, load_traces
from tests.support.openai_server import Answer, OpenAIServer

LOOKS: list[str] = []


def look(place: str) -> str:
    """Look at a place."""
    LOOKS.append(place)
    return f"{place} is calm"


def make_team(llm: str) -> Ensemble:
    wind = Task.of("Report the wind of {bay}", name="wind", tools=[look])
    return Ensemble(tasks=[wind, Task.of("Advise", name="advice", context=[wind])], llm=llm, name="team")


def measure(output: Any) -> float:
    return float(len(output.raw))


@pytest.fixture
def result(server: OpenAIServer, llm: str) -> MapResult:
    """Three rows, of which the last has failed."""
    for bay in ("north", "south"):
        server.script(
            Answer(None, calls=[("look", {"place": bay})]), Answer(f"{bay}: calm"), Answer(f"sail to the {bay}")
        )
    server.script(Answer.status(400))
    made = make_team(llm).map([{"bay": "north"}, {"bay": "south"}, {"bay": "west"}], concurrency=1, score=measure)
    assert [each.status for each in made] == ["completed", "completed", "failed"]
    LOOKS.clear()
    return made


def list_calls(output: Any) -> list[Any]:
    return [each for each in output.trace.spans if each.kind == "llm"]


def test_e118_that_row_alone_is_new_and_scored_anew(server: OpenAIServer, result: MapResult) -> None:
    asked = len(server.requests)
    server.script(Answer("stay"))
    forked = result.fork(1, list_calls(result[1].output)[1], reply="south: a storm")
    assert (len(server.requests) - asked, LOOKS) == (1, [])
    assert "south: a storm" in server.requests[-1].body["messages"][-1]["content"]
    assert [each.raw for each in forked] == ["sail to the north", "stay", None]
    assert [each.reused for each in forked] == [True, False, True]
    assert forked[0] is not forked[1]
    assert [each.status for each in forked] == ["completed", "completed", "failed"]
    assert forked[2].error is result[2].error
    scores = {each.run_id: each.value for each in forked.score_records}
    assert scores == {result[0].run_id: 17.0, forked[1].run_id: 4.0}
    assert result[1].raw == "sail to the south"  # as it was
    assert forked.metrics.llm_call_count == 1
    again = forked.fork("row 1", list_calls(forked[1].output)[-1], reply="go")
    assert [each.raw for each in again] == ["sail to the north", "go", None]


@pytest.mark.usefixtures("store_path")
def test_e118_a_stored_map_is_forked_with_its_ensemble(server: OpenAIServer, llm: str, result: MapResult) -> None:
    runs = load_traces()
    loaded = runs.load_map(result.run_id)
    span = list_calls(loaded[1].output)[1].span_id
    asked = len(server.requests)
    with pytest.raises(ValidationError, match="no cell tells what ran"):
        loaded.fork(1, span)
    server.script(Answer("stay"))
    forked = loaded.fork(1, span, reply="a storm", ensemble=make_team(llm), score=measure)
    assert (len(server.requests) - asked, LOOKS) == (1, [])
    assert [each.raw for each in forked] == ["sail to the north", "stay", None]
    row = load_traces().runs.loc[forked.run_id]
    assert (row.kind, row.forked_from_run) == ("fork", result.run_id)
    kept = load_traces().load_map(forked.run_id)
    assert [each.raw for each in kept] == ["sail to the north", "stay", None]
    assert [each.status for each in kept] == ["completed", "completed", "failed"]
    assert sorted(each.value for each in kept.score_records) == [4.0, 17.0]
    server.script(Answer("alone"))
    alone = make_team(llm).fork(loaded[0].output, list_calls(loaded[0].output)[1].span_id, reply="no wind")
    assert alone.raw == "alone"
    bare = loaded.fork(0, list_calls(loaded[0].output)[-1].span_id, reply="go", ensemble=make_team(llm))
    assert any("not scored anew by measure" in each for each in bare.warnings)


def test_e118_a_row_by_itself_and_its_plan(server: OpenAIServer, result: MapResult) -> None:
    call = list_calls(result[0].output)[0]
    plan = result.fork(0, call, plan=True)
    assert isinstance(plan, ForkPlan)
    assert [(each.name, each.call_count) for each in plan.effects] == [("look", 1)]
    server.script(Answer("no look"), Answer("go"))
    output = result[0].output
    assert output is not None
    alone = output.fork(call)
    assert (alone.raw, LOOKS) == ("go", [])


def test_e118_a_stop_leaves_the_other_rows(server: OpenAIServer, result: MapResult) -> None:
    server.script(Answer.status(400))
    forked = result.fork(0, list_calls(result[0].output)[-1], system_prompt="Shorter.")
    assert [each.status for each in forked] == ["failed", "completed", "failed"]
    assert forked[0].error is not None


def test_e118_several_rows_fork_at_a_task_that_is_named(server: OpenAIServer, result: MapResult) -> None:
    asked = len(server.requests)
    server.choose = lambda request: Answer("stay" if "Advise" in request.prompt else "calm")
    forked = result.fork([0, *result.failures], "wind", system_prompt="Be short.")
    assert [each.raw for each in forked] == ["stay", "sail to the south", "stay"]
    assert [each.reused for each in forked] == [False, True, False]
    assert len(server.requests) - asked == 4
    assert sum("Be short." in str(each.body) for each in server.requests[asked:]) == 2
    assert {each.run_id: each.value for each in forked.score_records if each.row != "row 1"} == {
        forked[0].run_id: 4.0,
        forked[2].run_id: 4.0,
    }
    again = forked.fork(["row 2", "row 1"], "advice")
    assert [each.reused for each in again] == [True, False, False]
    with pytest.raises(ValidationError, match="No row is named"):
        result.fork([], "wind")
    with pytest.raises(ValidationError, match=r"plan=True is of one row, got 2"):
        result.fork([0, 1], "wind", plan=True)
    with pytest.raises(ValidationError, match="has no span winds"):
        result.fork([0, 1], "winds")


def test_e118_rows_of_several_variants_run_what_theirs_ran(server: OpenAIServer, llm: str) -> None:
    server.choose = lambda request: Answer("kindly" if "Kindly" in request.prompt else "plainly")
    made = make_team(llm).variants({"plain": {}, "kind": {"task.advice.description": "Kindly advise"}})
    both = made.map([{"bay": "north"}, {"bay": "south"}])
    asked = len(server.requests)
    forked = both.fork(["plain/row 0", "kind/row 0"], "advice")
    assert [each.raw for each in forked] == ["plainly", "plainly", "kindly", "kindly"]
    assert [each.reused for each in forked] == [False, True, False, True]
    assert len(server.requests) - asked == 2
    again = both.fork([0, 1], "advice", variant="kind")
    assert [each.reused for each in again] == [True, True, False, False]


def test_e118_rows_that_cannot_be_forked_are_refused_with_the_way(
    llm: str, server: OpenAIServer, result: MapResult
) -> None:
    with pytest.raises(ValidationError, match="There is no row 'row 9': there are 3 rows"):
        result.fork("row 9", "x.1")
    with pytest.raises(ValidationError, match="has no span"):
        result.fork(0, "x.1")
    with pytest.raises(ValidationError, match="has no span"):  # of another row
        result.fork(0, list_calls(result[1].output)[0])
    server.script(Answer("calm"), Answer("go"))
    with ThreadPoolExecutor(1) as executor:
        away = make_team(llm).map([{"bay": "east"}], executor=executor)
    output = away[0].output
    assert output is not None
    with pytest.raises(ValidationError, match="ran on an executor"):
        away.fork(0, list_calls(output)[0])
