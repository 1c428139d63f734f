"""Sessions of Codex: `rollout-*.jsonl`, each line with a type and a payload; sub-agents have files of their own.

What the model was told and said are lines of type ``response_item``; ``event_msg`` tells much of it once more. Tokens
are counted from the start of the session, so a request took what the count has grown by. A fork begins with all lines
of its origin, written at the moment of the fork.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.importers.coding_sessions.session import (
    Call,
    Conversation,
    Failure,
    Note,
    Reply,
    Session,
    flatten,
)
from ensemble_notebook.importers.coding_sessions.session_lines import (
    Lines,
    Plain,
    Program,
    find_first_moment,
    join_texts,
    read_blocks,
    read_count,
    read_moment,
    read_plain,
    read_text,
    write_note,
)

_BURST: Final = timedelta(seconds=1)
"""A fork writes what it has of its origin in less."""
_EXIT_CODE: Final = re.compile(r"\A(?:.*\n){0,4}?(?:Exit code|Process exited with code):? (\d+)")
_COUNTS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
_INPUT: Final = frozenset(("user", "developer", "system"))
_MIRRORS: Final = {"user_message": "message", "agent_message": "message", "agent_reasoning": "text"}
"""Fields of the events that tell the text of an item once more."""


def find_ids(lines: Lines) -> tuple[str, str | None]:
    """The id of the session, and that of the sub-agent whose file this is, None of the session itself."""
    meta = _find_meta(lines)
    own = read_text(meta.get("id")) or lines.name
    parent = read_text(_find_spawn(meta).get("parent_thread_id")) or read_text(meta.get("parent_thread_id"))
    return (parent, own) if parent else (own, None)


def read_session(main: Lines, agents: Sequence[Lines]) -> Session:
    """The session in a file, with what its sub-agents did.

    Args:
        main: its own file.
        agents: files of its sub-agents.
    """
    reader = _Reader(main, Program.CODEX)
    reader.read()
    meta = _find_meta(main)
    git = read_plain(meta.get("git"))
    told = {"folder": meta.get("cwd"), "branch": git.get("branch"), "version": meta.get("cli_version")}
    session = Session(
        find_ids(main)[1] or find_ids(main)[0],
        reader.title,
        read_text(meta.get("model_provider")) or "openai",
        {name: value for name, value in told.items() if isinstance(value, str) and value},
        find_first_moment(main.rows),
        system_prompt=read_text(read_plain(meta.get("base_instructions")).get("text"))
        or read_text(meta.get("instructions")),
    )
    session.prompts, session.notes, session.earlier = (
        reader.talk.prompts,
        reader.talk.notes,
        flatten(reader.before.prompts),
    )
    session.context_window = reader.context_window
    known = {find_ids(each)[1] for each in agents}
    for call in reader.talk.calls.values():
        agent = _find_spawned(call)
        if agent is not None and agent not in known:
            said = f"The work of sub-agent {agent} is in a file of its own, which was not read: load its folder."
            session.notes.append(Note(call.ended_at or call.started_at, said, is_warning=True))
    for lines in agents:
        spawned = _find_spawn(_find_meta(lines))
        names = (read_text(spawned.get(key)) for key in ("agent_role", "agent_nickname"))
        worker = _Reader(lines, next(filter(None, names), "sub-agent"))
        worker.read()
        # The call that begins a sub-agent does not wait for it.
        session.beside += worker.talk.prompts
        session.notes += worker.talk.notes
    return session


class _Reader:
    """Reads one file.

    Args:
        lines: of the file.
        agent: whose they are, as views call it.

    Attributes:
        talk: the conversation of this file. before: what a fork has of its origin.
        title: that a person gave the session; None: nobody did.
    """

    def __init__(self, lines: Lines, agent: str) -> None:
        self._lines = lines
        self.talk = Conversation(agent)
        self.before = Conversation(agent)
        self.title: str | None = None
        self.context_window: int | None = None
        self._model = ""
        self._total: Mapping[str, int] = {}
        self._reply: Reply | None = None
        self._is_answered = False
        self._mirrored = {_squeeze(text) for text in _list_texts(lines.rows)}

    def read(self) -> None:
        """All lines."""
        first = next(filter(None, map(read_moment, self._lines.rows)), None)
        meta = _find_meta(self._lines)
        is_fork = bool(read_text(meta.get("forked_from_id")) or _find_spawn(meta))
        rows = list(self._lines.rows)
        repeated = _count_repeated(rows, first) if is_fork and first is not None else 0
        at = first
        for place, row in enumerate(rows):
            talk = self.before if place < repeated else self.talk
            at = read_moment(row) or at
            if at is None:
                continue
            if place == repeated:
                self._reply = None
            self._read_row(talk, row, talk.move_to(at))
        self.before.finish()
        self.talk.finish()
        if repeated and at is not None and first is not None:
            said = f"{repeated} lines are those of session {read_text(meta.get('forked_from_id')) or 'it came of'}."
            self.talk.notes.append(Note(first, said))

    def _read_row(self, talk: Conversation, row: Plain, at: datetime) -> None:
        kind = read_text(row.get("type"))
        payload = row.get("payload")
        if not isinstance(payload, dict):  # the first version wrote items without an envelope
            if "record_type" in row or (kind == "" and "id" in row):
                return
            kind, payload = "response_item", row
        if kind == "response_item":
            self._read_item(talk, payload, at)
        elif kind == "event_msg":
            self._read_event(talk, payload, at)
        elif kind == "turn_context":
            self._model = read_text(payload.get("model")) or self._model
        elif kind == "compacted":
            said = read_text(payload.get("message"))
            talk.notes.append(Note(at, f"The conversation was compacted. {said}".strip()))
        elif kind != "session_meta":
            talk.notes.append(Note(at, write_note(kind, payload)))

    # --- What the model was told, and said ----------------------------------------------------------------------------

    def _read_item(self, talk: Conversation, item: Plain, at: datetime) -> None:
        kind = read_text(item.get("type"))
        call_id = read_text(item.get("call_id")) or read_text(item.get("id"))
        if kind == "message" and read_text(item.get("role")) in _INPUT:
            text = join_texts(read_blocks(item.get("content")))
            if item.get("role") == "user" and not _is_context(text):
                talk.ask(text, at, title=text)
            else:
                talk.tell(text, at)
            self._reply = None
        elif kind == "message":
            reply = self._continue_reply(talk, at)
            reply.text = "\n".join(filter(None, [reply.text, join_texts(read_blocks(item.get("content")))]))
        elif kind == "reasoning":
            reply = self._continue_reply(talk, at)
            thoughts = [join_texts(read_blocks(item.get(key))) for key in ("summary", "content")]
            reply.reasoning = "\n".join(filter(None, [reply.reasoning, *thoughts]))
        elif kind.endswith("_output") and call_id:
            result = _read_output(item.get("output"))
            talk.end_call(call_id, result, _judge(item.get("output"), result), at)
            self._is_answered = True
        elif kind.endswith("_call"):
            reply = self._continue_reply(talk, at)
            name, arguments = _read_call(kind, item)
            call = Call(call_id or f"{kind}.{len(talk.calls)}", name, arguments, at)
            talk.add_call(reply, call)
            if kind in ("web_search_call", "image_generation_call"):  # the provider runs them: there is no result
                talk.end_call(call.id, read_text(item.get("status")), ToolOutcome.SUCCESS, at)
        else:
            talk.notes.append(Note(at, write_note(kind or "item", item)))

    def _continue_reply(self, talk: Conversation, at: datetime) -> Reply:
        """The reply that an item is of: the last one, unless it was answered or counted since."""
        if self._reply is None or self._is_answered:
            self._reply = talk.begin_reply(self._model or "unknown", at)
            self._is_answered = False
        self._reply.ended_at = at
        return self._reply

    # --- What the program tells ---------------------------------------------------------------------------------------

    def _read_event(self, talk: Conversation, event: Plain, at: datetime) -> None:
        kind = read_text(event.get("type"))
        text = read_text(event.get("message"))
        if kind in _MIRRORS:
            self._read_mirror(talk, kind, read_text(event.get(_MIRRORS[kind])), at)
        elif kind in ("task_started", "turn_started"):
            self.context_window = read_count(event.get("model_context_window")) or self.context_window
        elif kind in ("task_complete", "turn_complete"):
            if talk.prompts:
                talk.prompts[-1].ended_at = at
        elif kind == "token_count" and (info := read_plain(event.get("info"))):
            self._count(talk, info, at)
        elif kind == "turn_aborted":
            talk.interrupt(at)
            self._reply = None
        elif kind == "stream_error":
            talk.add_failure(Failure("StreamError", text, at, delay_s=0.0))
        elif kind == "error":
            reply = talk.begin_reply(self._model or "unknown", at)
            reply.error = Failure("CodexError", text, at)
            self._reply = None
        elif kind == "thread_name_updated" and (name := read_text(event.get("thread_name"))):
            self.title = name
        else:
            talk.notes.append(Note(at, write_note(kind or "event", event)))

    def _read_mirror(self, talk: Conversation, kind: str, text: str, at: datetime) -> None:
        """What an item says as well, as a rule; where none does, it is said here alone."""
        if _squeeze(text) in self._mirrored:
            return
        if kind == "user_message":
            talk.ask(text, at, title=text)
            self._reply = None
            return
        reply = self._continue_reply(talk, at)
        if kind == "agent_message":
            reply.text = "\n".join(filter(None, [reply.text, text]))
        else:
            reply.reasoning = "\n".join(filter(None, [reply.reasoning, text]))

    def _count(self, talk: Conversation, info: Plain, at: datetime) -> None:
        """Book what the count has grown by on the last reply; a count that shrank began anew."""
        total = read_plain(info.get("total_token_usage")) or read_plain(info.get("last_token_usage"))
        known = {name: count for name in _COUNTS if (count := read_count(total.get(name))) is not None}
        if any(known.get(name, 0) < count for name, count in self._total.items()):
            self._total = {}
        grown = {name: count - self._total.get(name, 0) for name, count in known.items()}
        self._total = known
        if not any(grown.values()) or talk is self.before:
            return
        reply = self._reply
        if reply is None:
            last = talk.prompts[-1].replies if talk.prompts else []
            reply = last[-1] if last else talk.begin_reply(self._model or "unknown", at)
        reply.usage = _add(reply.usage, grown)
        self._is_answered = True


def _add(usage: TokenUsage, grown: Mapping[str, int]) -> TokenUsage:
    counted, read, output, thought = ((grown.get(name, 0)) for name in _COUNTS)
    counted, output = counted + (usage.input_tokens or 0), output + (usage.output_tokens or 0)
    return TokenUsage(
        input_tokens=counted,
        output_tokens=output,
        cache_read_tokens=min(counted, read + (usage.cache_read_tokens or 0)),
        reasoning_tokens=min(output, thought + (usage.reasoning_tokens or 0)),
    )


def _find_meta(lines: Lines) -> Plain:
    """What the file says of its session: a fork has that of its origin behind its own."""
    for row in lines.rows:
        if row.get("type") == "session_meta":
            return read_plain(row.get("payload"))
    return lines.rows[0] if lines.rows and "type" not in lines.rows[0] else {}


def _find_spawned(call: Call) -> str | None:
    """The id of the sub-agent that a call has begun."""
    if call.name != "spawn_agent":
        return None
    with suppress(ValueError):
        return read_text(read_plain(json.loads(call.result)).get("agent_id")) or None
    return None


def _find_spawn(meta: Plain) -> Plain:
    """How a sub-agent was begun; empty where the file is none of a sub-agent."""
    source = read_plain(meta.get("source"))
    return read_plain(read_plain(source.get("subagent") or source.get("sub_agent")).get("thread_spawn"))


def _count_repeated(rows: Sequence[Plain], first: datetime) -> int:
    """How many lines of a fork are those of its origin: they are written at once, and what is asked then is not.

    The last of them is the last one that counts tokens or ends a turn: what follows at the same moment is its own.
    """
    repeated = 0
    for place, row in enumerate(rows):
        moment = read_moment(row)
        if moment is not None and moment - first > _BURST:
            break
        payload = read_plain(row.get("payload"))
        is_end = payload.get("type") in ("token_count", "task_complete", "turn_complete", "turn_aborted")
        if is_end or (row.get("type") == "session_meta" and place):
            repeated = place + 1
    return repeated


def _read_call(kind: str, item: Plain) -> tuple[str, Any]:
    """The name of a tool, and its arguments."""
    name = read_text(item.get("name")) or kind.removesuffix("_call")
    if namespace := read_text(item.get("namespace")):
        name = f"{namespace}.{name}"
    value: Any = next((item[key] for key in ("arguments", "input", "action", "revised_prompt") if key in item), {})
    if isinstance(value, str) and kind == "function_call":
        try:
            return name, json.loads(value)
        except (ValueError, RecursionError):
            return name, value
    return name, value


def _read_output(output: object) -> str:
    """The text of a result: versions write it as a text, as JSON in a text, as a mapping or as blocks."""
    if isinstance(output, dict):
        return _read_output(output.get("content", output.get("output")))
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            return read_text(read_plain(json.loads(output)).get("output")) or output
        except (ValueError, RecursionError):
            return output
    return join_texts(read_blocks(output))


def _judge(output: object, result: str) -> ToolOutcome:
    if read_plain(output).get("success") is False:
        return ToolOutcome.FAILURE
    code = None
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            code = read_count(read_plain(read_plain(json.loads(output)).get("metadata")).get("exit_code"))
        except (ValueError, RecursionError):
            code = None
    elif found := _EXIT_CODE.match(result):
        code = int(found[1])
    return ToolOutcome.FAILURE if code else ToolOutcome.SUCCESS


def _is_context(text: str) -> bool:
    """What the program tells the model in the name of the person."""
    return text.startswith(("<", "# AGENTS.md instructions"))


def _list_texts(rows: Iterable[Plain]) -> Iterable[str]:
    """The texts that the model was told, said and thought."""
    for row in rows:
        item = read_plain(row.get("payload"))
        if row.get("type") == "response_item" and item.get("type") in ("message", "reasoning"):
            for key in ("content", "summary"):
                parts = [read_text(each.get("text")) for each in read_blocks(item.get(key))]
                yield from (*parts, "\n".join(parts))


def _squeeze(text: str) -> str:
    return " ".join(text.split())
