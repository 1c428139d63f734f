"""What a tool or a handler is, seen from the definitions: forms, names, results (E1, E2).

Knows nothing of how a tool is called; that is the engine's.
"""

from __future__ import annotations

import inspect
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Literal, Protocol

from ensemble_notebook.domain.attachments import Attachment
from ensemble_notebook.domain.definitions.definition import Definition, definition, show_value
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.secrets import Record
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.errors import EnsembleError, describe_parts, did_you_mean

NO_REASON: Final = "the tool failed"
_PACKAGE: Final = __name__.partition(".")[0]
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolResult(Record):
    """What a tool or handler may return if a plain text is not enough. Make one with `ok` or `failure`.

    Attributes:
        output: the text for the model.
        is_success: False for a failure; the model then gets ``Error: ...``.
        error_message: the reason of a failure; None for a success.
        structured_output: any value for programs, kept beside the text.
    """

    output: str
    is_success: bool = True
    error_message: str | None = None
    structured_output: Any = None

    @classmethod
    def ok(cls, output: str, structured_output: Any = None) -> ToolResult:
        """A success.

        Args:
            output: the text for the model.
            structured_output: any value for programs.
        """
        return cls(output=output, structured_output=structured_output)

    @classmethod
    def failure(cls, error_message: str | None = None) -> ToolResult:
        """A failure.

        Args:
            error_message: the model gets ``Error: {error_message}``; None: a stock message.
        """
        return cls(output="", is_success=False, error_message=error_message)


