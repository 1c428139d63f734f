"""What changed from one run to another (T22)."""

import pickle
import time
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook import Agent, Ensemble, ScriptedChatModel, Task
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.limits import CostConfiguration
from ensemble_notebook.domain.wording import format_duration, format_money
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.analysis.run_diff import RunHistory
from ensemble_notebook.trace.analysis.span_diffs import format_difference
from ensemble_notebook.trace.analysis.text_changes import (
    TextChange,
    TextChanges,
    diff_words,
    mark_words,
    shorten_same,
)
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from tests.support.event_builder import EventBuilder
from tests.support.stream import streams

COLUMNS = [
    *("path", "kind", "task", "status", "output_changed"),
    *("delta_ms", "delta_input_tokens", "delta_output_tokens", "delta_cost"),
]
RATES = CostConfiguration(input_rate="0.001", output_rate="0.002", currency="USD")


def write(
    tasks=("plan", "draft"), *, texts=None, prompts=None, seconds=1, tokens=10, name="demo", **options
) -> ExecutionTrace:
    """A run of a chain of tasks, each with one model call."""
    build = EventBuilder({each: tasks[:at][-1:] for at, each in enumerate(tasks)}, name=name, **options)
    for each in tasks:
        with build.task(each, prompt=(prompts or {}).get(each, f"Do {each} well.")), build.turn():
            build.llm((texts or {}).get(each, each), seconds=seconds, input_tokens=tokens, output_tokens=1)
    return ExecutionTrace.from_events(build.finish(), RATES)


def read(diff, column):
    return dict(zip(diff.frame.path, diff.frame[column], strict=True))


def test_frame_has_exactly_the_documented_columns():
    frame = write().diff(write()).frame
    assert list(frame.columns) == COLUMNS
    assert [str(dtype) for dtype in frame.dtypes] == [
        *("string", "category", "category", "category", "boolean"),
        *("Float64", "Int64", "Int64", "Float64"),
    ]
    empty = ExecutionTrace.from_events(())
    assert [str(dtype) for dtype in empty.diff(empty).frame.dtypes] == [str(dtype) for dtype in frame.dtypes]


@given(streams())
@settings(max_examples=15)
def test_a_run_compared_with_itself_is_the_same_everywhere(events):
    trace = ExecutionTrace.from_events(events)
    diff = trace.diff(trace)
    assert set(diff.frame.status) == {"same"}
    assert len(diff.frame) == len(trace.spans)
    assert diff.frame.path.is_unique
    assert not diff.frame.output_changed.any()
    for column in COLUMNS[5:]:
        assert (diff.frame[column].dropna() == 0).all()
    assert (diff.definition, diff.prompts, diff.outputs, diff.inputs) == ("", "", "", "")


@given(streams(), streams())
@settings(max_examples=15)
def test_the_way_back_is_the_way_there_reversed(first, second):
    a, b = ExecutionTrace.from_events(first), ExecutionTrace.from_events(second)
    there, back = a.diff(b).frame.set_index(["path", "kind"]), b.diff(a).frame.set_index(["path", "kind"])
    swapped = {"added": "removed", "removed": "added"}
    assert set(there.index) == set(back.index)
    back = back.loc[there.index]
    assert [swapped.get(each, each) for each in there.status] == list(back.status)
    assert (there.delta_ms + back.delta_ms).dropna().abs().max() < 1e-6
    assert list(there.delta_ms.isna()) == list(back.delta_ms.isna())
    assert (there.delta_input_tokens + back.delta_input_tokens).dropna().eq(0).all()
    assert (
        Counter(there.status)["removed"] + len(b.spans) == len(there) == Counter(there.status)["added"] + len(a.spans)
    )


def test_rows_are_found_by_names_and_never_by_time():
    slow = write(seconds=60, tokens=10)
    diff = write(seconds=1).diff(slow)
    assert set(diff.frame.status) == {"same"}
    assert read(diff, "delta_ms")["draft/turn/llm"] == 59_000


