"""The layout behind all static pictures."""

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from rich.console import Console

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import ExitReason
from ensemble_notebook.domain.definitions.limits import Budget
from ensemble_notebook.domain.definitions.review import NOBODY_TO_ASK, ReviewDecision
from ensemble_notebook.domain.events import ReviewAnswered
from ensemble_notebook.notebook.live.terminal_table import draw_chart
from ensemble_notebook.notebook.picture.chart import MOST_LINES, Chart, make_chart, make_plan_chart
from ensemble_notebook.notebook.picture.chart_lines import GAP, WIDTH, BarPiece, narrow_bar
from ensemble_notebook.notebook.picture.static_picture import render_chart_html, render_chart_text
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.drive import drive, drive_nested, fails, task
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams


def charted(events) -> Chart:
    return make_chart(TimelineMessages(TraceFold.from_events(events)).make_snapshot())


def charted_now(build: EventBuilder) -> Chart:
    """A run that is still going on, at its newest event."""
    return make_chart(TimelineMessages(TraceFold.from_events(build.events), lambda: build.now).make_snapshot())


def bars(chart: Chart) -> dict[str, str]:
    return {line.name: "".join(piece.text for piece in line.bar) for line in chart.lines}


def notes(chart: Chart) -> dict[str, tuple[str, ...]]:
    return {line.name: line.notes for line in chart.lines if line.notes}


@given(streams())
def test_an_outline_makes_the_same_chart(events):
    messages = TimelineMessages(TraceFold.from_events(events))
    assert make_chart(messages.make_outline(), messages.make_rows) == charted(events)


@pytest.mark.parametrize(
    "facts, name",
    [
        ({"item_count": 1200, "settings": {"for_each": "plan"}}, "make x 1,200"),
        ({"settings": {"for_each": "plan"}}, "make x ?"),
    ],
)
def test_a_task_says_for_how_many_items_it_runs(facts, name):
    build = EventBuilder({"make": ()})
    snapshot = TimelineMessages(TraceFold.from_events(build.events), lambda: build.now).make_snapshot()
    snapshot["rows"] = [{**row, **facts} for row in snapshot["rows"]]
    assert [line.name for line in make_chart(snapshot).lines] == [name]


def test_bars_share_one_scale():
    build = EventBuilder({"first": (), "second": ["first"]})
    with build.task("first"), build.turn():
        build.llm(seconds=1)
    with build.task("second"), build.turn():
        build.llm(seconds=3)
    chart = charted(build.finish())
    assert bars(chart) == {"first": "█" * 10, "second": " " * 10 + "█" * 30}
    assert chart.axis == ("0 s", "4.0 s")


def test_tool_calls_and_back_off_have_marks_of_their_own():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        with build.turn():
            build.llm(seconds=1, asks=["search"])
            build.tool("search", seconds=1)
        with build.turn():
            build.llm(seconds=1, retries=[("429", 1.0)])
    chart = charted(build.finish())
    bar = bars(chart)["a"]
    assert set(bar) == {"█", "▄", "┄"}
    assert notes(chart)["a"] == ("1 retry: too many requests (HTTP 429)",)
    assert "1 retry" in chart.facts


def test_task_without_calls_is_a_handler():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a", output="done"):
        build.wait(1)
    chart = charted(build.finish())
    assert bars(chart) == {"a": "▆" * WIDTH}
    assert [word for _, word in chart.legend] == ["handler"]
    assert chart.heads == ("time",)


def test_agent_at_work_is_no_handler_before_its_first_call():
    build = EventBuilder({"a": (), "b": ()}, agents={"b": "Handler"})
    with build.task("a"):
        build.wait(1)
        assert set(bars(charted_now(build))["a"]) == {"─", "▸"}
        with build.turn():
            build.llm(seconds=1)
    with build.task("b", output="done"):
        build.wait(1)
        assert set(bars(charted_now(build))["b"]) == {" ", "▆", "▸"}


