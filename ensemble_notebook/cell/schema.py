"""The words of the cell language: which key stands where, what it takes, means and defaults to (C2).

The one place that knows them; names and defaults of fields come from the definitions. Reads no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any, Final

from ensemble_notebook.domain.agent import INHERIT, Agent
from ensemble_notebook.domain.cost import CostConfiguration
from ensemble_notebook.domain.definition import field_names
from ensemble_notebook.domain.ensemble import EnsembleDefinition
from ensemble_notebook.domain.phase import Phase
from ensemble_notebook.domain.task import STOCK_EXPECTED_OUTPUT, Task


class Kind(Enum):
    """What a key takes. The value is how a message names it."""

    TEXT = "a text"
    CHOICE = "one word"
    FLAG = "true or false"
    WHOLE = "a whole number"
    SECONDS = "a number of seconds"
    PRICE = "a price per token"
    AGENT = "the name of an agent"
    NAMES = "a list of names"
    OBJECT = "the name of a function or tool of this notebook"
    OBJECTS = "a list of names of this notebook's functions and objects"
    MODEL = "a model: local, openai:NAME, or a variable that holds a chat model"
    AGENTS = "a mapping of names to agents"
    TASKS = "a list or a mapping of tasks"
    PHASES = "a mapping of phases to their tasks"
    INPUTS = "a mapping of names to values"
    COST = "a mapping with input_rate and output_rate"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the language.

    Attributes:
        name: as it is written.
        kind: what it takes.
        meaning: half a sentence.
        default: what holds without it; None where there is nothing to say.
        is_required: True when it can't be left out.
        is_nullable: True when an explicit ``null`` means something.
    """

    name: str
    kind: Kind
    meaning: str
    default: Any = None
    is_required: bool = False
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in a cell where certain keys are valid.

    Attributes:
        name: what the place is, e.g. ``"agent"``.
        label: the same with its article, for messages.
        keys: the valid ones, in the order of the definition.
    """

    name: str
    label: str
    keys: Mapping[str, Key]


_AGENT: Final = {
    "role": (Kind.TEXT, "who this is; the key of the agent says it where this is left out"),
    "goal": (Kind.TEXT, "what this agent is after"),
    "llm": (Kind.MODEL, "the model of this agent, in place of the cell's"),
    "background": (Kind.TEXT, "what this agent knows about itself"),
    "tools": (Kind.OBJECTS, "what this agent may call"),
    "verbose": (Kind.FLAG, "log prompts and replies"),
    "max_iterations": (Kind.WHOLE, "tool calls for one task"),
    "response_format": (Kind.TEXT, "instructions about the form of replies"),
    "max_retries": (Kind.WHOLE, "tries again after a passing failure of the model"),
    "llm_timeout": (Kind.SECONDS, "for one model request; null is no limit"),
}
_TASK: Final = {
    "description": (Kind.TEXT, "what is to be done; {name} is filled in"),
    "expected_output": (Kind.TEXT, "what the result looks like; {name} is filled in"),
    "agent": (Kind.AGENT, "who does it"),
    "context": (Kind.NAMES, "the tasks whose outputs it reads"),
    "name": (Kind.TEXT, "what others call it"),
    "handler": (Kind.OBJECT, "a function that does it in place of an agent"),
    "llm": (Kind.MODEL, "the model of this task, in place of its agent's"),
    "tools": (Kind.OBJECTS, "what its agent may call for this task as well"),
    "timeout": (Kind.SECONDS, "for the whole task; null is no limit"),
}
_PHASE: Final = {
    "name": (Kind.TEXT, "what the phase is called"),
    "tasks": (Kind.TASKS, "a list is a chain, a mapping a graph"),
    "workflow": (Kind.CHOICE, "sequential or parallel"),
    "after": (Kind.NAMES, "the phases that come before"),
}
_CELL: Final = {
    "tasks": (Kind.TASKS, "a list is a chain, a mapping a graph"),
    "phases": (Kind.PHASES, "workstreams of tasks, in place of tasks"),
    "agents": (Kind.AGENTS, "who works on the tasks"),
    "llm": (Kind.MODEL, "the model of everyone who has no own"),
    "workflow": (Kind.CHOICE, "sequential or parallel"),
    "error_strategy": (Kind.CHOICE, "fail_fast or continue_on_error"),
    "listeners": (Kind.OBJECTS, "what hears every event"),
    "max_concurrency": (Kind.WHOLE, "how many tasks run at once"),
    "cost": (Kind.COST, "own prices, in place of the public ones"),
    "inputs": (Kind.INPUTS, "values for {name}"),
    "verbose": (Kind.FLAG, "log prompts and replies of everyone"),
    "name": (Kind.TEXT, "what this ensemble is called"),
}
_COST: Final = {
    "input_rate": (Kind.PRICE, "for one token that is read"),
    "output_rate": (Kind.PRICE, "for one token that is written"),
    "currency": (Kind.TEXT, "of both rates"),
}
_MODEL: Final = {
    "model": (Kind.TEXT, "its name on the server"),
    "base_url": (Kind.TEXT, "where an OpenAI-compatible server listens"),
    "api_key_env": (Kind.TEXT, "the environment variable that holds the key"),
}
_LEFT_OUT: Final[Mapping[str, Any]] = {
    "Agent.role": "the key of the agent",
    "Task.expected_output": STOCK_EXPECTED_OUTPUT,
    "Phase.name": "the key of the phase",
    "EnsembleDefinition.workflow": "sequential for a list, parallel for a mapping",
    "EnsembleDefinition.inputs": None,
}
_NULLABLE: Final = {"llm_timeout", "timeout", "background", "max_concurrency"}


def _keys(cls: type, words: Mapping[str, tuple[Kind, str]]) -> dict[str, Key]:
    """Kinds and meanings of the words, put together with the defaults of a definition's fields."""
    found = {}
    for each in fields(cls):
        if each.name not in words:
            continue
        kind, meaning = words[each.name]
        where = f"{cls.__name__}.{each.name}"
        default = _LEFT_OUT.get(where, None if each.default in (MISSING, INHERIT) else each.default)
        is_required = each.default is MISSING and each.default_factory is MISSING and where not in _LEFT_OUT
        found[each.name] = Key(each.name, kind, meaning, default, is_required, each.name in _NULLABLE)
    return found


AGENT: Final = Scope("agent", "an agent", _keys(Agent, _AGENT))
TASK: Final = Scope("task", "a task", _keys(Task, _TASK))
PHASE: Final = Scope("phase", "a phase", _keys(Phase, _PHASE))
CELL: Final = Scope("cell", "a cell", _keys(EnsembleDefinition, _CELL))
COST: Final = Scope("cost", "a cost", _keys(CostConfiguration, _COST))
MODEL: Final = Scope(
    "llm",
    "a model",
    {name: Key(name, kind, meaning, is_required=name == "model") for name, (kind, meaning) in _MODEL.items()},
)
WORDS: Final = frozenset(name for scope in (CELL, PHASE, AGENT, TASK) for name in scope.keys)
PHASE_WORDS: Final = frozenset({"tasks", "after", "workflow", "when"})
SCOPES: Final = (CELL, PHASE, AGENT, TASK, COST, MODEL)


def unknown_fields() -> list[str]:
    """Fields of the definitions that the language has no words for; always empty, which a test holds."""
    named = ((Agent, _AGENT), (Task, _TASK), (Phase, _PHASE), (EnsembleDefinition, _CELL), (CostConfiguration, _COST))
    return [f"{cls.__name__}.{name}" for cls, words in named for name in field_names(cls) if name not in words]
