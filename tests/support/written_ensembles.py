"""Ensembles to be written as text and made again: one for each word of the language, and random ones.

They go by the vocabulary: a word of a known kind is tried by itself, one of a new kind asks for a value here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from hypothesis import assume
from hypothesis import strategies as st

from ensemble_notebook import (
    Agent,
    Budget,
    Condition,
    CostConfiguration,
    Ensemble,
    HierarchicalConstraints,
    InMemoryStore,
    JsonTraceExporter,
    Phase,
    PhaseReview,
    PromptTexts,
    RateLimit,
    Review,
    ScriptedChatModel,
    SqliteMemory,
    Task,
    ValidationError,
)
from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.vocabulary import Key, ValueKind
from ensemble_notebook.domain.definitions.definition import Definition
from ensemble_notebook.domain.definitions.templates import find_input_name
from ensemble_notebook.domain.planning.delegation import list_agents
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.graph import build_graph


class Prompts:
    """A strategy for the manager's prompts."""

    def system(self, workers: Any) -> str:
        return ""

    def user(self, tasks: Any) -> str:
        return ""


@dataclass
class Dish:
    """A typed output."""

    title: str


def say(value: Any) -> str:
    """What stands for every function."""
    return ""


def look(value: Any) -> str:
    """What stands for another one."""
    return ""


NAMES: Final[dict[str, Any]] = {
    "say": say,
    "look": look,
    "quiet": lambda value: None,
    "model": ScriptedChatModel(),
    "prompts": Prompts(),
    "Dish": Dish,
    "store": InMemoryStore(max_entries=3),
    "purse": Budget(max_tokens=7).shared(),
    "bucket": RateLimit(7, 7),
    "documents": [{"text": "a"}, {"text": "b"}],
    "research": Ensemble(tasks=[Task.of("Find facts about {topic}")]),
    "odd_schema": {"type": "object", "properties": {}, "propertyOrdering": []},
}
"""The variables of the notebook."""

PITFALLS: Final = (
    *(
        "yes",
        "null",
        "~",
        "1",
        "1e3",
        "007",
        "0x1F",
        "- a",
        "a: b",
        "a:",
        "#1",
        "a #b",
        "{topic} now",
        "{{x}} y",
        "[a]",
    ),
    *("it's", 'say "x"', "goal:Find", "%a", "@b", "*c", "&d", "!e", "|", ">", "? f", "a, b", "...", "---", "<<", "="),
    *(
        "two\nlines",
        "two\n\n  lines {topic}",
        " led",
        "trailed ",
        "end\n",
        "\nbegin",
        "tab\there",
        "a\u2028b",
        "é ü 😀",
    ),
    *("nul\x00", "\x85", "\ufeff", "a\r\nb", "word " * 40, "x" * 200, "a\n \nb", "default", "defalt", "\\n", "true"),
)
TEXTS: Final = st.one_of(
    st.sampled_from(PITFALLS),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.sampled_from(["Find facts about {topic}", "Write a brief", "Answer well."]),
).filter(lambda text: bool(text.strip()))
LINES: Final = TEXTS.filter(lambda text: text == text.strip() and text.isprintable())
WHOLE: Final = st.integers(1, 30)
FUNCTIONS: Final = st.lists(st.sampled_from([say, look, NAMES["quiet"]]), min_size=1, max_size=3, unique=True)
DATA: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS, st.just("")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SCHEMAS: Final = st.sampled_from(
    [
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}, "c": {}},
            "required": ["a", "c"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "sky": {"type": "string", "enum": ["clear", "grey"]},
                "who": {
                    "type": "object",
                    "properties": {"x": {"type": ["integer", "string"]}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
                "all": {"type": "array", "items": {"type": "number"}},
                "one": {"enum": [1, 2]},
            },
            "required": ["sky", "who", "all", "one"],
            "additionalProperties": False,
        },
        {"type": "object", "title": "Odd", "properties": {"b": {"type": "integer", "maximum": 3}, "a": {"const": 1}}},
    ]
)
MODELS: Final = st.sampled_from(
    [
        *("local", "openai:gpt-4o-mini", "openai:x@http://localhost:1/v1", "scripted", NAMES["model"]),
        {"model": "local", "temperature": 0.5, "seed": 3},
        {"model": "m", "base_url": "http://localhost:1/v1", "api_key_env": "MY_KEY", "max_tokens": 9, "top_p": 0.5},
        {"model": "local", "stop": ["END", "yes"], "extra_body": {"a": [1, {"b": None}]}, "reasoning_effort": "low"},
        {"model": "local", "schema_mode": "prompt", "max_retry_wait": 20},
    ]
)
RATES: Final = st.one_of(
    st.just(NAMES["bucket"]),
    st.builds(RateLimit, WHOLE, st.sampled_from([1, 60, 3600, 86400, 7, 0.5])),
    st.builds(RateLimit, WHOLE, st.just(60), wait_timeout=st.just(5)),
)
BUDGETS: Final = st.one_of(
    st.just(NAMES["purse"]),
    st.builds(Budget, max_cost=st.sampled_from([None, "0.50", "1E-9", "3"]), max_tokens=st.sampled_from([20_000, 77])),
    st.builds(Budget, max_llm_calls=WHOLE, warn_at=st.just(0.5), allow_unknown_cost=st.booleans()),
)

