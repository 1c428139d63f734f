"""Sessions of coding agents as their programs write them, made up for tests, measurements and pictures.

No line is anybody's: paths, names and words are invented. Fields are those of Claude Code 2.1 and Codex 0.128.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

START: Final = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def stamp(second: float) -> str:
    """A time of the session, as both programs write it."""
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ClaudeCodeSession:
    """Lines of a session of Claude Code, or of one of its sub-agents.

    Args:
        session_id: of the session.
        agent_id: of the sub-agent; None: the session itself.
        model: that replies.

    Attributes:
        rows: the lines by now.
    """

    def __init__(
        self, session_id: str = "5b1f0000-0000-4000-8000-000000000001", agent_id: str | None = None, model: str = ""
    ) -> None:
        self.session_id = session_id
        self.agent_id = agent_id
        self.model = model or "claude-opus-4-5-20251101"
        self.rows: list[dict[str, Any]] = []

    def add(self, kind: str, second: float, **fields: Any) -> None:
        """A line of any type."""
        own: dict[str, Any] = {} if self.agent_id is None else {"agentId": self.agent_id}
        number = f"{self.agent_id or self.session_id[-2:]}-{len(self.rows)}"
        parent = self.rows[-1].get("uuid") if self.rows else None
        common = {"sessionId": self.session_id, "cwd": "/home/dev/tides", "gitBranch": "main", "version": "2.1.200"}
        common |= {"isSidechain": self.agent_id is not None, "userType": "external"}
        place = {"type": kind, "uuid": number, "parentUuid": parent, "timestamp": stamp(second)}
        self.rows.append({**place, **common, **own, **fields})

    def ask(self, second: float, content: Any, **fields: Any) -> None:
        """What a person asks."""
        self.add("user", second, message={"role": "user", "content": content}, **fields)

    def reply(
        self,
        second: float,
        message_id: str,
        *blocks: dict[str, Any],
        tokens: tuple[int, int, int, int] = (3, 40, 1_000, 200),
        **fields: Any,
    ) -> None:
        """A line of a reply; `tokens` are those of fresh input, of output, read from and written to the cache."""
        fresh, output, read, written = tokens
        usage = {"input_tokens": fresh, "output_tokens": output, "cache_read_input_tokens": read}
        message = {"id": message_id, "role": "assistant", "model": self.model, "content": list(blocks)}
        message |= {"usage": {**usage, "cache_creation_input_tokens": written}, "stop_reason": fields.pop("stop", None)}
        self.add("assistant", second, message=message, requestId=f"req_{message_id}", **fields)

    def result(self, second: float, call_id: str, content: Any, *, is_error: bool | None = None, **told: Any) -> None:
        """The result of a call, with what the program tells beside it."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        block |= {} if is_error is None else {"is_error": is_error}
        self.add("user", second, message={"role": "user", "content": [block]}, toolUseResult=told)

    def write(self, path: Path, *, ending: str = "\n") -> Path:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(json.dumps, self.rows)) + ending, encoding="utf-8")
        return path


def say(text: str) -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": text}