def test_startup_has_a_line_of_its_own_e57():
    build = EventBuilder({"a": ()})
    with build.startup("Starting the local model X"):
        build.wait(3)
        live = charted_now(build)
        assert bars(live)["Starting the local model X"] == "╍" * WIDTH + "▸"
    with build.task("a"), build.turn():
        build.llm(seconds=1)
    chart = charted(build.finish())
    assert [line.name for line in chart.lines] == ["a", "Starting the local model X"]
    assert bars(chart) == {"a": " " * 30 + "█" * 10, "Starting the local model X": "╍" * 30}
    for text in (render_chart_text(chart), render_chart_html(chart)):
        assert "Starting the local model X" in text
        assert "startup" in text


def test_startup_that_fails_says_why_e57():
    build = EventBuilder({"a": ()})
    with build.startup("Starting the local model X"):
        build.wait(1)
        build.fail(OSError("no such file"))
    assert notes(charted(build.finish())) == {"Starting the local model X": ("OSError: no such file",)}


def test_replayed_run_says_so_live_and_at_the_end_e42():
    build = EventBuilder({"a": ()}, replayed_from="night.yaml")
    with build.task("a"), build.turn():
        assert "replayed from night.yaml, no model asked" in charted_now(build).facts
        build.llm(seconds=1)
    chart = charted(build.finish())
    assert "replayed from night.yaml, no model asked" in render_chart_text(chart)
    assert "replayed from night.yaml, no model asked" in render_chart_html(chart)


def test_failure_skip_and_cascade_are_told_where_they_happened():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"):
        build.fail(ValueError("no salt"))
    build.skip("b", "'a' failed")
    chart = charted(build.finish())
    assert (chart.status, chart.title) == ("failed", "failed")
    assert bars(chart)["a"].endswith("✕")
    assert notes(chart) == {"a": ("ValueError: no salt",), "b": ("skipped: 'a' failed",)}


@pytest.mark.parametrize(
    "reason, words",
    [
        ("not started: the budget is used up", "skipped: the budget is used up"),
        ("phase 'sell' was skipped", "skipped, since phase 'sell' was skipped"),
        ("needs 'bake', which was skipped", "skipped: needs 'bake', which was skipped"),
        ("condition not met", "condition not met"),
    ],
)
def test_why_a_task_never_ran_is_said_in_one_clause(reason: str, words: str):
    build = EventBuilder({"a": ()})
    build.skip("a", reason)
    assert notes(charted(build.finish())) == {"a": (words,)}


def test_interrupted_run_shows_what_was_cancelled():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(hangs=True)
    build.wait(2)
    chart = charted(build.interrupt())
    assert chart.title.startswith("interrupted, ")  # and the time of day on this clock
    assert bars(chart)["a"] == "█" * WIDTH + "⊘"


def test_running_task_reaches_to_now():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"), build.turn():
        build.llm(seconds=2)
        chart = charted(build.events)
        assert bars(chart)["a"].endswith("▸")
    assert bars(chart)["b"] == ""


def test_tasks_stand_below_their_phase():
    build = EventBuilder(
        {"cut": (), "cook": (), "serve": ()},
        phases={"prepare": ["cut", "cook"], "end": ["serve"]},
        after={"end": ["prepare"]},
    )
    chart = charted(build.events)
    assert [(line.name, line.is_phase) for line in chart.lines] == [
        ("prepare", True),
        ("cut", False),
        ("cook", False),
        ("end", True),
        ("serve", False),
    ]


def test_unknown_tokens_are_not_zero():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(input_tokens=None, output_tokens=None)
    chart = charted(build.finish())
    assert chart.lines[0].cells[chart.heads.index("tokens")] == "? → ?"
    assert "unknown tokens in 1 model call" in chart.facts
    assert not any("at least" in fact for fact in chart.facts)


def test_known_part_of_the_tokens_is_said_as_such():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(input_tokens=None, output_tokens=None)
        build.llm(input_tokens=40, output_tokens=2)
    assert "at least 42 tokens in 2 model calls" in charted(build.finish()).facts


def test_scripted_run_says_so():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm()
    assert "scripted replies, no model" in charted(build.finish()).facts


def test_run_of_scripted_and_real_models_says_that_there_are_both():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm()
        build.llm(provider="local")
    assert "scripted and real models" in charted(build.finish()).facts


