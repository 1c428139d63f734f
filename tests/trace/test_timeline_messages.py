"""What the browser is told: snapshots, deltas, details, and what is saved (W1, W5, W6, W14)."""

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.events import LlmAttemptStarted, LlmToken
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.timeline_columns import ROWS, RUN, VERSION
from ensemble_notebook.trace.timeline.timeline_messages import FEW_ROWS, TAIL, TimelineMessages
from tests.support.event_builder import START, EventBuilder
from tests.support.row_reader import read_rows
from tests.support.stream import streams

KEY = "sk-" + "a1B2" * 8
ROW_FIELDS = {each.name for each in ROWS.all_columns}
RUN_FIELDS = {each.name for each in RUN.all_columns}


def at_end():
    return START


def make_messages(events, now=at_end):
    return TimelineMessages(TraceFold.from_events(events), now)


def strict_json(message):
    return json.loads(json.dumps(message, allow_nan=False))


class Store:
    """What a view keeps: rows by id, and the text of each call."""

    def __init__(self, snapshot):
        self.n = snapshot["n"]
        self.run = snapshot["run"]
        self.rows = {row["span_id"]: row for row in snapshot["rows"]}
        self.text = {}

    def apply(self, delta):
        assert delta["from"] == self.n
        self.n, self.run = delta["n"], delta["run"]
        self.rows.update({row["span_id"]: row for row in delta["rows"]})
        for span_id, piece, start in delta["text"]:
            assert start == len(self.text.get(span_id, ""))
            self.text[span_id] = self.text.get(span_id, "") + piece


@given(streams(), st.data())
def test_deltas_applied_one_after_the_other_make_the_snapshot(events, data):
    fold = TraceFold()
    messages = TimelineMessages(fold, at_end)
    store = Store(messages.make_snapshot())
    for event in events:
        fold.add(event)
        if data.draw(st.booleans()) or event is events[-1]:
            store.apply(messages.make_delta(store.n))
            snapshot = messages.make_snapshot()
            assert store.rows == {row["span_id"]: row for row in snapshot["rows"]}
            assert (store.run, store.n) == (snapshot["run"], snapshot["n"])


@given(streams())
def test_every_message_is_strict_json_with_the_fields_of_the_schema(events):
    messages = make_messages(events)
    snapshot = strict_json(messages.make_snapshot())
    assert snapshot["kind"] == "snapshot"
    assert snapshot["version"] == VERSION
    assert snapshot["run"].keys() == RUN_FIELDS
    for row in snapshot["rows"]:
        assert row.keys() <= ROW_FIELDS
        assert None not in row.values()
        details = strict_json(messages.make_details(row["span_id"]))
        assert details.keys() == {"kind", "span_id", "messages", "input", "output", "error", "lengths", "handovers"}
    assert strict_json(messages.make_delta(0))["version"] == VERSION
    strict_json(messages.make_saved_view())


@given(streams(), st.integers(2_000, 20_000))  # the run itself and the counts of each kind take up to 1,600
def test_what_is_saved_fits_and_says_what_is_missing(events, max_bytes):
    messages = make_messages(events)
    saved = messages.make_saved_view(max_bytes)
    assert len(json.dumps(saved)) <= max_bytes
    rows, all_rows = read_rows(saved), messages.make_snapshot()["rows"]
    assert saved["rows_total"] == len(rows) + saved["rows_left_out"] == len(all_rows)
    counts, all_counts = (Counter(row["kind"] for row in each) for each in (rows, all_rows))
    assert saved["kept"] == {kind: [counts[kind], number] for kind, number in all_counts.items()}
    ids = {row["span_id"] for row in rows}
    assert saved["details"].keys() <= ids
    assert {row["parent_id"] for row in rows} <= {*ids, "run"}
    known = {row["span_id"]: row for row in all_rows}
    assert all({**row, "parent_id": known[row["span_id"]]["parent_id"]} == known[row["span_id"]] for row in rows)


@given(streams(), st.data())
def test_columns_are_the_rows(events, data):
    messages = make_messages(events[: data.draw(st.integers(0, len(events)))])
    snapshot = messages.make_snapshot()
    head, buffers = messages.pack_snapshot()
    assert read_rows(strict_json(head), buffers) == snapshot["rows"]
    assert (head["n"], head["run"], head["phases"]) == (snapshot["n"], snapshot["run"], snapshot["phases"])
    saved = messages.make_saved_view()
    assert read_rows(strict_json(saved)) == snapshot["rows"]
    assert saved["rows_left_out"] == 0


