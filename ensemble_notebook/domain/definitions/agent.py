"""The agent: who does the work (E1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.definition import (
    Converted,
    Definition,
    converted,
    definition,
    show_value,
)
from ensemble_notebook.domain.definitions.limits import COST, AnyRateLimit, RateLimit, find_rates, normalize_rate_limit
from ensemble_notebook.domain.definitions.run_context import find_foreign_context
from ensemble_notebook.domain.definitions.tool import TOOL_NAME, Tool, get_core_tool, list_tool_names, name_retrievers
from ensemble_notebook.errors import ValidationError


class Inherit(Enum):
    """Marks a model that was left out: the ensemble's is used. An explicit None is a mistake, and differs."""

    FROM_ENSEMBLE = "inherit"

    def __repr__(self) -> str:
        """Short, for signatures."""
        return "INHERIT"


INHERIT: Final = Inherit.FROM_ENSEMBLE


class ChatModel(Protocol):
    """A LangChain chat model, as far as a definition knows one: `find_llm_fault` looks for the same method."""

    @property
    def ainvoke(self) -> Callable[..., Any]:
        """Ask it."""


# A chat model object, a spec text such as ``"local"`` or ``"openai:NAME"``, or a mapping with ``model`` in it.
Llm = ChatModel | str | Mapping[str, Any]


def find_llm_fault(value: Any) -> str | None:
    """Find what is wrong with the *form* of a model: a chat model object, or a spec text or mapping."""
    if isinstance(value, str):
        return None if value.strip() else "must not be blank"
    if isinstance(value, Mapping):
        if "model" not in value:
            return "must name its model: {'model': ..., 'base_url': ..., 'api_key_env': ...}"
        try:
            find_rates(value, None)
        except ValidationError as error:
            return f"has a price that can't be meant: {error.problems[0].message.rstrip('.')}"
        if (core := get_core_llm(value)) is value:
            return None
        if more := ", ".join(str(name) for name in value if name not in ("model", COST)):
            return f"is a model object, which takes nothing but cost beside it: give {more} to the object itself"
        return "must name its model" if isinstance(core, Mapping) else find_llm_fault(core)
    if callable(getattr(value, "ainvoke", None)) and not isinstance(value, type):
        return None
    return f"must be a LangChain chat model or a spec text such as 'local' or 'openai:NAME', got {type(value).__name__}"


MAX_RETRY_WAIT: Final = "max_retry_wait"
"""The field of agents, tasks and model specs that says how long a wait before a retry may be."""
USUAL_RETRY_WAIT_S: Final = 60.0


def split_model_name(text: str) -> tuple[str, str | None]:
    """Split ``NAME@URL``; names may have an ``@`` themselves: ``@cf/meta/llama-3.1-8b-instruct``.

    Returns:
        The name, and the address, which is None where there is none.
    """
    begins = re.search(r"@(?=\s*https?:)", text, re.IGNORECASE)
    at = text.find("@", 1) if begins is None else begins.start()
    return (text, None) if at < 0 else (text[:at], text[at + 1 :])


def get_core_llm(llm: Any) -> Any:
    """The model object in a mapping, which has nothing but its price beside it; every other model as it is."""
    model = llm.get("model") if isinstance(llm, Mapping) else None
    return llm if model is None or isinstance(model, str) else model