def test_huge_run_shows_what_went_wrong_first():
    names = [f"t{number}" for number in range(MOST_LINES + 50)]
    build = EventBuilder(dict.fromkeys(names, ()))
    for name in names[:-1]:
        with build.task(name):
            build.wait(0.01)
    with build.task(names[-1]):
        build.fail(ValueError("no"))
    chart = charted(build.finish())
    assert len(chart.lines) == MOST_LINES
    assert chart.lines[-1].name == names[-1]
    assert "50 more lines are not shown here" in chart.notes


def test_plan_shows_levels_and_the_longest_chain():
    build = EventBuilder({"a": (), "b": ["a"], "c": ["a"], "d": ["b"]})
    chart = make_plan_chart(build.events[1].plan)
    kinds = {line.name: line.bar[-1].kind for line in chart.lines}
    assert kinds == {"a": "critical", "b": "critical", "c": "pending", "d": "critical"}
    assert [len(line.bar[0].text) if len(line.bar) > 1 else 0 for line in chart.lines] == [0, 13, 13, 26]
    assert chart.lines[1].cells[chart.heads.index("reads")] == "a"
    assert chart.facts == ("4 tasks", "up to 2 at once", "longest chain 3 tasks")


def test_work_that_was_handed_on_stands_below_who_handed_it_on():
    build = EventBuilder({"manager": (), "next": ["manager"]}, agents={"manager": "Manager"})
    with build.task("manager"), build.turn():
        build.llm(seconds=1, asks=["delegate_task"])
        with build.delegate("Researcher"), build.turn():
            build.llm(seconds=2)
        build.refuse("Critic", "The limit is reached.", seconds=1)
    chart = charted_now(build)
    assert [(line.name, line.depth, line.is_worker) for line in chart.lines] == [
        ("manager", 0, False),
        ("Help.", 1, True),
        ("next", 0, False),
    ]
    assert bars(chart) == {
        "manager": "█" * 10 + "▷" * 30,
        "Help.": " " * 10 + "█" * 20,
        "next": "",
    }
    assert notes(chart)["manager"] == ("not handed on to Critic: The limit is reached.",)
    assert "▷ handed on" in render_chart_text(chart)
    assert "  ↳ Help." in render_chart_text(chart)


def test_review_has_a_mark_of_its_own_and_says_what_came_of_it():
    build = EventBuilder({"draft": (), "check": ()})
    with build.task("draft"):
        with build.turn():
            build.llm(seconds=1)
        build.review(ReviewDecision.retry("shorter"), seconds=2)
        build.again("shorter")
        with build.turn():
            build.llm(seconds=1)
        build.review(ReviewDecision.approve(), seconds=0)
    with build.task("check"):
        build.review(subject="task", seconds=4, hangs=True)
    chart = charted_now(build)
    assert bars(chart)["draft"] == "█" * 5 + "‖" * 10 + "█" * 5
    assert bars(chart)["check"].strip() == "‖" * 20 + "▸"
    assert notes(chart) == {
        "draft": ('draft 1 · sent back: "shorter"', "draft 2 · approved"),
        "check": ("waiting for you",),
    }
    assert chart.title == "waiting for you"


@pytest.mark.parametrize(
    "decision, facts, told",
    [
        (ReviewDecision.edit("Fine."), {}, ("draft 2 · edited",)),
        (ReviewDecision.retry("again"), {}, ("draft 2 · kept: no retry left",)),
        (
            ReviewDecision.approve(),
            {"is_timeout": True},
            ("draft 2 · approved", "review of the output · no answer: approved"),
        ),
    ],
)
def test_w23_what_came_of_the_last_review_is_told_once_though_its_go_ends_later(decision, facts, told):
    build = EventBuilder({"draft": ()})
    with build.task("draft"):
        build.review(ReviewDecision.retry("shorter"), seconds=2)
        build.again("shorter")
        build.wait(1)
        build.review(decision, seconds=1)
        build.wait(0.02)
    events = build.finish()
    last = [each for each in events if isinstance(each, ReviewAnswered)][-1]
    events = [replace(each, **facts) if each is last else each for each in events]
    assert charted(events).lines[0].notes == ('draft 1 · sent back: "shorter"', *told)


def test_review_that_nobody_answered_says_so():
    build = EventBuilder({"draft": ()})
    with build.task("draft"):
        build.review(ReviewDecision.exit_early(), seconds=1)
    (line,) = charted(build.finish(ExitReason.USER_EXIT_EARLY)).lines
    assert line.notes == ("review of the output · ended the run",)
    late = [replace(each, is_timeout=True) if isinstance(each, ReviewAnswered) else each for each in build.events]
    assert charted(late).lines[0].notes == ("review of the output · no answer: ended the run",)


