"""The trace as tables: columns, dtypes, order, clocks, ids (T4, T20, T21)."""

import warnings
from datetime import UTC, datetime
from functools import cached_property

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.outputs.score import ScoreKind, ScoreRecord
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.frames import Frames
from tests.support.event_builder import EventBuilder
from tests.support.frames_document import DOCUMENT, TABLES, make_document
from tests.support.stream import streams

ALL = pytest.mark.parametrize("name", TABLES)


SCORE = ScoreRecord(
    name="right", kind=ScoreKind.CODE, run_id="run", scored_at=datetime(2026, 1, 2, tzinfo=UTC), passed=True, value=1.0
)


def frames_of(events):
    scores = [SCORE] if len(events) > 1 else []
    return Frames(TraceFold.from_events(events), events, scores)


def research():
    """Ana searches, Bo writes; one request is retried, one tool fails, one task never runs."""
    build = EventBuilder(
        {"search": (), "write": ["search"], "check": ["write"], "print": ["check"]},
        agents={"search": "Ana", "write": "Bo", "check": "Cy"},
        phases={"work": ["search", "write", "check"], "end": ["print"]},
        after={"end": ["work"]},
    )
    with build.phase("work"):
        with build.task("search"):
            with build.turn(1):
                build.llm(asks=["web", "web"], input_tokens=100, output_tokens=10, seconds=1)
                for seconds in build.beside([4, 2]):
                    build.tool("web", seconds=seconds, error=OSError("404") if seconds == 2 else None)
            with build.turn(2):
                build.llm("Two llamas.", input_tokens=300, output_tokens=20, seconds=1)
        with build.task("write"):
            with build.turn(1):
                build.llm(asks=["spell"], input_tokens=500, output_tokens=50, retries=[("429", 8.0)])
                build.tool("spell", seconds=1)
            with build.turn(2):
                build.llm("A text.", input_tokens=50, output_tokens=5)
        with build.task("check"), build.turn():
            build.llm(error=ConnectionError("gone"))
    build.skip_phase("end", "needs 'work', which failed")
    return build.finish()


def everything():
    """Something of each kind."""
    build = EventBuilder({"a": (), "b": ["a"]}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]})
    with build.phase("p"), build.task("a"):
        with build.turn():
            build.llm(asks=["search", "delegate"], retries=[("429", 1.0)], error=None)
            build.tool("search", error=OSError("broken"))
            with build.delegate("Helper", tool="delegate"), build.turn():
                build.llm("Helped.")
        build.review()
    with build.phase("q"), build.task("b"):
        build.fail(ValueError("no"))
    return build.finish()


def test_a_notebook_shows_what_people_read_first_and_ids_come_last():
    shown = frames_of(everything()).spans.to_html(max_cols=20)
    for name in ("kind", "name", "task", "agent", "status", "start_ms", "duration_ms", "input_tokens", "cost"):
        assert f"<th>{name}</th>" in shown, name
    for table in TABLES.values():
        names = [each.name for each in table.columns if not each.name.endswith("_NAME")]
        ids = [each for each in names if each.endswith(("_id", "_key")) or each == "seq"]
        assert names[len(names) - len(ids) :] == ids


@pytest.mark.parametrize("name", [name for name in TABLES if name != "rows"])  # those are in conformance/test_maps_kept
def test_every_column_has_the_dtype_it_is_documented_with(name):
    frame = getattr(frames_of(everything()), name)
    assert len(frame) > 0
    assert {column: str(dtype) for column, dtype in frame.dtypes.items()} == {
        column.name: column.dtype for column in TABLES[name].columns
    }
    index = TABLES[name].index
    expected = (None, "int64") if index is None else (index.name, index.dtype)
    assert (frame.index.name, str(frame.index.dtype)) == expected
    assert frame.index.is_unique


@ALL
def test_an_empty_run_has_the_same_columns_and_dtypes(name):
    full, empty = getattr(frames_of(everything()), name), getattr(frames_of(()), name)
    assert len(empty) == 0
    assert list(empty.columns) == list(full.columns)
    assert [str(dtype) for dtype in empty.dtypes] == [str(dtype) for dtype in full.dtypes]
    assert str(empty.index.dtype) == str(full.index.dtype)


@ALL
def test_the_docstring_says_what_a_row_is_and_lists_every_column(name):
    text = getattr(Frames, name).__doc__
    assert text.startswith("One row per ")
    for column in TABLES[name].columns:
        assert f"    {column.name} ({column.dtype}): {column.meaning}.\n" in text + "\n"


@ALL
def test_a_frame_is_made_once(name):
    frames = frames_of(everything())
    assert getattr(frames, name) is getattr(frames, name)