def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    """A block that asks for a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


class CodexSession:
    """Lines of a session of Codex.

    Args:
        session_id: of the session.
        **meta: more of what its first line says.

    Attributes:
        rows: the lines by now.
    """

    def __init__(self, session_id: str = "0199aaaa-0000-7000-8000-000000000001", **meta: Any) -> None:
        self.session_id = session_id
        self.rows: list[dict[str, Any]] = []
        known = {"id": session_id, "cwd": "/home/dev/tides", "cli_version": "0.128.0", "source": "cli"}
        known |= {"model_provider": "openai", "base_instructions": {"text": "You are a coding agent."}}
        self.add("session_meta", 0, **known | meta)

    def add(self, kind: str, second: float, **payload: Any) -> None:
        """A line of any type."""
        self.rows.append({"timestamp": stamp(second), "type": kind, "payload": payload})

    def ask(self, second: float, text: str) -> None:
        """What a person asks, which is told twice."""
        content = [{"type": "input_text", "text": text}]
        self.add("event_msg", second, type="task_started", turn_id=str(len(self.rows)), model_context_window=272_000)
        self.add("turn_context", second, model="gpt-5.1-codex", cwd="/home/dev/tides")
        self.add("response_item", second, type="message", role="user", content=content)
        self.add("event_msg", second, type="user_message", message=text)

    def say(self, second: float, text: str) -> None:
        """What the model says, which is told twice."""
        self.add("event_msg", second, type="agent_message", message=text)
        content = [{"type": "output_text", "text": text}]
        self.add("response_item", second, type="message", role="assistant", content=content)

    def call(self, second: float, call_id: str, name: str, **arguments: Any) -> None:
        """A call of a tool."""
        told = {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": call_id}
        self.add("response_item", second, **told)

    def result(self, second: float, call_id: str, output: Any) -> None:
        """The result of a call."""
        self.add("response_item", second, type="function_call_output", call_id=call_id, output=output)

    def count(self, second: float, counted: int, cached: int, output: int, reasoning: int) -> None:
        """All tokens since the session began."""
        total = {"input_tokens": counted, "cached_input_tokens": cached, "output_tokens": output}
        total |= {"reasoning_output_tokens": reasoning, "total_tokens": counted + output}
        self.add("event_msg", second, type="token_count", info={"total_token_usage": total}, rate_limits=None)

    def write(self, path: Path, *, ending: str = "\n") -> Path:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(json.dumps, self.rows)) + ending, encoding="utf-8")
        return path


def make_tide_session() -> tuple[ClaudeCodeSession, ClaudeCodeSession]:
    """A session with all that there is in one, and its sub-agent."""
    main = ClaudeCodeSession()
    worker = ClaudeCodeSession(agent_id="abc123", model="claude-haiku-4-5-20251001")
    main.ask(0, "Find out why the tide table is off by an hour, and fix it.")
    thought = {"type": "thinking", "thinking": "An hour: daylight saving.", "signature": "sig"}
    main.reply(4, "m1", thought, tokens=(3, 5, 1_000, 200))
    main.reply(5, "m1", say("I'll look at the code first."), tokens=(3, 20, 1_000, 200))
    main.reply(6, "m1", call("t1", "Read", file_path="tides.py"), tokens=(3, 80, 1_000, 200))
    main.reply(6, "m1", call("t2", "Grep", pattern="tzinfo"), tokens=(3, 95, 1_000, 200), stop="tool_use")
    main.result(7, "t1", "def tide(place): ...")
    main.result(9, "t2", "tides.py:3: tzinfo=None")
    asked = {"description": "Find callers of tide()", "subagent_type": "Explore", "prompt": "Which files call tide()?"}
    main.reply(14, "m2", call("t3", "Agent", **asked), tokens=(3, 60, 1_400, 300), stop="tool_use")
    worker.ask(14.5, "Which files call tide()?")
    worker.reply(20, "s1", call("st1", "Grep", pattern="tide("), tokens=(500, 40, 0, 0), stop="tool_use")
    worker.result(25, "st1", "a.py\nb.py")
    worker.reply(45, "s2", say("Two files: a.py, b.py"), tokens=(700, 40, 0, 0), stop="end_turn")
    main.result(50, "t3", [say("Two files: a.py, b.py")], agentId="abc123", agentType="Explore", status="completed")
    overloaded = {"status": 529, "error": {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}}
    main.add("system", 52, subtype="api_error", error=overloaded, retryInMs=2_000, retryAttempt=1, maxRetries=10)
    edit = {"file_path": "tides.py", "old_string": "None", "new_string": "UTC"}
    main.reply(60, "m3", call("t4", "Edit", **edit), tokens=(3, 200, 2_400, 300), stop="tool_use")
    main.result(61, "t4", "The file was updated.")
    main.reply(64, "m4", call("t5", "Bash", command="pytest -q"), stop="tool_use")
    main.result(75, "t5", "1 failed", is_error=True)
    main.reply(80, "m5", call("t6", "mcp__calendar__list_zones", country="GB"), stop="tool_use")
    refused = "The user doesn't want to proceed with this tool use. The tool use was rejected."
    main.result(82, "t6", refused, is_error=True)
    main.ask(82, [say("[Request interrupted by user for tool use]")])
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 40}
    main.ask(100, [say("Use zoneinfo instead."), {"type": "image", "source": picture}])
    main.reply(110, "m6", call("t7", "Bash", command="pytest -q"), stop="tool_use")
    main.add("attachment", 111, attachment={"type": "queued_command", "prompt": "and keep the tests"})
    main.result(120, "t7", "12 passed", is_error=False)
    main.reply(125, "m7", say("The table uses zoneinfo now, and all 12 tests pass."), stop="end_turn")
    main.add("system", 126, subtype="turn_duration", durationMs=26_000)
    sizes = {"trigger": "auto", "preTokens": 167_000, "postTokens": 20_000}
    main.add("system", 140, subtype="compact_boundary", compactMetadata=sizes)
    main.ask(141, "This session is being continued: zoneinfo is used.", isCompactSummary=True)
    main.ask(150, "Write the line for the changelog.")
    main.reply(158, "m8", say("Done: “Tide tables know daylight saving.”"), tokens=(3, 30, 900, 100), stop="end_turn")
    main.rows.append({"type": "ai-title", "aiTitle": "Tide table off by an hour", "sessionId": main.session_id})
    return main, worker


def write_tide_session(folder: Path) -> Path:
    """Write it as Claude Code does; gives the session's own file."""
    main, worker = make_tide_session()
    worker.write(folder / main.session_id / "subagents" / "agent-abc123.jsonl")
    return main.write(folder / f"{main.session_id}.jsonl")


