"""The words of the cell language, one row each: what it takes, what it means, how other tools spell it (C2, C3).

The one place in this layer where a key is written down: reading, making, completion and messages go by its row. Names
and defaults of fields come from the definitions, further below. Reads no text.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, cast

from ensemble_notebook.domain.definitions.agent import INHERIT, Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.delegation import HierarchicalConstraints
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import (
    CaptureMode,
    ErrorStrategy,
    OnExhausted,
    OnTimeout,
    ReuseMode,
    ReviewPolicy,
    ReviewTiming,
    Workflow,
)
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task
from ensemble_notebook.domain.definitions.templates import PROMPT_PLACES, SYSTEM_PLACES, TEXT_PLACES, PromptTexts
from ensemble_notebook.domain.definitions.tool import BEFORE, Tool
from ensemble_notebook.models.model_kinds import list_short_forms
from ensemble_notebook.models.model_spec import SCHEMA_MODES

OTEL: Final = "otel"
"""The word for an exporter that sends spans to OpenTelemetry (C112)."""


class ValueKind(Enum):
    """What a key takes. The value is how a message names it."""

    TEXT = "a text"
    CHOICE = "one word"
    FLAG = "true or false"
    SCALAR = "a text; for a field also a number, true or false"
    NUMBER = "a number"
    WHOLE = "a whole number"
    SHARE = "a share, such as 0.8"
    SECONDS = "a number of seconds"
    PRICE = "a price per token"
    AMOUNT = "an amount of money, as a number"
    AGENT = "the name of an agent"
    WORKER = "the name of an agent, or the keys of one"
    NAMES = "a name, or a list of names"
    PROMPT = "the name of an object with system and user"
    DEPS = "the name of any object of this notebook"
    OBJECT = "the name of a function or object of this notebook"
    OBJECTS = "the name of a function or object of this notebook, or a list of such names"
    TOOLS = "the name of a tool, a list of tools or a retriever of this notebook, {tool: ..., review: ...}, or a list"
    ENSEMBLE = "the name of an ensemble of this notebook"
    FUNCTIONS = "the name of a function of this notebook, or a list of them"
    MODEL = f"a model: {list_short_forms()}, or a variable that holds a chat model"
    OUTPUT_TYPE = "a class of this notebook, fields such as {title: str, score: int}, or a JSON schema"
    AGENTS = "a mapping of names to agents"
    TASKS = "a list or a mapping of tasks"
    PHASES = "a mapping of phases to their tasks"
    INPUTS = "a mapping of names to values"
    EXTRAS = "a mapping of fields to values"
    TEXTS = "a text, or a list of texts"
    COST = "a mapping with input_rate and output_rate"
    PROMPT_TEXTS = "a mapping with correction, revision or guardrail"
    RATE = "a rate such as 60/min, or a mapping with requests and period"
    BUDGET = "limits such as $0.50 or 20k tokens, or a mapping of them"
    WHEN = "a mapping of a task to what it must have said"
    REVIEW = "before, during, after, or a mapping with timing"
    PHASE_REVIEW = "a reviewer, or a mapping with by, max_retries and on_exhausted"
    REVIEWER = "a function of this notebook, a task of the phase, or what is to be looked at"
    MEMORIES = "the name of a memory, or a list of names"
    STORE = "true, the path of a file, or a store of this notebook"
    EXPORTER = "the path of a file or folder, otel, or an exporter of this notebook"
    CONSTRAINTS = "a mapping of constraints"
    ROLES = "an agent, or a list of agents"
    CAPS = "a mapping of agents to numbers"
    STAGES = "a list of lists of agents"
    ITEM_SOURCE = 'a task of the cell, a list or DataFrame of this notebook, "{input}", or a list'


# Kinds of which values have one form: reader, binder, writer and schema go by these groups.
MONEY: Final = (ValueKind.PRICE, ValueKind.AMOUNT)
SINGLE_NAMES: Final = (
    *(ValueKind.AGENT, ValueKind.OBJECT, ValueKind.ENSEMBLE),
    *(ValueKind.PROMPT, ValueKind.DEPS, ValueKind.EXPORTER),
)
NAMES_OR_ONE: Final = (ValueKind.MEMORIES, ValueKind.FUNCTIONS)
LISTS_OF_NAMES: Final = (ValueKind.NAMES, ValueKind.OBJECTS, ValueKind.ROLES)
PARTS: Final = (ValueKind.COST, ValueKind.PROMPT_TEXTS, ValueKind.CONSTRAINTS)
LIMITS: Final = (ValueKind.RATE, ValueKind.BUDGET)

GUARDRAIL: Final = "a guardrail"

_NEED_A_LABEL: Final = (ValueKind.OBJECT, ValueKind.OBJECTS, ValueKind.TOOLS, ValueKind.FUNCTIONS)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the language.

    Attributes:
        kind: what it takes.
        meaning: half a sentence.
        label: what the object that it names must be, with its article; for kinds that name objects of any kind.
        default: what holds without it, in words; then it may be left out even if the definition requires it. Empty
            where the default of the definition's field holds.
        is_nullable: True when an explicit ``null`` means something.
        has_variables: True for a text whose ``{name}`` is filled in.
        is_filled: True for a mapping in whose texts it is.
        places: the names that stand for something else in such a text, and are no variables.
        choices: the words that it takes, where they are a closed set.
        unless: the keys beside which it may be left out even if the definition requires it.
        short: a shorter word for the same.
        familiar: what other tools call it.

    Raises:
        ValueError: the kind needs a label, without which messages could not say what is missing.
    """

    kind: ValueKind
    meaning: str
    label: str = ""
    default: str = ""
    is_nullable: bool = False
    has_variables: bool = False
    is_filled: bool = False
    places: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    short: str = ""
    familiar: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a row without its label when the module is loaded, not when somebody's cell is read."""
        if self.kind in _NEED_A_LABEL and not self.label:
            raise ValueError(f"The word that takes {self.kind.value} needs a label: {self.meaning!r}.")


