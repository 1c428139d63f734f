"""Sessions of Claude Code: lines in `projects/FOLDER/SESSION.jsonl`, those of sub-agents beside them or among them.

A reply stands as a line for each of its blocks, all with the same message id and counts that grow; results of tools
are lines of the user. Lines of other types tell of the program itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.importers.coding_sessions.session import (
    Call,
    Conversation,
    Failure,
    Note,
    Prompt,
    Reply,
    Session,
    flatten,
)
from ensemble_notebook.importers.coding_sessions.session_lines import (
    Lines,
    Plain,
    Program,
    describe_block,
    find_first_moment,
    join_texts,
    read_blocks,
    read_count,
    read_moment,
    read_plain,
    read_text,
    write_note,
)

_INTERRUPTED: Final = "[Request interrupted by user"
_DECLINED: Final = ("The user doesn't want to proceed with this tool use", "The user doesn't want to take this action")
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Fields of the lines that name a session, the strongest first."""
_LONGEST_DELAY_S: Final = 86_400.0
_ADVISOR: Final = "advisor"
_SUB_AGENT: Final = "sub-agent"
_COMMON: Final = frozenset(
    [
        *("type", "uuid", "parentUuid", "sessionId", "session_id", "timestamp", "cwd", "gitBranch", "version"),
        *("isSidechain", "userType", "entrypoint", "slug"),
    ]
)
"""Fields of every line, which say nothing of what it is about."""


def find_agent(lines: Lines) -> str | None:
    """The id of the sub-agent whose file this is; None of the session itself."""
    # One that has said nothing yet has other lines alone, and is none of the session all the same.
    said = [each for each in lines.rows if each.get("type") in ("user", "assistant")] or [
        each for each in lines.rows if "isSidechain" in each
    ]
    agents = {read_text(each.get("agentId")) for each in said if each.get("isSidechain") is True}
    if not said or not agents or any(each.get("isSidechain") is not True for each in said):
        return None
    return min(agents) or None


def find_session_id(lines: Lines) -> str:
    """The id of the session: that of its last lines, since a resumed one may begin with lines of another."""
    ids = (read_text(each.get("sessionId")) for each in reversed(lines.rows))
    return next(filter(None, ids), "")


def read_session(main: Lines, agents: Sequence[Lines], seen: set[str]) -> Session:
    """The session in a file, with what its sub-agents did.

    Args:
        main: its own file.
        agents: files of its sub-agents.
        seen: ids of messages of older sessions, which count there; those of this one are added.
    """
    return _Reader(main, seen).read(agents)