VALUES: Final[Mapping[ValueKind, st.SearchStrategy[Any]]] = {
    ValueKind.TEXT: TEXTS,
    ValueKind.FLAG: st.just(True),
    ValueKind.WHOLE: WHOLE,
    ValueKind.SECONDS: st.sampled_from([0.5, 7, 120.0]),
    ValueKind.SHARE: st.just(0.5),
    ValueKind.OBJECT: st.sampled_from([say, look]),
    ValueKind.OBJECTS: FUNCTIONS,
    ValueKind.FUNCTIONS: FUNCTIONS,
    ValueKind.TOOLS: st.lists(st.sampled_from([say, look]), min_size=1, max_size=2, unique=True),
    ValueKind.PROMPT: st.just(NAMES["prompts"]),
    ValueKind.DEPS: st.just(NAMES["prompts"]),
    ValueKind.MODEL: MODELS,
    ValueKind.OUTPUT_TYPE: SCHEMAS | st.sampled_from([Dish, NAMES["odd_schema"]]),
    ValueKind.INPUTS: st.dictionaries(st.sampled_from(["topic", "n", "x_1"]), DATA, min_size=1, max_size=2),
    ValueKind.PRICE: st.sampled_from([Decimal("0.0000002"), Decimal(0), Decimal("1.50")]),
    ValueKind.AMOUNT: st.sampled_from([Decimal("0.50"), Decimal(3)]),
    ValueKind.COST: st.builds(
        CostConfiguration,
        input_rate=st.sampled_from(["0.0000002", 0]),
        output_rate=st.just("1.50"),
        currency=st.sampled_from(["USD", "EUR", "CHF"]),
    ),
    ValueKind.PROMPT_TEXTS: st.sampled_from(
        [
            PromptTexts(correction="{error} {output_format}"),
            PromptTexts(revision="{feedback}", guardrail="x: {feedback}"),
        ]
    ),
    ValueKind.RATE: RATES,
    ValueKind.BUDGET: BUDGETS,
    ValueKind.REVIEW: st.lists(
        st.builds(
            Review,
            st.sampled_from(["before", "after"]),
            timeout=st.sampled_from([None, 300.0, 2]),
            on_timeout=st.sampled_from(["exit_early", "fail"]),
        ),
        min_size=1,
        max_size=2,
        unique_by=lambda review: review.timing,
    ),
    ValueKind.MEMORIES: st.lists(LINES, min_size=1, max_size=2, unique=True),
    ValueKind.STORE: st.sampled_from([NAMES["store"], InMemoryStore()]),
    ValueKind.EXPORTER: st.sampled_from([JsonTraceExporter("traces"), JsonTraceExporter("a/run.json"), say]),
    ValueKind.CONSTRAINTS: st.builds(HierarchicalConstraints, global_max_delegations=WHOLE),
    ValueKind.ROLES: st.just(["Cook"]),
    ValueKind.CAPS: st.just({"Cook": 2}),
    ValueKind.STAGES: st.just([["Cook"]]),
    ValueKind.SCALAR: st.sampled_from(["yes", "1", 3, 0.5, True]),
    ValueKind.REVIEWER: st.just(look),
    ValueKind.ITEM_SOURCE: st.sampled_from(["{rows}", ["a", {"x": 1}, None], [], NAMES["documents"]]),
    ValueKind.ENSEMBLE: st.just(NAMES["research"]),
}
"""A value for each kind; the kinds that refer to members are drawn by `ensembles`."""
CHOICES: Final = {
    "review": "before",
    "workflow": "parallel",
    "error_strategy": "partial",
    "capture_mode": "full",
    "review_policy": "after_last_task",
    "reuse": "never",
    "timing": "during",
    "on_timeout": "fail",
    "on_exhausted": "keep",
}
"""A word for each key that takes one of a few."""


