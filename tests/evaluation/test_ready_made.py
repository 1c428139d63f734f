"""The ready-made scorers (V5), each with the runs that it tells apart."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pandas as pd
import pytest

from ensemble_notebook import (
    Agent,
    CostConfiguration,
    DeadlineExceededError,
    DelegationContext,
    DelegationPolicyResult,
    DelegationRequest,
    Ensemble,
    EnsembleOutput,
    Fail,
    Score,
    ScriptedChatModel,
    Task,
    ToolUse,
    ValidationError,
    scorers,
)
from ensemble_notebook.evaluation.scorer import Subject, read_scorers
from tests.conformance.scene import done, scripted


def score(scorer: Any, run: EnsembleOutput, *, expected: Any = None, **inputs: Any) -> Score:
    (read,) = read_scorers(scorer)
    output = run.get_final_output()
    assert output is not None
    subject = Subject(output=output, inputs=inputs, expected=expected, run=run)
    given = read.read(read.bind(subject)())
    return given[read.name]


def passed(scorer: Any, run: EnsembleOutput, *, expected: Any = None, **inputs: Any) -> Any:
    return score(scorer, run, expected=expected, **inputs).value


def say(text: str, **fields: Any) -> EnsembleOutput:
    return Ensemble(tasks=[Task.of("Say", name="say", **fields)], llm=scripted(text)).run()


def search(query: str) -> str:
    """Search."""
    return "found"


def answer(text: str) -> str:
    """Answer."""
    return text


def lose(text: str) -> str:
    """Lose."""
    raise ValueError("lost")


def use(*names: str) -> EnsembleOutput:
    calls = [ToolUse(name, {"query" if name == "search" else "text": "x"}) for name in names]
    helper = Agent(role="Helper", goal="Help", llm=scripted(*calls, "Done."), tools=[search, answer, lose])
    return Ensemble(tasks=[Task.of("Help", agent=helper)]).run()


@pytest.mark.parametrize(
    "text, expected, is_same",
    [
        ("Paris", "Paris", True),
        (" Paris\n", "Paris ", True),
        ("paris", "Paris", False),
        ("3", 3, True),
        ("3", 3.0, True),
        ("3.5", 3, False),
        ("true", True, True),
        ("False", False, True),
        ("False", True, False),
        ("Yes", True, False),
        ("Paris", None, None),
        ("Paris", float("nan"), None),
    ],
)
def test_equals_compares_the_text_with_what_was_expected(text: str, expected: Any, is_same: bool | None) -> None:
    assert passed(scorers.equals(), say(text), expected=expected) is is_same


def test_equals_compares_the_only_field_of_a_typed_output_by_its_value() -> None:
    mood = say('{"mood": "hymn"}', output_type={"mood": "str"})
    assert passed(scorers.equals(), mood, expected="hymn") is True
    assert passed(scorers.equals(ignore_case=True), mood, expected="HYMN") is True
    assert passed(scorers.equals(), mood, expected='{"mood": "hymn"}') is True
    assert passed(scorers.equals(), mood, expected="jig") is False
    assert passed(scorers.equals(), say('{"size": 2}', output_type={"size": "int"}), expected="2") is True
    wet = say('{"wet": false}', output_type={"wet": "bool"})
    assert [passed(scorers.equals(), wet, expected=text) for text in ("false", "False", "True")] == [True, True, False]


def test_equals_says_which_field_of_a_typed_output_was_meant() -> None:
    place = say('{"city": "Paris", "size": 2}', output_type={"city": "str", "size": "int"})
    for wanted, meant in (("Paris", "field='city'"), (2, "field='size'"), ("Rome", "field='city' or field='size'")):
        found = score(scorers.equals(), place, expected=wanted)
        assert found.value is False
        assert str(found.reason).endswith(f"; it has several fields, so say which is meant: {meant}")


def test_no_score_of_a_ready_made_scorer_is_called_as_a_method_of_a_frame() -> None:
    made = [
        scorers.equals(),
        scorers.contains("x"),
        scorers.matches("x"),
        scorers.close_to("x", 1),
        scorers.called("x"),
        scorers.called_in_order(["x"]),
        scorers.delegated_to("x"),
        scorers.calls_at_most(1),
        scorers.cost_at_most(1),
        scorers.seconds_at_most(1),
        scorers.no_errors(),
        scorers.finished_before("x", "y"),
    ]
    assert len(made) == len(scorers.__all__) - 1  # a judge is called as its ensemble is
    assert not [each.name for each in made if hasattr(pd.DataFrame, each.name) or hasattr(pd.Series, each.name)]


def test_equals_may_ignore_case_look_at_another_column_and_at_a_field() -> None:
    city = say(
        '{"city": "Paris", "size": 2, "capital": true}', output_type={"city": "str", "size": "int", "capital": "bool"}
    )
    assert passed(scorers.equals(ignore_case=True), say("paris"), expected="PARIS")
    assert passed(scorers.equals("town"), say("Paris"), expected="Rome", town="Paris")
    assert passed(scorers.equals(field="city"), city, expected="Paris")
    assert passed(scorers.equals(field="size"), city, expected="2")
    assert passed(scorers.equals(field="capital"), city, expected=True)
    wrong = score(scorers.equals(field="city"), city, expected="Rome")
    assert (wrong.value, wrong.reason) == (False, "expected 'Rome', got 'Paris'")
    with pytest.raises(LookupError, match="cty"):
        score(scorers.equals(field="cty"), city, expected="Rome")
    with pytest.raises(ValidationError, match="the output has no type"):
        score(scorers.equals(field="city"), say("Paris"), expected="Paris")


def test_contains_and_matches_look_into_the_text() -> None:
    assert passed(scorers.contains("refund"), say("A refund of 12 is due.")) is True
    assert passed(scorers.contains("Refund"), say("A refund of 12 is due.")) is False
    assert passed(scorers.matches(r"(?i)REFUND of \d+"), say("A refund of 12 is due.")) is True
    assert passed(scorers.matches(r"refund of \w+ \d"), say("A refund of 12 is due.")) is False


def test_a_pattern_has_a_second_e67() -> None:
    with pytest.raises(DeadlineExceededError, match="The scorer took longer than 1 s"):
        score(scorers.matches(r"(a|a)*$"), say("a" * 60 + "b"))


def test_close_to_compares_numbers() -> None:
    assert passed(scorers.close_to("price", 0.5), say("12.4"), price=12) is True
    assert passed(scorers.close_to("price", 0.1), say("0.3"), price=0.2) is True
    far = score(scorers.close_to("price", 0.5), say("13"), price=12)
    assert (far.value, far.reason) == (False, "expected 12, got 13")
    assert score(scorers.close_to("price", 1), say("a dozen"), price=12).reason == "'a dozen' is no number"
    assert passed(scorers.close_to("price", 1), say("12"), price=None) is None


def test_called_counts_the_calls_of_a_tool() -> None:
    run = use("search", "search", "answer")
    assert passed(scorers.called("search"), run) is True
    assert passed(scorers.called("search", at_most=1), run) is False
    assert passed(scorers.called("search", at_least=3), run) is False
    assert passed(scorers.called("lose", at_least=0, at_most=0), run) is True
    missed = score(scorers.called("serch"), run)
    assert (missed.value, missed.reason) == (False, "serch was called 0 times. Did you mean 'search'?")
    never = score(scorers.called("serch", at_most=0), run)
    assert (never.value, never.reason) == (True, missed.reason)
    assert score(scorers.called("lose", at_most=0), run).reason is None


def test_called_in_order_lets_other_calls_be_in_between() -> None:
    run = use("search", "lose", "answer")
    assert passed(scorers.called_in_order(["search", "answer"]), run) is True
    wrong = score(scorers.called_in_order(["answer", "search"]), run)
    assert wrong.reason == "search was not called at its place; called were: search, lose, answer"
    assert passed(scorers.called_in_order(["search", "search"]), run) is False


def test_delegated_to_looks_for_the_role() -> None:
    model = scripted(ToolUse("delegate", {"agent_role": "Cook", "task_description": "Cook"}), "Done.")
    boss = Agent(role="Boss", goal="Lead", llm=model, allow_delegation=True)
    cook = Agent(role="Cook", goal="Cook", llm=scripted("Soup."))
    helper = Agent(role="Helper", goal="Help", llm=scripted("No."))
    run = Ensemble(tasks=[Task.of("Feed us", agent=boss)], agents=[boss, cook, helper]).run()
    assert passed(scorers.delegated_to("Cook"), run) is True
    assert score(scorers.delegated_to("Helper"), run).reason == "work was delegated to Cook"


def test_delegated_to_does_not_count_what_was_refused() -> None:
    def refuse(request: DelegationRequest, context: DelegationContext) -> DelegationPolicyResult:
        return DelegationPolicyResult.reject("the kitchen is closed")

    model = scripted(ToolUse("delegate", {"agent_role": "Cook", "task_description": "Cook"}), "Done.")
    boss = Agent(role="Boss", goal="Lead", llm=model, allow_delegation=True)
    cook = Agent(role="Cook", goal="Cook", llm=scripted("Soup."))
    run = Ensemble(tasks=[Task.of("Feed us", agent=boss)], agents=[boss, cook], delegation_policies=[refuse]).run()
    assert passed(scorers.delegated_to("Cook"), run) is False
    assert score(scorers.delegated_to("Cook"), run).reason == "it was refused: the kitchen is closed"
    assert score(scorers.delegated_to("Helper"), run).reason == "work was delegated to nobody"


def test_limits_of_calls_cost_and_time() -> None:
    run = use("search", "answer")
    assert passed(scorers.calls_at_most(3), run) is True
    assert score(scorers.calls_at_most(2), run).reason == "3 model calls"
    assert passed(scorers.seconds_at_most(60), run) is True
    assert passed(scorers.seconds_at_most(0), run) is False
    rates = CostConfiguration(input_rate="0.01", output_rate="0.01")
    priced = Ensemble(tasks=[Task.of("Say")], llm=scripted("a b c"), cost=rates).run()
    assert passed(scorers.cost_at_most(100), priced) is True
    assert passed(scorers.cost_at_most(0), priced) is False
    assert passed(scorers.cost_at_most(0), Ensemble(tasks=[done("a")]).run()) is True


def test_no_errors_counts_what_failed_but_not_what_was_made_again() -> None:
    assert passed(scorers.no_errors(), use("search")) is True
    failed = score(scorers.no_errors(), use("lose"))
    assert (failed.value, failed.reason) == (False, "failed: tool lose")
    again = Ensemble(tasks=[Task.of("Say")], llm=ScriptedChatModel(replies=[Fail(TimeoutError("slow")), "Done."])).run()
    assert passed(scorers.no_errors(), again) is True


def test_a_reused_run_has_no_trace_to_look_at(tmp_path: Any, monkeypatch: Any) -> None:
    from ensemble_notebook import config

    monkeypatch.setattr(config, "store", str(tmp_path / "runs.db"))
    ensemble = Ensemble(tasks=[Task.of("Say")], llm=scripted("Done.", "Done."))
    ensemble.run()
    again = ensemble.run(reuse=True)
    assert again.task_outputs[0].reused
    for each in (scorers.called("search"), scorers.calls_at_most(0), scorers.no_errors()):
        assert score(each, again).value is None
        assert score(each, again).reason == "reused from an earlier run, whose trace has the work"


@pytest.mark.parametrize(
    "written",
    [
        "equals(3)",
        "equals(field=' ')",
        "equals(ignore_case=1)",
        "contains('')",
        "matches('(')",
        "matches('(a{1000}){1000}')",
        "close_to('a', -1)",
        "close_to('a', float('nan'))",
        "close_to('a', True)",
        "called('a', at_least=2, at_most=1)",
        "called('a', at_least=1.5)",
        "called_in_order('search')",
        "called_in_order([])",
        "calls_at_most(-1)",
        "cost_at_most('1')",
        "seconds_at_most(-1)",
        "judged_by(3)",
        "delegated_to(' ')",
    ],
)
def test_wrong_arguments_are_refused_when_a_scorer_is_made(written: str) -> None:
    with pytest.raises(ValidationError, match=f"^{written.partition('(')[0]}"):
        eval(f"scorers.{written}")


def test_a_ready_made_scorer_shows_how_it_is_written_and_travels() -> None:
    made = {
        "equals()": scorers.equals(),
        "equals('town', field='city', ignore_case=True)": scorers.equals("town", "city", True),
        "contains('a')": scorers.contains("a"),
        "matches('a+')": scorers.matches("a+"),
        "close_to('price', 0.5)": scorers.close_to("price", 0.5),
        "called('search', at_most=3)": scorers.called("search", at_most=3),
        "called_in_order(['a', 'b'])": scorers.called_in_order(("a", "b")),
        "no_errors()": scorers.no_errors(),
    }
    for shown, scorer in made.items():
        assert repr(scorer) == shown
        assert repr(pickle.loads(pickle.dumps(scorer))) == shown
        assert repr(cloudpickle.loads(cloudpickle.dumps(scorer))) == shown
        assert repr(eval(f"scorers.{shown}")) == shown