class _Reader:
    """Reads one session.

    Args:
        main: its own file.
        seen: see `read_session`.
    """

    def __init__(self, main: Lines, seen: set[str]) -> None:
        self._main = main
        self._seen = seen
        self._counted: set[str] = set()
        self._at: datetime | None = None
        self._titles: dict[str, str] = {}
        self._callers: dict[str, set[str]] = {}
        self._inputs: dict[str, str] = {}
        self._roles: dict[str, str] = {}

    def read(self, agents: Sequence[Lines]) -> Session:
        """All of it."""
        chains = _split_chains([self._main, *agents])
        own = chains.pop("", [])
        is_repeated = [_find_ids(each) & self._seen != set() for each in own]
        before = Conversation(Program.CLAUDE_CODE)
        self._fill(before, [each for each, repeated in zip(own, is_repeated, strict=True) if repeated])
        self._counted.clear()
        talk = Conversation(Program.CLAUDE_CODE)
        fresh = [each for each, repeated in zip(own, is_repeated, strict=True) if not repeated]
        self._fill(talk, fresh)
        session_id, opened_at = find_session_id(self._main) or self._main.name, find_first_moment(self._main.rows)
        session = Session(session_id, self._find_title(), "anthropic", self._inputs, opened_at)
        session.prompts, session.earlier = talk.prompts, flatten(before.prompts)
        if sum(is_repeated) and talk.prompts:
            said = f"{sum(is_repeated)} lines are those of an older session, and count there."
            session.notes.append(Note(talk.prompts[0].started_at, said))
        calls, notes = dict(talk.calls), list(talk.notes)
        workers = {agent: self._read_chain(agent, rows) for agent, rows in chains.items()}
        for worker in workers.values():
            calls.update(worker.calls)
            notes += worker.notes
        for agent, worker in workers.items():
            self._place(agent, worker, calls, session)
        session.notes += notes
        for agent, callers in self._callers.items():
            if agent not in workers and callers & calls.keys() and (at := self._at) is not None:
                said = f"The work of sub-agent {agent} is in a file of its own, which was not read: load its folder."
                session.notes.append(Note(at, said, is_warning=True))
        self._seen |= {each for row in own for each in _find_ids(row)}
        return session

    def _read_chain(self, agent: str, rows: Sequence[Plain]) -> Conversation:
        """What one sub-agent did."""
        worker = Conversation(self._roles.get(agent) or _SUB_AGENT)
        self._fill(worker, rows)
        return worker

    def _place(self, agent: str, worker: Conversation, calls: dict[str, Call], session: Session) -> None:
        """Put what a sub-agent did into the call that asked for it; beside all else where it outlasted that."""
        callers = [calls[each] for each in sorted(self._callers.get(agent, ())) if each in calls]
        for prompt in worker.prompts:
            asked = [each for each in calls.values() if _get_task(each).get("prompt") == prompt.text and prompt.text]
            around = [each for each in callers or asked if _is_within(prompt, each)]
            role = next(
                (role for each in callers or asked if (role := read_text(_get_task(each).get("subagent_type")))), ""
            )
            prompt.agent = role or prompt.agent
            told = next(
                (text for each in callers or asked if (text := read_text(_get_task(each).get("description")))), ""
            )
            prompt.title = told or prompt.title
            if around:
                around[0].work.append(prompt)
            else:
                session.beside.append(prompt)

    def _find_title(self) -> str | None:
        return next((title for kind in _TITLES if (title := self._titles.get(kind))), None)

    # --- Lines --------------------------------------------------------------------------------------------------------

    def _fill(self, talk: Conversation, rows: Iterable[Plain]) -> None:
        """Read lines into a conversation."""
        replies: dict[str, Reply] = {}
        for row in rows:
            moment = read_moment(row) or self._at
            kind = read_text(row.get("type"))
            if kind in _TITLES:
                self._titles[kind] = read_text(row.get(_TITLES[kind])) or self._titles.get(kind, "")
                continue
            if moment is None:  # lines before the first that has a time: the program sets itself up
                moment = find_first_moment(self._main.rows)
            at = self._at = talk.move_to(moment) if "timestamp" in row else moment
            self._note_inputs(row)
            if kind == "user":
                self._read_user(talk, row, at)
            elif kind == "assistant":
                self._read_assistant(talk, row, at, replies)
            elif kind == "system" and row.get("subtype") == "api_error":
                delay = row.get("retryInMs")
                delay_s = min(delay / 1000, _LONGEST_DELAY_S) if isinstance(delay, int | float) and delay >= 0 else 0.0
                talk.add_failure(_read_failure(row.get("error"), at, delay_s))
            elif kind == "progress" and self._note_caller(row):
                pass  # a copy of what the sub-agent's own lines tell
            elif kind == "attachment" and (queued := _read_queued(row)):
                talk.tell(queued, at)
            else:
                talk.notes.append(Note(at, _describe_row(kind, row)))
        talk.finish()

    def _read_user(self, talk: Conversation, row: Plain, at: datetime) -> None:
        told, message = read_plain(row.get("toolUseResult")), read_plain(row.get("message"))
        texts: list[str] = []
        for block in read_blocks(message.get("content")):
            if block.get("type") != "tool_result":
                texts.append(describe_block(block))
                continue
            result = join_texts(read_blocks(block.get("content")))
            call = talk.end_call(read_text(block.get("tool_use_id")), result, _judge(block, result), at)
            if call is not None:
                call.was_interrupted = result.startswith(_INTERRUPTED)
                if agent := read_text(told.get("agentId")):
                    self._callers.setdefault(agent, set()).add(call.id)
                    self._roles.setdefault(agent, read_text(told.get("agentType")))
        if not (text := "\n".join(filter(None, texts))):
            return
        if text.startswith(_INTERRUPTED):
            talk.interrupt(at)
        elif row.get("isMeta") is True or row.get("isCompactSummary") is True:
            talk.tell(text, at)
        else:
            # What a command of the program writes is no words of a person.
            said = " ".join(read_text(each.get("text")) for each in read_blocks(message.get("content")))
            talk.ask(text, at, title="" if text.startswith("<") else said)

    def _read_assistant(self, talk: Conversation, row: Plain, at: datetime, replies: dict[str, Reply]) -> None:
        message = read_plain(row.get("message"))
        blocks = list(read_blocks(message.get("content")))
        key = read_text(message.get("id")) or read_text(row.get("uuid"))
        model = read_text(message.get("model"))
        if row.get("isApiErrorMessage") is True:
            text = join_texts(iter(blocks))
            status = read_count(row.get("apiErrorStatus"))
            reply = talk.begin_reply("unknown", at)
            reply.error = Failure(read_text(row.get("error")) or "ApiError", text, at, status)
            return
        reply_so_far = replies.get(key)
        if reply_so_far is None:
            if key in self._counted:  # a sub-agent's file may repeat what it was begun with
                return
            self._counted.add(key)
            reply_so_far = replies[key] = talk.begin_reply(model or "unknown", at)
        reply = reply_so_far
        reply.ended_at = at
        reply.finish_reason = read_text(message.get("stop_reason")) or reply.finish_reason
        told = read_plain(message.get("usage"))
        usage = _read_usage(told)
        if _count(usage) >= _count(reply.usage):
            reply.usage = usage
        for block in blocks:
            kind = read_text(block.get("type"))
            if kind == "thinking":
                reply.reasoning = "\n".join(filter(None, [reply.reasoning, read_text(block.get("thinking"))]))
            elif kind.endswith("tool_use"):
                call = Call(read_text(block.get("id")), read_text(block.get("name")), block.get("input"), at)
                talk.add_call(reply, call)
            elif kind.endswith("tool_result"):  # of a tool that the provider runs itself
                result = join_texts(read_blocks(block.get("content"))) or write_note(kind, block.get("content"))
                talk.end_call(read_text(block.get("tool_use_id")), result, ToolOutcome.SUCCESS, at)
            elif kind != "redacted_thinking":
                reply.text = "\n".join(filter(None, [reply.text, describe_block(block)]))
        _place_advice(reply, read_blocks(told.get("iterations")))

    def _note_caller(self, row: Plain) -> bool:
        """A line that tells what a sub-agent does names the call that began it."""
        data = read_plain(row.get("data"))
        agent, caller = read_text(data.get("agentId")), read_text(row.get("parentToolUseID"))
        if not agent or not caller:
            return False
        self._callers.setdefault(agent, set()).add(caller)
        return True

    def _note_inputs(self, row: Plain) -> None:
        for name, key in (("folder", "cwd"), ("branch", "gitBranch"), ("version", "version")):
            if (value := read_text(row.get(key))) and name not in self._inputs:
                self._inputs[name] = value