def test_a_row_is_changed_by_what_is_inside_it_and_not_by_another_try():
    def one(text="x", **call):
        build = EventBuilder({"a": ()})
        with build.task("a", output="the same"), build.turn():
            build.llm(text, seconds=1, **call)
        return ExecutionTrace.from_events(build.finish())

    retried = one(retries=[("429", 1.0)], waits=[("rate_limit", 2.0)])
    assert read(one().diff(retried), "status") == {
        **dict.fromkeys(["/", "a", "a/turn", "a/turn/llm", "a/turn/llm/attempt"], "same"),
        "a/turn/llm/attempt#2": "added",
        "a/turn/llm/rate_limit": "added",
    } | {"a/turn/llm/attempt": "changed"}
    said = read(one().diff(one("y")), "status")
    assert said == {**dict.fromkeys(["/", "a", "a/turn", "a/turn/llm"], "changed"), "a/turn/llm/attempt": "same"}


def test_added_and_removed_work_counts_whole():
    before, after = write(("plan", "draft")), write(("plan", "draft", "check"), tokens=20)
    diff = before.diff(after)
    assert read(diff, "status")["check"] == "added"
    assert read(diff, "delta_input_tokens") | {"/": 40, "check": 20, "plan": 10} == read(diff, "delta_input_tokens")
    assert read(after.diff(before), "delta_input_tokens")["check"] == -20
    assert read(diff, "delta_cost")["/"] == pytest.approx(0.042)
    assert diff.summary == "3 tasks: 2 same, 1 added · time +1.0 s · tokens +41 · cost +$0.042"


def test_rows_of_phases_tools_and_repeated_names_have_paths_of_their_own():
    build = EventBuilder({"a": ()}, phases={"first": ["a"]})
    with build.phase("first"), build.task("a"):
        for number in (1, 2):
            with build.turn(number):
                build.llm("x", asks=["search", "search"])
                for _ in range(2):
                    build.tool("search")
    trace = ExecutionTrace.from_events(build.finish())
    turn = [
        "first/a/turn",
        "first/a/turn/llm",
        "first/a/turn/llm/attempt",
        "first/a/turn/search",
        "first/a/turn/search#2",
    ]
    again = [path.replace("turn", "turn#2") for path in turn]
    assert list(trace.diff(trace).frame.path) == ["/", "first", "first/a", *turn, *again]


def test_names_with_slashes_and_numbers_stay_apart():
    trace = write(("a/turn", "a", "b#2", "b"))
    paths = list(trace.diff(trace).frame.path)
    assert len(set(paths)) == len(paths)


def test_words_that_changed_in_prompts_outputs_and_definition_are_marked():
    before = write(texts={"draft": "The sea is calm."}, prompts={"draft": "Write one verse."}, inputs={"topic": "sea"})
    after = write(
        texts={"draft": "The sea is wild."},
        prompts={"draft": "Write two verses."},
        inputs={"topic": "storm"},
        max_concurrency=2,
    )
    diff = before.diff(after)
    assert diff.prompts == "draft, user prompt:\n  Write [-one verse-]{+two verses+}."
    assert diff.outputs == "draft:\n  The sea is [-calm-]{+wild+}."
    assert diff.inputs == "input topic:\n  [-sea-]{+storm+}"
    assert diff.definition == "ensemble:\n  name: demo\n  workflow: parallel\n  {+max_concurrency: 2+}"
    assert diff.prompts.changes[0].before == "Write one verse."
    for part in (diff.prompts, diff.outputs, diff.definition, diff.inputs):
        assert part in repr(diff).replace("\n  ", "\n").replace("\n  ", "\n  ") or part.splitlines()[0] in repr(diff)


def test_a_failed_and_an_interrupted_run_can_be_compared():
    whole = write()
    build = EventBuilder({"plan": (), "draft": ["plan"]})
    with build.task("plan", prompt="Do plan well."), build.turn():
        build.llm(error=ConnectionError("gone"), seconds=1, input_tokens=None)
    build.skip("draft", "needs 'plan', which failed")
    failed = ExecutionTrace.from_events(build.finish(), RATES)
    diff = whole.diff(failed)
    assert read(diff, "status") | {
        "/": "changed",
        "plan": "changed",
        "draft": "changed",
        "draft/turn": "removed",
    } == read(diff, "status")
    assert read(diff, "delta_ms")["draft"] == -1_000
    assert read(diff, "output_changed")["draft"] == True  # noqa: E712 - numpy's own
    assert [(each.where, each.status) for each in diff.outputs.changes] == [("plan", "removed"), ("draft", "removed")]
    assert diff.describe_rest() == "same: inputs, definition, prompts"