@definition
class Agent(Definition):
    """An agent works on tasks: it has a role, a goal, a model and tools.

    ::

        researcher = Agent(role="Researcher", goal="Find facts that can be checked", tools=[search])

    Args:
        role: the agent's name in prompts and views; not blank.
        goal: what the agent works towards, for its system prompt; not blank.
        llm: a LangChain chat model, or a spec: ``"openai:gpt-4o-mini"``, or a mapping with ``model``, its parameters,
            and its price as ``cost``; also of a chat model: ``{"model": chat, "cost": {...}}``. Leave it out to use the
            ensemble's model.
        background: further text for the system prompt.
        tools: functions, LangChain tools or retrievers, `AgentTool` objects, or objects with ``@tool`` methods; or a
            `Tool` of which each call is reviewed, also as a mapping of its fields; one of them, or a list.
        allow_delegation: whether it may delegate work to the other agents.
        verbose: whether its prompts and replies are logged, at INFO.
        max_iterations: the most tool calls per task, at least 1.
        response_format: instructions about the form of replies, added to the system prompt.
        system_prompt: stands in place of the system prompt that is made of the texts above, which it may have as
            ``{role}``, ``{goal}`` and ``{background}``; an empty text sends none.
        history: how much of an earlier conversation its model is sent: ``"20 turns"``, ``"8k tokens"``, or
            ``"8k tokens, summarised"``; None: all of it.
        rate_limit: limits the model requests of this agent: a `RateLimit`, ``"60/min"``, or a mapping of its fields;
            None: no limit of its own.
        max_retries: how often a model request is retried after a transient failure, at least 0.
        max_retry_wait: the most seconds that are waited before such a retry. Where the server asks to wait for longer,
            there is none: the fallback takes over, or the task fails. None: what the spec of the model says, else 60.
        llm_timeout: seconds that one model request may take; None: no limit.

    Raises:
        ValidationError: a field has a wrong value. Names the field, the value, and what was expected.
    """

    role: str
    goal: str
    llm: Llm | Inherit = INHERIT
    background: str | None = None
    tools: Converted[tuple[object, ...], object] = converted(default=())
    allow_delegation: bool = False
    verbose: bool = False
    max_iterations: int = 25
    response_format: str = ""
    system_prompt: str | None = None
    history: str | None = None
    rate_limit: Converted[RateLimit | None, AnyRateLimit | None] = converted(default=None)
    max_retries: int = 2
    max_retry_wait: float | None = None
    llm_timeout: float | None = 60.0

    def __post_init__(self) -> None:
        """Check one agent by itself."""
        self._require_text("role")
        self._require_text("goal")
        if self.llm is None:
            raise self._refuse("llm", "Agent llm must not be None. Leave it out to use the ensemble's model.")
        if self.llm is not INHERIT and (wrong := find_llm_fault(self.llm)):
            raise self._refuse("llm", f"Agent llm {wrong}.")
        self._require_integer("max_iterations", least=1)
        normalize_tools(self)
        self._check_optional_text("background")
        self._require_bool("allow_delegation")
        self._require_bool("verbose")
        self._require_text("response_format", may_be_blank=True)
        self._check_optional_text("system_prompt")
        if self.system_prompt is not None and self.response_format.strip():
            message = "An Agent has a system_prompt or a response_format, not both: write the one into the other."
            raise self._refuse("response_format", message)
        self._check_history()
        normalize_rate_limit(self)
        self._require_integer("max_retries", least=0)
        self._check_optional_seconds("max_retry_wait")
        self._check_optional_seconds("llm_timeout")

    def find_max_retry_wait(self, llm: Any, task_wait_s: float | None = None) -> float:
        """The most seconds that are waited before a retry, when it works with a model: the nearest word on it counts.

        Args:
            llm: the model object or spec.
            task_wait_s: what the task says.
        """
        nearest = self.max_retry_wait if task_wait_s is None else task_wait_s
        if nearest is None and isinstance(llm, Mapping):
            nearest = llm.get(MAX_RETRY_WAIT)
        return USUAL_RETRY_WAIT_S if nearest is None else float(nearest)


def normalize_tools(owner: Definition) -> None:
    """Make the `tools` of a definition a tuple: a single tool is a list of one, and lists inside are opened.

    Raises:
        ValidationError: names the entry by index and type.
    """
    given: Any = getattr(owner, "tools")  # noqa: B009 - the base of all definitions has none
    if given == ():
        return
    if isinstance(given, str):
        message = f"{owner._label} tools takes a tool or a list of tools, got the text {show_value(given)}."
        raise owner._refuse("tools", f"{message} Pass the function or object itself.")
    if not isinstance(given, list | tuple) and (isinstance(given, Mapping) or list_tool_names(given) is not None):
        given = (given,)
    owner._set("tools", given)
    owner._make_tuple("tools")
    tools: list[Any] = []
    for index, each in enumerate(getattr(owner, "tools")):  # noqa: B009
        if isinstance(each, Mapping):
            each = owner._to_part("tools", each, Tool, "a tool", item=index)
        tools += each if isinstance(each, list | tuple) else [each]
    owner._set("tools", name_retrievers(tools))
    check_tools(owner, getattr(owner, "tools"))  # noqa: B009


def check_tools(owner: Definition, tools: Sequence[Any]) -> None:
    """Check that each entry is a tool with a proper name, and no name stands twice.

    Raises:
        ValidationError: names the entry by index and type.
    """
    seen: dict[str, int] = {}
    for index, entry in enumerate(tools):
        problem = _find_tool_problem(index, entry, seen)
        if problem is not None:
            raise owner._refuse("tools", problem, item=index)


def _find_tool_problem(index: int, entry: Any, seen: dict[str, int]) -> str | None:
    kind = type(entry).__name__
    names = list_tool_names(entry)
    if names is None:
        known = "a function, a LangChain tool, an object with name, description and execute(text), an object with @tool"
        return f"Tool at index {index} ({kind}) is no tool. Expected {known} methods, or a retriever."
    core = get_core_tool(entry)
    for each in (core, *(getattr(core, name, None) for name in ("func", "coroutine", "execute"))):
        if fault := find_foreign_context(each):
            return f"Tool at index {index} ({names[0]}) {fault}"
    for name in names:
        if not TOOL_NAME.fullmatch(name):
            return f"Tool at index {index} ({kind}) is named {name!r}; use letters, digits and underscores only."
        if name in seen:
            return f"Tool name {name!r} stands twice: at index {seen[name]} and {index} ({kind}). Rename one."
        seen[name] = index
    return None