@settings(max_examples=50)  # each makes fifteen frames
@given(streams())
def test_any_run_makes_all_frames_without_a_warning(events):
    frames = frames_of(events)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sizes = {name: len(getattr(frames, name)) for name in TABLES}
    kinds = frames.spans.kind.value_counts()
    assert sizes["spans"] == kinds.sum()
    names = {"llm": "llm_calls", "attempt": "attempts", "tool": "tool_calls", "delegation": "delegations"}
    for kind, name in {**names, "review": "reviews"}.items():
        assert sizes[name] == kinds.get(kind, 0)
    assert sizes["tasks"] == len(frames.spans.query("kind == 'task' and delegation_id.isna()"))


def list_wrongly_unknown(frames):
    """Columns that have an NA though their documentation says that there is none."""
    return [
        f"{name}.{column.name}"
        for name, frame, table in [
            *((name, getattr(frames, name), table) for name, table in TABLES.items()),
            ("timeseries", frames.timeseries(), TIMESERIES),
        ]
        for column in table.columns
        if not column.is_nullable and frame[column.name].isna().any()
    ]


@settings(max_examples=25)  # each makes sixteen frames, twice
@given(streams(), st.data())
def test_only_columns_that_say_so_have_unknown_values_in_whole_runs_and_in_such_as_go_on(events, data):
    assert list_wrongly_unknown(frames_of(events)) == []
    assert list_wrongly_unknown(frames_of(events[: data.draw(st.integers(0, len(events)))])) == []


def test_money_carries_its_currency_in_every_frame():
    for name, table in [*TABLES.items(), ("timeseries", TIMESERIES)]:
        if name != "scores" and any(column.unit == "currency" for column in table.columns):  # those are of runs
            assert "currency" in {column.name for column in table.columns}, name


def test_the_document_lists_every_frame_as_the_tables_have_it():
    made = {name for name, value in vars(Frames).items() if isinstance(value, cached_property)}
    assert made == set(TABLES)
    assert DOCUMENT.read_text(encoding="utf-8") == make_document(), "run `make frames-document`"


def test_runs_carry_their_inputs_with_secrets_masked():
    build = EventBuilder({"a": ()}, inputs={"topic": "tides", "key": "sk-abcdefghijklmnopqrstuvwx0123456789"})
    runs = frames_of(build.finish()).runs
    assert list(runs.inputs) == [{"topic": "tides", "key": "***"}]


@given(streams())
def test_leaves_add_up_to_the_totals_in_every_frame(events):
    trace = ExecutionTrace.from_events(events)
    frames, metrics = trace.frames, trace.metrics
    for frame in (frames.spans, frames.attempts, frames.llm_calls, frames.tasks):
        # A sum of which nothing is known is None in metrics, and 0 as pandas adds up.
        assert frame.input_tokens.sum() == (metrics.input_tokens or 0)
        assert frame.output_tokens.sum() == (metrics.output_tokens or 0)
        assert float(frame.cost.sum()) == pytest.approx(float(metrics.cost or 0))
    assert frames.spans.usage_leaf.sum() == metrics.llm_attempt_count
    assert frames.tasks.tool_call_count.sum() == metrics.tool_call_count


@given(streams())
def test_rows_are_in_order_of_start_and_what_never_ran_comes_last(events):
    spans = frames_of(events).spans
    starts = spans.start_ms.fillna(float("inf"))
    assert starts.is_monotonic_increasing
    assert (
        spans[spans.start_ms.notna()].sort_values(["start_ms", "seq"]).index.equals(spans[spans.start_ms.notna()].index)
    )


@given(streams())
def test_every_id_joins(events):
    frames = frames_of(events)
    ids = frames.spans.index
    assert frames.spans.parent_id.dropna().isin(ids).all()
    assert frames.attempts.llm_id.isin(frames.llm_calls.index).all()
    for frame in (frames.llm_calls, frames.attempts, frames.tool_calls, frames.messages):
        assert (
            frame.task_id.isin(frames.tasks.index) | frame.delegation_id.isin(frames.delegations.delegation_id)
        ).all()
        assert frame.task_id.isin(ids).all()
        assert frame.agent.notna().all()
        assert frame.task.notna().all()
    assert frames.messages.span_id.isin(ids).all()
    assert frames.errors.index.isin(ids).all()


def test_which_agent_waited_longest_for_tools_is_one_line():
    frames = frames_of(research())
    assert frames.tasks.groupby("agent", observed=True).tool_wait_ms.sum().idxmax() == "Ana"
    assert frames.llm_calls.groupby("agent", observed=True).tool_wait_ms.sum().to_dict() == {
        "Ana": 4000.0,
        "Bo": 1000.0,
        "Cy": 0.0,
    }