Words = Mapping[str, Word]

AGENT_WORDS: Final[Words] = {
    "role": Word(
        ValueKind.TEXT,
        "who this is; the key of the agent says it where this is left out",
        default="the key of the agent",
        has_variables=True,
    ),
    "goal": Word(ValueKind.TEXT, "what this agent is after", has_variables=True),
    "llm": Word(ValueKind.MODEL, "the model of this agent, in place of the cell's"),
    "background": Word(
        ValueKind.TEXT,
        "what this agent knows about itself",
        is_nullable=True,
        has_variables=True,
        familiar=("backstory",),
    ),
    "tools": Word(ValueKind.TOOLS, "what this agent may call", label="a tool"),
    "allow_delegation": Word(ValueKind.FLAG, "whether it may hand work to the other agents"),
    "verbose": Word(ValueKind.FLAG, "log prompts and replies"),
    "max_iterations": Word(ValueKind.WHOLE, "tool calls for one task", familiar=("max_iter",)),
    "response_format": Word(ValueKind.TEXT, "instructions about the form of replies", has_variables=True),
    "system_prompt": Word(
        ValueKind.TEXT,
        "its whole system prompt, in place of ours, with {role}, {goal} and {background}; an empty one is none",
        has_variables=True,
        places=SYSTEM_PLACES,
    ),
    "history": Word(ValueKind.TEXT, "how much of an earlier conversation is sent: 20 turns, or 8k tokens, summarised"),
    "rate_limit": Word(ValueKind.RATE, "how often its model may be asked, e.g. 60/min", familiar=("max_rpm",)),
    "max_retries": Word(
        ValueKind.WHOLE, "tries again after a passing failure of the model", familiar=("max_retry_limit",)
    ),
    "max_retry_wait": Word(
        ValueKind.SECONDS, "the longest wait before that; a server that asks for a longer one is not asked again"
    ),
    "llm_timeout": Word(ValueKind.SECONDS, "for one model request; null is no limit", is_nullable=True),
}
TASK_WORDS: Final[Words] = {
    "description": Word(
        ValueKind.TEXT,
        "what is to be done; {name} is filled in; with a prompt or an ensemble it may be left out",
        has_variables=True,
        unless=("prompt", "ensemble"),
    ),
    "expected_output": Word(
        ValueKind.TEXT,
        "what the result looks like; {name} is filled in",
        default=STOCK_EXPECTED_OUTPUT,
        has_variables=True,
    ),
    "prompt": Word(
        ValueKind.TEXT,
        "the whole text that the model is sent, in place of ours; {context} or {context.TASK} is what it reads",
        has_variables=True,
        places=PROMPT_PLACES,
    ),
    "agent": Word(ValueKind.AGENT, "who does it"),
    "context": Word(ValueKind.NAMES, "the tasks whose outputs it reads"),
    "name": Word(ValueKind.TEXT, "what others call it"),
    "handler": Word(ValueKind.OBJECT, "a function that does it in place of an agent", label="a function or tool"),
    "ensemble": Word(ValueKind.ENSEMBLE, "an ensemble of a cell with --define, which does it in place of an agent"),
    "inputs": Word(
        ValueKind.INPUTS,
        "what its ensemble gets; {name} is filled in, {context} is what the task reads",
        is_filled=True,
    ),
    "llm": Word(ValueKind.MODEL, "the model of this task, in place of its agent's"),
    "tools": Word(ValueKind.TOOLS, "what its agent may call for this task as well", label="a tool"),
    "timeout": Word(ValueKind.SECONDS, "for the whole task; null is no limit", is_nullable=True),
    "output_type": Word(
        ValueKind.OUTPUT_TYPE,
        "what the reply must fit, e.g. {title: str, score: int}",
        familiar=("output_pydantic", "output_json"),
    ),
    "max_output_retries": Word(ValueKind.WHOLE, "corrections asked for until the reply fits"),
    "when": Word(ValueKind.WHEN, "run it only if, e.g. {triage: {contains: urgent}}; of a list, any may hold"),
    "fallback": Word(ValueKind.WORKER, "the agent who takes over when the first one has finally failed"),
    "input_guardrails": Word(ValueKind.FUNCTIONS, "functions that may stop it before it starts", label=GUARDRAIL),
    "output_guardrails": Word(
        ValueKind.FUNCTIONS,
        "functions that may refuse its output",
        label=GUARDRAIL,
        familiar=("guardrail", "guardrails"),
    ),
    "max_guardrail_retries": Word(
        ValueKind.WHOLE,
        "how often an output guardrail sends it back to its agent",
        familiar=("guardrail_max_retries",),
    ),
    "max_retries": Word(
        ValueKind.WHOLE,
        "tries again after a passing failure of the model, in place of the agent's; of a handler, after any exception",
    ),
    "max_retry_wait": Word(ValueKind.SECONDS, "the longest wait before that, in place of the agent's"),
    "review": Word(ValueKind.REVIEW, "when a person is asked: before, during or after it", familiar=("human_input",)),
    "memory": Word(ValueKind.MEMORIES, "what it reads before and writes after"),
    "history": Word(ValueKind.TEXT, "how much of an earlier conversation is sent, in place of its agent's"),
    "rate_limit": Word(ValueKind.RATE, "how often its model may be asked, e.g. 60/min"),
    "for_each": Word(ValueKind.ITEM_SOURCE, "run once for each item of it, with {item} or {item.field} in the texts"),
    "max_items": Word(ValueKind.WHOLE, "the most items it may run for; more are refused"),
    "reuse": Word(
        ValueKind.CHOICE,
        "auto, or never: --reuse runs it all the same, since it has side effects",
        choices=tuple(ReuseMode),
    ),
}
PHASE_WORDS: Final[Words] = {
    "name": Word(ValueKind.TEXT, "what the phase is called", default="the key of the phase"),
    "tasks": Word(ValueKind.TASKS, "a list is a chain, a mapping a graph"),
    "workflow": Word(ValueKind.CHOICE, "sequential or parallel", choices=(Workflow.SEQUENTIAL, Workflow.PARALLEL)),
    "after": Word(ValueKind.NAMES, "the phases that come before"),
    "when": Word(ValueKind.WHEN, "run it only if, e.g. {triage: {contains: urgent}}; of a list, any may hold"),
    "review": Word(ValueKind.PHASE_REVIEW, "who looks at its outputs, and may send it back"),
    "until": Word(ValueKind.WHEN, "do it again until, e.g. {check: {field: ok, equals: true}}; any of a list may hold"),
    "max_rounds": Word(ValueKind.WHOLE, "how often it is done at most, the first time included; beside until"),
    "on_exhausted": Word(
        ValueKind.CHOICE,
        "fail, or keep: go on with the last outputs if until never holds",
        choices=tuple(OnExhausted),
    ),
}
CELL_WORDS: Final[Words] = {
    "tasks": Word(ValueKind.TASKS, "a list is a chain, a mapping a graph"),
    "phases": Word(ValueKind.PHASES, "workstreams of tasks, in place of tasks"),
    "agents": Word(ValueKind.AGENTS, "who works on the tasks"),
    "llm": Word(ValueKind.MODEL, "the model of everyone who has no own"),
    "workflow": Word(
        ValueKind.CHOICE,
        "sequential, parallel or hierarchical",
        default="sequential for a list, parallel for a mapping",
        choices=tuple(Workflow),
        familiar=("process",),
    ),
    "error_strategy": Word(ValueKind.CHOICE, "fail_fast, continue_on_error or partial", choices=tuple(ErrorStrategy)),
    "fallback_is_warning": Word(ValueKind.FLAG, "whether a run that a fallback saved is completed_with_warnings"),
    "manager_llm": Word(ValueKind.MODEL, "the model of the manager"),
    "manager_max_iterations": Word(ValueKind.WHOLE, "delegations that the manager may make"),
    "manager_prompt": Word(ValueKind.PROMPT, "an object that writes the manager's prompts"),
    "hierarchical_constraints": Word(ValueKind.CONSTRAINTS, "what the manager may and must do", short="constraints"),
    "delegation_policies": Word(
        ValueKind.OBJECTS, "who is asked about every delegation", label="a policy", short="policies"
    ),
    "max_delegation_depth": Word(ValueKind.WHOLE, "how far a delegation may go on to another one"),
    "listeners": Word(ValueKind.OBJECTS, "what hears every event", label="a listener"),
    "capture_mode": Word(
        ValueKind.CHOICE,
        "what is kept of a run: metadata (no text at all), off, standard or full",
        choices=tuple(CaptureMode),
    ),
    "trace_exporter": Word(ValueKind.EXPORTER, "where the trace of every run goes, e.g. traces/ or otel"),
    "rate_limit": Word(ValueKind.RATE, "how often models may be asked, e.g. 60/min", familiar=("max_rpm",)),
    "budget": Word(ValueKind.BUDGET, "what a run may spend, e.g. $0.50 or 20k tokens"),
    "max_concurrency": Word(ValueKind.WHOLE, "how many tasks run at once", is_nullable=True),
    "memory": Word(ValueKind.STORE, "where tasks remember: true, a file such as notes.db, or a store"),
    "review_handler": Word(ValueKind.OBJECT, "a function that answers in place of a person", label="a function"),
    "review_policy": Word(ValueKind.CHOICE, "never, after_every_task or after_last_task", choices=tuple(ReviewPolicy)),
    "cost": Word(ValueKind.COST, "own prices, in place of the public ones"),
    "inputs": Word(ValueKind.INPUTS, "values for {name}"),
    "texts": Word(ValueKind.PROMPT_TEXTS, "what a model is told of a reply that is not good enough, in place of ours"),
    "deps": Word(ValueKind.DEPS, "an object for functions that take a RunContext, as its deps"),
    "verbose": Word(ValueKind.FLAG, "log prompts and replies of everyone"),
    "name": Word(ValueKind.TEXT, "what this ensemble is called"),
}
TEXTS_WORDS: Final[Words] = {
    "correction": Word(
        ValueKind.TEXT,
        "where a reply is not of its output type; has {error}, and may have {output_format}",
        has_variables=True,
        places=TEXT_PLACES["correction"],
    ),
    "revision": Word(
        ValueKind.TEXT,
        "where a review sends a task back; has {feedback}, and may have {attempt} and {previous}",
        has_variables=True,
        places=TEXT_PLACES["revision"],
    ),
    "guardrail": Word(
        ValueKind.TEXT,
        "the same where a guardrail does",
        default="the revision",
        has_variables=True,
        places=TEXT_PLACES["guardrail"],
    ),
}
REVIEWED_TOOL_WORDS: Final[Words] = {
    "tool": Word(ValueKind.OBJECT, "a tool of this notebook", label="a tool"),
    "review": Word(ValueKind.CHOICE, "when somebody is asked about a call of it: before it is made", choices=(BEFORE,)),
    "reuse": Word(ValueKind.FLAG, "whether reuse may take over what a task has come to with it"),
}
COST_WORDS: Final[Words] = {
    "input_rate": Word(ValueKind.PRICE, "for one token that is read"),
    "output_rate": Word(ValueKind.PRICE, "for one token that is written"),
    "cached_input_rate": Word(ValueKind.PRICE, "for one token that is read from the provider's cache"),
    "currency": Word(ValueKind.TEXT, "of all rates"),
}
RATE_WORDS: Final[Words] = {
    "requests": Word(ValueKind.WHOLE, "how many in one period"),
    "period": Word(ValueKind.SECONDS, "how long it is"),
    "wait_timeout": Word(ValueKind.SECONDS, "how long a request waits for its turn"),
}
BUDGET_WORDS: Final[Words] = {
    "max_cost": Word(ValueKind.AMOUNT, "in the currency of the prices"),
    "max_tokens": Word(ValueKind.WHOLE, "read and written, together"),
    "max_llm_calls": Word(ValueKind.WHOLE, "requests to models"),
    "warn_at": Word(ValueKind.SHARE, "the share of a limit at which a warning shows"),
    "allow_unknown_cost": Word(ValueKind.FLAG, "use models without a known price, uncounted"),
}
CONDITION_WORDS: Final[Words] = {
    "field": Word(ValueKind.TEXT, "of a typed output, the value that is tested, e.g. category or address.city"),
    "equals": Word(ValueKind.SCALAR, "the whole output, or the whole value of its field"),
    "contains": Word(ValueKind.TEXT, "a part of it"),
    "matches": Word(ValueKind.TEXT, "a regular expression that is found in it"),
    "predicate": Word(ValueKind.OBJECT, "a function that says yes or no to it", label="a function"),
    "default": Word(ValueKind.FLAG, "when no other condition on this task held"),
}
REVIEW_WORDS: Final[Words] = {
    "timing": Word(ValueKind.CHOICE, "before, during or after", choices=tuple(ReviewTiming)),
    "timeout": Word(ValueKind.SECONDS, "that a person has; null waits for ever", is_nullable=True),
    "on_timeout": Word(ValueKind.CHOICE, "exit_early, continue or fail", choices=tuple(OnTimeout)),
}
PHASE_REVIEW_WORDS: Final[Words] = {
    "by": Word(ValueKind.REVIEWER, "who looks at the phase"),
    "max_retries": Word(ValueKind.WHOLE, "how often it may be sent back"),
    "on_exhausted": Word(
        ValueKind.CHOICE, "fail, or keep: go on with the last outputs once no retry is left", choices=tuple(OnExhausted)
    ),
}
CONSTRAINT_WORDS: Final[Words] = {
    "required_workers": Word(ValueKind.ROLES, "who must have done something"),
    "allowed_workers": Word(ValueKind.ROLES, "nobody else may be asked"),
    "max_calls_per_worker": Word(ValueKind.CAPS, "how often each may be asked"),
    "global_max_delegations": Word(ValueKind.WHOLE, "how often all together may be asked; 0 is no limit"),
    "required_stages": Word(ValueKind.STAGES, "everyone of a stage is done before the next begins"),
}
MODEL_WORDS: Final[Words] = {
    "model": Word(ValueKind.TEXT, "its name on the server; without an address a model or variable as in llm"),
    "base_url": Word(ValueKind.TEXT, "where an OpenAI-compatible server listens"),
    "api_key_env": Word(ValueKind.TEXT, "the environment variable that holds the key"),
    "cost": Word(ValueKind.COST, "its own rates, in place of the ensemble's and of the public prices"),
    "temperature": Word(ValueKind.NUMBER, "how freely it chooses its words; 0 is least"),
    "max_tokens": Word(ValueKind.WHOLE, "the limit of one reply"),
    "top_p": Word(ValueKind.SHARE, "the share of likely words that it chooses from"),
    "seed": Word(ValueKind.WHOLE, "the same seed, the same reply, where the server can"),
    "stop": Word(ValueKind.TEXTS, "where a reply ends"),
    "reasoning_effort": Word(ValueKind.CHOICE, "how long it thinks: low, medium, high, ..."),
    "extra_body": Word(ValueKind.EXTRAS, "further fields of each request, as the server knows them"),
    "schema_mode": Word(
        ValueKind.CHOICE, "how it is told of output types: auto, native, or prompt", choices=SCHEMA_MODES
    ),
    "max_retry_wait": Word(ValueKind.SECONDS, "the longest wait before it is asked again, where no agent or task says"),
}