def test_many_rows_that_changed_come_as_columns():
    build = EventBuilder({f"t{number}": () for number in range(FEW_ROWS)})
    events = build.finish()
    messages = make_messages(events)
    delta, buffers = messages.pack_delta(1)
    assert "rows" not in delta
    assert read_rows(strict_json(delta), buffers) == messages.make_delta(1)["rows"]
    few, no_buffers = make_messages(events[:1]).pack_delta(0)
    assert (few["rows"], no_buffers) == ([], [])


def test_ids_that_an_engine_did_not_make_are_packed_as_they_are():
    for odd in (["a", "b"], ["run.1", "run.x"], ["run.01"], ["run.1", "run.99999999999"], ["run.-1"], ["7"], ["run.²"]):
        fold = TraceFold.from_events(EventBuilder({"a": (), "b": ()}).events)
        for span, span_id in zip([each for each in fold.spans.values() if each.kind == "task"], odd, strict=False):
            span.span_id = span_id
        messages = TimelineMessages(fold, at_end)
        head, buffers = messages.pack_snapshot()
        assert read_rows(strict_json(head), buffers) == messages.make_snapshot()["rows"]
        assert read_rows(strict_json(messages.make_saved_view())) == messages.make_snapshot()["rows"]


def test_numbers_that_four_bytes_can_not_hold_are_packed_too():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=5_000_000_000, output_tokens=2)
    messages = make_messages(build.finish())
    head, buffers = messages.pack_snapshot()
    assert read_rows(strict_json(head), buffers) == messages.make_snapshot()["rows"]


def test_a_delta_holds_only_what_changed():
    build = EventBuilder({f"t{number}": () for number in range(50)})
    for number in range(49):
        with build.task(f"t{number}"), build.turn():
            build.llm("x")
    fold = TraceFold.from_events(build.events)
    messages = TimelineMessages(fold, at_end)
    before = fold.count
    with build.task("t49"):
        pass
    fold.add(build.events[before])
    delta = messages.make_delta(before)
    assert [row["name"] for row in delta["rows"]] == ["t49"]
    assert (delta["from"], delta["n"]) == (before, before + 1)


def test_rows_keep_the_order_of_the_plan_whatever_starts_first():
    build = EventBuilder({"gather": (), "risks": (), "brief": ["gather", "risks"]})
    for name in build.beside(["risks", "gather"]):
        with build.task(name):
            pass
    messages = make_messages(build.events)
    for message in (messages.make_snapshot(), messages.make_delta(0), messages.make_saved_view()):
        assert [row["name"] for row in read_rows(message)] == ["gather", "risks", "brief"]


def test_nothing_new_is_a_delta_without_rows():
    messages = make_messages(EventBuilder({"a": ()}).events)
    delta = messages.make_delta(messages.count)
    assert (delta["from"], delta["n"], delta["rows"], delta["text"]) == (messages.count, messages.count, [], [])


def test_the_run_tells_what_runs_now_by_name():
    build = EventBuilder({"a": (), "b": (), "c": ()}, agents={"b": "Handler"}, max_concurrency=2, model="m")
    for name in build.beside(["a", "b"]):
        with build.task(name):
            if name == "a":
                with build.turn():
                    build.llm(hangs=True, seconds=1)
            else:
                build.wait(1)
                live = make_messages(build.events, lambda: START + timedelta(seconds=5)).make_snapshot()["run"]
    assert (live["status"], live["elapsed_ms"]) == ("running", 5000.0)
    assert (live["tasks_total"], live["tasks_done"], live["tasks_failed"]) == (3, 0, 0)
    assert sorted((each["kind"], each["name"]) for each in live["active"]) == [("llm", "m"), ("task", "b")]


def test_task_rows_carry_the_sums_of_their_leaves():
    build = EventBuilder({"a": (), "b": ()})
    with build.task("a"):
        for iteration in (1, 2):
            with build.turn(iteration):
                build.llm("x", input_tokens=10, output_tokens=2)
    rows = {row["name"]: row for row in make_messages(build.finish()).make_snapshot()["rows"]}
    assert (rows["a"]["input_tokens"], rows["a"]["output_tokens"], rows["a"]["cost"]) == (20, 4, 0.0)
    assert "input_tokens" not in rows["b"]
    assert rows["b"]["status"] == "pending"


