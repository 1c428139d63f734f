"""Agents played by functions, in virtual time: whole runs of the engine without any model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewRequest
from ensemble_notebook.domain.events import Event
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.seams.chat_port import Fault, ModelReply, ToolAnswer, ToolSpec
from ensemble_notebook.engine.run.run_result import RunResult
from tests.support.drive import drive


@dataclass
class Scene:
    """What an actor sees when it is asked: its prompts, its tools, and what its tool calls were answered so far."""

    system: str
    user: str
    tools: tuple[ToolSpec, ...]
    schema: Mapping[str, Any] | None
    answers: list[str] = field(default_factory=list)
    turn: int = 0


Play = Callable[[Scene], Any]
"""Says a text, asks for tool calls (a list of ``(name, arguments)``), or an exception; may be async."""


class Conversation:
    def __init__(self, play: Play, scene: Scene) -> None:
        self._play = play
        self._scene = scene

    def add_tool_result(self, call: ToolCall, text: str) -> None:
        self._scene.answers.append(text)

    def add_user_message(self, text: str) -> None:
        self._scene.user = text

    def add_reply(self, reply: ModelReply) -> None:
        self._scene.turn += 1

    def take_kept_reply(self) -> None: ...

    async def run_tool(self, call: ToolCall, run: Callable[[], Awaitable[ToolAnswer]]) -> ToolAnswer:
        return await run()

    def input_bound(self) -> int:
        return 1

    async def reply(
        self, on_token: Any = None, *, max_tokens: int | None = None, check_sending: Any = None
    ) -> ModelReply:
        said = self._play(self._scene)
        if inspect.isawaitable(said):
            said = await said
        self._scene.turn += 1
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, str):
            return ModelReply(text=said)
        calls = [
            ToolCall(id=f"{self._scene.turn}.{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(said)
        ]
        return ModelReply(text="", tool_calls=tuple(calls))


class Actor:
    """A port: one actor, ready to play."""

    provider = None
    is_scripted = True
    has_tool_support = True
    max_tokens = 10
    context_window = None
    warning = None
    places = None
    refused_kinds = ()

    def __init__(self, name: str, play: Play, *, has_schema_support: bool) -> None:
        self.name = name
        self.has_schema_support = has_schema_support
        self._play = play

    def open(self, system: str, user: str, tools: Any = (), schema: Any = None) -> Conversation:
        return Conversation(self._play, Scene(system, user, tuple(tools), schema))

    def classify(self, error: Exception) -> Fault:
        return Fault(reason=type(error).__name__, is_transient=False)


class Cast:
    """A source: actors by the name that agents have for `llm`."""

    def __init__(self, plays: Mapping[str, Play], *, has_schema_support: bool = False) -> None:
        self._plays = plays
        self._has_schema_support = has_schema_support

    def check(self, llm: Any) -> None: ...

    warnings = ()
    has_reviews = False

    async def review(self, request: ReviewRequest, ask: Callable[[], Awaitable[ReviewAnswer]]) -> ReviewAnswer:
        return await ask()

    async def prepare(self, llm: Any, notice: Callable[[str], None]) -> Actor:
        return Actor(llm, self._plays[llm], has_schema_support=self._has_schema_support)


def perform(
    made: EnsembleDefinition,
    plays: Mapping[str, Play],
    *,
    stop_after: float | None = None,
    has_schema_support: bool = False,
    **order: Any,
) -> tuple[RunResult, list[Event]]:
    """A whole run in virtual time, stopped after so many seconds."""
    return drive(made, stop_after, source=Cast(plays, has_schema_support=has_schema_support), **order)