def value_for(key: Key) -> st.SearchStrategy[Any]:
    """A value that differs from the default of a key."""
    if key.kind is ValueKind.CHOICE:
        return st.just(CHOICES[key.name])
    if key.name in ("contains", "matches", "equals", "field"):
        return st.sampled_from(["urgent", "a b"] if key.name != "field" else ["title"])
    if key.name == "history":
        return st.sampled_from(["20 turns", "8k tokens, summarised"])
    found = VALUES[key.kind]
    return st.one_of(found, st.none()) if key.word.is_nullable and key.default is not None else found


_SYSTEM_PROMPT: Final = {"system_prompt": "You are {role}: {{goal}} {topic}"}


@st.composite
def agents(draw: st.DrawFn, role: str | None = None) -> Agent:
    """An agent with some of its fields."""
    given = draw_fields(draw, vocabulary.AGENT, {"role", "goal", "response_format", "system_prompt"})
    given |= draw(st.sampled_from([{}, {}, {"response_format": "In {topic}."}, {"system_prompt": ""}, _SYSTEM_PROMPT]))
    return Agent(
        role=role or draw(st.sampled_from(["Cook", "Writer", " Taster", "{topic} expert", "yes", "x: y", "é" * 90])),
        goal=draw(TEXTS),
        **given,
    )


def draw_fields(draw: st.DrawFn, schema: vocabulary.SectionSchema, without: set[str]) -> dict[str, Any]:
    """Values for a few keys of a place."""
    keys = [key for key in schema.keys.values() if key.name not in without]
    chosen = draw(st.lists(st.sampled_from(keys), max_size=4, unique_by=lambda key: key.name))
    return {key.name: draw(value_for(key)) for key in chosen}


_MEMBERS: Final = {"agent", "context", "when", "fallback", "name", "handler"}
_TEXTS: Final = {"description", "prompt", "ensemble", "inputs"}


@st.composite
def tasks(draw: st.DrawFn, name: str | None, before: list[Task], team: list[Agent]) -> Task:
    """A task that may read those before it, have conditions on them, and be done by one of a team."""
    plain = {"timeout", "memory", "reuse", "output_guardrails", "for_each", "max_items"}
    worker = draw(st.sampled_from(["agent", "agent", "agent", "handler", "ensemble"]))
    if worker == "handler":
        fields_ = draw_fields(draw, vocabulary.TASK, set(vocabulary.TASK.keys) - plain)
        fields_["handler"] = draw(st.sampled_from([say, look]))
    elif worker == "ensemble":
        inputs = {"topic": draw(st.sampled_from(["{context}", "tides", "{topic} and {context}"]))}
        fields_ = {"ensemble": NAMES["research"], "inputs": inputs}
    else:
        fields_ = draw_fields(draw, vocabulary.TASK, _MEMBERS | _TEXTS)
        fields_["agent"] = draw(st.sampled_from([None, *team]))
        if team:
            fields_["fallback"] = draw(st.sampled_from([None, None, team[-1], draw(agents("Helper"))]))
    known = st.sampled_from(before or [None])
    some = st.lists(known, max_size=2, unique_by=id) if before else st.just([])
    fields_["context"] = draw(st.one_of(st.just([]), some, st.just(before[-1:])))
    sources = [each for each in before if find_input_name(each.name or "") is None]
    if sources and "for_each" in fields_ and draw(st.booleans()):
        fields_["for_each"] = draw(st.sampled_from(sources))
    if before and draw(st.integers(0, 3)) == 0:
        test = draw(st.sampled_from([{"equals": "yes"}, {"contains": "a"}, {"matches": "(?i)x|y"}, {"predicate": say}]))
        fields_["when"] = [Condition(draw(known), **test), *draw(st.sampled_from([[], [_default(before[0])]]))]
    fields_.setdefault("expected_output", draw(st.sampled_from(["A clear, complete answer to the task.", "Words"])))
    if worker == "agent" and draw(st.integers(0, 4)) == 0:
        fields_["prompt"] = draw(TEXTS) + (" {context}" if fields_["context"] else "")
        if draw(st.booleans()):
            return Task(name=name, **fields_)
    return Task(description=draw(TEXTS), name=name, **fields_)


