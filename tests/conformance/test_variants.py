"""E73: one ensemble in several forms, side by side: what is changed, one account, one table, and what differs."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    MapResult,
    Phase,
    PhaseReview,
    PromptTemplateError,
    RunStatus,
    ScoringError,
    Task,
    TaskInput,
    ValidationError,
)
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.testing.trace_invariants import find_violations
from tests.conformance.scene import scripted


def echo(given: TaskInput) -> str:
    return given.description


def make(**fields: Any) -> Ensemble:
    """A draft in some style, and a text that reads it."""
    draft = Task.of("Write about {topic}, {style}", name="draft", handler=echo)
    end = Task.of("End", name="end", context=[draft], handler=lambda given: given.context[0].raw.upper())
    return Ensemble(tasks=[draft, end], inputs={"style": "plain"}, **fields)


def test_e73_variants_change_inputs_and_the_index_of_the_table_names_them() -> None:
    result = make().variants({"short": {"style": "short"}, "long": {"style": "long"}}).run(topic="tea")
    assert result.variants == ("short", "long")
    assert result.frame.index.tolist() == ["short", "long"]
    assert result.frame.index.name == "variant"
    assert result.frame.raw.tolist() == ["WRITE ABOUT TEA, SHORT", "WRITE ABOUT TEA, LONG"]
    assert [row.variant for row in result] == ["short", "long"]
    assert [dict(row.inputs) for row in result] == [
        {"topic": "tea", "style": "short"},
        {"topic": "tea", "style": "long"},
    ]


def test_e73_variants_are_mapped_with_each_row_and_keep_its_index() -> None:
    index = pd.MultiIndex.from_tuples([("de", 2019), ("fr", 2020)], names=["land", "year"])
    rows = pd.DataFrame({"topic": ["tea", "rye"]}, index=index)
    result = make().variants({"short": {"style": "short"}, "long": {"style": "long"}}).map(rows)
    assert list(result.frame.index.names) == ["variant", "land", "year"]
    assert result.frame.loc[("long", "fr", 2020), "raw"] == "WRITE ABOUT RYE, LONG"
    assert result.output is not None
    assert {each.name for each in result.output.task_outputs} == {row.name for row in result}
    assert result[3].name == "long/fr/2020"
    assert find_violations(result.output.trace) == []


def test_e73_listed_rows_are_numbered_under_each_variant() -> None:
    frame = make().variants({"a": {}, "b": {"style": "x"}}).map([{"topic": "1"}, {"topic": "2"}]).frame
    assert frame.index.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert frame.raw.tolist()[:3] == ["WRITE ABOUT 1, PLAIN", "WRITE ABOUT 2, PLAIN", "WRITE ABOUT 1, X"]


def test_e73_fields_of_ensemble_tasks_and_agents_change_wherever_they_are_used() -> None:
    judge = Agent(role="Judge v1.5", goal="Judge")
    writer = Agent(role="Writer", goal="Write")
    draft = Task.of("Draft", name="first draft", agent=writer, fallback=judge)
    title = Task.of("Title", agent=writer, context=[draft], name="title")
    review = PhaseReview(Task.of("Judge it", name="verdict", agent=judge))
    ensemble = Ensemble(
        phases=[Phase(name="work", tasks=[draft, title], review=review)],
        agents=[writer, judge],
        llm=scripted("one", "two", "APPROVE"),
    )
    changes: Mapping[str, Any] = {
        "as it is": {},
        "other": {
            "llm": scripted("three", "four", "APPROVE"),
            "agent.Writer.goal": "Write well",
            "agent.Judge v1.5.goal": "Judge well",
            "task.first draft.description": "Draft {what}",
            "inputs": {"what": "boldly"},
        },
    }
    result = ensemble.variants(changes).run(concurrency=1)
    assert result.frame.raw.tolist() == ["two", "four"]
    told = result[1].output
    assert told is not None
    prompts = told.frames.messages.text.dropna().str.cat(sep="\n")
    assert all(words in prompts for words in ("Write well", "Judge well", "Draft boldly"))
    assert ensemble.tasks == () and ensemble.agents[0].goal == "Write"  # noqa: PT018 - one fact: nothing has changed


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"task.drfat.name": "x"}, "No task is called 'drfat'. Did you mean 'draft'?"),
        ({"task.draft.descripton": "x"}, "Task 'draft' has no field 'descripton'. Did you mean 'description'?"),
        ({"task.draft": "x"}, "'task.draft' lacks the field: write 'task.draft.FIELD'."),
        ({"budget": Budget(max_llm_calls=1)}, "budget holds for all variants together"),
        ({"inputs": 3}, "inputs must map names to values, got int."),
        ({"workflow": "sideways"}, "Ensemble workflow can't be 'sideways'."),
        ({"task.draft.timeout": -1}, "Task timeout must be seconds > 0 or None, got -1."),
    ],
)
def test_e73_change_of_what_is_not_there_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make().variants({"odd": changes})
    assert f"Variant 'odd': {message}" in str(caught.value)


def test_e73_unknown_names_of_all_variants_are_told_together() -> None:
    ensemble = Ensemble(tasks=[Task.of("Say {topic} to {budget}", name="say")], llm="local")
    with pytest.raises(ValidationError) as caught:
        ensemble.variants({"a": {"topics": 1}, "b": {"max_concurency": 1}, "c": {"budget": 1}, " ": {}, "d": 4})  # type: ignore[dict-item]
    assert len(caught.value.problems) == 5
    assert "Did you mean 'topic'?" in str(caught.value)
    with pytest.raises(ValidationError, match="got none"):
        ensemble.variants({})


def test_e73_input_that_is_given_twice_is_refused_and_missing_ones_are_named() -> None:
    variants = make().variants({"a": {"style": "x"}, "b": {}})
    with pytest.raises(ValidationError, match="'style' is changed by variant 'a', and given with the rows"):
        variants.run(topic="tea", style="y")
    with pytest.raises(PromptTemplateError, match="topic"):
        variants.run()


def test_e73_scores_are_columns_and_one_that_raises_is_a_warning() -> None:
    def rate(output: Any) -> float:
        return 1 / (len(output.raw) - len("WRITE ABOUT TEA, SHORT"))

    changes = {"short": {"style": "short"}, "longer": {"style": "longer"}}
    result = make().variants(changes, score=rate).run(topic="tea")
    assert result.frame.rate.isna().tolist() == [True, False]
    assert result.frame.rate.dtype == "Float64"
    assert any("The scorer rate failed for 1 of 2 runs: ZeroDivisionError" in each for each in result.warnings)
    assert list(result.frame.columns[:4]) == ["status", "raw", "rate", "score_error"]
    assert result.frame.score_error.isna().tolist() == [False, True]
    assert (
        f"ZeroDivisionError: division by zero (at {Path('tests/conformance/test_variants.py')}:"
        in (result.frame.score_error["short"])
    )
    both = make().variants(changes, score=lambda output: {"length": len(output.raw), "good": True}).run(topic="tea")
    assert both.frame.length.tolist() == [22, 23]
    assert list(both.frame.columns[:4]) == ["status", "raw", "length", "good"]
    assert both.frame.good.dtype == "boolean"
    again = pickle.loads(pickle.dumps(both))
    pd.testing.assert_frame_equal(again.frame, both.frame)
    with pytest.raises(ValidationError, match="score must be a function"):
        make().variants(changes, score=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", [None, float("nan"), pd.NA])
def test_e73_a_score_without_opinion_is_na_and_told_where_there_is_none_at_all(score: Any) -> None:
    changes = {"short": {"style": "short"}, "longer": {"style": "longer"}}
    one = make().variants(changes, score=lambda output: score if "SHORT" in output.raw else 1.5).run(topic="tea")
    assert one.frame.score.isna().tolist() == [True, False]
    assert (one.warnings, "score_error" in one.frame) == ((), False)
    none = make().variants(changes, score=lambda output: score).run(topic="tea")
    assert none.frame.score.isna().all()
    assert none.warnings == ("The scorer score had no opinion of any of 2 runs.",)
    assert pickle.loads(pickle.dumps(none)).warnings == none.warnings


@pytest.mark.parametrize("score, named", [({}, "an empty dict"), ([1], "a list")])
def test_e73_what_is_no_score_counts_as_one_that_fails(score: Any, named: str) -> None:
    changes = {"short": {"style": "short"}, "longer": {"style": "longer"}}
    result = make().variants(changes, score=lambda output: score if "SHORT" in output.raw else 1.5).run(topic="tea")
    reason = (
        f"it gave {named}, and a score is True or False, a number, a text, a Score, a dict of these by name, or None "
        f"for no opinion"
    )
    assert result.warnings == (f"The scorer score failed for 1 of 2 runs: {reason}",)
    assert result.frame.score_error.fillna("").tolist() == [reason, ""]
    assert (str(result.frame.score.dtype), result.frame.score.isna().tolist()) == ("Float64", [True, False])
    with pytest.raises(ScoringError, match="it gave"):
        make().variants(changes, score=lambda output: score).run(topic="tea")


def test_e73_a_score_that_fails_is_told_at_once_and_in_every_view(caplog: pytest.LogCaptureFixture) -> None:
    changes = {f"v{number}": {"style": "x" * number} for number in range(8)}
    with caplog.at_level("WARNING"):
        make().variants(changes, score=lambda output: len(output.raw)).run(topic="t")
        assert caplog.text == ""
        result = make().variants(changes, score=lambda output: 1 / (len(output.raw) % 8 == 0)).run(topic="t")
    told = [each.getMessage() for each in caplog.records]
    assert {each.name for each in caplog.records} == {"ensemble_notebook.run"}
    assert len(told) == 1
    assert told[0].startswith("The scorer score failed for 7 of 8 runs: ZeroDivisionError: division by zero (at ")
    assert list(result.warnings) == told
    shown = " ".join(result._repr_mimebundle_()["text/plain"].split())
    assert "! The scorer score failed for 7 of 8 runs: ZeroDivisionError" in shown
    assert result.frame.score_error.count() == 7
    again = pickle.loads(pickle.dumps(result))
    pd.testing.assert_frame_equal(again.frame, result.frame)
    assert again.warnings == result.warnings


def test_e73_a_score_that_fails_for_all_raises_with_the_whole_result() -> None:
    def rate(output: Any) -> float:
        return float(output.no_such_field)

    variants = make().variants({"short": {"style": "short"}, "long": {"style": "long"}}, score=rate)
    for start in (lambda: variants.run(topic="tea"), lambda: variants.map([{"topic": "tea"}])):
        with pytest.raises(ScoringError) as caught:
            start()
        error = caught.value
        assert isinstance(error.__cause__, AttributeError)
        assert str(error).startswith("The scorer rate failed for each of 2 runs: AttributeError: ")
        assert "ERROR.result.score(rate, replace=True)" in str(error)
        assert error.output is error.result
        assert [row.status for row in error.result] == ["completed", "completed"]
        assert error.result.frame.rate.isna().all()
        assert pickle.loads(pickle.dumps(error)).result.frame.equals(error.result.frame)
    mended = make().variants(
        {"short": {"style": "short"}, "long": {"style": "long"}}, score=lambda output: len(output.raw)
    )
    scored = mended.map([{"topic": "tea"}], resume=error.result)
    assert scored.output is None
    assert scored.frame.score.tolist() == [22, 21]


def test_e73_where_no_text_is_kept_a_score_quotes_none() -> None:
    def rate(output: Any) -> float:
        raise ValueError(output.raw)

    with pytest.raises(ScoringError) as caught:
        make(capture_mode="metadata").variants({"a": {"style": "short"}}, score=rate).run(topic="tea")
    assert "The scorer rate failed for the only run: ValueError. " in str(caught.value)
    assert caught.value.__cause__ is None
    assert not any("TEA" in each for each in caught.value.result.warnings)


def test_e73_two_variants_are_compared_as_two_runs_are() -> None:
    result = (
        make().variants({"short": {"style": "short"}, "same": {"style": "short"}, "x": {"style": "x"}}).run(topic="t")
    )
    assert set(result.diff("short", "same").frame.output_changed.dropna()) == {False}
    diff = result.diff("short", "x")
    assert [said.split(" · ")[0] for said in repr(diff).splitlines()[:2]] == ["A short", "B x"]
    assert diff.timeline is not None
    assert diff.frame.set_index("path").loc["draft", "status"] == "changed"
    with pytest.raises(ValidationError, match="Did you mean 'short'"):
        result.diff("shrt", "x")
    with pytest.raises(ValidationError, match="no row 1: there is 1 row, from 0"):
        result.diff("short", "x", row=1)


def test_e73_variants_spend_one_account() -> None:
    ensemble = Ensemble(
        tasks=[Task.of("Say {word}", name="say")], llm=scripted("one", "two", "three"), budget=Budget(max_llm_calls=2)
    )
    changes = {each: {"word": each} for each in "abc"}
    result = ensemble.variants(changes).run(concurrency=1)
    assert result.status is RunStatus.BUDGET_EXCEEDED
    assert [each.status for each in result][:2] == ["completed", "completed"]
    assert result.metrics.llm_call_count == 2


def test_e73_result_is_gone_on_with() -> None:
    calls: list[str] = []

    def work(given: TaskInput) -> str:
        calls.append(given.description)
        if given.description == "Do b" and calls.count("Do b") == 1:
            raise OSError("no")
        return given.description

    variants = Ensemble(tasks=[Task.of("Do {what}", name="do", handler=work)]).variants(
        {"a": {"what": "a"}, "b": {"what": "b"}}
    )
    first: MapResult = variants.run(concurrency=1)
    assert [each.status for each in first] == ["completed", "failed"]
    second = variants.run(resume=first)
    assert [each.status for each in second] == ["completed", "completed"]
    assert calls == ["Do a", "Do b", "Do b"]


def test_e73_names_of_variants_are_not_told_where_no_text_is_kept() -> None:
    ensemble = make(capture_mode="metadata")
    result = ensemble.variants({"tell=secret-1": {"style": "secret-1"}}).run(topic="tea")
    assert result.output is not None
    assert "secret" not in result.output.frames.spans.to_csv()
    assert result.frame.index.tolist() == ["tell=secret-1"]


@pytest.fixture
def shell() -> Any:
    made = InteractiveShell()
    made.run_line_magic("load_ext", "ensemble_notebook")
    made.user_ns.update(rows=[{"topic": "a"}, {"topic": "b"}], echo=echo, first=scripted("1"), second=scripted("2"))
    return made


ECHO = "- {name: say, description: 'Say {topic} {style}', handler: echo}\n"


def test_e73_a_cell_runs_with_each_value_and_for_each_row(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell_magic("ensemble", "--map rows --vary style=low --vary style='very loud' -o both", ECHO)
    frame = shell.user_ns["both"].frame
    assert frame.index.tolist() == [("style=low", 0), ("style=low", 1), ("style=very loud", 0), ("style=very loud", 1)]
    assert frame.raw.tolist()[2:] == ["Say a very loud", "Say b very loud"]
    told = capsys.readouterr().out
    assert "completed · both ·" in told  # named by the variable (W22)
    assert "2 rows under 2 variants: 4 completed" in told


def test_e73_a_cell_tries_models_which_may_be_variables(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    line = "--vary llm=first --vary llm=second --vary topic=x --vary topic=y -o all"
    shell.run_cell_magic("ensemble", f"{line} --dry-run", "- Say {topic}")
    assert "4 runs, one for each of 4 variants" in capsys.readouterr().out
    shell.user_ns.update(first=scripted("1", "1"), second=scripted("2", "2"))
    shell.run_cell_magic("ensemble", line, "- Say {topic}")
    frame = shell.user_ns["all"].frame
    assert frame.index[0] == "llm=first, topic=x"
    assert frame.raw.tolist() == ["1", "1", "2", "2"]


def test_e73_a_dry_run_shows_the_models_of_the_variants(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    body = "llm: local\ntasks:\n- {name: one, description: Say it}\n- {name: two, description: End, llm: scripted}\n"
    shell.run_cell_magic("ensemble", "--vary llm=scripted --vary llm=openai:m --dry-run -o plan", body)
    assert [each.llm for each in shell.user_ns["plan"].tasks] == ["scripted or openai:m", "scripted"]
    assert "scripted or openai:m" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, error, words",
    [
        ("--vary stile=a -i topic=b", CellError, "{style} has no value. Did you mean 'stile'"),
        ("--vary style=a --vary style=a -i topic=b", ValidationError, "style=a is given twice"),
        ("--vary style=a -i style=b -i topic=c", ValidationError, "-i style and --vary style are two answers"),
        ("--vary style=a --define", ValidationError, "leave out --vary or --define"),
        ("--vary style -i topic=b", ValidationError, "--vary wants NAME=VALUE, got 'style'"),
        ("--vary style=a --vary topic=b --map rows", ValidationError, "'topic' is changed by variant"),
    ],
)
def test_e73_mistakes_of_variants_in_a_cell_cost_nothing(
    shell: Any, line: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        shell.run_cell_magic("ensemble", line, ECHO)