def _split_chains(files: Sequence[Lines]) -> dict[str, list[Plain]]:
    """The lines of each agent by its id, those of the session itself under the empty one.

    Older versions wrote those of sub-agents into the session's own file, without an id: a chain of parents each.
    """
    chains: dict[str, list[Plain]] = {}
    roots: dict[str, str] = {}
    for lines in files:
        of_file = find_agent(lines) or ""
        for row in lines.rows:
            uuid, parent = read_text(row.get("uuid")), read_text(row.get("parentUuid"))
            chain = of_file
            if row.get("isSidechain") is True:
                chain = read_text(row.get("agentId")) or of_file or roots.get(parent) or uuid or _SUB_AGENT
                roots[uuid] = chain
            chains.setdefault(chain, []).append(row)
    return chains


def _find_ids(row: Plain) -> set[str]:
    """By what a line is known again in another file."""
    copied = read_text(read_plain(row.get("forkedFrom")).get("messageUuid"))
    message = read_text(read_plain(row.get("message")).get("id"))
    return {each for each in (read_text(row.get("uuid")), copied, message) if each}


def _get_task(call: Call) -> Plain:
    """What a sub-agent is asked, where a call asks one."""
    asked = read_plain(call.arguments)
    return asked if "prompt" in asked and ("subagent_type" in asked or call.name in ("Task", "Agent")) else {}


