"""The task: what is to be done (E2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast, overload

from ensemble_notebook.domain.definitions.agent import Agent, Llm, check_tools, find_llm_fault
from ensemble_notebook.domain.definitions.arity import find_other_signature
from ensemble_notebook.domain.definitions.condition import Condition, ConditionSource, normalize_conditions
from ensemble_notebook.domain.definitions.definition import Converted, converted, definition, shown
from ensemble_notebook.domain.definitions.enums import ReuseMode, ReuseModeName, ReviewTiming
from ensemble_notebook.domain.definitions.guardrail import GuardrailReturn
from ensemble_notebook.domain.definitions.item_list import Items, NoListError, describe_count, list_items
from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.domain.definitions.nested_ensemble import (
    NestedEnsemble,
    describe_ensemble,
    is_ensemble,
    reads_context,
)
from ensemble_notebook.domain.definitions.output_type import check_output_type, describe_output_type
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.templates import find_input_name, is_variable_name
from ensemble_notebook.domain.definitions.tool import (
    Handler,
    TaskInput,
    is_agent_tool,
    is_langchain_tool,
    list_tool_names,
    name_retrievers,
)
from ensemble_notebook.domain.outputs.secrets import protect_named
from ensemble_notebook.domain.outputs.task_output import TaskOutput

STOCK_EXPECTED_OUTPUT: Final = "A clear, complete answer to the task."


def _join_function_names(functions: Sequence[Any]) -> str:
    return ", ".join(getattr(each, "__name__", type(each).__name__) for each in functions)


def _join_timings(reviews: Sequence[Review]) -> str:
    return ", ".join(each.timing.value for each in reviews)


_WHY_NOT: Final = {
    "handler": "the one or the other does it.",
    "output_type": "its output is that of the ensemble's final task, which may have a type.",
    "max_retries": "its tasks have retries of their own.",
}

InputGuardrail = Callable[[TaskInput], GuardrailReturn]
OutputGuardrail = Callable[[TaskOutput], GuardrailReturn]


class SharedTaskFields(TypedDict, total=False):
    """The fields of a `Task` beside description, expected output and ensemble.

    Python has no way to say "the keywords of that constructor, but for three", so they are listed again for type
    checkers and editors; a test holds both lists together.
    """

    agent: Agent | None
    context: Sequence[Task | str]
    name: str | None
    handler: Handler | None
    inputs: Mapping[str, Any]
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
    reuse: ReuseModeName | ReuseMode
    for_each: Task | str | Sized | None
    max_items: int


class TaskFields(SharedTaskFields, total=False):
    """The fields of a `Task` beside description and expected output, as `Task.of` takes them."""

    ensemble: NestedEnsemble | None


@definition
class Task(ConditionSource):
    """A piece of work, done by an agent, by a function, or by another ensemble.

    Tasks are compared by identity: two tasks with equal fields are two tasks. ::

        facts = Task(description="List facts about {topic}", expected_output="Five bullet points", agent=researcher)
        brief = Task.of("Write a brief", context=[facts], output_type=Brief)

    Args:
        description: what to do; ``{name}`` is a template variable.
        expected_output: what the result should look like; may have template variables, too.
        agent: who does it; None: an agent is derived from the description.
        context: tasks, or names of tasks, whose outputs this one reads. It starts once they have completed.
        name: unique in the ensemble; None: made from role and position.
        handler: a tool, or a plain or async function ``(TaskInput) -> str | ToolResult | object``, that does the task
            without a model. Excludes `agent`, `llm` and `tools`.
        ensemble: an `Ensemble` that does the task. `description` and `expected_output` may then be left out.
        inputs: inputs of that ensemble. Texts may have template variables of this run, and ``{context}`` for the
            outputs that the task reads.
        llm: replaces the agent's model.
        tools: added to the agent's tools.
        timeout: seconds for the whole task; None: no limit.
        output_type: a pydantic model, dataclass, TypedDict or JSON schema that the reply must match; None: any text.
        max_output_retries: how often the model is asked to correct a reply that does not match.
        when: a `Condition`, or a list of them; the task runs if any holds.
        fallback: an agent that takes over once the task's own agent has finally failed.
        input_guardrails: functions of `TaskInput` that may stop the task before it starts.
        output_guardrails: functions of `TaskOutput` that may reject the output.
        review: a `Review`, or several with different `timing`.
        memory: scopes of the memory that are read before the task and written after it.
        rate_limit: limits the model requests of this task; None: no limit of its own.
        max_retries: replaces the agent's `max_retries`. With a handler: how often it is retried after an exception
            other than an `EnsembleError`; None: never.
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
    expected_output: str
    agent: Agent | None = None
    context: Sequence[Task | str] = ()
    name: str | None = None
    handler: Handler | None = None
    ensemble: NestedEnsemble | None = field(default=None, metadata=shown(describe_ensemble))
    inputs: Mapping[str, Any] = field(default_factory=dict)
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
    reuse: Converted[ReuseMode, ReuseModeName | ReuseMode] = converted(
        default=ReuseMode.AUTO, metadata=shown(lambda mode: mode.value)
    )
    for_each: Converted[Task | str | Items | None, Task | str | Sized | None] = converted(default=None)
    max_items: int = field(default=1000, metadata=shown())

    if TYPE_CHECKING:  # a task done by an ensemble needs no texts, and a dataclass can't say so

        @overload
        def __init__(self, *, description: str, expected_output: str, **fields: Unpack[TaskFields]) -> None: ...
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
        """Make a task with a stock expected output: ``Task.of("Write a haiku about {topic}")``.

        Args:
            description: what to do.
            expected_output: what the result should look like.
            **fields: all other fields of a `Task`.
        """
        return cls(description=description, expected_output=expected_output, **fields)

    @classmethod
    def complete_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in texts for a task done by an ensemble if `values` has none."""
        if is_ensemble(values.get("ensemble")):
            ensemble = values["ensemble"]
            name = describe_ensemble(ensemble)
            description = f"Run the ensemble {name}" if ensemble.name else f"Run an ensemble of {name}"
            values = {"description": description, "expected_output": STOCK_EXPECTED_OUTPUT, **values}
        return values

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
        self._check_ensemble()
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
        self._make_enum("reuse", ReuseMode)
        self._require_integer("max_items", least=1)
        self._check_for_each()

    def _check_for_each(self) -> None:
        """Keep given items as `Items`; whether others are there and how many is known later (E53)."""
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
        review: Any = self.review
        self._set("review", () if review is None else (review,) if isinstance(review, Review | str) else review)
        self._make_tuple("review")
        timings = set()
        for index, each in enumerate(cast("Sequence[Any]", self.review)):
            if not isinstance(each, Review):
                said = each if isinstance(each, str) and each in tuple(ReviewTiming) else "after"
                message = f"Task review takes Review(timing={said!r}), got {type(each).__name__}."
                raise self._refuse("review", message, item=index)
            if each.timing is ReviewTiming.DURING and not self.has_agent:
                who = "a handler makes none" if self.ensemble is None else "an ensemble sees to its own"
                message = f"Task review 'during' asks before tool calls, and {who}: use before or after."
                raise self._refuse("review", message, item=index)
            if each.timing in timings:
                raise self._refuse("review", f"Task review has two gates {each.timing.value!r}. Keep one.", item=index)
            timings.add(each.timing)

    def _check_retries(self) -> None:
        if self.max_retries is not None:
            self._require_integer("max_retries", least=0)
        self._require_integer("max_guardrail_retries", least=0)
        if self.max_guardrail_retries and not self.has_agent:
            who = "a handler" if self.ensemble is None else "an ensemble"
            message = f"Task max_guardrail_retries sends objections back to an agent, and {who} can't be told any."
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

    @property
    def has_agent(self) -> bool:
        """Whether an agent does it, and neither a handler nor an ensemble."""
        return self.handler is None and self.ensemble is None

    def _check_ensemble(self) -> None:
        if not isinstance(self.inputs, Mapping):
            raise self._refuse("inputs", f"Task inputs must map names to values, got {type(self.inputs).__name__}.")
        if self.ensemble is None:
            if self.inputs:
                message = "Task inputs are for its ensemble, and it has none. Those of a run stand in the ensemble."
                raise self._refuse("inputs", message)
            return
        if not is_ensemble(self.ensemble):
            raise self._refuse("ensemble", f"Task ensemble must be an Ensemble, got {type(self.ensemble).__name__}.")
        for name in ("agent", "handler", "llm", "tools", "rate_limit", "output_type", "max_retries"):
            if getattr(self, name) not in (None, ()):
                message = (
                    f"A task has an ensemble or {name}, not both: {_WHY_NOT.get(name, 'the ensemble has its own.')}"
                )
                raise self._refuse(name, message)
        for name in self.inputs:
            if not is_variable_name(name):
                message = f"Input {name!r} can't be a template variable: use ASCII letters, digits and underscores."
                raise self._refuse("inputs", message, item=str(name))
        protect_named(self.inputs)
        self._set("inputs", MappingProxyType(dict(self.inputs)))

    @property
    def reads_context_as_input(self) -> bool:
        """Whether what it reads goes to its ensemble, as ``{context}`` in its inputs."""
        return reads_context(self.inputs)

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
        if (other := find_other_signature(handler)) is not None:
            message = f"Task handler must take one argument, a TaskInput; this one takes {other}."
            raise self._refuse("handler", message)

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
