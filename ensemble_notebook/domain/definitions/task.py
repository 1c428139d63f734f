"""The task: what is to be done (E2), and the guardrails that look at it (E18)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast, overload

from ensemble_notebook.domain.definitions.agent import Agent, Llm, find_llm_fault, normalize_tools
from ensemble_notebook.domain.definitions.condition import (
    AnyCondition,
    Condition,
    ConditionSource,
    normalize_conditions,
)
from ensemble_notebook.domain.definitions.definition import Converted, converted, definition, shown
from ensemble_notebook.domain.definitions.enums import ReuseMode, ReuseModeName, ReviewTiming
from ensemble_notebook.domain.definitions.item_list import Items, NoListError, describe_count, list_items
from ensemble_notebook.domain.definitions.limits import AnyRateLimit, RateLimit, normalize_rate_limit
from ensemble_notebook.domain.definitions.nested_ensemble import (
    NestedEnsemble,
    describe_ensemble,
    is_ensemble,
    reads_context,
)
from ensemble_notebook.domain.definitions.output_type import describe_output_type, normalize_output_type
from ensemble_notebook.domain.definitions.review import AnyReview, Review, normalize_reviews
from ensemble_notebook.domain.definitions.run_context import give_context
from ensemble_notebook.domain.definitions.templates import TextOfPrompt, find_input_name, normalize_inputs
from ensemble_notebook.domain.definitions.tool import (
    Handler,
    TaskInput,
    Tool,
    ToolSource,
    is_agent_tool,
    is_langchain_tool,
    list_tool_names,
)
from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.outputs.task_output import TaskOutput


def find_other_signature(function: Callable[..., Any]) -> str | None:
    """The signature of a function that can't be called with one argument; None where it can, or does not tell."""
    if _plainly_takes_one(function):
        return None
    try:
        signature = inspect.signature(give_context(function))
    except (TypeError, ValueError):
        return None  # Some builtins don't tell.
    try:
        signature.bind(None)
    except TypeError:
        return str(signature)
    return None


def _plainly_takes_one(function: Callable[..., Any]) -> bool:
    """True for most that do: the whole question takes as long as all else that is checked of a task.

    Not for one with attributes, which may name another signature.
    """
    if type(function) is not FunctionType or vars(function):
        return False
    code = function.__code__
    return code.co_argcount - len(function.__defaults__ or ()) <= 1 <= code.co_argcount and not code.co_kwonlyargcount


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GuardrailResult(Record):
    """What a guardrail may return if None, True or a text is not clear enough.

    Attributes:
        is_success: False stops the task.
        message: the reason, for the user and the trace.
    """

    is_success: bool
    message: str = ""

    @classmethod
    def success(cls) -> GuardrailResult:
        """Let it pass."""
        return cls(is_success=True)

    @classmethod
    def failure(cls, message: str) -> GuardrailResult:
        """Stop the task.

        Args:
            message: the reason.
        """
        return cls(is_success=False, message=message)


GuardrailAnswer = GuardrailResult | str | bool | None
# What a guardrail, plain or async, may return: None or True lets the task go on, a text is an objection.
GuardrailReturn = GuardrailAnswer | Awaitable[GuardrailAnswer]


STOCK_EXPECTED_OUTPUT: Final = "A clear, complete answer to the task."


def _join_function_names(functions: Sequence[Any]) -> str:
    return ", ".join(getattr(each, "__name__", type(each).__name__) for each in functions)


_RETRIES: Final = ("max_retries", "max_retry_wait")
_WHY_NOT: Final = {
    "prompt": "no model is sent one for it, since the ensemble's tasks have their own.",
    "handler": "the one or the other does it.",
    "output_type": "its output is that of the ensemble's final task, which may have a type.",
    "max_retries": "its tasks have retries of their own.",
    "max_retry_wait": "its tasks have retries of their own.",
}

InputGuardrail = Callable[[TaskInput], GuardrailReturn]
OutputGuardrail = Callable[[TaskOutput], GuardrailReturn]