def test_which_agent_spent_the_most_tokens_on_calls_that_wait_for_tools_is_one_line():
    calls = frames_of(research()).llm_calls
    assert calls[calls.tool_call_count > 0].groupby("agent", observed=True).total_tokens.sum().idxmax() == "Bo"
    assert calls.groupby("agent", observed=True).total_tokens.sum().to_dict() == {"Ana": 430, "Bo": 605, "Cy": 0}


def test_unknown_is_na_and_never_zero():
    build = EventBuilder({"a": ()}, provider="openai", model="unheard-of")
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=None, output_tokens=3)
    frames = frames_of(build.finish())
    for frame in (frames.attempts, frames.llm_calls, frames.tasks):
        row = frame.iloc[0]
        assert row.input_tokens is pd.NA
        assert row.output_tokens == 3
        assert row.cost is pd.NA
        assert row.cache_read_tokens is pd.NA
    assert bool(frames.tasks.iloc[0].tokens_complete) is False


def test_tokens_and_cost_are_on_the_attempts_alone():
    spans = frames_of(research()).spans
    assert spans[~spans.usage_leaf][["input_tokens", "output_tokens", "cost"]].isna().all(axis=None)
    assert set(spans[spans.usage_leaf].kind) == {"attempt"}


def test_errors_name_each_level_and_mark_where_it_began():
    errors = frames_of(research()).errors
    assert errors.seq.is_monotonic_increasing
    origins = errors[errors.is_origin & ~errors.is_retried]
    assert list(zip(origins.kind, origins.error_type, origins.task, strict=True)) == [
        ("tool", "OSError", "search"),
        ("attempt", "ConnectionError", "check"),
    ]
    assert list(errors[errors.is_retried].task) == ["write"]
    assert list(errors.kind[-5:]) == ["llm", "turn", "task", "phase", "run"]
    assert errors.error_type.notna().all()


def test_tool_calls_hold_arguments_results_and_outcomes():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(asks=["search", "fetch"])
        build.tool("search", {"q": "llamas"}, result="two")
        build.tool("fetch", outcome=ToolOutcome.SKIPPED_MAX_ITERATIONS, result="STOP")
    calls = frames_of(build.finish()).tool_calls
    assert list(calls.arguments) == ['{"q": "llamas"}', "{}"]
    assert list(calls.result) == ["two", "STOP"]
    assert list(calls.outcome) == ["success", "skipped_max_iterations"]
    assert list(calls.tool_call_id) == ["call-1", "call-2"]


def test_messages_are_numbered_in_the_order_they_arose():
    messages = frames_of(research()).messages
    assert list(messages.index) == list(range(len(messages)))
    assert messages.seq.is_monotonic_increasing
    assert list(messages[messages.task == "search"].role) == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert messages.tool_calls.dropna().iloc[0] == "web({}); web({})"


def test_skipped_phases_and_tasks_have_rows_with_a_reason_and_no_times():
    frames = frames_of(research())
    phase, task = frames.phases.iloc[-1], frames.tasks.iloc[-1]
    assert (phase.phase, phase.status, phase.reason) == ("end", "skipped", "needs 'work', which failed")
    assert (task.task, task.status, task.depends_on) == ("print", "skipped", ("check",))
    assert phase.start_time is pd.NaT
    assert task.duration_ms is pd.NA


def test_grouping_lists_tasks_in_the_order_they_ran():
    calls = frames_of(research()).llm_calls
    assert list(calls.groupby("task", observed=True).duration_ms.sum().index) == ["search", "write", "check"]


def test_frames_of_two_runs_stand_under_each_other():
    first, second = frames_of(research()).spans, frames_of(research()).spans
    both = pd.concat([first, second])
    assert len(both) == 2 * len(first)
    assert str(both.input_tokens.dtype) == "Int64"


def test_the_anchors_are_utc_to_the_nanosecond():
    spans = frames_of(research()).spans
    assert spans.start_time.iloc[0] == pd.Timestamp("2026-01-01 12:00:00", tz="UTC")
    assert spans.loc["run"].end_time - spans.loc["run"].start_time == pd.Timedelta(spans.loc["run"].duration_ms, "ms")


def test_a_trace_and_its_fold_make_the_same_frames():
    events = research()
    assert_frame_equal(ExecutionTrace.from_events(events).frames.spans, frames_of(events).spans)


def test_frames_say_what_there_is():
    assert repr(frames_of(())) == (
        "Frames(runs, spans, phases, tasks, agents, llm_calls, attempts, tool_calls, delegations, reviews, links, "
        "critical_path, events, messages, errors, rows, scores, timeseries)"
    )
