"""The task: what is to be done (E2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypedDict, Unpack, cast

from ensemble_notebook.domain.definitions.agent import Agent, Llm, check_tools, find_llm_fault
from ensemble_notebook.domain.definitions.condition import Condition, ConditionSource, normalize_conditions
from ensemble_notebook.domain.definitions.definition import Converted, converted, definition, shown
from ensemble_notebook.domain.definitions.enums import ReviewTiming
from ensemble_notebook.domain.definitions.guardrail import GuardrailReturn
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.output_type import check_output_type, describe_output_type
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.tool import (
    Handler,
    TaskInput,
    is_agent_tool,
    is_langchain_tool,
    list_tool_names,
    name_retrievers,
)
from ensemble_notebook.domain.outputs.task_output import TaskOutput

STOCK_EXPECTED_OUTPUT: Final = "A clear, complete answer to the task."


def _join_function_names(functions: Sequence[Any]) -> str:
    return ", ".join(getattr(each, "__name__", type(each).__name__) for each in functions)


def _join_timings(reviews: Sequence[Review]) -> str:
    return ", ".join(each.timing.value for each in reviews)


InputGuardrail = Callable[[TaskInput], GuardrailReturn]
OutputGuardrail = Callable[[TaskOutput], GuardrailReturn]


class TaskFields(TypedDict, total=False):
    """The fields of a `Task` beside description and expected output, as `Task.of` takes them.

    Python has no way to say "the keywords of that constructor, but for two", so they are listed again for type checkers
    and editors; a test holds both lists together.
    """

    agent: Agent | None
    context: Sequence[Task | str]
    name: str | None
    handler: Handler | None
    llm: Llm | None
    tools: Sequence[object]
    timeout: float | None
    output_type: type[Any] | Mapping[str, Any] | None
    max_output_retries: int
    max_retries: int | None
    max_guardrail_retries: int
    when: Sequence[Condition] | Condition | None
    fallback: Agent | None
    input_guardrails: Sequence[InputGuardrail] | InputGuardrail
    output_guardrails: Sequence[OutputGuardrail] | OutputGuardrail
    review: Sequence[Review] | Review | None
    memory: Sequence[str]
    rate_limit: RateLimit | None


@definition
class Task(ConditionSource):
    """One piece of work, identified by identity: two equal tasks are two tasks.

    Fields: `description` and `expected_output` (not blank; ``{name}`` is a template variable), `agent` (None: one is
    derived from the description), `context` (tasks, or names of tasks, whose outputs it reads), `name` (unique in the
    ensemble; None: made from role and position), `handler` (a plain or async function ``(TaskInput) -> str |
    ToolResult | object``, or a tool, that runs instead of an agent and a model; excludes `agent`, `llm` and `tools`),
    `llm` (in place of the agent's), `tools` (beside the agent's), `timeout` (seconds for the whole task),
    `output_type` (a pydantic model, dataclass, TypedDict or JSON schema that the reply must fit), `max_output_retries`
    (corrections asked for until it does), `when` (a `Condition`, or a list of which any may hold), `fallback` (an
    agent that takes over once the own one has finally failed), `input_guardrails` and `output_guardrails` (functions
    that may stop the task), `review` (a `Review`, or several of different timing), `memory` (scopes that are read
    before and written after), `rate_limit` (of its model requests), `max_retries` (tries again after a transient
    failure of the model, in place of the agent's; of a handler after any exception but an `EnsembleError`, which
    without it is not tried again), `max_guardrail_retries` (how often the objection of an output guardrail goes back to
    the agent).

    Raises:
        ValidationError: names the field, the value, and what was expected.
    """

    description: str
    expected_output: str
    agent: Agent | None = None
    context: Sequence[Task | str] = ()
    name: str | None = None
    handler: Handler | None = None
    llm: Llm | None = None
    tools: Sequence[object] = ()
    timeout: float | None = field(default=None, metadata=shown("{:g} s".format))

    output_type: type[Any] | Mapping[str, Any] | None = field(default=None, metadata=shown(describe_output_type))
    max_output_retries: int = field(default=3, metadata=shown())
    when: Converted[tuple[Condition, ...], Sequence[Condition] | Condition | None] = converted(default=None)
    fallback: Agent | None = field(default=None, metadata=shown(lambda agent: agent.role))
    input_guardrails: Converted[tuple[InputGuardrail, ...], Sequence[InputGuardrail] | InputGuardrail] = converted(
        default=(), metadata=shown(_join_function_names)
    )
    output_guardrails: Converted[tuple[OutputGuardrail, ...], Sequence[OutputGuardrail] | OutputGuardrail] = converted(
        default=(), metadata=shown(_join_function_names)
    )
    review: Converted[tuple[Review, ...], Sequence[Review] | Review | None] = converted(
        default=None, metadata=shown(_join_timings)
    )
    memory: Sequence[str] = field(default=(), metadata=shown(", ".join))
    rate_limit: RateLimit | None = field(default=None, metadata=shown(RateLimit.describe))
    max_retries: int | None = field(default=None, metadata=shown())
    max_guardrail_retries: int = field(default=0, metadata=shown())

    @classmethod
    def of(
        cls, description: str, /, expected_output: str = STOCK_EXPECTED_OUTPUT, **fields: Unpack[TaskFields]
    ) -> Task:
        """A task with a stock expected output."""
        return cls(description=description, expected_output=expected_output, **fields)

    def __post_init__(self) -> None:
        """Check one task by itself."""
        self._require_text("description")
        self._require_text("expected_output")
        if self.agent is not None and not isinstance(self.agent, Agent):
            raise self._refuse("agent", f"Task agent must be an Agent, got {type(self.agent).__name__}.")
        self._check_context()
        self._check_optional_text("name")
        if self.name is not None and not self.name.strip():
            raise self._refuse("name", "Task name must not be blank. Leave it out to get one.")
        if self.llm is not None and (wrong := find_llm_fault(self.llm)):
            raise self._refuse("llm", f"Task llm {wrong}.")
        self._make_tuple("tools")
        self._set("tools", name_retrievers(self.tools))
        self._check_handler()
        check_tools(self, self.tools)
        self._check_optional_seconds("timeout")
        self._require_integer("max_output_retries", least=0)
        check_output_type(self)
        normalize_conditions(self)
        self._check_optional_type("fallback", Agent)
        self._make_functions("input_guardrails", "(TaskInput) -> None | str")
        self._make_functions("output_guardrails", "(TaskOutput) -> None | str")
        self._check_review()
        self._check_memory()
        self._check_optional_type("rate_limit", RateLimit)
        self._check_retries()

    def _check_review(self) -> None:
        review: Any = self.review
        self._set("review", () if review is None else (review,) if isinstance(review, Review) else review)
        self._make_tuple("review")
        timings = set()
        for index, each in enumerate(cast("Sequence[Any]", self.review)):
            if not isinstance(each, Review):
                message = f"Task review takes Review(timing=...), got {type(each).__name__}."
                raise self._refuse("review", message, item=index)
            if each.timing is ReviewTiming.DURING and self.handler is not None:
                message = "Task review 'during' asks before tool calls, and a handler makes none: use before or after."
                raise self._refuse("review", message, item=index)
            if each.timing in timings:
                raise self._refuse("review", f"Task review has two gates {each.timing.value!r}. Keep one.", item=index)
            timings.add(each.timing)

    def _check_retries(self) -> None:
        if self.max_retries is not None:
            self._require_integer("max_retries", least=0)
        self._require_integer("max_guardrail_retries", least=0)
        if self.max_guardrail_retries and self.handler is not None:
            message = "Task max_guardrail_retries sends objections back to an agent, and a handler can't be told any."
            raise self._refuse("max_guardrail_retries", f"{message} Leave it out.")

    def _check_memory(self) -> None:
        if isinstance(self.memory, str):
            self._set("memory", (self.memory,))
        self._make_tuple("memory")
        for index, scope in enumerate(cast("Sequence[Any]", self.memory)):
            if not isinstance(scope, str) or not scope.strip():
                raise self._refuse("memory", f"Task memory takes names of scopes, got {scope!r}.", item=index)
        self._set("memory", tuple(dict.fromkeys(self.memory)))

    def _check_context(self) -> None:
        self._make_tuple("context")
        for index, each in enumerate(self.context):
            if not isinstance(each, Task | str):
                raise self._refuse(
                    "context", f"Task context takes tasks or their names, got {type(each).__name__}.", item=index
                )
            if isinstance(each, str) and each == self.name:
                raise self._refuse("context", f"Task {self.name!r} can't read its own output.", item=index)

    def _check_handler(self) -> None:
        if self.handler is None:
            return
        if callable(self.handler) and not is_langchain_tool(self.handler) and not is_agent_tool(self.handler):
            self._check_arity(self.handler)
        else:
            self._check_handler_tool()
        for name, value in (
            ("agent", self.agent),
            ("llm", self.llm),
            ("tools", self.tools or None),
            ("rate_limit", self.rate_limit),
        ):
            if value is not None:
                message = f"A task has a handler or {name}, not both: the handler runs instead of an agent."
                raise self._refuse(name, message)

    def _check_arity(self, handler: Any) -> None:
        try:
            signature = inspect.signature(handler)
        except (TypeError, ValueError):
            return  # Some builtins don't tell.
        try:
            signature.bind(None)
        except TypeError:
            message = f"Task handler must take one argument, a TaskInput; this one takes {signature}."
            raise self._refuse("handler", message) from None

    def _check_handler_tool(self) -> None:
        kind, names = type(self.handler).__name__, list_tool_names(self.handler)
        if names is None:
            raise self._refuse("handler", f"Task handler must be a function or a tool, got {kind}.")
        if len(names) > 1:
            message = f"Task handler must be one tool, but {kind} holds several: {', '.join(names)}. Pass one of them."
            raise self._refuse("handler", message)

    def __repr__(self) -> str:
        """Name and the start of the description."""
        label = f"{self.name}: " if self.name else ""
        return f"Task({label}{self.description[:60]!r})"
