"""What somebody wants to be different at the span at which a run is forked (F2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.conversation import Messages, ToolCall, read_prompted
from ensemble_notebook.domain.seams.chat_port import ModelReply, ToolAnswer
from ensemble_notebook.domain.seams.event import Listener
from ensemble_notebook.engine.agent.toolbox import to_answer
from ensemble_notebook.ensemble.run_settings import Inputs, RunArguments, read_run
from ensemble_notebook.errors import ValidationError, did_you_mean

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall
    from ensemble_notebook.models.recording.resumer import ForkPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReply:
    """A reply of a rerun, in place of that of the run.

    Attributes:
        text: what it says.
        calls: the tools that it asks for.
        came_of: what was different where it was asked for.
    """

    text: str
    calls: Sequence[ToolCall] = ()
    came_of: Sequence[ChangedCall] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkChange:
    """What is different at the point of a fork.

    Attributes:
        reply: of the model, in place of its own.
        answer: of the tool, likewise.
        output: of the task, likewise.
        system_prompt, user_prompt: in place of those of the call.
        messages: in place of all that the model was told.
        llm: who is asked.
        parameters: of the model, beside those that it has.
        names: the arguments that say so, in order.
        came_of: where the reply is kept of a rerun, what was different there.
    """

    reply: ModelReply | None = None
    answer: ToolAnswer | None = None
    output: Any = None
    system_prompt: str | None = None
    user_prompt: str | None = None
    messages: Messages | None = None
    llm: Any = None
    parameters: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()
    came_of: Sequence[ChangedCall] = ()

    @property
    def has_output(self) -> bool:
        """Whether the output of a task is given."""
        return self.output is not None

    @property
    def is_of_call(self) -> bool:
        """Whether it is about a model call."""
        return bool({*self.names} - {"tool_result", "output"}) and {"tool_result", "output"}.isdisjoint(self.names)

    @property
    def model(self) -> dict[str, Any]:
        """Who is asked and with which parameters, as far as that is given, by the names of the arguments."""
        return {name: value for name in ("llm", "parameters") if (value := getattr(self, name)) is not None}

    def describe(self) -> str:
        """The arguments, for people."""
        return " and ".join(f"{name}=" for name in self.names) or "a fork without a change"

    def make_point(self, *, exchange: int | None, call_id: str | None, task: str, llm: Any) -> ForkPoint:
        """The point of this change in what models and tools have answered.

        Args:
            exchange: as of a `ForkPoint`.
            call_id: likewise.
            task: likewise.
            llm: the agent's model, whose parameters may be others.
        """
        from ensemble_notebook.models.recording.resumer import ForkPoint

        system, messages = self.system_prompt, self.messages
        if messages:  # they are all: without a system prompt among them there is none
            is_told = messages[0].role == "system"
            system, messages = (messages[0].text, messages[1:]) if is_told else ("", messages)
        return ForkPoint(
            exchange=exchange,
            call_id=call_id,
            task=task,
            reply=self.reply,
            answer=self.answer,
            llm=self.llm if self.parameters is None else set_parameters(self.llm or llm, self.parameters),
            system=system,
            user=self.user_prompt,
            messages=messages,
        )


class ForkArguments(NamedTuple):
    """What somebody has called a door of a fork with.

    Attributes:
        run: to fork.
        span: at which.
        change: what is different there.
        of_run: inputs and settings of the run that goes on from there.
    """

    run: Any
    span: Any
    change: ForkChange
    of_run: RunArguments


_BY_ITSELF: Final = ("resume", "redo", "anyway", "reuse", "record", "replay", "replay_tools", "continue_from", "only")


def read_fork(
    run: Any,
    span: Any,
    *,
    reply: Any = None,
    tool_result: Any = None,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
    messages: Sequence[Any] | None = None,
    llm: Any = None,
    parameters: Mapping[str, Any] | None = None,
    output: Any = None,
    until: Task | str | None = None,
    inputs: Inputs = None,
    timeout: float | None = None,
    history: str | None = None,
    deps: object = None,
    listeners: Sequence[Listener] = (),
    review_handler: ReviewHandler | None = None,
    **variables: Any,
) -> ForkArguments:
    """Read the arguments of a door.

    Raises:
        ValidationError: things are given that don't go together, or one has a wrong value.
    """
    if name := next((each for each in _BY_ITSELF if each in variables), None):
        use = " Use until= for a task up to which it goes." if name == "only" else ""
        raise ValidationError(f"{name} does not go with a fork, which goes on with a run by itself.{use}")
    if not isinstance(until, Task | str | None):
        raise ValidationError(f"until must be a task or its name, got {until!r}.")
    change = read_change(
        reply=reply,
        tool_result=tool_result,
        output=output,
        system_prompt=system_prompt,
        user_prompt=user_prompt,
        messages=messages,
        llm=llm,
        parameters=parameters,
    )
    of_run = read_run(
        inputs,
        timeout=timeout,
        only=until,
        history=history,
        deps=deps,
        listeners=listeners,
        review_handler=review_handler,
        **variables,
    )
    return ForkArguments(run, span, change, of_run)


def read_change(
    *,
    reply: Any = None,
    tool_result: Any = None,
    output: Any = None,
    system_prompt: str | None = None,
    user_prompt: str | None = None,
    messages: Sequence[Any] | None = None,
    llm: Any = None,
    parameters: Mapping[str, Any] | None = None,
) -> ForkChange:
    """Read what is different at the point.

    Raises:
        ValidationError: things are given that don't go together, or one has a wrong value.
    """
    given = dict(locals())
    names = tuple(name for name, value in given.items() if value is not None)
    alone = [name for name in names if name in ("reply", "tool_result", "output")]
    others = [name for name in names if name not in alone and name != "llm"]
    if len(alone) > 1 or (alone and others):
        other = (*alone[1:], *others)[0]
        raise ValidationError(f"{alone[0]}= stands in place of what comes of the call: leave out {other}=.")
    if "messages" in names and not {"system_prompt", "user_prompt"}.isdisjoint(names):
        raise ValidationError("messages= is all that the model is told: leave out system_prompt= and user_prompt=.")
    for name in ("system_prompt", "user_prompt"):
        if not isinstance(given[name], str | None):
            raise ValidationError(f"{name} must be a text, got {type(given[name]).__name__}.")
    if not isinstance(parameters, Mapping | None):
        raise ValidationError(f"parameters must be a mapping such as {{'temperature': 0}}, got {parameters!r}.")
    reply, result, messages = given.pop("reply"), given.pop("tool_result"), given.pop("messages")
    try:
        told = None if messages is None else read_prompted(messages)
    except ValueError as error:
        raise ValidationError(f"messages: {error}") from None
    return ForkChange(
        reply=None if reply is None else _read_reply(reply),
        answer=None if result is None else to_answer("", result),
        messages=told,
        names=names,
        came_of=reply.came_of if isinstance(reply, KeptReply) else (),
        **given,
    )


def _read_reply(given: Any) -> ModelReply:
    """Read what a model is to say: a text, a `Reply`, or a message of LangChain.

    Raises:
        ValidationError: it is none of these.
    """
    if isinstance(given, str):
        return ModelReply(text=given)
    if isinstance(given, ModelReply):
        return given
    text, calls = getattr(given, "text", None), getattr(given, "calls", None)
    if isinstance(text, str) and isinstance(calls, Sequence):  # a `Reply`, whose module is that of a chat model
        return ModelReply(text=text, tool_calls=tuple(map(_read_call, range(len(calls)), calls)))
    content, calls = getattr(given, "content", None), getattr(given, "tool_calls", None)
    if content is None or calls is None:
        raise ValidationError(
            f"reply must be a text, Reply(calls=[...]) or a message of LangChain, got {type(given).__name__}."
        )
    text = content if isinstance(content, str) else getattr(given, "text", "")
    return ModelReply(
        text=text() if callable(text) else str(text), tool_calls=tuple(map(_read_call, range(len(calls)), calls))
    )


def _read_call(number: int, given: Any) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    name, arguments, call_id = getattr(given, "name", None), getattr(given, "arguments", {}), f"call_fork_{number + 1}"
    if isinstance(given, Mapping):
        name, arguments = given.get("name"), given.get("arguments", given.get("args", {}))
        call_id = given.get("id") or call_id
    elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        name, arguments = given
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ValidationError(
            f"calls[{number}] must be a tool and its arguments, such as ToolUse('search', {{'query': 'tides'}}), or a "
            f"mapping with 'name' and 'arguments', got {given!r}."
        )
    return ToolCall(id=str(call_id), name=name, arguments=dict(arguments))


def set_parameters(llm: Any, parameters: Mapping[str, Any]) -> Any:
    """A model with other parameters.

    Raises:
        ValidationError: it has none of these names.
    """
    if "model" in parameters:
        raise ValidationError("Which model is asked, llm= says: leave out model=.")
    if isinstance(llm, str):
        return {"model": llm, **parameters}
    if isinstance(llm, Mapping):
        return {**llm, **parameters}
    fields = getattr(type(llm), "model_fields", {})
    if unknown := next((name for name in parameters if name not in fields), None):
        raise ValidationError(
            f"parameters: a {type(llm).__name__} has no {unknown!r}.{did_you_mean(str(unknown), tuple(fields))}"
        )
    return llm.model_copy(update=dict(parameters))
