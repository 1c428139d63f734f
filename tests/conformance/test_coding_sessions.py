"""Sessions of coding agents, as they lie on disk, are runs (T111 to T114)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    ExecutionTrace,
    RunStatus,
    ScriptedChatModel,
    SpanStatus,
    Task,
    TraceFormatError,
    ValidationError,
    load_traces,
)
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.session_files import (
    ClaudeCodeSession,
    CodexSession,
    call,
    make_codex_session,
    make_tide_session,
    say,
    write_tide_session,
)

WHOLE = "5b1f0000-0000-4000-8000-000000000001"


@pytest.fixture
def tides(tmp_path: Path) -> ExecutionTrace:
    return ExecutionTrace.load(write_tide_session(tmp_path))


@pytest.fixture
def codex(tmp_path: Path) -> ExecutionTrace:
    return ExecutionTrace.load(make_codex_session().write(tmp_path / "rollout-1.jsonl"))


def notes(trace: ExecutionTrace) -> list[str]:
    events = trace.frames.events
    return list(events[events.type.isin(["Noted", "Warned"])].message)


def outcomes(trace: ExecutionTrace) -> dict[str, str]:
    calls = trace.frames.tool_calls
    return dict(zip(calls.tool_call_id, calls.outcome, strict=True))


# --- T111: a session is a run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["fork", "plan", "rerun", "fork by another", "resume"])
@pytest.mark.parametrize("program", ["Claude Code", "Codex"])
def test_t105_a_session_can_not_be_gone_on_with_and_says_why(program: str, act: str, tmp_path: Path) -> None:
    is_codex = program == "Codex"
    path = make_codex_session().write(tmp_path / "rollout-1.jsonl") if is_codex else write_tide_session(tmp_path)
    loaded = load_traces(path)
    assert loaded.runs.workflow.to_list() == [program]
    session = loaded.load_output(loaded.runs.index[0])
    spans = session.frames.spans
    task, request = (spans[spans.kind == kind].index[0] for kind in ("task", "llm"))
    ours = Ensemble(tasks=[Task.of("Say it", name="say", handler=lambda task: "tea")])
    acts: dict[str, Callable[[], object]] = {
        "fork": lambda: session.fork(task, output="x"),
        "plan": lambda: session.fork(task, output="x", plan=True),
        "rerun": lambda: session.rerun(request),
        "fork by another": lambda: ours.fork(session, task, output="x"),
        "resume": lambda: ours.run(resume=session),
    }
    with pytest.raises(ValidationError, match=f"it was read from what {program} told, which does not have what ran"):
        acts[act]()


def test_w173_the_drawer_of_a_session_knows_the_program_and_offers_no_fork(tides: ExecutionTrace) -> None:
    # The same field as that of other frameworks, by which the drawer decides (`js/src/details/drawer.test.ts`).
    assert TimelineMessages(tides._fold).make_snapshot()["run"]["framework"] == "Claude Code"


def test_t105_a_call_of_a_session_is_made_again_by_a_model_that_is_named(tides: ExecutionTrace) -> None:
    request = tides.frames.spans.query("kind == 'llm'").index[0]
    again = tides.rerun(request, llm=ScriptedChatModel(replies=["Cold."]))
    assert again.replies[0].text == "Cold."


def test_t111_a_session_of_claude_code_is_a_run(tides: ExecutionTrace) -> None:
    assert find_violations(tides) == []
    assert (tides.run_id, tides.name, tides.status) == (WHOLE, "Tide table off by an hour", RunStatus.COMPLETED)
    assert tides.inputs == {"folder": "/home/dev/tides", "branch": "main", "version": "2.1.200"}
    assert [task.span.title for task in tides.tasks] == [
        "Find out why the tide table is…",
        "Use zoneinfo instead.",
        "Write the line for the…",
    ]
    assert [task.span.depends_on for task in tides.tasks] == [(), ("prompt_1",), ("prompt_2",)]
    assert [task.span.status for task in tides.tasks] == [SpanStatus.CANCELLED, SpanStatus.OK, SpanStatus.OK]
    assert tides.tasks[1].output == "The table uses zoneinfo now, and all 12 tests pass."
    assert tides.duration is not None
    assert tides.duration.total_seconds() == 158


def test_t111_a_reply_takes_the_time_since_the_last_input(tides: ExecutionTrace) -> None:
    calls = tides.frames.llm_calls
    assert list(calls.duration_ms[:2]) == [6_000, 5_000]
    read, searched = list(tides.frames.tool_calls.duration_ms[:2])
    assert (read, searched) == (1_000, 3_000)


def test_t111_replies_without_input_in_between_follow_on_each_other(tmp_path: Path) -> None:
    session = ClaudeCodeSession()
    session.ask(0, "Write.")
    session.reply(4, "m1", say("The first half"), stop="max_tokens")
    session.reply(9, "m2", say("and the second."), stop="end_turn")
    trace = ExecutionTrace.load(session.write(tmp_path / "s.jsonl"))
    assert list(trace.frames.llm_calls.duration_ms) == [4_000, 5_000]


def test_t111_tools_end_as_the_session_says(tides: ExecutionTrace) -> None:
    expected = {"t1": "success", "t2": "success", "t3": "success", "t4": "success", "t5": "failure", "t6": "declined"}
    assert {key: each for key, each in outcomes(tides).items() if key in expected} == expected
    assert "mcp__calendar__list_zones" in set(tides.frames.tool_calls.tool)


def test_t111_a_request_that_failed_is_an_attempt(tides: ExecutionTrace) -> None:
    attempts = tides.frames.attempts
    failed = attempts[attempts.status == "error"].iloc[0]
    assert (failed.http_status, failed.error_type, failed.backoff_ms) == (529, "overloaded_error", 2_000)
    assert tides.metrics.llm_attempt_count == tides.metrics.llm_call_count + 1


def test_t111_an_error_of_the_api_fails_the_prompt(tmp_path: Path) -> None:
    session = ClaudeCodeSession()
    session.ask(0, "Fix it.")
    session.reply(9, "x", say("You've hit your limit."), isApiErrorMessage=True, error="rate_limit", apiErrorStatus=429)
    trace = ExecutionTrace.load(session.write(tmp_path / "s.jsonl"))
    assert trace.status is RunStatus.FAILED
    assert trace.tasks[0].span.error_type == "rate_limit"
    assert trace.errors[0].error_message == "You've hit your limit."
    assert find_violations(trace) == []


def test_t111_what_the_model_was_told_is_in_the_messages(tides: ExecutionTrace) -> None:
    said = str(tides.messages())
    for text in (
        "Find out why the tide table is off by an hour, and fix it.",
        '[Grep({"pattern": "tzinfo"})]',
        "[image image/png, 240 bytes]",
        "Task: and keep the tests",
        "Task: This session is being continued: zoneinfo is used.",
        "prompt_1: cancelled",
    ):
        assert text in said
    assert [each.reasoning for each in tides.messages() if each.reasoning] == ["An hour: daylight saving."]


def test_t111_a_session_of_codex_is_a_run(codex: ExecutionTrace) -> None:
    assert find_violations(codex) == []
    assert (codex.name, codex.status) == ("Fix the tide table.", RunStatus.INTERRUPTED)
    assert outcomes(codex) == {"c1": "success", "c2": "failure", "c3": "success", "c4": "unknown"}
    said = str(codex.messages())
    assert said.count("Fix the tide table.") == said.count("I'll look.") == 1  # what is told twice counts once
    assert "System: You are a coding agent." in said
    assert [each.reasoning for each in codex.messages() if each.reasoning] == ["**Looking at the code**"]
    assert set(codex.frames.llm_calls.model) == {"gpt-5.1-codex"}


def test_t111_what_codex_tells_in_events_alone_is_said_all_the_same(tmp_path: Path) -> None:
    session = CodexSession()
    session.add("event_msg", 1, type="user_message", message="Look around.")
    session.add("event_msg", 5, type="agent_message", message="Nothing here.")
    trace = ExecutionTrace.load(session.write(tmp_path / "rollout.jsonl"))
    assert (trace.tasks[0].description, trace.tasks[0].output) == ("Look around.", "Nothing here.")


def test_t111_a_session_of_the_first_codex_has_no_envelopes(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "old", "timestamp": "2025-06-01T10:00:00.000Z", "instructions": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"record_type": "state"},
        {"type": "function_call", "name": "shell", "arguments": "not JSON", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
    ]
    path = tmp_path / "rollout.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    trace = ExecutionTrace.load(path)
    assert (trace.run_id, trace.tasks[0].output, trace.metrics.tokens_complete) == ("old", "Hello.", False)
    assert "System: Be brief." in str(trace.messages())
    assert find_violations(trace) == []


def test_t111_every_door_of_a_trace_works_on_it(tides: ExecutionTrace, tmp_path: Path) -> None:
    again = ExecutionTrace.load(tides.save(tmp_path / "t.trace.json.gz"))
    assert again.frames.spans.equals(tides.frames.spans)
    for name in ("t.html", "t.svg", "t.chrome.json", "t.parquet"):
        assert tides.export(tmp_path / name).stat().st_size
    assert tides.diff(again).frame.status.eq("same").all()
    assert tides.what_if().wall_ms == pytest.approx(158_000)


def test_t111_text_of_a_session_is_masked(tmp_path: Path) -> None:
    key = "sk-proj-" + "a1B2" * 12
    session = ClaudeCodeSession()
    session.ask(0, f"Use {key}.")
    session.reply(1, "m", say(f"Using {key}."), call("t", "Bash", command=f"curl -H {key}"))
    session.result(2, "t", f"sent {key}")
    session.add("odd", 3, text=key)
    refused = {"status": 500, "error": {"message": f"No {key}"}}
    session.add("system", 4, subtype="api_error", error=refused, retryInMs=1)
    session.reply(5, "n", say("Done."))
    session.rows.append({"type": "custom-title", "customTitle": f"About {key}", "sessionId": WHOLE})
    trace = ExecutionTrace.load(session.write(tmp_path / "s.jsonl"))
    assert key not in str(trace.messages()) + json.dumps(trace.to_dict()) + str(notes(trace)) + repr(trace)
    for ending in ("html", "svg", "trace.json", "chrome.json", "otlp.json"):
        text = trace.export(tmp_path / f"run.{ending}").read_text()
        assert key not in text, ending


# --- T112: what a session took ---------------------------------------------------------------------------------------


def test_t112_a_reply_of_several_lines_counts_once(tides: ExecutionTrace) -> None:
    first = tides.frames.llm_calls.iloc[0]
    # Counts of its first lines are from before it was whole.
    assert (first.output_tokens, first.input_tokens) == (95, 1_203)
    assert (first.cache_read_tokens, first.cache_write_tokens) == (1_000, 200)
    assert tides.metrics.llm_call_count == 10


def test_t112_cost_is_that_of_the_price_list(tides: ExecutionTrace) -> None:
    first = tides.frames.llm_calls.iloc[0]
    millionths = 3 * 5 + 1_000 * Decimal("0.5") + 200 * Decimal("6.25") + 95 * 25
    assert first.cost == pytest.approx(float(millionths / 1_000_000))
    assert tides.metrics.cost_complete


def test_t112_totals_of_codex_are_differences(codex: ExecutionTrace) -> None:
    calls = codex.frames.llm_calls
    assert list(calls.input_tokens) == [1_000, 1_300, 1_400, 1_300]
    assert list(calls.cache_read_tokens) == [200, 1_000, 1_300, 500]
    assert list(calls.output_tokens) == [120, 80, 30, 30]
    assert (codex.metrics.input_tokens, codex.metrics.output_tokens) == (5_000, 260)


def test_t112_totals_that_begin_anew_are_not_taken_off(tmp_path: Path) -> None:
    session = make_codex_session()
    session.ask(100, "More.")
    session.say(104, "More.")
    session.count(104, 700, 0, 10, 0)
    trace = ExecutionTrace.load(session.write(tmp_path / "rollout.jsonl"))
    assert trace.frames.llm_calls.input_tokens.iloc[-1] == 700
    assert trace.metrics.input_tokens == 5_700


def test_t112_a_resumed_session_counts_what_it_repeats_in_the_older_one(tmp_path: Path) -> None:
    old, _ = make_tide_session()
    new = ClaudeCodeSession("5b1f0000-0000-4000-8000-000000000002")
    new.rows = [{**row, "sessionId": new.session_id} for row in old.rows if "uuid" in row]
    new.ask(500, "Go on.")
    new.reply(510, "m9", say("Gone on."))
    old.write(tmp_path / "a" / "old.jsonl")
    path = new.write(tmp_path / "a" / "new.jsonl")
    alone, together = ExecutionTrace.load(path), load_traces(tmp_path / "a")
    assert alone.metrics.llm_call_count == 9
    assert list(together.runs.llm_call_count) == [8, 1]
    assert list(together.runs.index) == [old.session_id, new.session_id]
    earlier = together.messages[together.messages.run_id == new.session_id]
    assert "Use zoneinfo instead." in " ".join(earlier.text)
    assert load_traces([path, tmp_path / "a" / "old.jsonl"]).runs.equals(together.runs)


def test_t112_a_fork_of_codex_counts_what_it_repeats_nowhere(tmp_path: Path) -> None:
    origin = make_codex_session()
    fork = CodexSession("0199aaaa-0000-7000-8000-000000000009", forked_from_id=origin.session_id)
    fork.rows += [{**row, "timestamp": fork.rows[0]["timestamp"]} for row in origin.rows]
    fork.ask(30, "Another way.")
    fork.say(40, "Another.")
    fork.count(40, 6_000, 3_500, 300, 70)
    trace = ExecutionTrace.load(fork.write(tmp_path / "rollout.jsonl"))
    assert (trace.metrics.llm_call_count, trace.metrics.input_tokens, len(trace.tasks)) == (1, 1_000, 1)
    assert "Codex (said in an earlier run): I'll look." in str(trace.messages())
    assert any(origin.session_id in each for each in notes(trace))
    assert find_violations(trace) == []


# --- T113: sub-agents and folders ------------------------------------------------------------------------------------


def test_t112_what_an_advisor_took_counts_in_the_call_that_asked_it(tmp_path: Path) -> None:
    """A second model that Claude Code may ask is counted beside the reply (`usage.iterations`), at its own price."""
    session = ClaudeCodeSession(model="claude-haiku-4-5-20251001")
    session.ask(1, "Which way?")
    asked = {"type": "server_tool_use", "id": "a1", "name": "advisor", "input": {}}
    answered = {"type": "advisor_tool_result", "tool_use_id": "a1", "content": [{"type": "text", "text": "Left."}]}
    session.reply(5, "m1", asked)
    session.reply(9, "m1", answered, say("Left, then."))
    advised = {"type": "advisor_message", "model": "claude-opus-4-5-20251101", "input_tokens": 500}
    advised |= {"output_tokens": 70, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 0}
    for row in session.rows[1:]:
        row["message"]["usage"]["iterations"] = [{"type": "message", "input_tokens": 3}, advised]
    trace = ExecutionTrace.load(session.write(tmp_path / "s.jsonl"))
    assert find_violations(trace) == []
    attempts = trace.frames.attempts
    assert sorted(attempts["input_tokens"]) == [530, 1_203]
    assert set(attempts["model"]) == {"claude-haiku-4-5-20251001", "claude-opus-4-5-20251101"}
    assert attempts["cost"].notna().all()
    assert trace.frames.delegations["delegate_to"].tolist() == ["advisor"]


def test_t113_a_sub_agent_works_inside_the_call_that_asked_for_it(tides: ExecutionTrace) -> None:
    handed = tides.frames.delegations.iloc[0]
    assert (handed.delegate_to, handed.delegator) == ("Explore", "Claude Code")
    worker = tides.task("sub_agent_1")
    assert (worker.span.title, worker.output) == ("Find callers of tide()", "Two files: a.py, b.py")
    assert [agent.role for agent in tides.agents] == ["Claude Code", "Explore"]
    assert tides.frames.tool_calls.set_index("tool_call_id").loc["st1"].agent == "Explore"


def test_t113_side_chains_in_the_file_are_agents_too(tmp_path: Path) -> None:
    main, worker = make_tide_session()
    for row in worker.rows:  # as older versions wrote them
        del row["agentId"]
    main.rows[8:8] = worker.rows
    for row in main.rows:
        if isinstance(row.get("toolUseResult"), dict):
            row["toolUseResult"].pop("agentId", None)
    trace = ExecutionTrace.load(main.write(tmp_path / "s.jsonl"))
    assert list(trace.frames.delegations.delegate_to) == ["Explore"]
    assert trace.metrics.llm_call_count == 10
    assert find_violations(trace) == []


def test_t113_a_sub_agent_that_outlasts_its_call_is_a_task_of_its_own(tmp_path: Path) -> None:
    main, worker = make_tide_session()
    worker.ask(300, "And which tests?")
    worker.reply(310, "s9", say("test_tides.py"))
    worker.write(tmp_path / main.session_id / "subagents" / "agent-abc123.jsonl")
    trace = ExecutionTrace.load(main.write(tmp_path / f"{main.session_id}.jsonl"))
    assert trace.task("sub_agent_2").output == "test_tides.py"
    assert len(trace.frames.delegations) == 1
    assert find_violations(trace) == []


def test_t113_sub_agents_whose_file_is_not_there_are_named(tmp_path: Path) -> None:
    main, _ = make_tide_session()
    trace = ExecutionTrace.load(main.write(tmp_path / "alone.jsonl"))
    assert [each for each in trace.warnings if "abc123" in each and "load its folder" in each]


def test_t113_a_sub_agent_of_codex_whose_file_is_not_read_is_named(tmp_path: Path) -> None:
    session = make_codex_session()
    other = "0199aaaa-0000-7000-8000-000000000002"
    session.call(600, "s1", "spawn_agent", message="Look around.")
    session.result(601, "s1", json.dumps({"agent_id": other}))
    path = session.write(tmp_path / "rollout-1.jsonl")
    trace = ExecutionTrace.load(path)
    assert [each for each in trace.warnings if other in each and "load its folder" in each]
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": session.session_id, "agent_role": "explorer"}}}
    helper = CodexSession(other, source=spawned)
    helper.ask(602, "Look around.")
    helper.say(604, "Nothing here.")
    helper.write(tmp_path / "rollout-2.jsonl")
    assert load_traces(tmp_path).load_output(session.session_id).warnings == ()


def test_t113_a_folder_is_a_run_for_each_session(tmp_path: Path) -> None:
    main, worker = make_tide_session()
    main.write(tmp_path / f"{main.session_id}.jsonl")
    worker.write(tmp_path / "agent-abc123.jsonl")  # beside it, as older versions did
    session = make_codex_session()
    session.write(tmp_path / "2026" / "rollout-1.jsonl")
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": session.session_id, "agent_role": "explorer"}}}
    helper = CodexSession("0199aaaa-0000-7000-8000-000000000002", source=spawned)
    helper.ask(8, "Look around.")
    helper.say(14, "Nothing here.")
    helper.count(14, 400, 0, 10, 0)
    helper.write(tmp_path / "2026" / "rollout-2.jsonl")
    (tmp_path / "other.jsonl").write_text('{"skill": "none of ours"}\n')
    with pytest.warns(UserWarning, match=r"other\.jsonl left out: no lines of a session"):
        frames = load_traces(tmp_path)
    assert set(frames.runs.index) == {main.session_id, session.session_id}
    assert set(frames.agents.index) == {"Claude Code", "Explore", "Codex", "explorer"}
    assert frames.runs.input_tokens[session.session_id] == 5_400
    output = load_traces(tmp_path / f"{main.session_id}.jsonl").load_output(main.session_id)
    assert output.messages() is not None


def test_t113_a_folder_without_sessions_says_how_to_read_traces(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"without sessions .*\*\.trace\.json"):
        load_traces(tmp_path)


def test_t113_no_session_is_read_that_nobody_named(
    tmp_path: Path, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tide_session(tmp_path / ".claude" / "projects" / "tides")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert load_traces().runs.empty


def test_t113_two_files_with_the_same_id_are_named(tmp_path: Path) -> None:
    main, _ = make_tide_session()
    main.write(tmp_path / "whole.jsonl")
    other = ClaudeCodeSession(main.session_id)
    other.ask(500, "Something else.")
    other.write(tmp_path / "other.jsonl")
    with pytest.warns(UserWarning, match=r"other\.jsonl left out: .*whole\.jsonl has the same id, and is read") as told:
        assert len(load_traces(tmp_path).tasks) == 3
    assert [each.filename for each in told] == [__file__]


def test_t113_copies_of_a_session_and_its_sub_agents_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_codex_session()
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": session.session_id, "agent_role": "explorer"}}}
    helper = CodexSession("0199aaaa-0000-7000-8000-000000000002", source=spawned)
    helper.say(14, "Nothing here.")
    helper.count(14, 400, 0, 10, 0)
    for folder in ("one", "two"):
        write_tide_session(tmp_path / folder)
        session.write(tmp_path / folder / "main.jsonl")
        helper.write(tmp_path / folder / "helper.jsonl")
    alone = load_traces(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    for where in (tmp_path, [tmp_path / "one", "one"]):
        both = load_traces(where)
        assert both.runs.input_tokens.to_dict() == alone.runs.input_tokens.to_dict()
        assert len(both.tool_calls) == len(alone.tool_calls)


def test_t113_a_sub_agent_that_has_said_nothing_is_no_session(tmp_path: Path) -> None:
    path = write_tide_session(tmp_path)
    silent = ClaudeCodeSession(agent_id="def456")
    silent.add("attachment", 300, attachment={"type": "skills"})
    silent.write(path.with_suffix("") / "subagents" / "agent-def456.jsonl")
    assert len(load_traces(tmp_path).tasks) == len(ExecutionTrace.load(path).tasks) == 3


# --- T114: what is not read, and what is not whole -------------------------------------------------------------------


def test_t114_what_is_not_read_is_kept_as_text(tmp_path: Path) -> None:
    main, _ = make_tide_session()
    main.add("galaxy", 160, spiral={"arms": 2})
    main.result(161, "nobody", "lost")
    main.add("galaxy", 162, long="x" * 9_000)
    trace = ExecutionTrace.load(main.write(tmp_path / "s.jsonl"))
    told = notes(trace)
    assert 'galaxy: {"spiral": {"arms": 2}}' in told
    assert "A result of a call that is not here (nobody): lost" in told
    assert any(each.endswith("more characters)") for each in told)
    assert 'system: {"subtype": "turn_duration", "durationMs": 26000}' in told
    assert "The conversation was compacted from 167,000 tokens to 20,000 (auto)." in told


def test_t114_a_last_line_that_is_cut_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
    for session in (make_tide_session()[0], make_codex_session()):
        path = session.write(tmp_path / "s.jsonl", ending='\n{"type":"assis')
        trace = ExecutionTrace.load(path)
        line = len(session.rows) + 1
        assert f'Line {line} of s.jsonl is cut, all else was read: {{"type":"assis' in trace.warnings
        assert trace.tasks


def test_t114_a_broken_line_in_between_is_said(tmp_path: Path) -> None:
    path = make_tide_session()[0].write(tmp_path / "s.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:6], "}{", *lines[6:]]) + "\n")
    assert "Line 7 of s.jsonl is no JSON, all else was read: }{" in ExecutionTrace.load(path).warnings


def test_t114_times_that_run_back_are_said(tmp_path: Path) -> None:
    session = ClaudeCodeSession()
    session.ask(100, "Hello.")
    session.reply(40, "m1", say("Hello."))
    trace = ExecutionTrace.load(session.write(tmp_path / "s.jsonl"))
    assert trace.warnings == ("1 line of Claude Code told of a time before the line above.",)
    assert find_violations(trace) == []


@pytest.mark.parametrize("content", ['{"a": 1}\n{"a": 2}\n', "no JSON\n", "", '{"type": "x"}\n'])
def test_t114_another_file_of_lines_is_no_session(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(content)
    for load in (ExecutionTrace.load, load_traces):
        with pytest.raises(TraceFormatError, match=r"other\.jsonl is no session of Claude Code or Codex"):
            load(path)


def test_t114_a_session_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"type": "summary", "summary": "Tides", "leafUuid": "x"}\n')
    for load in (ExecutionTrace.load, load_traces):
        with pytest.raises(TraceFormatError, match=r"s\.jsonl is a session .* no line of it has a time"):
            load(path)
    write_tide_session(tmp_path)
    with pytest.warns(UserWarning, match=r"s\.jsonl left out: no line with a time"):
        assert len(load_traces(tmp_path).runs) == 1


def test_t114_a_compressed_session_is_read(tmp_path: Path) -> None:
    path = write_tide_session(tmp_path)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_traces(packed).runs.index[0] == ExecutionTrace.load(packed).run_id == WHOLE


def test_t114_a_compressed_session_has_its_sub_agents(tmp_path: Path) -> None:
    path = write_tide_session(tmp_path)
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    for where in (packed, tmp_path):
        assert set(load_traces(where).agents.index) == {"Claude Code", "Explore"}


def test_t114_a_compressed_session_that_is_cut_is_refused_and_in_a_folder_left_out(tmp_path: Path) -> None:
    path = write_tide_session(tmp_path)
    packed = gzip.compress(path.read_bytes())[:-9]
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(packed)
    for load in (ExecutionTrace.load, load_traces):
        with pytest.raises(TraceFormatError, match=r"cut\.jsonl\.gz is no whole gzip file"):
            load(cut)
    with pytest.warns(UserWarning, match=r"cut\.jsonl\.gz left out") as told:
        assert len(load_traces(tmp_path).runs) == 1
    assert [each.filename for each in told] == [__file__]
    cut.rename(path.with_suffix("") / "subagents" / "cut.jsonl.gz")
    with pytest.warns(UserWarning, match=r"cut\.jsonl\.gz left out: no whole gzip file") as told:
        assert len(ExecutionTrace.load(path).tasks) == 3
    assert [each.filename for each in told] == [__file__]
