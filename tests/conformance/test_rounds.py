"""A phase that is done again until a task in it says so (E81), through the public interface alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ensemble_notebook import (
    Condition,
    Ensemble,
    EnsembleOutput,
    Phase,
    PhaseExecutionError,
    PhaseRetried,
    RunStatus,
    ScriptedChatModel,
    Task,
    TaskInput,
    ToolResult,
    ValidationError,
)
from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

OK = {"check": {"field": "ok", "equals": True}}


class Checker:
    """Says that a draft is good once it is the `good`-th that it sees; `None` is never."""

    def __init__(self, good: int | None) -> None:
        self.good = good
        self.seen: list[TaskInput] = []

    def __call__(self, task: TaskInput) -> ToolResult:
        self.seen.append(task)
        number = len(self.seen)
        return ToolResult.ok(f"report {number}", {"ok": number == self.good})


def build(check: Any, replies: Sequence[str] = ("one", "two", "three", "four"), **fields: Any) -> Ensemble:
    """A writer and a checker in rounds, and a task that reads what came of them."""
    llm = ScriptedChatModel(replies=list(replies))
    draft = Task.of("Write a draft", name="draft", llm=llm)
    judge = Task.of("Check it", name="check", handler=check, context=draft, output_type={"ok": "bool"})
    rounds = Phase.of("rounds", draft, judge, **{"until": OK, "max_rounds": 3, **fields})
    ship = Phase.of("ship", Task.of("Ship it", name="ship", handler=lambda task: task.context[0].raw, context=draft))
    return Ensemble(phases=[rounds, Phase(name="ship", tasks=ship.tasks, after=[rounds])], llm=llm)


def attempts(output: EnsembleOutput) -> list[int]:
    return [event.attempt for event in output.events if isinstance(event, PhaseRetried)]


# --- Declared ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"max_rounds": None}, "until without max_rounds"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": 101}, "at most 100, got 101"),
        ({"max_rounds": True}, "max_rounds"),
        ({"until": None}, "max_rounds without until"),
        ({"until": None, "max_rounds": None, "on_exhausted": "keep"}, "on_exhausted without until"),
        ({"review": "Is it good?"}, "both until and review"),
        ({"until": {"check": "default"}}, "'default' tests nothing here"),
        ({"until": {"check": {"field": "okay", "equals": True}}}, "Did you mean 'ok'"),
        ({"until": {"chekc": "x"}}, "Did you mean 'check'"),
        ({"until": {"ship": "x"}}, "not one of its tasks"),
        ({"on_exhausted": "kept"}, "keep"),
    ],
)
def test_e81_a_wrong_loop_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        build(Checker(1), **fields).validate()


@pytest.mark.parametrize(
    "lines, place, said",
    [
        ("until: {check: done}\n    max_rounds: 0", "0", "max_rounds must be a whole number >= 1, got 0"),
        ("until: {check: done}\n    max_rounds: many", "many", "takes a whole number"),
        ("until: {check: done}\n    max_rounds: 3\n    review: Is it?", "Is it?", "both until and review"),
        ("until: {check: default}\n    max_rounds: 3\n    on_exhausted: keep", "until", "'default' tests nothing here"),
        ("until: {chekc: done}\n    max_rounds: 3", "chekc", "Did you mean 'check'?"),
        ("until: []\n    max_rounds: 3", "3", "max_rounds without until"),
    ],
)
def test_e81_what_is_wrong_with_a_loop_is_one_mistake_in_its_place(lines: str, place: str, said: str) -> None:
    text = f"phases:\n  work:\n    tasks: {{check: Check it}}\n    {lines}\n"
    with pytest.raises(CellError) as caught:
        read_cell(text, {})
    (mistake,) = caught.value.mistakes
    assert said in mistake.message
    assert text.splitlines()[mistake.line - 1][mistake.column - 1 : mistake.end_column - 1] == place


def test_e81_plan_and_estimate_tell_the_rounds() -> None:
    ensemble = build(Checker(1), max_rounds=5)
    assert ensemble.plan().phase_settings["rounds"]["until"] == "check.ok equals True, 1 to 5 rounds, then fail"
    estimate = ensemble.estimate()
    draft = estimate.tasks[0]
    assert (draft.llm_calls.low, draft.llm_calls.high, draft.rounds.high) == (1, 5, 5)
    assert str(estimate).endswith("in 1 to 5 rounds")
    assert estimate.to_dict()["tasks"][0]["rounds"] == [1, 5]


# --- Done -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good, fields, said",
    [
        (3, {}, "until met"),
        (2, {"max_rounds": 2}, "until met"),  # at the last one that there may be
        (None, {"on_exhausted": "keep"}, "kept: no round left"),
        (None, {}, "failed"),
        (1, {}, None),
    ],
)
def test_w23_the_last_round_of_a_phase_with_until_says_what_became_of_it(
    good: int | None, fields: dict[str, Any], said: str | None
) -> None:
    ensemble = build(Checker(good), **fields)
    try:
        output = ensemble.run()
    except PhaseExecutionError as error:
        output = error.output
    rows = TimelineMessages(output.trace._fold).make_snapshot()["rows"]
    (phase,) = (row for row in rows if row["kind"] == "phase" and row["name"] == "rounds")
    if said is None:
        assert "rounds" not in phase
        return
    *before, last = (each["verdict"] for each in phase["rounds"])
    assert set(before) == {"done again until check.ok equals True"}
    assert last == said
    assert f"↳ round {len(before) + 1} · {said}" in output._repr_mimebundle_()["text/plain"]


@pytest.mark.parametrize("good", [1, 2, 3])
def test_e81_it_is_done_until_the_condition_holds(good: int) -> None:
    check = Checker(good)
    output = build(check).run()
    assert (output.status, len(check.seen)) == (RunStatus.COMPLETED, good)
    assert output.raw == output["draft"].raw == ("one", "two", "three")[good - 1]
    assert [each.name for each in output] == ["draft", "check", "ship"]
    assert output.frames.phases.query("phase == 'rounds'").attempt.tolist() == list(range(1, good + 1))
    assert attempts(output) == list(range(2, good + 1))
    assert find_violations(output.trace) == []


def test_e81_a_loop_that_never_holds_fails() -> None:
    with pytest.raises(
        PhaseExecutionError, match=r"3 rounds, its max_rounds, and check\.ok equals True does not"
    ) as it:
        build(Checker(None)).run()
    assert it.value.output is not None
    assert it.value.output.status is RunStatus.FAILED
    assert it.value.output["draft"].raw == "three"
    assert [each.name for each in it.value.output.skipped] == ["ship", "ship"]


def test_e81_a_loop_that_never_holds_may_keep_its_last_outputs() -> None:
    output = build(Checker(None), on_exhausted="keep").run()
    assert (output.status, output.raw) == (RunStatus.COMPLETED_WITH_WARNINGS, "three")
    assert "its last outputs are kept" in output.warnings[0]


def test_e81_of_several_conditions_any_may_hold() -> None:
    until = [{"check": {"equals": "never"}}, Condition("draft", contains="two")]
    assert build(Checker(None), until=until).run().raw == "two"


def test_e81_a_condition_that_breaks_fails_the_phase() -> None:
    def broken(_: object) -> bool:
        raise LookupError("no such key")

    with pytest.raises(PhaseExecutionError, match="no such key"):
        build(check := Checker(None), until={"check": {"predicate": broken}}, on_exhausted="keep").run()
    assert len(check.seen) == 1


def test_e81_a_task_that_was_skipped_does_not_hold() -> None:
    first = Task.of("Do a", name="a", handler=lambda task: f"a{task.attempt}")
    second = Task.of("Do b", name="b", handler=lambda _: "done", when={"a": "a2"})
    output = Ensemble(phases=[Phase.of("p", first, second, until={"b": "done"}, max_rounds=9)]).run()
    assert attempts(output) == [2]
    assert [each.raw for each in output] == ["a2", "done"]


@pytest.mark.parametrize("strategy", ["continue_on_error", "partial", "fail_fast"])
def test_e81_a_task_that_failed_does_not_hold_where_others_go_on(strategy: Any) -> None:
    tries: list[int] = []

    def check(_: TaskInput) -> ToolResult:
        tries.append(len(tries) + 1)
        if len(tries) < 3:
            raise LookupError("no report")
        return ToolResult.ok("fine", {"ok": True})

    ensemble = build(check).replace(error_strategy=strategy)
    if strategy == "fail_fast":
        with pytest.raises(PhaseExecutionError, match="no report"):
            ensemble.run()
        assert tries == [1]
        return
    output = ensemble.run()
    assert (output.status, output.failures, output.raw, tries) == (RunStatus.COMPLETED, (), "three", [1, 2, 3])
    assert find_violations(output.trace) == []


# --- What a task is told ----------------------------------------------------------------------------------------------


def test_e81_a_task_is_told_why_it_is_done_again_and_given_its_last_output() -> None:
    check = Checker(3)
    ensemble = build(check)
    ensemble.run()
    first, _, third = [call.messages[-1].content for call in ensemble.llm.calls]
    assert "Another Round" not in first
    assert third.startswith(
        "## Another Round\nIt is done again until check.ok equals True.\n\n### check\nreport 2\n\n"
        "### Previous Output\ntwo\n\n## Task\nWrite a draft\n\n"
    )
    told = ("It is done again until check.ok equals True.",)  # and not what it has said itself
    assert [(each.attempt, each.previous, each.feedback) for each in check.seen] == [
        (1, None, ()),
        (2, "report 1", told),
        (3, "report 2", told),
    ]


def test_e81_who_reads_the_judge_is_not_told_of_its_last_answer() -> None:
    llm = ScriptedChatModel(replies=["fix 1", "fix 2"])
    answers = iter([False, False, True])
    check = Task.of("Check", name="check", handler=lambda _: ToolResult.ok("r", {"ok": next(answers)}))
    fix = Task.of("Fix it", name="fix", llm=llm, context=check, when={"check": {"field": "ok", "equals": False}})
    output = Ensemble(phases=[Phase.of("p", check, fix, until=OK, max_rounds=5)]).run()
    assert len(llm.calls) == 2
    assert "### check" not in llm.calls[1].messages[-1].content
    assert "### Previous Output\nfix 1" in llm.calls[1].messages[-1].content
    assert [each.name for each in output] == ["check"]


@pytest.mark.parametrize(
    "prompt, second",
    [
        ("Improve: {previous}", "Improve: one"),
        ("Write it.\n{revision}", "Write it.\n## Another Round\nIt is done again until check.ok equals True.\n\n"),
        ("Write it.", "Write it.\n\n## Another Round\nIt is done again until check.ok equals True.\n\n### check\n"),
    ],
)
def test_e81_a_prompt_of_ones_own_has_a_place_for_the_last_output(prompt: str, second: str) -> None:
    llm = ScriptedChatModel(replies=["one", "two"])
    draft = Task(prompt=prompt, name="draft", llm=llm)
    judge = Task.of("Check it", name="check", handler=Checker(2), context=draft, output_type={"ok": "bool"})
    Ensemble(phases=[Phase.of("p", draft, judge, until=OK, max_rounds=3)]).run()
    sent = [call.messages[-1].content for call in llm.calls]
    assert sent[0].strip() == prompt.replace("{previous}", "").replace("{revision}", "").strip()
    assert sent[1] == second if "{previous}" in prompt else sent[1].startswith(second)
    assert ("### Previous Output\none" in sent[1]) is ("{previous}" not in prompt)


# --- Resumed ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store_path")
def test_e81_a_resumed_run_keeps_the_rounds_that_were_done() -> None:
    answers = {"one": False, "two": False, "three": True}
    is_down = True

    def check(task: TaskInput) -> ToolResult:
        text = task.context[0].raw
        if text == "three" and is_down:
            raise ConnectionError("the laboratory is closed")
        return ToolResult.ok(f"report on {text}", {"ok": answers[text]})

    ensemble = build(check)
    with pytest.raises(PhaseExecutionError) as caught:
        ensemble.run()
    is_down = False
    assert caught.value.output is not None
    output = ensemble.run(resume=caught.value.output)
    assert (output.status, output.raw) == (RunStatus.COMPLETED, "three")
    assert len(ensemble.llm.calls) == 3  # none was asked again
    assert attempts(output) == [2, 3]
    assert find_violations(output.trace) == []