class SharedTaskFields(TypedDict, total=False):
    """The fields of a `Task` beside description, expected output, prompt and ensemble.

    Python has no way to say "the keywords of that constructor, but for four", so they are listed again for type
    checkers and editors; a test holds both lists together.
    """

    agent: Agent | None
    context: Sequence[Task | str] | Task | str
    name: str | None
    handler: Handler | None
    inputs: Mapping[str, Any]
    llm: Llm | None
    tools: object
    timeout: float | None
    output_type: type[Any] | Mapping[str, Any] | None
    max_output_retries: int
    max_retries: int | None
    max_retry_wait: float | None
    max_guardrail_retries: int
    when: Sequence[AnyCondition] | AnyCondition | None
    fallback: Agent | Mapping[str, Any] | None
    input_guardrails: Sequence[InputGuardrail] | InputGuardrail
    output_guardrails: Sequence[OutputGuardrail] | OutputGuardrail
    review: Sequence[AnyReview] | AnyReview | None
    memory: Sequence[str] | str
    history: str | None
    rate_limit: AnyRateLimit | None
    reuse: ReuseModeName | ReuseMode
    for_each: Task | str | Sized | None
    max_items: int


class TaskFields(SharedTaskFields, total=False):
    """The fields of a `Task` beside description and expected output, as `Task.of` takes them."""

    prompt: str | None
    ensemble: NestedEnsemble | None