class AgentTool(Protocol):
    """The smallest tool: a name, a description, and ``execute`` from text to text.

    Attributes:
        name: letters, digits and underscores.
        description: what the model is told about the tool.
    """

    name: str
    description: str

    def execute(self, text: str, /) -> ToolResult | str | None:
        """Do the work.

        Args:
            text: what the model asks for.

        Returns:
            The result; None is a success without a text.
        """


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskInput(Record):
    """What a handler or an input guardrail is given.

    Attributes:
        name: the task's name.
        description: with its variables filled in.
        expected_output: with its variables filled in.
        context: the outputs that the task reads, in the order of its ``context``.
        inputs: all template variables of the run; read only. What is read of them counts for reuse.
        attempt: number of this attempt, from 1.
        feedback: what reviews and guardrails have asked for so far, oldest first.
        previous: what the task produced last, if it was sent back; otherwise None.
        item: with `for_each`, the current item; otherwise None.
    """

    name: str
    description: str
    expected_output: str
    context: tuple[TaskOutput, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    feedback: tuple[str, ...] = ()
    previous: str | None = None
    item: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetrieverTool:
    """A LangChain retriever as a tool: a query in, the texts that it finds out.

    Attributes:
        name: of the variable that holds the retriever.
        retriever: as it was given.
    """

    name: str
    retriever: Any

    @property
    def description(self) -> str:
        """What the model is told about it."""
        return f"Search the documents of {self.name.replace('_', ' ')} and get those that fit a query best."

    def execute(self, text: str, /) -> ToolResult | str | None:
        """Find the documents for a query; each with where it comes from, as far as its metadata says."""
        found = self.retriever.invoke(text)
        return "\n\n".join(map(_write_document, found)) if found else "No documents found."


def _write_document(document: Any) -> str:
    about = {name: each for name, each in document.metadata.items() if isinstance(each, str | int | float)}
    told = ", ".join(f"{name}: {each}" for name, each in about.items() if not name.startswith("ensemble_"))
    return f"[{told}]\n{document.page_content}" if told else str(document.page_content)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReviewedCall(Record):
    """A call of a tool, as a rule sees it that decides whether somebody is asked about it.

    Attributes:
        tool: name of the tool.
        arguments: that it would be given, by name; a copy.
        agent: role of the agent that asks for the call.
        task: name of the task.
        inputs: all template variables of the run; read only.
        deps: of the run.
    """

    tool: str
    arguments: dict[str, Any]
    agent: str
    task: str
    inputs: Mapping[str, Any]
    deps: Any


BEFORE: Final = "before"
ReviewRule = Callable[[ReviewedCall], bool | Awaitable[bool]]
"""Whether somebody is asked about a call. One that raises, or says neither True nor False, has somebody asked."""
ToolReview = Literal["before"] | ReviewRule
"""When somebody is asked about the calls of a tool: about each, or about those of which a rule says so."""


def find_review_fault(review: Any) -> str | None:
    """Say what is wrong with the `review` of a tool; None where it is one."""
    if review == BEFORE or (callable(review) and not isinstance(review, type)):
        return None
    wanted = f"must be {BEFORE!r}, or a function of the call such as lambda call: call.arguments['amount'] > 100"
    hint = did_you_mean(review, [BEFORE]) if isinstance(review, str) else ""
    return f"{wanted}, got {show_value(review)}.{hint}"


@definition
class Tool(Definition):
    """A tool of which each call is reviewed before it is made: a person, or the `review_handler`, is asked.

    ::

        Agent(role="Clerk", goal="Settle claims", tools=[order_status, Tool(refund, review="before")])
        Tool(refund, review=lambda call: call.arguments["amount"] > 100)

    Where nobody can be asked, or nobody answers in time, the call is not made: it is left pending, see
    `EnsembleOutput.pending`.

    Args:
        tool: a function, a LangChain tool or retriever, an `AgentTool`, or an object with ``@tool`` methods.
        review: ``"before"``: about each call; or a function of the `ReviewedCall` that says whether to ask.
        reuse: whether ``run(reuse=True)`` may take over what a task has come to with it.

    Raises:
        ValidationError: it is no such tool, or `review` is none of these.
    """

    tool: Any = field(kw_only=False)
    review: ToolReview
    reuse: bool = False

    def __post_init__(self) -> None:
        """Check the two by themselves."""
        if isinstance(self.tool, ToolSource):
            raise self._refuse("tool", "Tool takes one tool. Of a toolbox, take toolbox.reviewed('NAME').")
        if isinstance(self.tool, Tool):
            raise self._refuse("tool", "Tool takes the tool itself, which is reviewed already.")
        if self.tool is human_input:
            raise self._refuse("tool", "human_input asks a person itself: give it as it is.")
        if list_tool_names(*name_retrievers((self.tool,))) is None:
            message = f"Tool takes a function, a LangChain tool or an AgentTool, got {show_value(self.tool)}."
            raise self._refuse("tool", message)
        self._set("tool", *name_retrievers((self.tool,)))
        if fault := find_review_fault(self.review):
            raise self._refuse("review", f"The review of a Tool {fault}")
        self._require_bool("reuse")

    @property
    def name(self) -> str:
        """Of the tool, or of the first of its methods."""
        return next(iter(list_tool_names(self.tool) or ()), "")

    def _get_pickled_state(self) -> dict[str, Any]:
        """The fields; the tool and a rule are described."""
        state = Definition._get_pickled_state(self)  # not by super(): a class with slots is made once more
        return {**state, "review": describe_parts("review rule", self.review)}


def is_reviewed(entry: Any) -> bool:
    """Whether somebody may be asked about single calls of a tool, or of one of a source."""
    return isinstance(entry, Tool) or (isinstance(entry, ToolSource) and entry.is_reviewed)


def get_core_tool(entry: Any) -> Any:
    """Get the tool itself of one that is reviewed; every other tool as it is."""
    return entry.tool if isinstance(entry, Tool) else entry


Ask = Callable[[str], Awaitable[str | None]]
"""Puts a question to the person who runs this; None where nobody answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedTool:
    """One tool of a `ToolSource`, while its session is open.

    Attributes:
        name: as a model sees it.
        source_name: as the source calls it.
        description: what the model is told about it.
        parameters: the JSON schema of its arguments.
        call: calls it with its arguments, and a way to ask the person.
        fault: why it can't be called, as a sentence without its subject; it is not offered then. Empty where it can.
        review: when somebody is asked about its calls; None: never.
    """

    name: str
    source_name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[dict[str, Any], Ask], Awaitable[ToolResult]]
    fault: str = ""
    review: ToolReview | None = None


class ToolSession(Protocol):
    """A connection to the tools of a source, for one run.

    Attributes:
        tools: all tools of the source, once it is open.
    """

    @property
    def tools(self) -> tuple[SourcedTool, ...]: ...

    @property
    def notice(self) -> str:
        """What is being done while it is opened."""

    @property
    def warnings(self) -> Sequence[str]:
        """What is to be said of it once the run ends."""

    async def open(self) -> None:
        """Open it, and list all tools of the source."""

    async def close(self) -> None:
        """Close it, and wait until it is."""

    def request_close(self) -> None:
        """Have it close, on its own loop."""


class ToolSource(ABC):
    """Tools that are behind a connection: a run opens it once, when the first agent that holds them begins.

    Attributes:
        connection: the same object for all sources that share a session.
        reuse: whether what a task has come to with them may be taken over.
    """

    connection: object
    reuse: bool

    @property
    @abstractmethod
    def is_reviewed(self) -> bool:
        """Whether calls of some of its tools are reviewed."""

    @property
    @abstractmethod
    def reviewed_names(self) -> tuple[str, ...]:
        """The names of the tools of which calls are reviewed, as far as they are known before it is opened."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What messages call it."""

    @property
    @abstractmethod
    def tool_names(self) -> tuple[str, ...]:
        """The names of its tools, as far as they are known before it is opened."""

    @abstractmethod
    def make_session(self) -> ToolSession:
        """Make the session of a run, which is not open yet."""

    @abstractmethod
    async def select(self, session: ToolSession) -> tuple[SourcedTool, ...]:
        """Select its tools among all that are there.

        Args:
            session: which is open.

        Raises:
            EnsembleError: one of them is not there.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadInput:
    """What was read for an input.

    Attributes:
        value: that fills its variable: a text, or an `Attachment`.
        told: what it is, with its source, for messages.
        size: how much of it there is, in words, such as ``8 characters``.
        is_cut: whether the value has only a part of it.
        messages: of a prompt, each with its role; empty for all else.
        attachments: pictures and PDFs of which marks stand in the text.
    """

    value: Any
    told: str
    size: str
    is_cut: bool = False
    messages: tuple[ChatMessage, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class SourcedInput(ToolSource):
    """An input that is behind a connection: a run reads it when it starts. As a tool, an agent reads it (E134).

    Two of one connection that read the same are equal, so that a run reads it once.
    """

    @property
    @abstractmethod
    def told(self) -> str:
        """What messages call it, with its source."""

    @property
    @abstractmethod
    def variables(self) -> tuple[str, ...] | None:
        """The inputs of a run that may fill what is left open in it; None where only its source knows which."""

    @property
    @abstractmethod
    def has_messages(self) -> bool:
        """Whether messages are read, which a run can go on with."""

    @abstractmethod
    def list_lacking(self, inputs: Collection[str]) -> list[str]:
        """The names of inputs that it needs, as far as they are known, and that are not among these."""

    @abstractmethod
    async def read(self, session: ToolSession, inputs: Mapping[str, str]) -> ReadInput:
        """Read it.

        Args:
            session: which is open.
            inputs: of the run, as texts.

        Raises:
            ValidationError: the source has no such thing, or wants other arguments; names the nearest.
            EnsembleError: it can't be read.
        """


class LangChainTool(Protocol):
    """A LangChain ``BaseTool``, as far as a handler needs one."""

    name: str
    description: str

    @property
    def ainvoke(self) -> Callable[..., Any]:
        """Do the work."""


Handler = Callable[[TaskInput], Any] | AgentTool | LangChainTool


def human_input(question: str) -> str:
    """Ask the person who runs this for something that only a person knows, and wait for the answer.

    A tool for the `tools` of an agent or task; the engine asks through the ensemble's `review_handler`.

    Args:
        question: what to ask, complete and polite.
    """
    raise EnsembleError(f"human_input is a tool for agents, Agent(..., tools=[human_input]); asked: {question}")


def is_agent_tool(value: object) -> bool:
    """True for an `AgentTool`; by hand, since ``isinstance`` with a Protocol costs more than running a small task."""
    if isinstance(value, type) or not callable(getattr(value, "execute", None)):
        return False
    return hasattr(value, "name") and hasattr(value, "description")


def is_langchain_tool(value: object) -> bool:
    """True for a LangChain ``BaseTool``; imports nothing: what is not loaded has no instances."""
    module = sys.modules.get("langchain_core.tools.base") or sys.modules.get("langchain_core.tools")
    base = getattr(module, "BaseTool", None)
    return base is not None and isinstance(value, base)


def is_retriever(value: object) -> bool:
    """True for a LangChain retriever; imports nothing: what is not loaded has no instances."""
    base = getattr(sys.modules.get("langchain_core.retrievers"), "BaseRetriever", None)
    return base is not None and isinstance(value, base)


def name_retrievers(tools: Sequence[object]) -> tuple[object, ...]:
    """Make tools of the retrievers among these, each named by the variable that holds it."""
    return tuple(RetrieverTool(name=_find_name(each), retriever=each) if is_retriever(each) else each for each in tools)


def _find_name(retriever: object) -> str:
    """Find the variable of the code that declares a tool; a retriever that is in none goes by its class."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in (_PACKAGE, "dataclasses"):
        frame = frame.f_back
    variables = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    named = (name for name, value in variables.items() if value is retriever and not name.startswith("_"))
    return next(named, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(retriever).__name__).lower())


