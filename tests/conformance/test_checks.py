"""V64, V71, V72, C120: what is expected of a run, and what a check tells and leaves."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from ensemble_notebook import (
    CheckFailed,
    Ensemble,
    EnsembleOutput,
    Phase,
    RunInterrupted,
    Score,
    Task,
    TaskExecutionError,
    TaskInput,
    ToolUse,
    ValidationError,
    check,
    load_traces,
    scorers,
)
from ensemble_notebook.scorers import (
    called,
    called_in_order,
    calls_at_most,
    contains,
    cost_at_most,
    finished_before,
    judged_by,
    matches,
    no_errors,
    seconds_at_most,
)
from tests.conformance.scene import done, lost, scripted
from tests.support.store import wait_for_store


def search(query: str) -> str:
    """Search."""
    return "found"


def lose(query: str) -> str:
    """Fail."""
    raise ValueError("lost")


def make_team(*calls: str, **fields: Any) -> Ensemble:
    asked = (ToolUse(each, {"query": "tides"}) for each in calls)
    model = scripted(*asked, "<b>Facts</b>.", "A brief.")
    gather = Task.of("Gather facts", name="gather", tools=[search, lose])
    brief = Task.of("Write a brief", name="brief", context=[gather])
    return Ensemble(tasks=[gather, brief], llm=model, name="desk", **fields)


@pytest.fixture
def report() -> EnsembleOutput:
    return make_team("search", "search").run()


def fail(output: Any, *expectations: Any) -> CheckFailed:
    with pytest.raises(CheckFailed) as caught:
        check(output, *expectations)
    assert isinstance(caught.value, AssertionError)
    return caught.value


def look(report: EnsembleOutput, score: Any) -> Score:
    return score.function(run=report)  # type: ignore[no-any-return]


def test_v64_one_ends_before_another_begins(report: EnsembleOutput) -> None:
    assert look(report, finished_before("gather", "brief")).value is True
    late = look(report, finished_before("brief", "gather"))
    assert late.value is False
    assert "brief ended after" in str(late.reason)
    assert "and gather began after" in str(late.reason)
    unknown = look(report, finished_before("gathr", "brief"))
    assert (unknown.value, unknown.reason) == (
        None,
        "the run has no task or phase 'gathr'. Did you mean 'gather'?",
    )


def test_v64_side_by_side_is_not_before() -> None:
    both = threading.Barrier(2, timeout=30)

    def meet(given: TaskInput) -> str:
        both.wait()
        return "met"

    beside = Ensemble(tasks=[done("a", handler=meet), done("b", handler=meet)], workflow="parallel").run()
    assert look(beside, finished_before("a", "b")).value is False
    assert look(beside, finished_before("b", "a")).value is False


def test_v64_phases_and_what_never_began() -> None:
    phases = Ensemble(
        phases=[Phase(name="first", tasks=[done("a")]), Phase(name="then", tasks=[done("b")], after=["first"])]
    ).run()
    assert look(phases, finished_before("first", "then")).value is True
    assert look(phases, finished_before("a", "then")).value is True
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[lost("a"), done("b", context=["a"])]).run()
    never = look(caught.value.output, finished_before("a", "b"))  # type: ignore[arg-type]
    assert (never.value, never.reason) == (False, "b never began")
    for wrong in (("a", "a"), ("", "b"), (1, "b")):
        with pytest.raises(ValidationError, match="finished_before"):
            finished_before(*wrong)  # type: ignore[arg-type]


def test_v5_never_is_at_most_none_and_a_misspelt_scorer_is_answered(report: EnsembleOutput) -> None:
    assert look(report, called("delete", at_most=0)).value is True
    often = look(report, called("search", at_most=0))
    assert (often.value, often.reason) == (False, "search was called 2 times")
    assert repr(called("search", at_most=0)) == "called('search', at_most=0)"
    assert repr(called("search", at_least=0, at_most=0)) == "called('search', at_most=0)"
    assert repr(called("search", at_least=1, at_most=2)) == "called('search', at_most=2)"
    with pytest.raises(ValidationError, match="at_most=0 is below at_least=1"):
        called("search", at_least=1, at_most=0)
    with pytest.raises(AttributeError, match=r"There is no scorer 'caled'\. Did you mean 'called'\?"):
        scorers.caled  # type: ignore[attr-defined]  # noqa: B018


def test_v71_what_holds_is_shown_with_the_span_that_shows_it(
    report: EnsembleOutput, capsys: pytest.CaptureFixture[str]
) -> None:
    check(
        report,
        called("search", at_least=2),
        called("delete", at_most=0),
        cost_at_most(0.01),
        finished_before("gather", "brief"),
        matches("(?i)brief"),
        no_errors(),
        calls_at_most(4),
        seconds_at_most(60),
        called_in_order(["search", "search"]),
        lambda output: output.raw == "A brief.",
    )
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == f"10 of 10 hold: run {report.run_id} of 'desk'"
    assert lines[0].startswith("✓ holds: called('search', at_least=2) (shown by tool gather/turn#2/search, after ")
    assert lines[1] == "✓ holds: called('delete', at_most=0)"
    assert "shown by task gather" in lines[3]
    assert "shown by task brief" in lines[4]
    check(report, no_errors())
    assert capsys.readouterr().out.startswith("It holds: run ")


def test_v71_what_does_not_hold_says_why_and_where(report: EnsembleOutput, capsys: pytest.CaptureFixture[str]) -> None:
    error = fail(
        report,
        called("search", at_most=1),
        called("serch"),
        matches("[0-9]"),
        contains("brief"),
        calls_at_most(1),
        finished_before("brief", "gather"),
        seconds_at_most(0),
    )
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("1 of 7 hold: run ")
    assert "(search was called 2 times, shown by tool gather/turn#2/search, after" in told[1]
    assert told[2] == "✗ does not: called('serch') (serch was called 0 times. Did you mean 'search'?)"
    assert "(the output is 'A brief.', shown by task brief" in told[3]
    assert told[4].startswith("✓ holds: contains('brief')")
    assert "4 model calls, shown by llm gather/turn#2/llm" in told[5]
    assert "shown by task gather" in told[6]
    assert error.failed[:2] == ("called('search', at_most=1)", "called('serch')")
    assert error.total == 7
    assert str(error).startswith(
        "6 of 7 expectations do not hold: called('search', at_most=1) (search was called 2 times)"
    )
    wrong = make_team("lose").run()
    assert str(fail(wrong, no_errors())) == "1 of 1 expectation does not hold: no_errors() (failed: tool lose)."
    assert "shown by tool gather/turn/lose" in capsys.readouterr().out


def test_v71_without_an_opinion_nothing_holds(report: EnsembleOutput, store_path: Path) -> None:
    def rate(output: Any) -> float:
        return 0.7

    def shrug(output: Any) -> None:
        return None

    def break_(run: Any) -> bool:
        return bool(run.nothing)

    def point(run: Any) -> Score:
        return Score(value=False, reason="too long", span=run.trace.spans[1])

    error = fail(report, rate, shrug, break_, point, lambda output: "good", lambda output: False)
    told = str(error)
    assert "rate (it gave 0.7, which neither passes nor fails: compare it in a function)" in told
    assert "shrug (it had no opinion)" in told
    assert "break_ (it could not tell: AttributeError: " in told
    assert "point (too long)" in told
    assert "score (it gave good, which neither passes nor fails" in told
    assert "score (2) (the output is 'A brief.')" in told
    ensemble = Ensemble(tasks=[Task.of("Say")], llm=scripted("Done.", "Done."))
    ensemble.run()
    wait_for_store()
    again = ensemble.run(reuse=True)
    assert "it had no opinion: reused from an earlier run" in str(fail(again, called("search")))


def test_v71_a_judge_may_be_asked(report: EnsembleOutput) -> None:
    kind = {"good": "bool", "reason": "str"}
    strict = Ensemble(tasks=[Task.of("Is {output} good?", output_type=kind)], llm="scripted", name="strict")
    kind_one = strict.replace(llm="scripted:flatters", name="kind")
    check(report, kind_one)
    error = fail(report, judged_by(strict))
    assert "[scripted: no model was asked]" in str(error)
    scores = report.frames.scores.set_index("name")
    assert scores.kind.tolist() == ["judge", "judge"]
    assert scores.model.tolist() == ["scripted:flatters", "scripted"]


def test_v71_of_a_run_that_did_not_end_well_nothing_holds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        Ensemble(tasks=[done("a"), lost("b")], name="torn").run()
    error = fail(caught.value.output, no_errors(), called("search", at_most=0))
    assert str(error) == "The run failed at 'b': ValueError: b failed. So 2 of 2 expectations do not hold."
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("0 of 2 hold: run ")
    assert told[1].startswith("The run failed at 'b': ")
    assert "(the run did not come to its end, shown by task b, after" in told[2]


def test_v71_of_a_run_that_was_stopped_nothing_holds() -> None:
    handle = Ensemble(tasks=[Task.of("Say", name="say")], llm="scripted:slow").start()
    handle.cancel()
    with pytest.raises(RunInterrupted) as caught:
        handle.result()
    assert str(fail(caught.value.output, no_errors())).startswith("The run was stopped before its end. So 1 of 1 ")
    late = Ensemble(tasks=[Task.of("Say", name="say")], llm="scripted:slow")
    with pytest.raises(TimeoutError) as missed:
        late.run(timeout=0.1)
    assert "The run was out of time." in str(fail(missed.value.output, no_errors()))  # type: ignore[attr-defined]
    poor = make_team().replace(budget="1 call").run()
    assert "The run had used up its budget." in str(fail(poor, no_errors()))


def test_v71_of_another_ensemble_the_table_says_so(report: EnsembleOutput, capsys: pytest.CaptureFixture[str]) -> None:
    other = Ensemble(tasks=[done("a")], name="kitchen").run()
    error = fail(other, finished_before("gather", "brief"), called("search"))
    assert "the run has no task or phase 'gather'" in str(error)
    assert capsys.readouterr().out.startswith(f"0 of 2 hold: run {other.run_id} of 'kitchen'")


@pytest.mark.parametrize(
    "give, message",
    [
        (lambda report: (None, no_errors()), "it is None. Run the cell that makes it first"),
        (lambda report: (report,), "check was told nothing to expect"),
        (lambda report: (no_errors(), report), "it is a ReadyScorer. First comes the output"),
        (lambda report: (report.ensemble, no_errors()), "it is an ensemble, which has not run"),
        (lambda report: (make_team().map([]), no_errors()), "there was no row"),
        (lambda report: (report, judged_by(report.ensemble, pair=True)), "compares two variants"),
        (lambda report: (report, "caled('x')"), r"is a text, and no scorer. Did you mean 'called'\?"),
        (lambda report: (report, "scorers.called('x')"), "Without quotes it is one: scorers.called"),
        (lambda report: (report, called), "called makes an expectation: call it"),
        (lambda report: (report, [no_errors()]), "one by one, not in a list"),
        (lambda report: (report, True), "and True is none"),
        (lambda report: (report, report), "and an output is none"),
        (lambda report: (report, lambda outptu: True, lambda a, b: True), "parameter that is not known: 'a', 'b'"),
        (lambda report: (report, scorers.equals()), "needs a column 'expected'"),
    ],
)
def test_v71_mistakes_are_said_before_anything_is_called(report: EnsembleOutput, give: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        check(*give(report))
    assert report.score_records == ()


def translate(given: TaskInput) -> str:
    if given.inputs["word"] == "?":
        raise ValueError("no word")
    return {"chat": "cat", "chien": "dog"}.get(given.inputs["word"], "bird")


WORDS = pd.DataFrame({"word": ["chat", "chien", "poule"], "expected": ["cat", "dog", "hen"]}, index=["a", "b", "c"])


def make_translator() -> Ensemble:
    return Ensemble(tasks=[done("say", handler=translate)], name="words")


def test_v71_of_a_map_holds_what_holds_in_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    result = make_translator().map(WORDS)
    check(result, no_errors(), lambda output: bool(output.raw))
    title, line, _ = capsys.readouterr().out.splitlines()
    assert title == f"2 of 2 hold: map {result.run_id} of 'words'"
    assert line == "✓ holds: no_errors() (in 3 of 3 rows)"
    error = fail(result, scorers.equals(), no_errors())
    assert str(error) == (
        "1 of 2 expectations does not hold: equals() (in 2 of 3 rows, not in 'c': expected 'hen', got 'bird')."
    )
    assert "shown by c, task say, after " in capsys.readouterr().out.splitlines()[1]


def test_v71_in_a_row_that_did_not_end_well_nothing_holds() -> None:
    torn = make_translator().map(pd.concat([WORDS, pd.DataFrame({"word": ["?"], "expected": ["?"]}, index=["d"])]))
    assert "in 3 of 4 rows, not in 'd': The run failed at 'say': ValueError: no word" in str(fail(torn, no_errors()))
    poor = Ensemble(tasks=[Task.of("Translate {word}.", name="say")], llm="scripted", budget="1 call").map(WORDS)
    assert "in 1 of 3 rows, not in 'b': The run had used up its budget." in str(fail(poor, no_errors()))
    none = Ensemble(tasks=[lost("a")]).map([{}, {}])
    assert "in 0 of 2 rows, not in 'row 0': The run failed at 'a'" in str(fail(none, no_errors()))


def test_v71_a_judge_is_asked_of_each_row() -> None:
    judge = Ensemble(tasks=[Task.of("Is {output} good?", output_type={"good": "bool"})], llm="scripted:flatters")
    result = make_translator().map(WORDS)
    check(result, judge)
    (kept,) = result.frames.scores.itertuples()  # type: ignore[union-attr]
    assert (kept.run_id, kept.kind, bool(kept.passed)) == (result.run_id, "judge", True)


def test_v72_a_check_of_a_map_is_a_score_of_the_map_and_of_no_row(store_path: Path) -> None:
    result = make_translator().map(WORDS, score=scorers.equals())
    fail(result, scorers.equals())
    check(result, no_errors())
    wait_for_store()
    for each in (result, load_traces(name="words").load_map(result.run_id)):
        kept = each.frames.scores.set_index("name").run_id  # type: ignore[union-attr]
        assert kept["check.equals()"] == kept["check.no_errors()"] == result.run_id
        assert set(kept["is_equal"]) == {row.run_id for row in result}
        assert not [name for name in each.frame.columns if name.startswith("check.")]
        assert set(each.summary().score) == {"is_equal"}


def test_v71_a_handle_is_asked_for_its_result() -> None:
    handle = make_team().start()
    with pytest.raises(ValidationError, match=r"Give \.result\(\) of it"):
        check(handle, no_errors())  # type: ignore[arg-type]
    check(handle.result(), no_errors())


def test_v72_each_expectation_is_a_score_of_the_run(report: EnsembleOutput, store_path: Path, tmp_path: Path) -> None:
    kept = make_team("search").run()
    wait_for_store()
    fail(kept, called("search"), calls_at_most(1))
    check(kept, called("search"))
    wanted = {"check.called('search')": (True, "code"), "check.calls_at_most(1)": (False, "code")}

    def read(scores: Any) -> dict[str, tuple[bool, str]]:
        return {each.name: (bool(each.passed), each.kind) for each in scores.itertuples()}

    assert read(kept.frames.scores) == wanted
    assert [each.reason for each in kept.score_records] == ["3 model calls", None]
    saved = kept.export(tmp_path / "exercise.trace.json")
    assert read(load_traces(saved).scores) == wanted
    wait_for_store()
    assert read(load_traces(name="desk").scores) == wanted
    with pytest.raises(CheckFailed):
        check(kept, called("search", at_most=0))
    assert read(kept.frames.scores)["check.called('search', at_most=0)"] == (False, "code")


def test_v72_what_was_handed_in_as_a_file_is_checked_elsewhere(report: EnsembleOutput, tmp_path: Path) -> None:
    runs = load_traces(report.export(tmp_path / "exercise.trace.json"))
    with pytest.raises(ValidationError, match=r"there are many runs here. Give that of one: load_output\(run_id\)"):
        check(runs, no_errors())  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=rf"it is a trace. Its output is .*load_output\('{report.run_id}'\)"):
        check(report.trace, no_errors())  # type: ignore[arg-type]
    loaded = runs.load_output(report.run_id)
    held = (called("search"), finished_before("gather", "brief"), matches("brief"), no_errors(), seconds_at_most(60))
    check(loaded, *held)
    assert fail(loaded, calls_at_most(1)).failed == ("calls_at_most(1)",)
    assert len(loaded.score_records) == 6
    assert report.score_records == ()


def test_v72_where_no_texts_are_kept_there_are_no_reasons(store_path: Path) -> None:
    output = make_team("search", capture_mode="metadata").run()
    wait_for_store()
    fail(output, calls_at_most(1))
    wait_for_store()
    (kept,) = load_traces(name="desk").scores.itertuples()
    assert (kept.name, bool(kept.passed)) == ("check.calls_at_most(1)", False)
    assert pd.isna(kept.reason)


def test_v72_secrets_of_what_is_expected_and_found_are_masked() -> None:
    key = "sk-" + "a1B2" * 10
    output = Ensemble(tasks=[done("a", handler=lambda given: f"key {key}")]).run()
    error = fail(output, contains(f"{key}x"), matches("[0-9]{9}"))
    assert key not in str(error)
    assert key not in str(output.score_records)


def test_c120_the_table_is_escaped_text_and_page(report: EnsembleOutput) -> None:
    from ensemble_notebook.ensemble.checking import CheckedExpectation, CheckReport

    line = CheckedExpectation(
        shown="contains('<b>')", holds=False, reason="the output is '<script>'\x1b[2J", span="task a"
    )
    shown = CheckReport(title="0 of 1 hold: run x", note="The run <failed>", lines=(line,))
    bundle = shown._repr_mimebundle_()
    assert repr(shown) == bundle["text/plain"]
    assert "\x1b" not in bundle["text/plain"]
    page = bundle["text/html"]
    assert "<script>" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;" in page
    for word in ("expected, and the span that shows it", "task a", "✗ does not", "<code>contains("):
        assert word in page


def test_c120_a_page_gets_the_table_and_a_script_its_text() -> None:
    shell = InteractiveShell()  # the one of get_ipython() would stay for all tests after this one
    shell.run_cell("from ensemble_notebook import Ensemble, Task, check, scorers")
    shell.run_cell("report = Ensemble(tasks=[Task.of('Say', name='say')], llm='scripted').run()")
    result = shell.run_cell("check(report, scorers.no_errors())")
    assert result.result is None
    assert result.success
    failed = shell.run_cell("check(report, scorers.called('search'))")
    assert isinstance(failed.error_in_exec, CheckFailed)


def test_c120_the_error_below_the_table_does_not_say_it_again(report: EnsembleOutput) -> None:
    error = fail(report, called("search", at_most=1), no_errors())
    assert str(error).startswith("1 of 2 expectations does not hold: called('search', at_most=1) (")
    assert error._render_traceback_() == ["CheckFailed: 1 of 2 does not hold, shown above"]
