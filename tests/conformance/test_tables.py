"""What questions of a user the tables of a run, and of a map, answer in one line (T21, E72)."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pandas
import pytest

from ensemble_notebook import (
    Agent,
    CostConfiguration,
    Ensemble,
    EnsembleOutput,
    ExecutionTrace,
    Fail,
    Reply,
    Task,
    TaskExecutionError,
    ToolUse,
)
from tests.conformance.scene import agent, done, lost, run, scripted
from tests.support.openai_server import Answer, OpenAIServer


def broken(page: str) -> str:
    """Look it up."""
    raise OSError(f"no page {page}")


def fail(*tasks: Task, **fields: Any) -> EnsembleOutput:
    """The output of a run that fails."""
    with pytest.raises(TaskExecutionError) as caught:
        run(*tasks, **fields)
    output = caught.value.output
    assert isinstance(output, EnsembleOutput)
    return output


def test_t21_a_request_that_nobody_answered_counts_for_the_model_that_was_asked(tmp_path: Path) -> None:
    output = run(Task.of("Cook", agent=agent(Fail(429, retry_after=0), Fail(500, retry_after=0), "Soup.")))
    for frames in (output.frames, ExecutionTrace.load(output.trace.save(tmp_path / "run.trace.json")).frames):
        attempts = frames.attempts
        failed = attempts.status == "error"
        assert failed.groupby(attempts.model, observed=True).mean().round(2).to_dict() == {"scripted": 0.67}
        assert attempts.http_status.tolist() == [429, 500, pandas.NA]
        assert frames.errors.http_status.tolist() == [429, 500]
        assert not frames.errors.is_fatal.any()


def test_t21_errors_tell_what_ended_something_from_what_was_got_over() -> None:
    caught = Agent(role="Cook", goal="x", tools=[broken], llm=scripted(Reply(calls=[ToolUse("broken", {})]), "Done."))
    saved = Task.of("Fall", name="saved", agent=agent(Fail(401)), fallback=agent("Caught.", role="Net"))
    fatal = Task.of("Sink", name="fatal", agent=agent(Fail(403), role="Lost"))
    output = fail(Task.of("Look", name="looked", agent=caught), saved, fatal)
    errors = output.frames.errors
    assert errors.groupby("task", observed=True).is_fatal.agg(["any", "all"]).to_dict("index") == {
        "looked": {"any": False, "all": False},
        "saved": {"any": False, "all": False},
        "fatal": {"any": True, "all": True},
    }
    assert errors[errors.is_fatal].kind.tolist() == ["attempt", "llm", "turn", "task", "run"]
    assert errors[errors.is_fatal].http_status.tolist() == [403] * 5


def test_t21_a_worker_that_fails_ends_nothing_where_who_asked_goes_on() -> None:
    boss = Agent(role="Boss", goal="x", allow_delegation=True, llm=scripted(ask("Mate"), "I do it."))
    mate = Agent(role="Mate", goal="x", llm=scripted(Fail(400)))
    errors = run(Task.of("Go", agent=boss), agents=[boss, mate]).frames.errors
    assert {"attempt", "task", "delegation"} <= {*errors.kind}
    assert not errors.is_fatal.any()


def ask(role: str) -> Reply:
    return Reply(calls=[ToolUse("delegate", {"agent_role": role, "task_description": "Help"})])


def test_t21_sums_of_delegations_count_each_call_once() -> None:
    boss = Agent(role="Boss", goal="x", allow_delegation=True, llm=scripted(ask("Mid"), "Done."))
    mid = Agent(role="Mid", goal="x", allow_delegation=True, llm=scripted(ask("Low"), "Done."))
    low = Agent(role="Low", goal="x", llm=scripted("Done."))
    rates = CostConfiguration(input_rate=1.0, output_rate=1.0)
    frames = run(Task.of("Go", agent=boss), agents=[boss, mid, low], cost=rates).frames
    asked, inside = frames.delegations, frames.attempts[frames.attempts.delegation_id.notna()]
    assert asked.llm_call_count.tolist() == [2, 1]
    assert asked.subtree_llm_call_count.tolist() == [3, 1]
    assert asked.delegation_count.tolist() == [1, 0]
    for name in ("cost", "input_tokens", "output_tokens"):
        assert asked[name].sum() == pytest.approx(inside[name].sum())
        assert asked[f"subtree_{name}"].iloc[0] == pytest.approx(inside[name].sum())
    assert asked.total_tokens.sum() == inside.input_tokens.sum() + inside.output_tokens.sum()


def test_t21_runs_say_what_ended_them_and_how_long_their_tasks_waited_for_a_place() -> None:
    failed = fail(lost("a")).frames.runs.iloc[0]
    assert (failed.error_type, failed.error) == ("ValueError", "a failed")
    frames = run(done("a"), done("b"), done("c"), workflow="parallel", max_concurrency=1).frames
    assert frames.runs.queue_ms.iloc[0] == pytest.approx(frames.tasks.queue_ms.sum())
    assert frames.runs.queue_ms.iloc[0] > 0
    assert frames.runs[["error", "error_type"]].isna().all(axis=None)


def versions(output: EnsembleOutput) -> tuple[str, str]:
    row = output.frames.runs.iloc[0]
    return row.definition_version, row.prompts_version


@pytest.mark.parametrize("mode", ["off", "metadata"])
def test_t21_the_same_texts_have_the_same_version_whatever_the_inputs_are(mode: str) -> None:
    def cook(text: str = "Cook {dish}", **fields: Any) -> tuple[str, str]:
        return versions(run(Task.of(text, name="cook", handler=lambda _: "done"), capture_mode=mode, **fields))

    definition, prompts = cook(inputs={"dish": "sole"})
    assert cook(inputs={"dish": "carp"}, name="other") == (definition, prompts)
    limited = cook(inputs={"dish": "sole"}, max_concurrency=2)
    assert limited[0] != definition
    assert limited[1] == prompts
    assert not {*cook("Cook {dish} well", inputs={"dish": "sole"})} & {definition, prompts}
    assert len(definition) == len(prompts) == 8


def test_t21_versions_are_those_of_the_ensemble_in_a_map_and_of_all_variants_together() -> None:
    ensemble = Ensemble(tasks=[Task.of("Cook {dish}", name="cook", handler=lambda _: "done")])
    alone = versions(ensemble.run(dish="sole"))
    mapped = ensemble.map([{"dish": "sole"}, {"dish": "carp"}]).output
    varied = ensemble.variants({"a": {}, "b": {"task.cook.description": "Fry {dish}"}}).run(dish="sole").output
    assert mapped is not None
    assert varied is not None
    assert versions(mapped) == alone
    assert not {*versions(varied)} & {*alone}


@pytest.mark.parametrize("name", ["runs", "tasks", "attempts", "errors", "delegations"])
def test_t21_tables_of_runs_without_inputs_can_be_written_as_parquet(name: str) -> None:
    frame = getattr(run(done("a")).frames, name)
    frame.to_parquet(file := io.BytesIO())
    assert list(pandas.read_parquet(file).columns) == list(frame.columns)


def test_t6a_of_a_refusal_the_status_is_kept_and_no_text(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(418, message="a secret word"))
    output = fail(Task.of("Cook"), llm=llm, capture_mode="metadata")
    assert {*output.frames.errors.http_status} == {418}
    assert "secret word" not in output.frames.errors.to_csv()


def test_e63_a_pickled_error_still_knows_the_status(server: OpenAIServer, llm: str) -> None:
    server.script(Answer.status(400))
    output = fail(Task.of("Cook"), llm=llm)
    assert {*pickle.loads(pickle.dumps(output)).frames.errors.http_status} == {400}


def test_e72_the_frame_has_the_inputs_of_each_row_and_prefixes_only_names_that_another_column_has() -> None:
    rows = pandas.DataFrame(
        {"city": ["Brest", "Nice"], "cost": [1, 2], "rate": [0.5, None], "when": pandas.to_datetime(["2026-01-01"] * 2)}
    ).rename_axis("id")
    rows["id"], rows["tags"] = ["a", None], [["x"], []]
    task = Task.of("Name {city}", name="name", output_type=SCHEMA, llm=scripted('{"city": "A"}', '{"city": "B"}'))
    frame = Ensemble(tasks=[task]).map(rows, concurrency=1).frame
    made = ["input_city", "input_cost", "rate", "when", "input_id", "tags"]
    assert list(frame.columns)[-7:] == ["reused", *made]
    assert frame.city.tolist() == ["A", "B"]
    assert [str(frame[name].dtype).partition("[")[0] for name in made] == [
        *("string", "Int64", "Float64", "datetime64", "string", "object")
    ]
    assert frame.input_city.tolist() == ["Brest", "Nice"]
    assert frame.rate.isna().tolist() == [False, True]
    assert frame.groupby("id").input_cost.sum().tolist() == [1, 2]


SCHEMA = {"properties": {"city": {"type": "string"}}, "required": ["city"]}


def test_e72_a_wide_table_with_repeated_labels_keeps_its_inputs() -> None:
    rows = pandas.DataFrame({f"c{number}": [number, None] for number in range(150)}, index=["a", "a"])
    frame = Ensemble(tasks=[done("cook")]).map(rows).frame
    assert frame.index.tolist() == ["a", "a"]
    assert frame.c149.tolist() == [149, pandas.NA]


def test_e72_inputs_in_the_frame_are_masked_and_those_of_variants_are_there() -> None:
    ensemble = Ensemble(
        tasks=[Task.of("Cook {dish} {style}", name="cook", handler=lambda _: "done")], inputs={"style": "x"}
    )
    secret = "sk-proj-" + "a1" * 12
    frame = ensemble.map([{"dish": secret, "api_key": "hunter2hunter2"}]).frame
    assert frame[["dish", "api_key"]].iloc[0].tolist() == ["***", "***"]
    varied = ensemble.variants({"dry": {"style": "dry"}, "wet": {"style": "wet"}}).map([{"dish": "sole", "variant": 1}])
    assert varied.frame["style"].tolist() == ["dry", "wet"]
    assert varied.frame["input_variant"].tolist() == [1, 1]


def test_e72_the_frame_says_with_which_error_a_row_failed(server: OpenAIServer, llm: str) -> None:
    server.choose = lambda request: Answer.status(400) if "soup" in request.prompt else None
    result = Ensemble(tasks=[Task.of("Cook {dish}", name="cook")], llm=llm).map([{"dish": "sole"}, {"dish": "soup"}])
    assert result.frame.error_type.tolist() == [pandas.NA, "AgentExecutionError"]
    assert result.frame.http_status.tolist() == [pandas.NA, 400]
    assert str(result.frame.http_status.dtype) == "Int64"
    assert pickle.loads(pickle.dumps(result)).frame.equals(result.frame)


def find_and_write(**fields: Any) -> Ensemble:
    find = Task.of("Find {dish}", name="find", agent=agent(*"abcdef", role="Finder"))
    each = Task.of("Taste {item}", name="each", for_each=["salt", "oil"], handler=lambda task: task.inputs["dish"])
    return Ensemble(tasks=[find, each], name="dishes", **fields)


def test_e52_the_tasks_of_a_map_are_those_of_its_rows_by_their_agents(tmp_path: Path) -> None:
    result = find_and_write().map([{"dish": "sole"}, {"dish": "carp"}])
    assert result.trace is not None
    for trace in (result.trace, ExecutionTrace.load(result.trace.save(tmp_path / "map.trace.json"))):
        tasks = trace.frames.tasks
        own = tasks[tasks.item_of.isna()]
        assert sorted(own.task) == ["row 0/each", "row 0/find", "row 1/each", "row 1/find"]
        assert own.set_index("task").agent.to_dict() == {
            f"row {row}/{name}": role for row in (0, 1) for name, role in (("find", "Finder"), ("each", "Handler"))
        }
        items = tasks[tasks.item_of.notna()]
        assert sorted(items.task) == [f"row {row}/each[{item}]" for row in (0, 1) for item in (0, 1)]
        assert set(items.item_of) == {"row 0/each", "row 1/each"}
        assert trace.frames.agents.task_count.to_dict() == {"Finder": 2, "Handler": 4}
        assert own.input_tokens.sum() == trace.frames.runs.input_tokens.iloc[0]
        assert tasks.index.isin(trace.frames.spans.index).all()
        assert tasks.depends_on.isna().all()
    varied = find_and_write().variants({"a": {}}).map([{"dish": "sole"}]).frames
    assert varied is not None
    assert "a/row 0/find" in {*varied.tasks.task}


def test_e52_tasks_that_run_further_inside_a_row_are_not_listed_and_a_row_that_never_ran_is() -> None:
    inner = Ensemble(tasks=[done("deep")])
    result = Ensemble(tasks=[Task(ensemble=inner, name="outer")]).map([{}])
    assert result.frames is not None
    assert result.frames.tasks.task.tolist() == ["row 0/outer"]
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[lost("sink")]).map([{}, {}], on_error="raise", concurrency=1)
    tasks = caught.value.output.frames.tasks.set_index("task")
    assert tasks.status.to_dict() == {"row 0/sink": "error", "row 1": "skipped"}
    assert tasks.agent.isna().to_dict() == {"row 0/sink": False, "row 1": True}


def test_e72_a_reused_row_says_so_in_the_frame_and_in_its_tasks(store_path: Path) -> None:
    rows = [{"dish": "sole"}, {"dish": "carp"}]
    first = find_and_write().map(rows[:1])
    again = find_and_write().map(rows, reuse=True)
    assert first.frame.reused.tolist() == [False]
    assert again.frame.reused.tolist() == [True, False]
    assert again.frames is not None
    tasks = again.frames.tasks
    done_before = {"row 0/find", "row 0/each[0]", "row 0/each[1]"}
    assert {*tasks[tasks.reused].task} == done_before
    assert again.frames.runs.tasks_reused.iloc[0] == tasks.reused.sum()
    taken = find_and_write().map(rows, resume=first)
    assert taken.frame.reused.tolist() == [True, False]
    assert [row.reused for row in taken] == [True, False]


def test_e72_a_map_with_nothing_left_to_do_has_the_frames_of_the_result_that_it_resumed() -> None:
    first = find_and_write().map([{"dish": "sole"}])
    again = find_and_write().map([{"dish": "sole"}], resume=first)
    thrice = pickle.loads(pickle.dumps(find_and_write().map([{"dish": "sole"}], resume=again)))
    for result in (again, thrice):
        assert result.output is None
        assert result.frames is not None
        assert result.trace is not None
        assert result.frames.tasks.task.tolist() == first.frames.tasks.task.tolist()  # type: ignore[union-attr]
        assert result.frame.reused.tolist() == [True]
        assert result.metrics.llm_call_count == 0


def test_t22_reused_tasks_are_not_compared_and_that_is_said(store_path: Path) -> None:
    def verse(style: str, *replies: str) -> Ensemble:
        facts = Task.of("Find facts", name="facts", agent=agent("Deep.", role="Finder"))
        text = Task.of(f"Write {style}", name="verse", agent=agent(*replies, role="Writer"), context=[facts])
        return Ensemble(tasks=[facts, text], name="tides")

    before = verse("short", "Sea.").run()
    diff = before.diff(verse("long", "Sea, sea, sea.").run(reuse=True))
    rows = diff.frame.set_index("path")
    amounts = ["delta_input_tokens", "delta_output_tokens", "delta_cost"]
    assert rows.status[["facts", "verse"]].tolist() == ["reused", "changed"]
    assert rows.loc["facts", [*amounts, "delta_ms"]].isna().all()
    assert rows.loc["/", amounts].tolist() == rows.loc["verse", amounts].tolist()
    assert rows.loc["/", "delta_output_tokens"] > 0
    assert any("reused facts" in each and "not compared" in each for each in diff.notes)


def test_t21_no_more_tasks_are_in_flight_than_there_are_places() -> None:
    each = Task.of("Taste {item}", name="each", for_each=list(range(20)), handler=lambda _: "done")
    frames = run(each, done("other"), workflow="parallel", max_concurrency=1).frames
    assert 0 < frames.timeseries().tasks.max() < 1.001


def test_t26_the_items_of_a_task_are_one_bar() -> None:
    taster = Agent(role="Taster", goal="x", llm=scripted(*["Salty."] * 12))
    each = Task.of("Taste {item}", name="each", for_each=list(range(12)), agent=taster)
    output = run(each, Task.of("Sum up", name="sum", agent=agent("All salty.")))
    assert len({*output.frames.attempts.task}) == 13
    for draw in (output.plot.tokens, output.plot.cost):
        chart = draw(by="task").to_dict()
        totals = chart["datasets"][chart["layer"][1]["data"]["name"]]
        assert [bar["task"] for bar in totals] == ["each", "sum"]
    used = output.frames.attempts[["input_tokens", "output_tokens"]].sum().sum()
    bars = output.plot.tokens(by="task").to_dict()
    assert sum(bar["total"] for bar in bars["datasets"][bars["layer"][1]["data"]["name"]]) == used
