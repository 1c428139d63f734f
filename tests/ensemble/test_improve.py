"""V68 to V70: better texts, and the verdict of rows that the search never saw."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ensemble_notebook import (
    Agent,
    Ensemble,
    Fail,
    MissingPackageError,
    Phase,
    Reply,
    RunInterrupted,
    Score,
    ScriptedChatModel,
    Task,
    TaskInput,
    TaskOutput,
    TaskReused,
    ValidationError,
    config,
)
from ensemble_notebook.domain.definitions.limits import Spending
from ensemble_notebook.ensemble.improving.rewriting import find_fault, find_variables, read_reply
from ensemble_notebook.ensemble.improving.search_account import scale
from ensemble_notebook.notebook.picture.chart_lines import find_places
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.tickets import add_rule, make_rewriter, make_rows, make_team, read_labeller, right

PLACE = "task.label.description"


def better(rules: int) -> float:
    """Each rule helps."""
    return min(0.95, 0.5 + 0.15 * rules)


def improve(team: Ensemble | None = None, rows: int = 60, **given: Any) -> Any:
    made = {"score": right, "change": PLACE, "budget": "$0.2", "llm": make_rewriter(), **given}
    return (team or make_team(better)).improve(make_rows(rows), **made)


def test_v68_better_words_are_found_and_held_out_rows_confirm_them() -> None:
    team = make_team(better)
    result = improve(team, rows=120)
    found = repr(result)
    assert result.is_confirmed
    assert " -> " in found
    assert "on 40 rows that it never saw (95%: +0." in found
    assert found.endswith(" spent.")
    assert [*result.changes] == [PLACE]
    assert result.changes[PLACE].startswith("Label this. Ticket {ticket}\nMind rule ")
    assert result.ensemble.tasks[0].description == result.changes[PLACE]
    assert result.original is team
    frame = result.candidates
    assert frame.index.name == "candidate"
    assert frame.status[0] == "as it is"
    assert set(frame.status) <= {"as it is", "kept", "not better", "refused", "not finished"}
    kept = frame[frame.status == "kept"]
    assert kept.score.is_monotonic_increasing
    assert (kept.text.dropna().str.contains("{ticket}", regex=False)).all()
    assert result.comparison.better.startswith("candidate ")
    assert find_violations(result.output.trace) == []


def test_v68_no_improvement_is_said_where_there_is_none() -> None:
    result = improve(make_team(lambda rules: 0.5))
    assert not result.is_confirmed
    assert repr(result).startswith("No improvement that the held-out rows confirm: none of ")
    assert result.changes == {}
    assert result.ensemble is result.original


def test_v68_held_out_rows_are_never_shown() -> None:
    seen: list[str] = []

    def rewrite(messages: Sequence[Any]) -> str:
        seen.append(str(messages[-1].content))
        return add_rule(messages)

    result = improve(llm=ScriptedChatModel(default=rewrite), rows=90, held_out=30)
    held_out = {row.row_a for row in result.comparison.rows.itertuples()}
    assert len(held_out) == 30
    shown = {f"row {each}" for text in seen for each in re.findall(r"#+ number\s+(\d+)", text)}
    assert shown
    assert shown.isdisjoint(held_out)


def test_v68_rows_that_are_alike_are_on_one_side() -> None:
    from ensemble_notebook.ensemble.improving.improve_settings import read_improve
    from ensemble_notebook.ensemble.improving.improved_places import split_rows

    rows = [{"id": number, "ticket": f"refund {number // 3}"} for number in range(60)]
    _, settings = read_improve(rows, score=right, change=PLACE)
    split = split_rows(rows, settings)
    sides = [{rows[each]["ticket"] for each in places} for places in (split.searched, split.held_out)]
    assert sides[0].isdisjoint(sides[1])
    assert len(split.held_out) in (18, 19, 20)
    frame = pd.DataFrame(rows)
    assert split_rows(frame, settings).held_out == split.held_out
    assert split_rows(rows, read_improve(rows, score=right, change=PLACE, seed=1)[1]).held_out != split.held_out


def test_v68_few_held_out_rows_are_a_weak_verdict() -> None:
    result = improve(rows=12, budget="$0.05")
    assert "with fewer than 30 held-out rows the verdict is weak" in repr(result) or not result.comparison
    result = improve(make_team(lambda rules: 0.2 if not rules else 1.0), rows=60, budget="$0.1")
    assert "with fewer than 30 held-out rows the verdict is weak" in repr(result)
    assert len(result.comparison.rows) == 20


@pytest.mark.parametrize(
    "given, told",
    [
        ({"change": "task.label.llm"}, "is no text that a model is told: of a task these are description"),
        ({"change": "task.label.describtion"}, "Did you mean 'description'?"),
        ({"change": "task.lable.description"}, "No task is called 'lable'. Did you mean 'label'?"),
        ({"change": "inputs.x"}, "change names places of texts"),
        ({"change": "label"}, "change names places of texts"),
        ({"change": "task.label.prompt"}, "has no text yet"),
        ({"change": []}, "change must list the texts"),
        ({"change": 3}, "change must list the texts"),
        ({"change": [PLACE, PLACE]}, "several times"),
        ({"score": None}, "improve needs a score"),
        ({"score": [right, len]}, "improve goes by one score, got 2: right, len"),
        ({"rows": 3}, "improve needs 9 rows at the least, better 90: 3 rows can't tell"),
        ({"held_out": 0.01}, "at least 3 are held out"),
        ({"held_out": 57}, "6 are left for the search"),
        ({"held_out": "half"}, "held_out must be a share"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"budget": "$0.001"}, "The 20 held-out rows take about $0."),
        ({"budget": None}, "improve spends until its budget is used up"),
        ({"budget": "€3"}, "EUR"),
        ({"executor": object()}, "leave out executor="),
        ({"llm": Ensemble(tasks=[Task.of("Judge")])}, "an ensemble is none, such as a judge"),
        ({"llm": 3}, "llm "),
        ({"timeout": -1}, "timeout must be"),
    ],
)
def test_v68_mistakes_cost_nothing(given: dict[str, Any], told: str) -> None:
    team = make_team(better)
    with pytest.raises(ValidationError) as caught:
        improve(team, **given)
    assert told in str(caught.value)
    assert not team.llm.calls


def test_v68_a_million_rows_are_refused_at_once() -> None:
    with pytest.raises(ValidationError, match="1,000,000 rows are more than 10,000"):
        make_team(better).improve(range(1_000_000), score=right, change=PLACE)


def test_v68_the_same_place_of_two_tasks_is_refused() -> None:
    first, second = (Task.of(f"Say {each}", name="say") for each in "ab")
    team = Ensemble(phases=[Phase(name="one", tasks=[first]), Phase(name="two", tasks=[second])])
    with pytest.raises(ValidationError, match="2 tasks are called 'say'"):
        team.improve(make_rows(30), score=right, change="task.say.description")
    twins = [Agent(role="Writer", goal=each) for each in ("Write", "Write well")]
    team = Ensemble(tasks=[Task.of(f"Say {each.goal}", agent=each) for each in twins])
    with pytest.raises(ValidationError, match="2 agents are called 'Writer'"):
        team.improve(make_rows(30), score=right, change="agent.Writer.goal")


def test_v68_without_gepa_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gepa", None)
    monkeypatch.setitem(sys.modules, "gepa.api", None)
    team = make_team(better)
    with pytest.raises(MissingPackageError, match="improve needs gepa") as caught:
        improve(team)
    assert caught.value.extra == "improve"
    assert not team.llm.calls


@pytest.mark.parametrize(
    "score, told",
    [
        (lambda output: "good", "'score' gives labels, and no label is better"),
        (lambda output: None, "No row has a score"),
        (lambda output: {"a": 1, "b": 2}, "improve goes by one score, and there are 2: a, b"),
    ],
)
def test_v68_a_score_that_cant_get_better_is_said_after_the_first_rows(score: Callable[..., Any], told: str) -> None:
    team = make_team(better)
    with pytest.raises(ValidationError) as caught:
        improve(team, score=score)
    assert told in str(caught.value)
    assert len(team.llm.calls) == 40


@pytest.mark.parametrize("value", [True, 1, Score(10, low=0, high=10), Score(0, higher_is_better=False)])
def test_v68_a_score_at_its_best_rewrites_nothing(value: Any) -> None:
    rewriter = make_rewriter()
    result = improve(score=lambda output: value, llm=rewriter)
    assert "is at its best already" in repr(result)
    assert repr(result).startswith("Nothing was rewritten: score is at its best")
    assert not rewriter.calls
    assert result.changes == {}
    assert len(result.candidates) == 1


def test_v68_every_row_fails() -> None:
    team = make_team(better).replace(llm=ScriptedChatModel(default=Fail(400)))
    with pytest.raises(ValidationError, match=r"No row of the ensemble as it is came to an end.*400"):
        improve(team)


def test_v69_a_row_is_run_once_with_the_same_texts_and_reuse_pays_only_for_what_changes(store_path: Path) -> None:
    team = make_team(better, tasks=4)
    result = improve(team, budget="$0.3")
    frame = result.candidates
    whole = len(frame[frame.status == "kept"])
    first = int(frame.first_rows.gt(0).sum())
    # All four tasks of all rows once; of candidates only the last task, and no row of one twice.
    assert len(team.llm.calls) <= 4 * 60 + 40 * whole + 3 * first + 20
    assert any(isinstance(each, TaskReused) for each in result.output.events)


def test_v69_the_same_seed_gives_the_same_figures_and_reuse_makes_it_cheaper(store_path: Path) -> None:
    results = [improve(make_team(better, tasks=2), seed=3) for _ in range(2)]
    first, second = (each.candidates for each in results)
    pd.testing.assert_frame_equal(first, second)
    assert results[0].changes == results[1].changes
    assert results[0].comparison.frame.equals(results[1].comparison.frame)
    assert results[0].metrics.llm_call_count > 60
    assert results[1].metrics.llm_call_count == 0
    assert repr(results[1]).endswith("in replies that were reused.")
    assert not improve(make_team(better, tasks=2), seed=4).candidates.equals(first)


def test_v69_without_a_store_it_says_what_that_costs() -> None:
    assert "nothing is kept here that could be reused" in repr(improve(rows=30))


def test_v69_where_no_texts_are_kept_it_works_without_reuse(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "capture_mode", "metadata")
    result = improve(make_team(lambda rules: 1.0 if rules else 0.3), rows=30)
    assert "nothing is kept here that could be reused" in repr(result)
    assert result.is_confirmed


@pytest.mark.parametrize("budget", ["$0.03", "200 calls", "16k tokens"])
def test_v69_a_budget_that_is_used_up_ends_the_search_and_leaves_the_verdict(budget: str) -> None:
    result = improve(make_team(lambda rules: min(1.0, 0.1 + 0.05 * rules)), budget=budget)
    assert "the budget is used up" in repr(result)
    assert result.comparison is not None
    assert len(result.comparison.rows) == 20
    assert result.metrics.cost <= 0.03 or not budget.startswith("$")
    assert result.metrics.llm_call_count <= 200 or "calls" not in budget


def test_v69_what_the_held_out_rows_take_is_kept_whatever_a_row_s_share_is_as_a_float() -> None:
    shares = [scale(Spending(tokens=3 * count, llm_calls=count), 1 / count) for count in range(1, 500)]
    assert {(each.tokens, each.llm_calls) for each in shares} == {(3, 1)}
    assert scale(Spending(tokens=7, llm_calls=7), 1 / 3) == Spending(tokens=3, llm_calls=3)
    result = improve(make_team(lambda rules: min(1.0, 0.1 + 0.05 * rules)), rows=105, budget="300 calls")
    assert len(result.comparison.rows) == 35
    assert result.metrics.llm_call_count <= 300


def test_v69_held_out_rows_that_take_nothing_are_asked_when_nothing_is_left() -> None:
    def answer(given: TaskInput) -> str:
        return "yes" if "rule" in given.description or given.inputs["number"] % 2 else "no"

    team = Ensemble(tasks=[Task.of("Answer {ticket}", name="label", handler=answer)])
    result = improve(team, budget="3 calls", score=lambda output: output.raw == "yes")
    assert result.metrics.llm_call_count <= 3
    assert result.is_confirmed


def test_v69_a_row_that_failed_for_no_fault_of_the_texts_is_tried_once_more_and_then_left_out() -> None:
    tried: dict[str, int] = {}
    label = read_labeller(better)

    def flaky(messages: Sequence[Any]) -> Any:
        text = str(messages[-1].content)
        number = int(text.split("Ticket ")[1].split()[1])
        tried[text] = tried.get(text, 0) + 1
        if number % 10 == 1:
            return Fail(400 + 103)
        if number % 10 == 2 and tried[text] <= 4:
            return Fail(429)
        return label(messages)

    team = make_team(better).replace(llm=ScriptedChatModel(default=flaky))
    team = team.replace(tasks=[team.tasks[0].replace(agent=Agent(role="L", goal="Label", max_retries=0))])
    result = improve(team, budget="$0.1")
    assert "left out, for no fault of the texts" in repr(result)
    frame = result.candidates
    assert frame.left_out[0] > 0
    assert (frame[frame.status == "kept"].left_out == frame.left_out[0]).all()


def test_v69_a_reply_that_is_wrong_counts_as_not_passed() -> None:
    def picky(output: TaskOutput) -> str | None:
        return None if output.raw != "other" else "Not other."

    team = make_team(better)
    task = team.tasks[0].replace(output_guardrails=picky, max_guardrail_retries=0)
    result = improve(team.replace(tasks=[task]), budget="$0.1")
    frame = result.candidates
    assert frame.left_out.sum() == 0
    assert 0.3 < frame.score[0] < 0.7
    scored = improve(team.replace(tasks=[task]), score=lambda output: Score(3, low=0, high=4))
    assert 1 < scored.candidates.score[0] < 3  # those that failed count as the least


@pytest.mark.parametrize(
    "reply, reason",
    [
        ("```\nLabel it.\n```", "its text lacks {ticket}"),
        ("```\n" + "Label {ticket} " + "x" * 50_000 + "\n```", "its text has 5"),
        ("I can't help with that.", "it has no text between ``` marks"),
        ("```\n\n```", "the text between the ``` marks is empty"),
        ("```\nLabel {ticket} and {answer}\n```", "its text has {answer}, which nothing fills"),
    ],
)
def test_v69_a_text_that_cant_stand_there_is_refused_and_the_model_told(reply: str, reason: str) -> None:
    rewriter = ScriptedChatModel(default=reply)
    result = improve(llm=rewriter, budget="$0.3")
    refused = result.candidates[result.candidates.status == "refused"]
    assert len(refused) == 3
    assert refused.reason.str.contains(reason, regex=False).all()
    assert "3 candidates in a row were refused" in repr(result)
    assert len(rewriter.calls) == 6
    assert reason.split(" has ")[0] in str(rewriter.calls[1].messages[-1].content)


def test_v69_a_model_that_mends_its_text_is_heard() -> None:
    lacks, whole = "```\nLabel it.\n```", "```\nLabel this. Ticket {ticket}\nrule 1 rule 2 rule 3\n```"
    rewriter = ScriptedChatModel(replies=[lacks, whole], default=add_rule)
    result = improve(llm=rewriter, budget="$0.1")
    assert result.candidates.text[1] == "Label this. Ticket {ticket}\nrule 1 rule 2 rule 3"


def test_v69_a_rewriting_model_that_fails_ends_the_search() -> None:
    result = improve(llm=ScriptedChatModel(default=Fail(401)))
    assert "the rewriting model failed" in repr(result)
    assert result.candidates.status.tolist() == ["as it is", "refused", "refused", "refused"]


def test_v69_several_texts_change_in_turn() -> None:
    team = make_team(better, tasks=2)
    result = improve(team, change=[PLACE, "task.read1.description"], budget="$0.2")
    assert set(result.candidates.place.dropna()) == {PLACE, "task.read1.description"}


def test_v69_what_stands_between_the_marks_is_the_text() -> None:
    assert read_reply("Here:\n```text\nNew {x}\n```\nDone") == "New {x}"
    assert read_reply("```New words```") == "New words"
    assert read_reply("no marks") is None
    assert read_reply("```") is None
    assert find_variables("a {b} {{c}} {item.name} {b}") == ["b", "item.name"]
    assert find_fault("Do {a}", "Do {a} and {b}", ["b"]) is None


def test_w178_the_rows_of_a_candidate_fold_where_they_are_many() -> None:
    result = improve()
    told = {each["name"]: each for each in TimelineMessages(result.output.trace._fold).make_snapshot()["rows"]}
    many = {name: each["map_rows"] for name, each in told.items() if each.get("map_rows", 0) > 12}
    assert many["as it is"] > 30  # 40 of the search, but for those that were tried before
    assert many["held out, as it is"] == 20
    assert told["candidate 1"]["map_rows"] == 3
    assert "map_rows" not in told["improve"]
    folded = {each.row["name"]: each for each in find_places([*told.values()])}
    assert folded["candidate 1"].depth == folded["as it is"].depth
    loaded = TraceFold.from_events(result.output.events)
    assert any((each.map_rows or 0) > 12 for each in loaded.spans.values())


@pytest.mark.parametrize("calls", [30, 44, 60])
def test_v70_stop_keeps_the_best_so_far(calls: int) -> None:
    team = make_team(better)
    label, begun = read_labeller(better), threading.Event()

    def slow(messages: Sequence[Any]) -> Any:
        if len(team.llm.calls) > calls:
            begun.set()
            return Reply(label(messages), delay=20.0)
        return label(messages)

    team = team.replace(llm=ScriptedChatModel(default=slow))
    from ensemble_notebook.ensemble.improving.improve_run import prepare_improvement
    from ensemble_notebook.ensemble.improving.improve_settings import read_improve

    rows, settings = read_improve(make_rows(60), score=right, change=PLACE, llm=make_rewriter(), budget="$0.2")
    handle = prepare_improvement(team, rows, settings)
    handle._begin()
    assert begun.wait(60)
    stopped = time.monotonic()
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    assert time.monotonic() - stopped < 3
    result = caught.value.output
    assert repr(result).startswith("No verdict")
    assert result.comparison is None
    events = result.output.frames.events
    assert not events.type.eq("Warned").any(), events.message.tolist()
    asked = len(team.llm.calls)
    time.sleep(0.3)
    assert len(team.llm.calls) == asked


def test_v70_a_judge_is_paid_from_the_same_budget_and_scores_the_search() -> None:
    judge = Ensemble(
        tasks=[Task.of("Is {output} the label {expected}?", output_type={"fair": "bool"}, name="check")],
        llm=ScriptedChatModel(default=lambda messages: _judge(str(messages[-1].content))),
        cost={"input_rate": "0.000001", "output_rate": "0.000002"},
        name="fair",
    )
    result = improve(make_team(lambda rules: 1.0 if rules else 0.3), score=judge, budget="$0.3")
    assert len(judge.llm.calls) >= 60
    assert "fair" in result.comparison.frame.score.tolist()


def _judge(text: str) -> str:
    said = text.split("<output>")[1].split("</output>")[0].strip()
    return f'{{"fair": {str(f"the label {said}?" in text).lower()}}}'