def _default(task: Task) -> Condition:
    return Condition(task, default=True)


_TASK_NAMES: Final = ("gather", "brief", "yes", "null", "tasks", "review", "x: y", "a b", "#1", "{x}", "7", "after")


@st.composite
def groups(draw: st.DrawFn, names: list[str], earlier: list[Task], team: list[Agent]) -> list[Task]:
    """Tasks of one list, each with one of the names or none."""
    made: list[Task] = []
    for name in draw(st.lists(st.sampled_from([*names, None, None]), min_size=1, max_size=4)):
        free = name if all(each.name != name for each in [*earlier, *made]) else None
        made.append(draw(tasks(free, [*earlier, *made], team)))
    return made


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    """A valid ensemble over the whole vocabulary."""
    team = draw(st.lists(agents(), max_size=3))
    without = {"tasks", "phases", "agents", "workflow", "inputs"}
    fields_ = draw_fields(draw, vocabulary.CELL, without)
    fields_["inputs"] = draw(st.one_of(st.just({}), VALUES[ValueKind.INPUTS]))
    fields_["workflow"] = draw(st.sampled_from(["sequential", "parallel", "hierarchical"]))
    fields_["agents"] = draw(st.sampled_from([(), team])) if team else ()
    try:
        if draw(st.booleans()) or fields_["workflow"] == "hierarchical":
            made = Ensemble(tasks=draw(groups(list(_TASK_NAMES), [], team)), **fields_)
        else:
            made = Ensemble(phases=draw(phase_lists(team)), **fields_)
        check_ensemble(made)
    except ValidationError:
        assume(False)
    assume(not _shares_limits(made))
    return made


@st.composite
def phase_lists(draw: st.DrawFn, team: list[Agent]) -> list[Phase]:
    """Phases, each after all before it, with tasks of the same names in some."""
    phases: list[Phase] = []
    for name in draw(st.lists(st.sampled_from(["one", "two", "x: y"]), min_size=1, max_size=3, unique=True)):
        earlier = [task for phase in phases for task in phase.tasks]
        local = draw(groups(["gather", "brief", f"{name}.find"], earlier, team))
        review = draw(st.sampled_from([None, look, PhaseReview(look, max_retries=1), "task"]))
        if review == "task":
            by = Task.of(draw(TEXTS), context=draw(st.sampled_from([(), (local[0],)])))
            review = PhaseReview(by, on_exhausted=draw(st.sampled_from(["fail", "keep"])))
        when = [Condition(draw(st.sampled_from(earlier)), contains="x")] if earlier and draw(st.booleans()) else None
        workflow = draw(st.sampled_from([None, "sequential", "parallel"]))
        after = [draw(st.sampled_from([each, each.name])) for each in phases]
        rounds: dict[str, Any] = {}
        if review is None and draw(st.booleans()):
            rounds = {"until": Condition(local[0], contains="x"), "max_rounds": draw(st.integers(1, 100))}
            rounds["on_exhausted"] = draw(st.sampled_from(["fail", "keep"]))
        phases.append(Phase(name=name, tasks=local, workflow=workflow, after=after, when=when, review=review, **rounds))
    return phases