def test_an_approval_by_time_or_because_nobody_could_be_asked_is_told_and_one_by_a_person_is_not():
    build = EventBuilder({"draft": ()})
    with build.task("draft"):
        build.review(ReviewDecision.approve(), seconds=1)
    events = build.finish()
    assert charted(events).lines[0].notes == ()

    def change(**facts):
        return [replace(each, **facts) if isinstance(each, ReviewAnswered) else each for each in events]

    assert charted(change(is_timeout=True)).lines[0].notes == ("review of the output · no answer: approved",)
    told = ("review of the output · nobody to ask: approved",)
    assert charted(change(by=NOBODY_TO_ASK)).lines[0].notes == told


def test_skipped_by_a_condition_is_no_failure():
    build = EventBuilder({"a": (), "b": ()})
    build.skip("a", "condition not met")
    build.skip("b", "the budget is used up")
    assert notes(charted(build.events)) == {"a": ("condition not met",), "b": ("skipped: the budget is used up",)}


@pytest.mark.parametrize(
    "limits, told",
    [
        ({"max_tokens": 100}, "30% of 100 tokens"),
        ({"max_llm_calls": 4, "max_tokens": 1000}, "50% of 4 model calls"),
    ],
)
def test_budget_is_told_by_the_limit_that_is_nearest(limits, told):
    build = EventBuilder({"a": ()}, budget=Budget(**limits))
    with build.task("a"), build.turn():
        for _ in range(2):
            build.llm(input_tokens=10, output_tokens=5)
    assert told in charted_now(build).facts


@pytest.mark.parametrize(
    "reason, title",
    [(ExitReason.BUDGET_EXCEEDED, "budget exceeded"), (ExitReason.USER_EXIT_EARLY, "ended early")],
)
def test_every_end_has_a_title_and_a_mark(reason, title):
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm()
    chart = charted(build.finish(reason))
    assert render_chart_text(chart).startswith(f"⚠ {title} · ")
    assert render_chart_html(chart)
    assert draw_chart(chart, 120)


@pytest.mark.parametrize("is_passed_on", [True, False])
def test_an_error_that_a_nested_run_passed_on_is_told_where_it_arose(is_passed_on):
    nested = EnsembleDefinition(tasks=(task("inner", handler=fails(1)),))

    async def handle(given):
        result = await drive_nested(nested, "inner-run")
        raise result.error if is_passed_on else LookupError("there is nothing to read")

    _, events = drive(EnsembleDefinition(tasks=(task("outer", handler=handle),)))
    told = notes(charted(events))
    assert told.pop("inner") == ("ValueError: inner is broken",)
    assert told == ({} if is_passed_on else {"outer": ("LookupError: there is nothing to read",)})


def in_terminal(chart: Chart, columns: int) -> str:
    console = Console(width=columns, file=io.StringIO())
    console.print(draw_chart(chart, columns))
    return console.file.getvalue()


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_in_a_narrow_terminal_the_bars_give_way_and_the_numbers_are_whole(columns):
    build = EventBuilder({"gather the tides": (), "brief": ()}, agents={"brief": "Editor of the almanac"})
    for name in ("gather the tides", "brief"):
        with build.task(name), build.turn():
            build.llm("x", input_tokens=114_000, output_tokens=21)
    shown = in_terminal(charted(build.finish()), columns)
    row = next(line for line in shown.splitlines() if "gather" in line)
    assert "114k → 21" in row
    assert re.search(r"\d m?s\b", row)
    assert "…" not in shown


@pytest.mark.parametrize("columns", [12, 27, WIDTH])
def test_a_narrow_bar_loses_no_short_piece_and_keeps_the_mark_of_its_end(columns):
    lengths = {GAP: 4, "task": 18, "llm": 1, "tool": 17, "error": 1}
    bar = narrow_bar([BarPiece("#" * length, kind) for kind, length in lengths.items()], columns)
    assert [piece.kind for piece in bar] == [*lengths]
    assert sum(len(piece.text) for piece in bar) == columns + 1