def _is_within(prompt: Prompt, call: Call) -> bool:
    ends = [prompt.ended_at, *(each.ended_at for each in prompt.replies)]
    ends += [each.ended_at for each in prompt.calls if each.ended_at is not None]
    return call.started_at <= prompt.started_at and (call.ended_at is None or max(ends) <= call.ended_at)


def _judge(block: Plain, result: str) -> ToolOutcome | None:
    if result.startswith(_INTERRUPTED):
        return None
    if result.startswith(_DECLINED):
        return ToolOutcome.DECLINED
    return ToolOutcome.FAILURE if block.get("is_error") is True else ToolOutcome.SUCCESS


def _place_advice(reply: Reply, iterations: Iterable[Plain]) -> None:
    """Put what advisors took into the calls that asked them: other models, counted beside the reply, not in it."""
    calls = [each for each in reply.calls if each.name == _ADVISOR]
    advised = [each for each in iterations if each.get("type") == "advisor_message"]
    for call, each in zip(calls, advised, strict=False):
        ended_at = call.ended_at or reply.ended_at
        advice = Reply(read_text(each.get("model")) or "unknown", call.started_at, ended_at, call.result)
        advice.usage = _read_usage(each)
        call.work = [Prompt(_ADVISOR, "", call.started_at, ended_at, replies=[advice])]


def _read_usage(plain: Plain) -> TokenUsage:
    """Input that was in the cache, or was put there, is part of the input here."""
    if not plain:
        return TokenUsage()
    fresh, output = read_count(plain.get("input_tokens")), read_count(plain.get("output_tokens"))
    read, written = (
        read_count(plain.get("cache_read_input_tokens")),
        read_count(plain.get("cache_creation_input_tokens")),
    )
    thought = read_count(read_plain(plain.get("output_tokens_details")).get("thinking_tokens"))
    return TokenUsage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=output,
        cache_read_tokens=None if fresh is None else read,
        cache_write_tokens=None if fresh is None else written,
        reasoning_tokens=None if thought is None or output is None else min(thought, output),
    )


def _count(usage: TokenUsage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def _read_failure(error: object, at: datetime, delay_s: float) -> Failure:
    """The error of a request, which may stand inside others."""
    name, message, status = "", "", None
    inner = read_plain(error)
    while inner:
        name = read_text(inner.get("type")) if inner.get("type") != "error" else name
        message = read_text(inner.get("message")) or message
        status = read_count(inner.get("status")) or status
        inner = read_plain(inner.get("error") or inner.get("cause"))
    return Failure(name or "ApiError", message or json.dumps(error), at, status, delay_s)


def _read_queued(row: Plain) -> str:
    """What a person typed while the model was at work; empty of other attachments."""
    attached = read_plain(row.get("attachment"))
    return join_texts(read_blocks(attached.get("prompt"))) if attached.get("type") == "queued_command" else ""


def _describe_row(kind: str, row: Plain) -> str:
    """A line that is no part of the conversation, in words where it has some."""
    if kind == "system" and row.get("subtype") == "compact_boundary":
        facts = read_plain(row.get("compactMetadata"))
        before, after = read_count(facts.get("preTokens")), read_count(facts.get("postTokens"))
        sizes = "" if before is None else f" from {before:,} tokens" + ("" if after is None else f" to {after:,}")
        return f"The conversation was compacted{sizes} ({read_text(facts.get('trigger')) or 'unknown why'})."
    if kind == "system" and read_text(row.get("content")):
        return write_note(read_text(row.get("subtype")) or kind, row["content"])
    return write_note(kind or "line", {key: value for key, value in row.items() if key not in _COMMON})