def _shares_limits(ensemble: Ensemble) -> bool:
    """Whether a limit without a variable has several holders, which only Python can say."""
    graph = build_graph(ensemble)
    owners = [ensemble, *(node.task for node in graph.all_tasks), *list_agents(ensemble, graph)]
    fallbacks = {id(node.task.fallback): node.task.fallback for node in graph.all_tasks if node.task.fallback}
    known = {id(agent) for agent in list_agents(ensemble, graph)}
    inline = [node.task.fallback for node in graph.all_tasks if id(node.task.fallback) not in known]
    owners += [each for each in inline if each is not None]
    limits = [owner.rate_limit for owner in owners if owner.rate_limit is not None]
    own = [each for each in limits if each is not NAMES["bucket"]]
    return len({id(each) for each in own}) < len(own) or len(fallbacks) < len({id(each) for each in inline} - known)


def picture(ensemble: Ensemble) -> Any:
    """All that an ensemble says, as plain data: equal for two that do the same."""
    return _Picture(ensemble).make()


class _Picture:
    """Objects go by identity; members, and limits that several hold, by their place."""

    def __init__(self, ensemble: Ensemble) -> None:
        self._ensemble, self._graph = ensemble, build_graph(ensemble)
        self._names = {id(node.task): node.name for node in self._graph.tasks}
        self._team = list_agents(ensemble, self._graph)
        self._limits: dict[int, int] = {}

    def make(self) -> Any:
        without = {"tasks", "phases", "agents"}
        own = [each.name for each in fields(self._ensemble) if each.name not in without]
        return {
            "ensemble": {name: self._of(getattr(self._ensemble, name)) for name in own},
            "agents": [self._of_fields(agent) for agent in self._team],
            "tasks": [
                (node.name, node.phase, node.context, node.is_chained, self._tests(node), self._of_fields(node.task))
                for node in self._graph.tasks
            ],
            "phases": [
                (
                    *(node.name, node.workflow, node.tasks, node.after, self._tests(node), self._of(node.phase.review)),
                    *(self._tests(node, "until"), node.phase.max_rounds, node.phase.on_exhausted),
                    node.reviewer and (node.reviewer.context, self._of_fields(node.reviewer.task)),
                )
                for node in self._graph.phases
            ],
        }

    def _tests(self, node: Any, field: str = "when") -> Any:
        found = [self._graph.conditions[each] for each in getattr(node, field)]
        return [(each.source, self._of_fields(each.condition)) for each in found]

    def _of_fields(self, value: Any) -> Any:
        without = {"context", "when", "source"} | ({"name"} if id(value) in self._names else set())
        return {each.name: self._of(getattr(value, each.name)) for each in fields(value) if each.name not in without}

    def _of(self, value: Any) -> Any:
        if isinstance(value, Task):
            return (False, self._names[id(value)]) if id(value) in self._names else self._of_fields(value)
        if isinstance(value, Agent) and any(value is each for each in self._team):
            return [value is each for each in self._team].index(True)
        if isinstance(value, RateLimit | Budget):
            number = self._limits.setdefault(id(value), len(self._limits))
            return number, NAMES["bucket"] is value, NAMES["purse"] is value, self._of_fields(value)
        if isinstance(value, Definition) and value is not NAMES["research"]:
            return type(value).__name__, self._of_fields(value)
        if isinstance(value, list | tuple):
            return [self._of(each) for each in value]
        if isinstance(value, Mapping) and value is not NAMES["odd_schema"]:
            return [(name, self._of(each)) for name, each in value.items()]
        return _of_object(value)


def _of_object(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if type(value) is InMemoryStore and value is not NAMES["store"]:
        return "a store of its own"
    if isinstance(value, SqliteMemory | JsonTraceExporter):
        return type(value).__name__, value.path
    if isinstance(value, Enum | str | int | float | Decimal | type(None)):
        return isinstance(value, bool), value
    return id(value)
