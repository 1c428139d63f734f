"""A session of a coding agent, whoever wrote it: prompts, the replies to each, and the calls of tools in these.

`Conversation` builds it from what a file says line by line. Nothing of a file is trusted: times that run back, results
without calls and calls without results are all there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ensemble_notebook.domain.definitions.enums import ToolOutcome
from ensemble_notebook.domain.outputs.conversation import ChatMessage, ToolCall
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.wording import pluralize

_JITTER: Final = timedelta(seconds=1)
"""Lines that are written at the same time are mixed up by less."""


@dataclass(slots=True)
class Failure:
    """A request, or a reply, that failed."""

    name: str
    message: str
    at: datetime
    http_status: int | None = None
    delay_s: float | None = None
    """Until it was tried again; None: it was not."""


@dataclass(slots=True)
class Call:
    """A call of a tool. It has no outcome where nothing tells of its end."""

    id: str
    name: str
    arguments: object
    started_at: datetime
    ended_at: datetime | None = None
    result: str = ""
    outcome: ToolOutcome | None = None
    was_interrupted: bool = False
    work: list[Prompt] = field(default_factory=list)
    """What a sub-agent did in it."""


@dataclass(slots=True)
class Reply:
    """What a model replied, with the requests for it that failed before."""

    model: str
    started_at: datetime
    ended_at: datetime
    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    usage: TokenUsage = field(default_factory=TokenUsage)
    finish_reason: str | None = None
    failures: list[Failure] = field(default_factory=list)
    error: Failure | None = None
    """It failed with this for good."""
    told: str = ""
    """What the model was told before it, beside prompts and results."""


@dataclass(slots=True)
class Prompt:
    """What a person, or another agent, asked, and all that was done for it."""

    agent: str
    text: str
    started_at: datetime
    ended_at: datetime
    title: str = ""
    replies: list[Reply] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def calls(self) -> list[Call]:
        """The calls of all its replies."""
        return [call for reply in self.replies for call in reply.calls]


@dataclass(slots=True)
class Note:
    """What is no part of the conversation, as text."""

    at: datetime
    text: str
    is_warning: bool = False


@dataclass(slots=True)
class Session:
    """A session as a whole.

    Attributes:
        opened_at: the time of its first line that has one.
        earlier: what its file repeats of an older session, which counts there.
        beside: what sub-agents did that went on after the call which began it, or whose call is not known.
    """

    run_id: str
    name: str | None
    provider: str | None
    inputs: dict[str, str]
    opened_at: datetime
    system_prompt: str = ""
    prompts: list[Prompt] = field(default_factory=list)
    beside: list[Prompt] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    earlier: tuple[ChatMessage, ...] = ()
    context_window: int | None = None


class Conversation:
    """The conversation of one agent, built in the order of its file.

    Args:
        agent: who it is, as views call it.

    Attributes:
        prompts: as far as they have come.
        calls: all calls of tools, by id.
        notes: what is no part of it.
    """

    def __init__(self, agent: str) -> None:
        self.agent = str(agent)
        self.prompts: list[Prompt] = []
        self.calls: dict[str, Call] = {}
        self.notes: list[Note] = []
        self._told: list[str] = []
        self._failures: list[Failure] = []
        self._now: datetime | None = None
        self._input_at: datetime | None = None
        self._late = 0

    def move_to(self, moment: datetime) -> datetime:
        """The time of the next line: as it says, but never before the line above."""
        if self._now is not None and moment < self._now:
            self._late += self._now - moment > _JITTER
            return self._now
        self._now = moment
        return moment

    def ask(self, text: str, at: datetime, title: str = "") -> None:
        """A person asks something. What follows on a prompt without a reply in between is of the same."""
        last = self.prompts[-1] if self.prompts else None
        if last is not None and not last.replies and not last.was_interrupted:
            last.text = "\n\n".join(filter(None, [last.text, text]))
            last.title = title or last.title
            last.ended_at = at
        else:
            self.prompts.append(Prompt(self.agent, text, at, at, title=title))
        self._input_at = at

    def tell(self, text: str, at: datetime) -> None:
        """The model is told something that nobody asked: a reminder, a summary, the output of a hook."""
        if self.prompts and self.prompts[-1].replies:
            self._told.append(text)
        else:
            self.ask(text, at)

    def add_failure(self, failure: Failure) -> None:
        """A request failed, and is made again."""
        self._failures.append(failure)

    def begin_reply(self, model: str, at: datetime) -> Reply:
        """A model begins to reply; the time since the last input is its, or since the reply before it."""
        if not self.prompts:
            self.ask("", at)
        since = max([self._input_at or at, *(each.ended_at for each in self.prompts[-1].replies[-1:])])
        started = min(since, *(each.at for each in self._failures), at)
        reply = Reply(model, max(started, self.prompts[-1].started_at), at)
        reply.told, self._told = "\n\n".join(self._told), []
        reply.failures, self._failures = self._failures, []
        self.prompts[-1].replies.append(reply)
        return reply

    def add_call(self, reply: Reply, call: Call) -> None:
        """A reply asks for a tool."""
        reply.calls.append(call)
        self.calls.setdefault(call.id, call)

    def end_call(self, call_id: str, result: str, outcome: ToolOutcome | None, at: datetime) -> Call | None:
        """The result of a call. One without a call is noted; gives the call."""
        call = self.calls.get(call_id)
        if call is None or call.ended_at is not None:
            what = "A result of a call that is not here" if call is None else f"A second result of {call.name}"
            self.notes.append(Note(at, f"{what} ({call_id}): {result}"))
            return None
        call.ended_at, call.result, call.outcome = at, result, outcome
        self._input_at = at
        return call

    def interrupt(self, at: datetime) -> None:
        """A person stops what is being done."""
        if self.prompts:
            self.prompts[-1].was_interrupted = True
            self.prompts[-1].ended_at = at

    def finish(self) -> None:
        """There are no more lines: what was told to nobody, and failed for good, and how the times ran."""
        at = self._now
        if at is None:
            return
        self.notes += [Note(at, each) for each in self._told]
        if self._failures:
            last = self._failures.pop()
            self.begin_reply("unknown", at).error = last
        if self._late:
            lines = pluralize(self._late, "line")
            self.notes.append(Note(at, f"{lines} of {self.agent} told of a time before the line above.", True))


def flatten(prompts: Sequence[Prompt]) -> tuple[ChatMessage, ...]:
    """The messages of prompts, as another session goes on with them."""
    messages: list[ChatMessage] = []
    for prompt in prompts:
        messages.append(ChatMessage(role="user", text=prompt.text))
        for reply in prompt.replies:
            calls = tuple(make_tool_call(each) for each in reply.calls)
            messages += [ChatMessage(role="user", text=reply.told)] if reply.told else []
            messages.append(ChatMessage(role="assistant", text=reply.text, tool_calls=calls))
            messages += [
                ChatMessage(role="tool", text=each.result, tool_call_id=each.id, name=each.name) for each in reply.calls
            ]
    return tuple(messages)


def make_tool_call(call: Call) -> ToolCall:
    """A call as the reply that asks for it has it."""
    return ToolCall(id=call.id, name=call.name, arguments=call.arguments)