def make_codex_session() -> CodexSession:
    """A session of Codex: two prompts, the second of them interrupted."""
    session = CodexSession(git={"branch": "main"})
    context = [{"type": "input_text", "text": "<environment_context>Linux</environment_context>"}]
    session.add("response_item", 0, type="message", role="user", content=context)
    session.ask(1, "Fix the tide table.")
    thought = [{"type": "summary_text", "text": "**Looking at the code**"}]
    session.add("event_msg", 5, type="agent_reasoning", text="**Looking at the code**")
    session.add("response_item", 5, type="reasoning", summary=thought, encrypted_content="gAAA")
    session.say(6, "I'll look.")
    session.call(7, "c1", "shell", command=["cat", "tides.py"])
    session.call(7, "c2", "shell", command=["pytest"])
    session.count(7, 1_000, 200, 120, 40)
    session.result(8, "c1", "Exit code: 0\nWall time: 0.1 seconds\nOutput:\ndef tide(place)")
    session.result(12, "c2", json.dumps({"output": "1 failed", "metadata": {"exit_code": 1}}))
    session.count(12, 1_000, 200, 120, 40)
    session.add("response_item", 15, type="custom_tool_call", call_id="c3", name="apply_patch", input="*** Begin Patch")
    session.count(15, 2_300, 1_200, 200, 50)
    session.add("response_item", 16, type="custom_tool_call_output", call_id="c3", output="Success.")
    session.say(20, "Fixed.")
    session.count(20, 3_700, 2_500, 230, 50)
    session.add("event_msg", 20, type="task_complete", turn_id="1", last_agent_message="Fixed.")
    session.ask(60, "Now the docs.")
    session.call(63, "c4", "shell", command=["sleep", "60"])
    session.count(63, 5_000, 3_000, 260, 60)
    session.add("event_msg", 65, type="turn_aborted", reason="interrupted")
    return session