# --- The places of a cell and the keys that are valid there, with their defaults --------------------------------------
#
# Puts the vocabulary together with the definitions, from which names and defaults come. Reads no text.


@dataclass(frozen=True, slots=True)
class Key:
    """A key where it is valid.

    Attributes:
        name: as it is written.
        word: its row in the vocabulary.
        default: what holds without it; None where there is nothing to say.
        is_required: True when it can't be left out.
    """

    name: str
    word: Word
    default: Any = None
    is_required: bool = False

    @property
    def kind(self) -> ValueKind:
        """What it takes."""
        return self.word.kind

    @property
    def meaning(self) -> str:
        """Half a sentence."""
        return self.word.meaning


@dataclass(frozen=True)
class SectionSchema:
    """A place in a cell where certain keys are valid.

    Attributes:
        name: what the place is, e.g. ``"agent"``.
        label: the same with its article, for messages.
        keys: the valid ones, in the order of the definition.
        definition: what is made of it; None for places that are read only.
        key_groups: words that hold several keys at once, e.g. ``manager``.
    """

    name: str
    label: str
    keys: Mapping[str, Key]
    definition: type[Definition] | None = None
    key_groups: Mapping[str, KeyGroup] = field(default_factory=lambda: MappingProxyType({}))

    @functools.cached_property
    def short_words(self) -> Mapping[str, str]:
        """Shorter words for keys: ``constraints`` is ``hierarchical_constraints``."""
        return {key.word.short: name for name, key in self.keys.items() if key.word.short}

    @functools.cached_property
    def familiar_words(self) -> Mapping[str, str]:
        """Other tools' words for keys."""
        return {word: name for name, key in self.keys.items() for word in key.word.familiar}

    @functools.cached_property
    def template_keys(self) -> tuple[str, ...]:
        """The keys whose texts may hold template variables."""
        return tuple(name for name, key in self.keys.items() if key.word.has_variables)

    @functools.cached_property
    def filled_keys(self) -> tuple[str, ...]:
        """The keys whose mappings hold such texts."""
        return tuple(name for name, key in self.keys.items() if key.word.is_filled)

    @functools.cached_property
    def words(self) -> tuple[str, ...]:
        """What can be written here, each key under its shortest word."""
        shortest = {name: word for word, name in self.short_words.items()}
        shortest |= {name: word for word, key_group in self.key_groups.items() for name in key_group.fields.values()}
        return tuple(dict.fromkeys(shortest.get(name, name) for name in self.keys))

    def describe_keys(self) -> str:
        """Which keys there are, as messages list them, and which of their short words stand for them."""
        short = [*self.short_words, *self.key_groups]
        shorter = f"; shorter: {', '.join(short)}" if short else ""
        return f"{self.label[0].upper()}{self.label[1:]} has: {', '.join(self.keys)}{shorter}."

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """Everything that can be written here."""
        return frozenset((*self.keys, *self.short_words, *self.key_groups))


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A word whose mapping holds several keys of the place around it.

    Attributes:
        schema: its own place, with the keys under the words that they have there.
        fields: those words -> the keys around it.
        lead: the word that a single value stands for.
        meaning: half a sentence.
    """

    schema: SectionSchema
    fields: Mapping[str, str]
    lead: str
    meaning: str


def _make_keys(cls: type[Definition], words: Words) -> dict[str, Key]:
    """Put the words together with the defaults of a definition's fields."""
    keys = {}
    for each in fields(cast("Any", cls)):
        if (word := words.get(each.name)) is not None:
            is_required = each.default is MISSING and each.default_factory is MISSING and not word.default
            default = None if each.default in (MISSING, INHERIT) else each.default
            keys[each.name] = Key(each.name, word, word.default or default, is_required)
    return keys