def test_a_difference_of_unknown_tokens_is_unknown():
    diff = write().diff(write(tokens=None))
    assert diff.frame.delta_input_tokens.isna().all()
    assert diff.frame.delta_cost.isna().all()
    assert diff.summary == "2 tasks: 2 same · time ±0"


def test_a_difference_too_small_to_show_is_less_than_what_is_shown():
    assert format_difference(-0.000001, partial(format_money, currency="EUR")) == "<€0.00001"
    assert format_difference(0.3, format_duration) == "<1 ms"
    diff = write(seconds=1).diff(write(seconds=1.0001))
    assert diff.summary == "2 tasks: 2 same · time <1 ms · tokens ±0 · cost ±0"


def test_a_task_that_was_reused_is_not_compared_and_no_difference_of_the_run(store_path):
    script = {"## Task\nFind": "Deep.", "## Task\nWrite a short": "Sea.", "## Task\nWrite a long": "Sea, sea, sea."}
    writer = Agent(role="Writer", goal="Write", llm=ScriptedChatModel.match(script))

    def run(style, **options):
        facts = Task.of("Find facts", name="facts", agent=writer)
        verse = Task.of(f"Write a {style} verse", name="verse", agent=writer, context=[facts])
        return Ensemble(name="tides", tasks=[facts, verse]).run(**options)

    before, after = run("short"), run("long", reuse=True)
    diff = before.diff(after)
    status = read(diff, "status")
    assert (status["/"], status["facts"], status["facts/turn"]) == ("changed", "reused", "reused")
    assert read(diff, "output_changed")["facts"] == False  # noqa: E712 - numpy's own
    inside = diff.frame[diff.frame.path.str.startswith("facts")]
    assert inside[["delta_ms", "delta_input_tokens", "delta_output_tokens", "delta_cost"]].isna().all(axis=None)
    for name in ("delta_input_tokens", "delta_output_tokens", "delta_cost"):
        assert read(diff, name)["/"] == read(diff, name)["verse"]
    assert read(diff, "delta_output_tokens")["/"] > 0
    assert diff.summary.startswith("2 tasks: 1 changed, 1 reused · tokens +")
    assert diff.notes == ("Run B has reused facts, which is not compared; neither is the time of what is around it.",)
    assert "reused facts" in before.diff(after)._repr_mimebundle_()["text/plain"]
    assert [change.where for change in diff.prompts.changes] == ["verse, user prompt"]


def test_startups_of_models_are_no_difference():
    def start(seconds):
        build = EventBuilder({"plan": (), "draft": ()})
        with build.task("plan"), build.startup("Starting the local model"):
            build.wait(seconds)
        with build.task("draft"), build.turn():
            build.llm("A text.", seconds=2)
        return ExecutionTrace.from_events(build.finish())

    first, second = start(30), start(0)
    diff = first.diff(second)
    assert read(diff, "delta_ms")["/"] == 0
    assert "wait" not in {*diff.frame.kind}
    assert diff.notes == ("Startups of models are left out of all differences in time.",)
    assert write().diff(write()).notes == ()


def test_what_both_runs_reused_is_the_same_and_the_time_around_it_is_compared(store_path):
    writer = Agent(role="Writer", goal="Write", llm=ScriptedChatModel(replies=["Deep."]))
    ensemble = Ensemble(name="tides", tasks=[Task.of("Find facts", name="facts", agent=writer)])
    ensemble.run()
    diff = ensemble.run(reuse=True).diff(ensemble.run(reuse=True))
    assert read(diff, "status")["facts"] == "same"
    assert not diff.frame.delta_ms.isna().any()
    assert diff.notes == ()


def test_a_run_that_goes_on_has_unknown_differences_and_says_so():
    build = EventBuilder({"plan": (), "draft": ["plan"]})
    with build.task("plan"):
        live = ExecutionTrace.from_events(build.events)
    diff = write().diff(live)
    assert str(read(diff, "delta_ms")["plan"]) == "<NA>"
    assert diff.notes == ("Run B had not ended: what it had not come to by then is unknown.",)


