"""The places of a cell and the keys that are valid there, with their defaults (C2).

Puts the vocabulary together with the definitions, from which names and defaults come. Reads no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, cast

from ensemble_notebook.cell.language import vocabulary
from ensemble_notebook.cell.language.vocabulary import Kind, Words
from ensemble_notebook.domain.definitions.agent import INHERIT, Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.cost import CostConfiguration
from ensemble_notebook.domain.definitions.definition import Checked, field_names
from ensemble_notebook.domain.definitions.ensemble import EnsembleDefinition
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import STOCK_EXPECTED_OUTPUT, Task


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
        definition: what is made of it; None for places that are read only.
        short: shorter words for keys: ``constraints`` is ``hierarchical_constraints``.
        spreads: words that hold several keys at once, e.g. ``manager``.
    """

    name: str
    label: str
    keys: Mapping[str, Key]
    definition: type[Checked] | None = None
    short: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    spreads: Mapping[str, Spread] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def words(self) -> tuple[str, ...]:
        """What can be written here, each key under its shortest word."""
        shortest = {name: word for word, name in self.short.items()}
        shortest |= {name: word for word, spread in self.spreads.items() for name in spread.fields.values()}
        return tuple(dict.fromkeys(shortest.get(name, name) for name in self.keys))

    @property
    def known(self) -> frozenset[str]:
        """Everything that can be written here."""
        return frozenset((*self.keys, *self.short, *self.spreads))


@dataclass(frozen=True, slots=True)
class Spread:
    """A word whose mapping holds several keys of the place around it.

    Attributes:
        scope: its own place, with the keys under the words that they have there.
        fields: those words -> the keys around it.
        lead: the word that a single value stands for.
        meaning: half a sentence.
    """

    scope: Scope
    fields: Mapping[str, str]
    lead: str
    meaning: str


_LEFT_OUT: Final[Mapping[str, Any]] = {
    "Agent.role": "the key of the agent",
    "Task.expected_output": STOCK_EXPECTED_OUTPUT,
    "Phase.name": "the key of the phase",
    "EnsembleDefinition.workflow": "sequential for a list, parallel for a mapping",
    "EnsembleDefinition.inputs": None,
}
_NULLABLE: Final = {"Agent.llm_timeout", "Task.timeout", "Review.timeout", "Agent.background"} | {
    "EnsembleDefinition.max_concurrency"
}
_WORDS_OF: Final[Mapping[type[Checked], Words]] = {
    Agent: vocabulary.AGENT_WORDS,
    Task: vocabulary.TASK_WORDS,
    Phase: vocabulary.PHASE_WORDS,
    EnsembleDefinition: vocabulary.CELL_WORDS,
    CostConfiguration: vocabulary.COST_WORDS,
    RateLimit: vocabulary.RATE_WORDS,
    Budget: vocabulary.BUDGET_WORDS,
    Condition: vocabulary.CONDITION_WORDS,
    Review: vocabulary.REVIEW_WORDS,
    PhaseReview: vocabulary.PHASE_REVIEW_WORDS,
    HierarchicalConstraints: vocabulary.CONSTRAINT_WORDS,
}


def _keys(cls: type[Checked]) -> dict[str, Key]:
    """Kinds and meanings of the words, put together with the defaults of a definition's fields."""
    found, words, made = {}, _WORDS_OF[cls], cast("Any", cls)
    for each in fields(made):
        if each.name not in words:
            continue
        kind, meaning = words[each.name]
        where = f"{cls.__name__}.{each.name}"
        default = _LEFT_OUT.get(where, None if each.default in (MISSING, INHERIT) else each.default)
        is_required = each.default is MISSING and each.default_factory is MISSING and where not in _LEFT_OUT
        found[each.name] = Key(each.name, kind, meaning, default, is_required, where in _NULLABLE)
    return found


def _scope(name: str, label: str, cls: type[Checked]) -> Scope:
    return Scope(name, label, _keys(cls), cls)


def _spread(name: str, meaning: str, lead: str, words: Mapping[str, str], keys: Mapping[str, Key]) -> Spread:
    own = {word: replace(keys[key], name=word) for word, key in words.items()}
    return Spread(Scope(name, f"`{name}`", own), words, lead, meaning)


def _cell() -> Scope:
    keys = _keys(EnsembleDefinition)
    manager = {"llm": "manager_llm", "max_iterations": "manager_max_iterations", "prompt": "manager_prompt"}
    review = {"policy": "review_policy", "handler": "review_handler"}
    return Scope(
        "cell",
        "a cell",
        keys,
        EnsembleDefinition,
        {"constraints": "hierarchical_constraints", "policies": "delegation_policies"},
        {
            "manager": _spread("manager", "the manager of workflow hierarchical", "llm", manager, keys),
            "review": _spread("review", "after which tasks a person is asked", "policy", review, keys),
        },
    )


AGENT: Final = _scope("agent", "an agent", Agent)
TASK: Final = _scope("task", "a task", Task)
PHASE: Final = _scope("phase", "a phase", Phase)
CELL: Final = _cell()
COST: Final = _scope("cost", "a cost", CostConfiguration)
RATE: Final = _scope("rate", "a rate limit", RateLimit)
BUDGET: Final = _scope("budget", "a budget", Budget)
CONDITION: Final = _scope("condition", "a condition", Condition)
REVIEW: Final = _scope("review", "a review", Review)
PHASE_REVIEW: Final = _scope("phase review", "the review of a phase", PhaseReview)
CONSTRAINTS: Final = _scope("constraints", "a set of constraints", HierarchicalConstraints)
MODEL: Final = Scope(
    "llm",
    "a model",
    {
        name: Key(name, kind, meaning, is_required=name == "model")
        for name, (kind, meaning) in vocabulary.MODEL_WORDS.items()
    },
)
SCOPES: Final = (
    *(CELL, PHASE, AGENT, TASK, COST, RATE, BUDGET, CONDITION, REVIEW, PHASE_REVIEW, CONSTRAINTS, MODEL),
    *(spread.scope for spread in CELL.spreads.values()),
)
WORDS: Final = frozenset().union(*(scope.known for scope in (CELL, PHASE, AGENT, TASK)))
PHASE_KEYS: Final = frozenset({"tasks", "after", "workflow", "when"})
"""No task is called so: where one of them stands, a phase is written with its keys."""
TASK_NAMES: Final = frozenset({"review"})
"""Keys that often name a task, too."""


def unknown_fields() -> list[str]:
    """Fields of the definitions that the language has no words for; always empty, which a test holds."""
    unnamed = {"Condition.source"}  # the key of the mapping is the source
    found = [
        f"{cls.__name__}.{name}" for cls, words in _WORDS_OF.items() for name in field_names(cls) if name not in words
    ]
    return [each for each in found if each not in unnamed]