def find_tool_methods(value: object) -> Iterator[object]:
    """Find the attributes of an object that carry LangChain's ``@tool``, in definition order."""
    for name in dict.fromkeys(name for cls in type(value).__mro__ for name in vars(cls) if not name.startswith("__")):
        if is_langchain_tool(inspect.getattr_static(value, name)):
            yield getattr(value, name)


def list_tool_names(value: object) -> tuple[str, ...] | None:
    """List the names under which a tool entry is offered to the model, or None when it is no tool at all.

    A source whose tools are known only once it is open has none so far.
    """
    if isinstance(value, ToolSource):
        return value.tool_names
    if isinstance(value, Tool):
        return list_tool_names(value.tool)
    if is_langchain_tool(value) or is_agent_tool(value):
        return (str(getattr(value, "name", "")),)
    if isinstance(value, type):
        return None
    if names := tuple(str(getattr(each, "name", "")) for each in find_tool_methods(value)):
        return names
    if callable(value) and hasattr(value, "__name__"):
        return (str(value.__name__),)
    return None


def list_told_names(tool: object) -> tuple[str, ...]:
    """List the names of a tool entry for views; a source that is not open yet goes by its label."""
    names = list_tool_names(tool) or ()
    return (tool.label,) if isinstance(tool, ToolSource) and not names else names