@definition
class Task(ConditionSource):
    """A piece of work, done by an agent, by a function, or by another ensemble.

    Tasks are compared by identity: two tasks with equal fields are two tasks. ::

        facts = Task(description="List facts about {topic}", expected_output="Five bullet points", agent=researcher)
        brief = Task.of("Write a brief", context=[facts], output_type=Brief)

    Args:
        description: what to do; ``{name}`` is a template variable.
        expected_output: what the result should look like; may have template variables, too. Left out, it is a stock
            sentence.
        prompt: stands in place of the whole user prompt, with places for what is not known yet: ``{context}`` or
            ``{context.NAME}``, ``{output_format}``, ``{memory}``, ``{revision}``, ``{previous}``, ``{item}``.
            Beside it `description` may be left out.
        agent: who does it; None: an agent is derived from the description.
        context: tasks, or names of tasks, whose outputs this one reads, or a single one. It starts once they have
            completed.
        name: unique in the ensemble; None: made from role and position.
        handler: a tool, or a plain or async function ``(TaskInput) -> str | ToolResult | object``, that does the task
            without a model. Excludes `agent`, `llm` and `tools`.
        ensemble: an `Ensemble` that does the task. `description` may then be left out.
        inputs: inputs of that ensemble. Texts may have template variables of this run, and ``{context}`` for the
            outputs that the task reads.
        llm: replaces the agent's model.
        tools: added to the agent's tools; one, or a list.
        timeout: seconds for the whole task; None: no limit.
        output_type: a pydantic model, dataclass, TypedDict or JSON schema that the reply must match, or fields with
            types such as ``{"title": "str", "score": "int?", "tags": ["str"]}``; None: any text.
        max_output_retries: how often the model is asked to correct a reply that does not match.
        when: a `Condition`, a mapping such as ``{"triage": {"contains": "urgent"}}`` or ``{"triage": "default"}``, or
            a list of them; the task runs if any holds.
        fallback: an agent, or a mapping of its fields, that takes over once the task's own agent has finally failed.
        input_guardrails: functions of `TaskInput` that may stop the task before it starts.
        output_guardrails: functions of `TaskOutput` that may reject the output.
        review: a `Review`, ``"before"``, ``"during"``, ``"after"``, a mapping of the fields of a review, or several
            with different `timing`; True is ``"after"``.
        memory: scopes of the memory that are read before the task and written after it.
        history: how much of an earlier conversation its model is sent, in place of the agent's `history`.
        rate_limit: limits the model requests of this task: a `RateLimit`, ``"60/min"``, or a mapping of its fields;
            None: no limit of its own.
        max_retries: replaces the agent's `max_retries`. With a handler: how often it is retried after an exception
            other than an `EnsembleError`; None: never.
        max_retry_wait: the most seconds that are waited before a retry, in place of the agent's `max_retry_wait`.
        max_guardrail_retries: how often an output guardrail's objection is sent back to the agent before the task
            fails.
        reuse: ``"auto"``, or ``"never"`` for a task with side effects, which then runs even where a run reuses outputs.
        for_each: runs the task once per item, concurrently, with ``{item}`` and ``{item.field}`` in its texts. The
            items are a list, Series or DataFrame (kept as `Items`), the output of a task (the task or its name), or an
            input (``"{name}"``). See docs/contract/engine.md#e53-for-each.
        max_items: the most items; a longer list is an error.

    Raises:
        ValidationError: a field has a wrong value. Names the field, the value, and what was expected.
    """

    description: str
    expected_output: str = STOCK_EXPECTED_OUTPUT
    prompt: str | None = None
    agent: Agent | None = None
    context: Converted[tuple[Task | str, ...], Sequence[Task | str] | Task | str] = converted(default=())
    name: str | None = None
    handler: Handler | None = None
    ensemble: NestedEnsemble | None = field(default=None, metadata=shown(describe_ensemble))
    inputs: Mapping[str, Any] = field(default_factory=dict)
    llm: Llm | None = None
    tools: Converted[tuple[object, ...], object] = converted(default=())
    timeout: float | None = field(default=None, metadata=shown("{:g} s".format))

    output_type: type[Any] | Mapping[str, Any] | None = field(default=None, metadata=shown(describe_output_type))
    max_output_retries: int = field(default=3, metadata=shown())
    when: Converted[tuple[Condition, ...], Sequence[AnyCondition] | AnyCondition | None] = converted(default=None)
    fallback: Converted[Agent | None, Agent | Mapping[str, Any] | None] = converted(
        default=None, metadata=shown(lambda agent: agent.role)
    )
    input_guardrails: Converted[tuple[InputGuardrail, ...], Sequence[InputGuardrail] | InputGuardrail] = converted(
        default=(), metadata=shown(_join_function_names)
    )
    output_guardrails: Converted[tuple[OutputGuardrail, ...], Sequence[OutputGuardrail] | OutputGuardrail] = converted(
        default=(), metadata=shown(_join_function_names)
    )
    review: Converted[tuple[Review, ...], Sequence[AnyReview] | AnyReview | None] = converted(
        default=None, metadata=shown(lambda reviews: ", ".join(each.timing.value for each in reviews))
    )
    memory: Converted[tuple[str, ...], Sequence[str] | str] = converted(default=(), metadata=shown(", ".join))
    history: str | None = field(default=None, metadata=shown())
    rate_limit: Converted[RateLimit | None, AnyRateLimit | None] = converted(
        default=None, metadata=shown(RateLimit.describe)
    )
    max_retries: int | None = field(default=None, metadata=shown())
    max_retry_wait: float | None = field(default=None, metadata=shown("{:g} s".format))
    max_guardrail_retries: int = field(default=0, metadata=shown())
    reuse: Converted[ReuseMode, ReuseModeName | ReuseMode] = converted(
        default=ReuseMode.AUTO, metadata=shown(lambda mode: mode.value)
    )
    for_each: Converted[Task | str | Items | None, Task | str | Sized | None] = converted(default=None)
    max_items: int = field(default=1000, metadata=shown())

    if TYPE_CHECKING:  # a task with a prompt or an ensemble needs no description, and a dataclass can't say so

        @overload
        def __init__(self, *, description: str, expected_output: str = ..., **fields: Unpack[TaskFields]) -> None: ...
        @overload
        def __init__(
            self,
            *,
            prompt: str,
            description: str = ...,
            expected_output: str = ...,
            **fields: Unpack[SharedTaskFields],
        ) -> None: ...
        @overload
        def __init__(
            self,
            *,
            ensemble: NestedEnsemble,
            description: str = ...,
            expected_output: str = ...,
            **fields: Unpack[SharedTaskFields],
        ) -> None: ...
        def __init__(self, **fields: Any) -> None: ...

    @classmethod
    def of(
        cls, description: str, /, expected_output: str = STOCK_EXPECTED_OUTPUT, **fields: Unpack[TaskFields]
    ) -> Task:
        """Make a task, its description first: ``Task.of("Write a haiku about {topic}")``.

        Args:
            description: what to do.
            expected_output: what the result should look like.
            **fields: all other fields of a `Task`.
        """
        return cls(description=description, expected_output=expected_output, **fields)

    @classmethod
    def _complete_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in the description of a task with a prompt or an ensemble if `values` has none."""
        if isinstance(values.get("prompt"), str):
            values = {"description": TextOfPrompt.of(values["prompt"]), **values}
        if is_ensemble(values.get("ensemble")):
            ensemble = values["ensemble"]
            name = describe_ensemble(ensemble)
            description = f"Run the ensemble {name}" if ensemble.name else f"Run an ensemble of {name}"
            values = {"description": description, **values}
        return values

    def __post_init__(self) -> None:
        """Check one task by itself."""
        self._check_prompt()
        self._require_text("description")
        self._require_text("expected_output")
        agent: Any = self.agent
        if agent is not None and not isinstance(agent, Agent):
            named = " Pass the Agent itself, not its role." if isinstance(agent, str) else ""
            raise self._refuse("agent", f"Task agent must be an Agent, got {type(agent).__name__}.{named}")
        self._check_context()
        self._check_optional_text("name")
        if self.name is not None and not self.name.strip():
            raise self._refuse("name", "Task name must not be blank. Leave it out to get one.")
        self._require_whole_characters("name", self.name)
        if self.llm is not None and (wrong := find_llm_fault(self.llm)):
            raise self._refuse("llm", f"Task llm {wrong}.")
        self._check_handler()
        self._check_ensemble()
        normalize_tools(self)
        self._check_optional_seconds("timeout")
        self._require_integer("max_output_retries", least=0)
        normalize_output_type(self)
        normalize_conditions(self)
        self._make_part("fallback", Agent, "an Agent, or a mapping such as {'role': 'Editor', 'goal': 'Check facts'}")
        self._make_functions("input_guardrails", "(TaskInput) -> None | str")
        self._make_functions("output_guardrails", "(TaskOutput) -> None | str")
        self._check_review()
        self._make_tuple("memory", str)
        for index, scope in enumerate(cast("Sequence[Any]", self.memory)):
            if not isinstance(scope, str) or not scope.strip():
                raise self._refuse("memory", f"Task memory takes names of scopes, got {scope!r}.", item=index)
            self._require_whole_characters("memory", scope, item=index)
        self._set("memory", tuple(dict.fromkeys(self.memory)))
        self._check_history()
        normalize_rate_limit(self)
        if self.max_retries is not None:
            self._require_integer("max_retries", least=0)
        self._check_optional_seconds("max_retry_wait")
        self._require_integer("max_guardrail_retries", least=0)
        if self.max_guardrail_retries and not self.has_agent:
            who = "a handler" if self.ensemble is None else "an ensemble"
            message = f"Task max_guardrail_retries sends objections back to an agent, and {who} can't be told any."
            raise self._refuse("max_guardrail_retries", f"{message} Leave it out.")
        self._make_enum("reuse", ReuseMode)
        self._require_integer("max_items", least=1)
        self._check_for_each()

    def _check_prompt(self) -> None:
        """The prompt, and the description that is made of it, also in a copy with another prompt."""
        is_made = isinstance(self.description, TextOfPrompt)
        if self.prompt is None:
            if is_made:
                raise self._refuse("description", "Task needs a description, or a prompt.")
            return
        self._require_text("prompt")
        if is_made:
            self._set("description", TextOfPrompt.of(self.prompt))

    def _check_for_each(self) -> None:
        """Keep given items as `Items`; whether others are there and how many is known later."""
        source: Any = self.for_each
        if source is None or isinstance(source, Task):
            return
        if isinstance(source, str):
            if not source.strip():
                raise self._refuse("for_each", "Task for_each must not be blank.")
            if source == self.name:
                raise self._refuse("for_each", f"Task {self.name!r} can't run for each item of itself.")
            if find_input_name(source) is None and "{" in source:
                raise self._refuse("for_each", f'Task for_each takes one input, "{{name}}", got {source!r}.')
            return
        try:
            items = list_items(source) if not isinstance(source, Mapping) else None
        except NoListError as error:
            raise self._refuse("for_each", f"Task for_each {error}.") from None
        if items is None:
            message = "Task for_each is a mapping, which has no order of items: give the list of its values or pairs."
            raise self._refuse("for_each", message)
        if len(items) > self.max_items:
            message = f"Task for_each has {describe_count(len(items))}, and max_items is {self.max_items:,}: raise it."
            raise self._refuse("for_each", message)
        self._set("for_each", items)

    def _check_review(self) -> None:
        normalize_reviews(self)
        timings = set()
        for index, each in enumerate(self.review):
            if each.timing is ReviewTiming.DURING and not self.has_agent:
                who = "a handler makes none" if self.ensemble is None else "an ensemble sees to its own"
                message = f"Task review 'during' asks before tool calls, and {who}: use before or after."
                raise self._refuse("review", message, item=index)
            if each.timing in timings:
                raise self._refuse("review", f"Task review has two gates {each.timing.value!r}. Keep one.", item=index)
            timings.add(each.timing)

    def _check_context(self) -> None:
        self._make_tuple("context", Task, str)
        for index, each in enumerate(self.context):
            if not isinstance(each, Task | str):
                raise self._refuse(
                    "context", f"Task context takes tasks or their names, got {type(each).__name__}.", item=index
                )
            if isinstance(each, str) and each == self.name:
                raise self._refuse("context", f"Task {self.name!r} can't read its own output.", item=index)

    @property
    def has_agent(self) -> bool:
        """Whether an agent does it, and neither a handler nor an ensemble."""
        return self.handler is None and self.ensemble is None

    def _check_ensemble(self) -> None:
        if self.ensemble is None and isinstance(self.inputs, Mapping):
            if self.inputs:
                message = "Task inputs are for its ensemble, and it has none. Those of a run stand in the ensemble."
                raise self._refuse("inputs", message)
            return
        normalize_inputs(self)
        if not is_ensemble(self.ensemble):
            raise self._refuse("ensemble", f"Task ensemble must be an Ensemble, got {type(self.ensemble).__name__}.")
        for name in ("prompt", "agent", "handler", "llm", "tools", "rate_limit", "output_type", *_RETRIES):
            if getattr(self, name) not in (None, ()):
                why = _WHY_NOT.get(name, "the ensemble has its own.")
                raise self._refuse(name, f"A task has an ensemble or {name}, not both: {why}")

    @property
    def reads_context_as_input(self) -> bool:
        """Whether what it reads goes to its ensemble, as ``{context}`` in its inputs."""
        return reads_context(self.inputs)

    def _check_handler(self) -> None:
        if self.handler is None:
            return
        handler: Any = self.handler
        if isinstance(handler, Tool):
            message = (
                f"A reviewed tool can't be a handler. Take handler={handler.name} with review='before' on the task."
            )
            raise self._refuse("handler", message)
        if callable(handler) and not is_langchain_tool(handler) and not is_agent_tool(handler):
            self._refuse_foreign_context("handler", handler)
            if (other := find_other_signature(handler)) is not None:
                message = f"Task handler must take one argument, a TaskInput; this one takes {other}."
                raise self._refuse("handler", message)
        else:
            kind, names = type(handler).__name__, list_tool_names(handler)
            if names is None:
                raise self._refuse("handler", f"Task handler must be a function or a tool, got {kind}.")
            if isinstance(handler, ToolSource):
                message = f"Task handler must be one tool, and {handler.label} has its tools for agents: tools=[...]."
                raise self._refuse("handler", message)
            if len(names) > 1:
                message = f"Task handler must be one tool, but {kind} holds several: {', '.join(names)}."
                raise self._refuse("handler", f"{message} Pass one of them.")
        for name in ("prompt", "agent", "llm", "tools", "rate_limit"):
            if getattr(self, name) not in (None, ()):
                message = f"A task has a handler or {name}, not both: the handler runs instead of an agent."
                raise self._refuse(name, message)

    def __repr__(self) -> str:
        """Name and the start of the description."""
        label = f"{self.name}: " if self.name else ""
        return f"Task({label}{self.description[:60]!r})"