def _make_schema(name: str, label: str, cls: type[Definition], words: Words) -> SectionSchema:
    return SectionSchema(name, label, _make_keys(cls, words), cls)


def _make_key_group(name: str, meaning: str, lead: str, words: Mapping[str, str]) -> KeyGroup:
    own = {word: replace(_CELL_KEYS[key], name=word) for word, key in words.items()}
    return KeyGroup(SectionSchema(name, f"`{name}`", own), words, lead, meaning)


_CELL_KEYS: Final = _make_keys(EnsembleDefinition, CELL_WORDS)
_MANAGER: Final = {"llm": "manager_llm", "max_iterations": "manager_max_iterations", "prompt": "manager_prompt"}
_REVIEW: Final = {"policy": "review_policy", "handler": "review_handler"}
_KEY_GROUPS: Final = {
    "manager": _make_key_group("manager", "the manager of workflow hierarchical", "llm", _MANAGER),
    "review": _make_key_group("review", "after which tasks a person is asked", "policy", _REVIEW),
}
AGENT: Final = _make_schema("agent", "an agent", Agent, AGENT_WORDS)
TASK: Final = _make_schema("task", "a task", Task, TASK_WORDS)
PHASE: Final = _make_schema("phase", "a phase", Phase, PHASE_WORDS)
CELL: Final = SectionSchema("cell", "a cell", _CELL_KEYS, EnsembleDefinition, _KEY_GROUPS)
TEXTS: Final = _make_schema("texts", "the texts", PromptTexts, TEXTS_WORDS)
REVIEWED_TOOL: Final = _make_schema("reviewed tool", "a reviewed tool", Tool, REVIEWED_TOOL_WORDS)
COST: Final = _make_schema("cost", "a cost", CostConfiguration, COST_WORDS)
RATE: Final = _make_schema("rate", "a rate limit", RateLimit, RATE_WORDS)
BUDGET: Final = _make_schema("budget", "a budget", Budget, BUDGET_WORDS)
CONDITION: Final = _make_schema("condition", "a condition", Condition, CONDITION_WORDS)
REVIEW: Final = _make_schema("review", "a review", Review, REVIEW_WORDS)
PHASE_REVIEW: Final = _make_schema("phase review", "the review of a phase", PhaseReview, PHASE_REVIEW_WORDS)
CONSTRAINTS: Final = _make_schema("constraints", "a set of constraints", HierarchicalConstraints, CONSTRAINT_WORDS)
MODEL: Final = SectionSchema(
    "llm",
    "a model",
    {name: Key(name, word, is_required=name == "model") for name, word in MODEL_WORDS.items()},
)
SCHEMAS: Final = (
    *(CELL, PHASE, AGENT, TASK, TEXTS, COST, RATE, BUDGET, CONDITION, REVIEW, PHASE_REVIEW, CONSTRAINTS, MODEL),
    REVIEWED_TOOL,
    *(key_group.schema for key_group in CELL.key_groups.values()),
)
VALUE_SECTIONS: Final[Mapping[ValueKind, SectionSchema]] = {
    ValueKind.WORKER: AGENT,
    ValueKind.MODEL: MODEL,
    ValueKind.TOOLS: REVIEWED_TOOL,
    ValueKind.COST: COST,
    ValueKind.PROMPT_TEXTS: TEXTS,
    ValueKind.RATE: RATE,
    ValueKind.BUDGET: BUDGET,
    ValueKind.REVIEW: REVIEW,
    ValueKind.PHASE_REVIEW: PHASE_REVIEW,
    ValueKind.CONSTRAINTS: CONSTRAINTS,
}
"""What the keys of a mapping are that stands as a value."""
WORDS: Final = frozenset().union(*(schema.known for schema in (CELL, PHASE, AGENT, TASK)))
PHASE_KEYS: Final = frozenset({"tasks", "after", "workflow", "when"})
"""No task is called so: where one of them stands, a phase is written with its keys."""
TASK_NAMES: Final = frozenset({"review", "prompt", "texts", "history"})
"""Keys that often name a task, too."""