def test_money_carries_its_currency_wherever_it_is():
    build = EventBuilder({"a": (), "b": ()}, budget=Budget(max_cost=1))
    with build.task("a"), build.turn():
        build.llm("x", input_tokens=10, output_tokens=2)
    euros = CostConfiguration(input_rate="0.001", output_rate="0.002", currency="EUR")
    told = TimelineMessages(TraceFold.from_events(build.finish(), cost=euros), at_end).make_snapshot()
    paid = {row["name"]: row.get("currency") for row in told["rows"] if "cost" in row}
    assert paid["a"] == "EUR"
    assert set(paid.values()) == {"EUR"}
    assert all("currency" not in row for row in told["rows"] if "cost" not in row)
    assert (told["run"]["currency"], told["run"]["budget"]["currency"]) == ("EUR", "EUR")


def test_phases_are_told_with_what_they_come_after():
    build = EventBuilder({"a": (), "b": ()}, phases={"p": ["a"], "q": ["b"]}, after={"q": ["p"]})
    with build.phase("p"):
        live = make_messages(build.events).make_snapshot()
    assert [(phase["name"], phase["after"]) for phase in live["phases"]] == [("p", []), ("q", ["p"])]
    assert live["run"]["phases_now"] == ["p"]


def test_a_failed_run_tells_type_and_message_of_its_error_and_no_more():
    build = EventBuilder({"a": ()}, agents={"a": "Handler"})
    with build.task("a"):
        build.fail(ValueError("no luck"))
    run = make_messages(build.finish()).make_snapshot()["run"]
    assert run["error"] == {"type": "ValueError", "message": "no luck"}
    assert (run["status"], run["exit_reason"], run["error_count"]) == ("failed", "error", 1)


def test_no_secret_leaves_through_any_message():
    build = EventBuilder({"a": ()}, inputs={"token": KEY})
    build.warn(f"saw {KEY}")
    with build.task("a", prompt=f"use {KEY}"), build.turn():
        build.llm(stream=["my key is ", KEY[:9], KEY[9:20], KEY[20:], " or so"], asks=["search"])
        build.tool("search", {"key": KEY}, result=KEY)
        build.llm(error=ConnectionError(KEY))
    events = build.finish()
    fold = TraceFold()
    messages = TimelineMessages(fold, at_end)
    told = []
    for event in events:
        fold.add(event)
        told += [messages.make_snapshot(), messages.make_delta(fold.count - 1), messages.make_details(event.span_id)]
    told.append(messages.make_saved_view())
    text = json.dumps(told)
    assert "my key is " in text
    for start in range(0, len(KEY) - 8, 4):
        assert KEY[start : start + 8] not in text


def test_streamed_text_comes_in_pieces_that_make_the_whole():
    pieces = ["The ", "quick ", "bro", "wn ", "fox"]
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=pieces)
    fold = TraceFold()
    messages = TimelineMessages(fold, at_end)
    store = Store(messages.make_snapshot())
    shown = []
    for event in build.finish():
        fold.add(event)
        store.apply(messages.make_delta(store.n))
        shown.append("".join(store.text.values()))
    assert shown[-1] == "The quick brown fox"
    assert "The quick " in shown
    assert "The quick brown " in shown


def test_a_view_that_comes_late_gets_the_text_so_far_with_the_details():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=["The ", "quick ", "brown ", "fox "])
    events = build.finish()
    tokens = [event.seq for event in events if isinstance(event, LlmToken)]
    messages = make_messages(events[: tokens[2] + 1])
    call = next(row["span_id"] for row in messages.make_snapshot()["rows"] if row["kind"] == "llm")
    assert messages.make_details(call)["output"] == "The quick brown "
    assert make_messages(events).make_delta(tokens[2] + 1)["text"] == [[call, "fox ", 16]]


def test_a_view_that_comes_late_has_the_end_of_what_is_being_streamed_at_once():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=[f"{number} " for number in range(500)])
    events = build.finish()
    last = max(event.seq for event in events if isinstance(event, LlmToken))
    ((call, tail, start),) = make_messages(events[: last + 1]).pack_snapshot()[0]["text"]
    whole = "".join(f"{number} " for number in range(500))
    assert (len(tail), whole[start:]) == (TAIL, tail)
    assert call == next(event.span_id for event in events if isinstance(event, LlmToken))
    assert make_messages(events).pack_snapshot()[0]["text"] == []