def test_what_a_textless_run_did_not_keep_is_unknown_and_no_change():
    whole, textless = write(), write(texts={"draft": ""}, prompts={"draft": ""}, capture_mode=CaptureMode.METADATA)
    diff = whole.diff(textless)
    assert set(diff.frame.status) == {"same"}
    assert diff.frame.output_changed.isna().all()
    assert (diff.prompts, diff.outputs) == ("", "")
    assert diff.notes == ("Run B has kept no texts (capture mode metadata): prompts and outputs can't be compared.",)
    assert diff.notes[0] in repr(diff)


def test_costs_in_two_currencies_are_not_subtracted():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=1, output_tokens=1)
    events = build.finish()
    euro = ExecutionTrace.from_events(events, CostConfiguration(input_rate=1, output_rate=1, currency="EUR"))
    diff = ExecutionTrace.from_events(events, RATES).diff(euro)
    assert diff.frame.delta_cost.isna().all()
    assert diff.notes == ("The runs have costs in USD and EUR, which can't be subtracted.",)


def test_a_trace_from_a_file_is_compared_like_the_run_itself(tmp_path):
    trace = write()
    loaded = ExecutionTrace.load(trace.save(tmp_path / "run.trace.json"))
    assert set(trace.diff(loaded).frame.status) == {"same"}
    assert trace.diff(loaded).definition == ""


def test_what_is_no_run_is_refused():
    with pytest.raises(ValidationError, match="an output or a trace, got str"):
        write().diff("-1")


def test_changed_texts_are_pickled_and_compared_as_texts():
    changes = TextChanges([TextChange("a", "one two", "one three")])
    assert changes == "a:\n  one [-two-]{+three+}"
    again = pickle.loads(pickle.dumps(changes))
    assert (again, again.changes) == (changes, changes.changes)


@given(st.text("ab \n,", max_size=60), st.text("ab \n,", max_size=60))
def test_pieces_give_both_texts_again(before, after):
    pieces = diff_words(before, after)
    assert "".join(piece.text for piece in pieces if piece.mark != "added") == before
    assert "".join(piece.text for piece in pieces if piece.mark != "removed") == after


def test_what_was_rewritten_is_shown_whole_and_long_parts_without_a_change_are_cut():
    assert mark_words(diff_words("one two three", "uno dos tres")) == "[-one two three-]{+uno dos tres+}"
    words = " ".join(f"w{number}" for number in range(100))
    shown = mark_words(shorten_same(diff_words(f"{words} red {words}", f"{words} blue {words}")))
    assert "[-red-]{+blue+}" in shown
    assert shown.count("[…]") == 2
    assert len(shown) < 150


def test_two_long_texts_are_compared_in_little_time():
    text = "".join(f"line {number} of it, which is somewhat long\n" for number in range(20_000))
    changed = text.replace("line 777 ", "line seven ")
    assert mark_words(shorten_same(diff_words(text, changed))).count("{+") == 1
    assert len(diff_words("a b " * 50_000, "c d " * 50_000)) == 2 + 1


def test_no_comparison_moves_the_cursor_of_a_terminal():
    evil = "\x1b[2Jtitle\x07\x00"
    tasks = ("plan", f"draft{evil}")
    before, after = write(tasks, texts={"plan": "old"}), write(tasks, texts={"plan": f"new {evil}"})
    diff, history = before.diff(after), RunHistory([after._fold, before._fold], 2)
    prediction = after.what_if(max_concurrency=1)
    for shown in (repr(diff), str(diff.outputs), repr(diff.outputs), repr(history), repr(prediction)):
        assert not {"\x1b", "\x07", "\x00"} & set(shown)
    assert "title" in str(diff.outputs)
    assert evil in (diff.outputs.changes[0].after or "")


def test_both_runs_are_told_with_the_time_of_this_machine_as_a_list_of_runs_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (Ensemble(tasks=[Task.of("Say", handler=lambda _: "x")]).run() for _ in range(2))
    started = first.trace.started_at
    assert started is not None
    try:
        with monkeypatch.context() as change:
            change.setenv("TZ", "IST-5:30")
            time.tzset()
            here = started + timedelta(hours=5, minutes=30)
            assert f" · {here:%Y-%m-%d %H:%M:%S} UTC+5:30 · " in repr(first.diff(second))
    finally:
        time.tzset()
