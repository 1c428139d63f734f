"""The places of a cell and the keys that are valid there, with their defaults (C2).

Puts the vocabulary together with the definitions, from which names and defaults come. Reads no text.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, cast

from ensemble_notebook.cell.language import vocabulary
from ensemble_notebook.cell.language.vocabulary import ValueKind, Word, Words
from ensemble_notebook.domain.definitions.agent import INHERIT, Agent
from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.cost import CostConfiguration
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints
from ensemble_notebook.domain.definitions.limits import Budget, RateLimit
from ensemble_notebook.domain.definitions.phase import Phase, PhaseReview
from ensemble_notebook.domain.definitions.review import Review
from ensemble_notebook.domain.definitions.task import Task


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
        """Other tools' words for keys (C3)."""
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


WORDS_OF: Final[Mapping[type[Definition], Words]] = {
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


def _make_keys(cls: type[Definition]) -> dict[str, Key]:
    """Put the words together with the defaults of a definition's fields."""
    words, made = WORDS_OF[cls], cast("Any", cls)
    return {each.name: _make_key(each, words[each.name]) for each in fields(made) if each.name in words}


def _make_key(definition_field: Field[Any], word: Word) -> Key:
    if word.default:
        return Key(definition_field.name, word, word.default)
    default = definition_field.default
    is_required = default is MISSING and definition_field.default_factory is MISSING
    return Key(definition_field.name, word, None if default in (MISSING, INHERIT) else default, is_required)


def _make_schema(name: str, label: str, cls: type[Definition]) -> SectionSchema:
    return SectionSchema(name, label, _make_keys(cls), cls)


def _make_key_group(name: str, meaning: str, lead: str, words: Mapping[str, str], keys: Mapping[str, Key]) -> KeyGroup:
    own = {word: replace(keys[key], name=word) for word, key in words.items()}
    return KeyGroup(SectionSchema(name, f"`{name}`", own), words, lead, meaning)


def _make_cell_schema() -> SectionSchema:
    keys = _make_keys(EnsembleDefinition)
    manager = {"llm": "manager_llm", "max_iterations": "manager_max_iterations", "prompt": "manager_prompt"}
    review = {"policy": "review_policy", "handler": "review_handler"}
    return SectionSchema(
        "cell",
        "a cell",
        keys,
        EnsembleDefinition,
        {
            "manager": _make_key_group("manager", "the manager of workflow hierarchical", "llm", manager, keys),
            "review": _make_key_group("review", "after which tasks a person is asked", "policy", review, keys),
        },
    )


AGENT: Final = _make_schema("agent", "an agent", Agent)
TASK: Final = _make_schema("task", "a task", Task)
PHASE: Final = _make_schema("phase", "a phase", Phase)
CELL: Final = _make_cell_schema()
COST: Final = _make_schema("cost", "a cost", CostConfiguration)
RATE: Final = _make_schema("rate", "a rate limit", RateLimit)
BUDGET: Final = _make_schema("budget", "a budget", Budget)
CONDITION: Final = _make_schema("condition", "a condition", Condition)
REVIEW: Final = _make_schema("review", "a review", Review)
PHASE_REVIEW: Final = _make_schema("phase review", "the review of a phase", PhaseReview)
CONSTRAINTS: Final = _make_schema("constraints", "a set of constraints", HierarchicalConstraints)
MODEL: Final = SectionSchema(
    "llm",
    "a model",
    {name: Key(name, word, is_required=name == "model") for name, word in vocabulary.MODEL_WORDS.items()},
)
SCHEMAS: Final = (
    *(CELL, PHASE, AGENT, TASK, COST, RATE, BUDGET, CONDITION, REVIEW, PHASE_REVIEW, CONSTRAINTS, MODEL),
    *(key_group.schema for key_group in CELL.key_groups.values()),
)
WORDS: Final = frozenset().union(*(schema.known for schema in (CELL, PHASE, AGENT, TASK)))
PHASE_KEYS: Final = frozenset({"tasks", "after", "workflow", "when"})
"""No task is called so: where one of them stands, a phase is written with its keys."""
TASK_NAMES: Final = frozenset({"review"})
"""Keys that often name a task, too."""