def test_the_streamed_text_of_another_attempt_is_told_apart():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=["Whole."], retries=[("timeout", 1.0)])
    events = list(build.finish())
    whole = next(event for event in events if isinstance(event, LlmToken))
    first = next(place for place, event in enumerate(events) if isinstance(event, LlmAttemptStarted))
    events.insert(first + 1, replace(whole, text="Hal", offset_s=events[first].offset_s))
    assert [piece for _, piece, _ in make_messages(events).make_delta(0)["text"]] == ["Hal\n[attempt 2]\nWhole."]


def test_details_of_a_task_are_its_whole_conversation_and_of_a_call_what_it_knew():
    build = EventBuilder({"a": ()}, inputs={"topic": "llamas"})
    with build.task("a", prompt="Find them."):
        with build.turn(1):
            build.llm(asks=["search"])
            build.tool("search", {"q": 1}, result="two")
        with build.turn(2):
            build.llm("Two.")
    messages = make_messages(build.finish())
    by_kind = {}
    for row in messages.make_snapshot()["rows"]:
        by_kind.setdefault(row["kind"], []).append(messages.make_details(row["span_id"]))
    task, (first_turn, second_turn) = by_kind["task"][0], by_kind["turn"]
    roles = [message["role"] for message in task["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert task["output"] == "Two."
    assert [len(call["messages"]) for call in by_kind["llm"]] == [3, 5]
    assert [len(attempt["messages"]) for attempt in by_kind["attempt"]] == [2, 4]
    assert [message["role"] for message in first_turn["messages"]] == ["assistant", "tool"]
    assert [message["text"] for message in second_turn["messages"]] == ["Two."]
    assert (by_kind["tool"][0]["input"], by_kind["tool"][0]["output"]) == ('{"q": 1}', "two")
    assert task["messages"][2]["tool_calls"] == [{"id": "call-1", "name": "search", "arguments": "{}"}]
    assert messages.make_details("run")["input"] == '{"topic": "llamas"}'


def test_a_refused_tool_call_says_why_it_was_skipped():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(asks=["search"])
        build.tool("search", outcome=ToolOutcome.SKIPPED_MAX_ITERATIONS, result="STOP: the limit is reached.")
    row = next(row for row in make_messages(build.finish()).make_snapshot()["rows"] if row["kind"] == "tool")
    assert (row["status"], row["reason"]) == ("skipped", "STOP: the limit is reached.")


def test_details_of_an_unknown_span_say_so():
    details = make_messages(EventBuilder({"a": ()}).events).make_details("run.99")
    assert details["error"] == {"type": "LookupError", "message": "This run has no such span."}


def test_of_huge_texts_the_details_have_the_beginning_and_pieces_give_the_rest():
    build = EventBuilder({"a": ()})
    reply = "".join(f"{number:,} " for number in range(40_000))
    with build.task("a", prompt="p" * 50_000), build.turn():
        build.llm(reply, asks=["search"])
    messages = make_messages(build.finish())
    details = strict_json(messages.make_details("run.1"))
    assert len(json.dumps(details)) < 70_000
    prompt, answer = details["messages"][1:3]
    assert (len(prompt["text"]), len(answer["text"])) == (20_000, 20_000)
    assert details["lengths"][prompt["field"]] == 50_000
    assert details["lengths"][answer["field"]] == len(reply)
    text = answer["text"]
    while len(text) < len(reply):
        piece = strict_json(messages.make_piece("run.1", answer["field"], len(text)))
        assert piece["from"] == len(text)
        assert piece["length"] == len(reply)
        assert 0 < len(piece["text"]) <= 100_000
        text += piece["text"]
    assert text == reply
    asked = f"{answer['field']}.0"
    assert messages.make_piece("run.1", asked, 0)["text"] == "{}"


@pytest.mark.parametrize("span_id, field", [("run.1", "message.99"), ("run.1", "nothing"), ("run.99", "output")])
def test_there_is_no_piece_of_a_text_that_is_not_there(span_id: str, field: str):
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("Two.")
    piece = make_messages(build.finish()).make_piece(span_id, field, 0)
    assert (piece["text"], piece["length"]) == ("", 0)


def test_many_long_texts_together_stay_small():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        for iteration in range(1, 91):
            with build.turn(iteration):
                build.llm("word " * 5_000)
    details = make_messages(build.finish()).make_details("run.1")
    assert len(json.dumps(details)) < 550_000
    assert all(message["text"] for message in details["messages"])


def test_the_details_of_a_task_say_what_it_read_and_who_read_it():
    build = EventBuilder({"a": (), "b": ["a"]})
    with build.task("a"), build.turn():
        build.llm("Twelve chars")
    with build.task("b"), build.turn():
        build.llm("Two.")
    fold = TraceFold.from_events(build.finish())
    messages = TimelineMessages(fold)
    a, b = (span for span in fold.spans.values() if span.kind is SpanKind.TASK)
    handed = {"kind": "context", "from": a.span_id, "to": b.span_id, "characters": 12}
    assert messages.make_details(a.span_id)["handovers"] == [handed]
    assert messages.make_details(b.span_id)["handovers"] == [handed]
    assert messages.make_saved_view()["details"][b.span_id]["handovers"] == [handed]


def test_of_a_huge_reply_that_is_still_streamed_the_details_have_the_end():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm(stream=[f"{number} " for number in range(10_000)])
    events = build.finish()
    last = max(event.seq for event in events if isinstance(event, LlmToken))
    messages = make_messages(events[: last + 1])
    call = next(row["span_id"] for row in messages.make_snapshot()["rows"] if row["kind"] == "llm")
    details = messages.make_details(call)
    assert details["output"].endswith("9997 9998 9999 ")
    assert details["lengths"]["output"] > len(details["output"]) == 20_000


def test_the_middle_of_a_very_long_conversation_is_left_out():
    build = EventBuilder({"a": ()})
    with build.task("a"):
        for iteration in range(1, 301):
            with build.turn(iteration):
                build.llm(f"reply {iteration}")
    messages = make_messages(build.finish()).make_details("run.1")["messages"]
    assert [message["text"] for message in messages[9:12]] == ["reply 8", "[202 messages left out]", "reply 211"]
    assert messages[-1]["text"] == "reply 300"


def test_what_is_saved_of_a_large_run_keeps_tasks_and_errors_and_some_of_everything_but_no_turns():
    build = EventBuilder({f"t{number}": () for number in range(600)})
    for number in range(600):
        with build.task(f"t{number}"):
            for iteration in range(1, 6):
                with build.turn(iteration):
                    build.llm("word " * 500, asks=["search"], seconds=1 + number % 7, input_tokens=number * iteration)
                    if number > 590:
                        build.tool("search", {}, error=LookupError("nothing"))
    saved = make_messages(build.finish()).make_saved_view()
    rows = read_rows(saved)
    kinds = Counter(row["kind"] for row in rows)
    assert len(json.dumps(saved)) <= 200_000
    assert (kinds["task"], kinds["tool"], kinds["turn"]) == (600, 45, 0)
    assert 0 < kinds["llm"] < 3_000
    assert saved["kept"]["llm"] == [kinds["llm"], 3_000]
    assert saved["rows_left_out"] > 0
    assert saved["details_left_out"] > 0
    tasks = {row["span_id"] for row in rows if row["kind"] == "task"}
    assert {row["parent_id"] for row in rows if row["kind"] == "llm"} <= tasks
    calls = [row for row in rows if row["kind"] == "llm"]
    parts = Counter(int(10 * row["start_ms"] / saved["run"]["elapsed_ms"]) for row in calls)
    assert len(parts) == 10
    assert min(parts.values()) > len(calls) / 20
    assert len(saved["details"]) > 0


def test_what_is_saved_of_very_many_tasks_has_calls_of_some_of_them():
    build = EventBuilder({f"t{number}": () for number in range(2_000)})
    for number in range(2_000):
        with build.task(f"t{number}"):
            with build.turn():
                build.llm("word", seconds=1 + number % 7, input_tokens=number)
            if number == 1_234:
                build.fail(ValueError("no luck"))
    rows = read_rows(make_messages(build.finish()).make_saved_view())
    kinds = Counter(row["kind"] for row in rows)
    assert min(kinds["task"], kinds["llm"]) > 500
    tasks = {row["span_id"]: row for row in rows if row["kind"] == "task"}
    assert "run" not in {row["parent_id"] for row in rows if row["kind"] == "llm"}
    assert "t1234" in {row["name"] for row in tasks.values() if row["status"] == "error"}


def test_a_run_that_is_over_does_not_get_longer():
    build = EventBuilder({"a": ()})
    with build.task("a"), build.turn():
        build.llm("x", seconds=2)
    messages = make_messages(build.finish(), lambda: START + timedelta(days=1))
    assert messages.make_snapshot()["run"]["elapsed_ms"] == 2000.0


def test_a_run_that_has_not_started_has_a_snapshot():
    snapshot = strict_json(make_messages(()).make_snapshot())
    assert (snapshot["n"], snapshot["rows"], snapshot["run"]["status"]) == (0, [], "pending")


def test_only_what_a_person_is_asked_waits_for_one():
    build = EventBuilder({"a": ()}, phases={"p": ["a"]})
    with build.phase("p"):
        with build.task("a"):
            build.review(subject="output", hangs=True)
        build.review(subject="phase", hangs=True)
    snapshot = TimelineMessages(TraceFold.from_events(build.events)).make_snapshot()
    reviews = {row["review"]["subject"]: row["span_id"] for row in snapshot["rows"] if row["kind"] == "review"}
    assert snapshot["run"]["waiting"] == [reviews["output"]]


def test_w14_eight_tasks_that_hand_on_long_replies_lose_no_text():
    names = [f"t{number}" for number in range(8)]
    build = EventBuilder({name: names[max(0, place - 2) : place] for place, name in enumerate(names)})
    replies = [" ".join(f"{place}.{number}" for number in range(1_200)) for place in range(8)]
    for place, name in enumerate(names):
        prompt = "\n\n".join(["## Context", *replies[max(0, place - 2) : place], f"## Task\nDo part {place}"])
        with build.task(name, prompt=prompt):
            with build.turn():
                build.llm(asks=["search"])
                build.tool("search", {"query": name}, result="found " * 300)
            with build.turn():
                build.llm(replies[place])
    messages = make_messages(build.finish())
    saved = messages.make_saved_view()
    assert len(json.dumps(saved)) <= 200_000
    assert (saved["rows_left_out"], saved["details_left_out"]) == (0, 0)
    texts = join_texts(saved["texts"])
    for span_id, details in saved["details"].items():
        whole = messages.make_details(span_id)
        said = [texts[each["text"]] if isinstance(each["text"], int) else each["text"] for each in details["messages"]]
        assert said == [each["text"] for each in whole["messages"]]
        assert details["lengths"] == {}


def join_texts(stored: list[Any]) -> list[str]:
    """The texts of a saved view, as views put them together."""
    texts: list[str] = []
    for each in stored:
        parts = each if isinstance(each, list) else [each]
        texts.append("".join(texts[part] if isinstance(part, int) else part for part in parts))
    return texts


def test_w33_the_run_says_its_limits():
    limits = {"budget": Budget(max_cost=2), "max_concurrency": 4, "rate_limit": RateLimit(90, 60)}
    run = make_messages(EventBuilder({"a": ()}, **limits).events).make_snapshot()["run"]
    assert (run["budget"]["max_cost"], run["max_concurrency"]) == (2, 4)
    assert (run["rate_limit"], run["rate_limit_ms"]) == (90, 60_000)
    run = make_messages(EventBuilder({"a": ()}).events).make_snapshot()["run"]
    assert [run[name] for name in ("budget", "max_concurrency", "rate_limit", "rate_limit_ms")] == [None] * 4


@given(streams())
def test_w33_tasks_and_phases_have_the_counts_of_the_frames_and_say_what_they_lack(events):
    tasks = ExecutionTrace.from_events(events).frames.tasks
    rows = {row["span_id"]: row for row in make_messages(events).make_snapshot()["rows"]}
    for task in tasks[tasks.start_ms.notna()].itertuples():
        row = rows[task.Index]
        assert row["llm_call_count"] == task.llm_call_count
        assert row.get("lacks_tokens", False) is (not task.tokens_complete)
        assert row.get("lacks_cost", False) is (not task.cost_complete)
    others = [row for row in rows.values() if row["kind"] not in ("task", "phase") or "start_ms" not in row]
    assert not any({"llm_call_count", "lacks_tokens", "lacks_cost"} & row.keys() for row in others)


def test_w37_a_saved_map_keeps_no_task_without_its_row() -> None:
    def say(task: Any) -> str:
        return str(task.inputs["city"])

    tasks = [Task.of(f"{word} {{city}}", name=word, handler=say) for word in ("find", "write", "check")]
    result = Ensemble(tasks=tasks).map([{"city": f"City {number}"} for number in range(300)])
    assert result.trace is not None
    saved = TimelineMessages(result.trace._fold).make_saved_view(40_000)
    kept, total = saved["kept"]["task"]
    assert (100 < kept < total, total) == (True, 1200)
    rows = {row["span_id"]: row for row in read_rows(saved)}
    outermost = [row for row in rows.values() if row["kind"] == "task" and row.get("parent_id") not in rows]
    assert outermost
    assert all(row["name"].startswith("row ") for row in outermost)
