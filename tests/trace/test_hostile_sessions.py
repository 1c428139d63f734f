"""Sessions that nobody could have written still give sound traces, or are refused (T25, T111, T114)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_notebook import ExecutionTrace, TraceFormatError
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.hostile_texts import PAYLOADS
from tests.support.session_files import stamp

IDS = st.sampled_from(["", "a", "b", "c"])
MOMENTS = st.one_of(st.integers(-90_000, 90_000).map(stamp), st.sampled_from(["", "yesterday", None, 7]))
COUNTS = st.one_of(st.integers(-5, 900), st.sampled_from([None, "9", 1.5, True, 10**20]))
TEXTS = st.sampled_from([*PAYLOADS, "", "\ud800", "\x00", "x" * 3_000, "[Request interrupted by user]", "<b>"])
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), COUNTS, TEXTS),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(IDS, inside, max_size=2),
    max_leaves=4,
)


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields, each of which may be anything."""
    return st.fixed_dictionaries({}, optional={name: st.one_of(each, each, ANYTHING) for name, each in known.items()})


BLOCKS = fields(
    type=st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image", "server_tool_use", "new"]),
    text=TEXTS,
    thinking=TEXTS,
    id=IDS,
    name=st.sampled_from(["Read", "Task", ""]),
    input=fields(prompt=TEXTS, subagent_type=IDS, description=TEXTS),
    tool_use_id=IDS,
    content=TEXTS,
    is_error=st.booleans(),
)
CLAUDE_LINES = fields(
    type=st.sampled_from(["user", "assistant", "system", "progress", "attachment", "summary", "new"]),
    timestamp=MOMENTS,
    uuid=IDS,
    parentUuid=IDS,
    agentId=IDS,
    isSidechain=st.booleans(),
    isMeta=st.booleans(),
    isApiErrorMessage=st.booleans(),
    subtype=st.sampled_from(["api_error", "compact_boundary", "new"]),
    error=fields(status=COUNTS, message=TEXTS, error=ANYTHING),
    retryInMs=COUNTS,
    parentToolUseID=IDS,
    data=fields(agentId=IDS),
    toolUseResult=fields(agentId=IDS),
    message=fields(
        id=IDS,
        model=st.sampled_from(["claude-opus-4-5-20251101", "", "<synthetic>"]),
        content=st.lists(BLOCKS, max_size=3),
        usage=fields(input_tokens=COUNTS, output_tokens=COUNTS, cache_read_input_tokens=COUNTS),
    ),
).map(lambda row: {"sessionId": "s", **row})
CODEX_KINDS = ("message", "reasoning", "function_call", "function_call_output", "web_search_call", "token_count", "new")
CODEX_EVENTS = ("turn_aborted", "error", "stream_error", "task_complete", "user_message", "task_started")
CODEX_LINES = st.fixed_dictionaries(
    {
        "timestamp": MOMENTS,
        "type": st.sampled_from(["response_item", "event_msg", "turn_context", "compacted", "session_meta", "new"]),
        "payload": fields(
            type=st.sampled_from([*CODEX_KINDS, *CODEX_EVENTS]),
            role=st.sampled_from(["user", "assistant", "developer"]),
            content=st.lists(fields(type=IDS, text=TEXTS), max_size=2),
            call_id=IDS,
            name=IDS,
            arguments=TEXTS,
            output=TEXTS,
            message=TEXTS,
            id=IDS,
            forked_from_id=IDS,
            model=st.sampled_from(["gpt-5.1-codex", ""]),
            info=fields(
                total_token_usage=fields(input_tokens=COUNTS, output_tokens=COUNTS, cached_input_tokens=COUNTS)
            ),
        ),
    }
)


def check(rows: list[dict[str, Any]]) -> None:
    """A session of these lines is a trace that holds all that traces hold, or is refused as such."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        try:
            trace = ExecutionTrace.load(path)
        except TraceFormatError:
            return
        assert find_violations(trace) == []
        again = ExecutionTrace.load(trace.save(Path(folder) / "s.trace.json"))
        assert again.frames.spans.equals(trace.frames.spans)
        json.dumps(TimelineMessages(trace._fold).make_saved_view(), allow_nan=False)
        str(trace.messages())


@given(st.lists(CLAUDE_LINES, min_size=1, max_size=14))
@settings(max_examples=60, deadline=None)
def test_any_lines_of_claude_code_are_a_sound_trace_or_refused(rows: list[dict[str, Any]]) -> None:
    check(rows)


@given(st.lists(CODEX_LINES, min_size=1, max_size=14))
@settings(max_examples=60, deadline=None)
def test_any_lines_of_codex_are_a_sound_trace_or_refused(rows: list[dict[str, Any]]) -> None:
    check(rows)
