"""A value or more for each field of each definition, and ensembles in which chosen ones of them are set.

The cell language has the same fields by the same names. What is set of a small definition, such as a `RateLimit`, is
set of the one that stands on the second of three tasks, or on its phase or ensemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from ensemble_notebook import (
    Agent,
    Budget,
    CaptureMode,
    Condition,
    CostConfiguration,
    DelegationPolicyResult,
    Ensemble,
    ErrorStrategy,
    HierarchicalConstraints,
    InMemoryStore,
    JsonTraceExporter,
    Phase,
    PhaseReview,
    PromptTexts,
    RateLimit,
    Reply,
    Review,
    ReviewDecision,
    ReviewPolicy,
    ReviewTiming,
    ScriptedChatModel,
    SqliteMemory,
    Task,
    Tool,
    ToolUse,
    Workflow,
)
from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.vocabulary import MODEL_WORDS


@dataclass
class Dish:
    """A typed output."""

    title: str
    score: int


class Prompts:
    """A strategy for the manager's prompts."""

    def system(self, workers: Any) -> str:
        return "Lead them."

    def user(self, tasks: Any) -> str:
        return "Do it all."


def search(query: str) -> str:
    """Search the notes."""
    return f"notes on {query}"


def say(given: Any) -> str:
    """A handler."""
    return "yes"


async def give(given: Any) -> dict[str, Any]:
    """A handler that gives a value."""
    return {"title": "yes", "parts": [1, 2.0, None]}


def accept(value: Any) -> None:
    """A guardrail or listener without an objection."""


def welcome(value: Any) -> None:
    """Another one."""


def object_once(value: Any) -> str | None:
    """A guardrail with an objection to short texts."""
    return "too short" if len(value.raw) < 5 else None


def holds(output: Any) -> bool:
    """A test that is met."""
    return True


def approve(request: Any) -> ReviewDecision:
    """A reviewer who is content."""
    return ReviewDecision.approve()


def is_long(call: Any) -> bool:
    """A rule of when a call is reviewed."""
    return len(call.arguments["query"]) > 2


def judge(given: Any) -> str:
    """The same, as a task."""
    return "APPROVE"


def allow(request: Any, context: Any) -> DelegationPolicyResult:
    """A policy."""
    return DelegationPolicyResult.allow()


guest = Agent(role="Guest", goal="Help", max_retries=0)
inner = Ensemble(
    name="inner", inputs={"what": "it"}, tasks=[Task.of("Say {what}", name="say", handler=say, max_retries=1)]
)
store, prompts = InMemoryStore(max_entries=3), Prompts()
model = ScriptedChatModel.match(
    {
        "Lead them.": [
            Reply(calls=[ToolUse("delegate_task", {"agent_role": "Taster", "task_description": "Taste"})]),
            "Done.",
        ],
        "notes": [Reply(calls=[ToolUse("search", {"query": "sea"})]), "yes, it is calm"],
    },
    default='{"title": "yes", "score": 3}',
)
other_model = ScriptedChatModel(default='{"title": "yes", "score": 3}', model_name="other")
SERVER: Final = "http://the-server"
"""Stands for the address of the test's own server."""
_SERVED: Final = {
    "model": "m",
    "base_url": SERVER,
    "api_key_env": "SAMPLE_KEY",
    "temperature": 0,
    "max_tokens": 200,
    "seed": 3,
    "top_p": 0.5,
    "stop": ["END"],
    "reasoning_effort": "low",
    "extra_body": {"a": [1, {"b": None}]},
    "schema_mode": "prompt",
    "max_retry_wait": 20,
    "cost": {"input_rate": "0.000002", "cached_input_rate": "0.0000005", "output_rate": 0.00001},
}
_PRICED: Final = {"model": other_model, "cost": CostConfiguration(input_rate="0.000002", output_rate="0.00001")}
_MODELS: Final = (other_model, "scripted", _SERVED, _PRICED)
_RATES: Final = (partial(RateLimit, 60_000, 60), partial(RateLimit, 1_000, 0.5, wait_timeout=45))
_TESTS: Final = ({"contains": "yes"}, {"equals": "never"})
_WHEN: Final = ([Condition("first", **_TESTS[0])], [Condition("first", **each) for each in _TESTS])

SAMPLES: Final[Mapping[type, Mapping[str, Sequence[Any]]]] = {
    Ensemble: {
        "tasks": (),
        "phases": (),
        "agents": (),
        "llm": _MODELS,
        "workflow": tuple(Workflow),
        "error_strategy": tuple(ErrorStrategy),
        "fallback_is_warning": (False,),
        "manager_llm": (model,),
        "manager_max_iterations": (7,),
        "manager_prompt": (prompts,),
        "hierarchical_constraints": (HierarchicalConstraints(),),
        "delegation_policies": ([allow],),
        "max_delegation_depth": (2,),
        "listeners": ([accept],),
        "capture_mode": tuple(CaptureMode),
        "trace_exporter": (JsonTraceExporter("traces"), accept),
        "rate_limit": _RATES,
        "budget": (Budget(max_tokens=900_000),),
        "max_concurrency": (1, 2),
        "memory": (store, partial(SqliteMemory, "notes.db")),
        "review_handler": (approve,),
        "review_policy": tuple(ReviewPolicy),
        "cost": (CostConfiguration(input_rate="0.000001", output_rate=0),),
        "inputs": ({"topic": "tides", "rows": [1, "b"], "share": 0.5},),
        "deps": (prompts,),
        "texts": (PromptTexts(correction="Again: {error}", revision="{attempt}: {feedback} {previous}"),),
        "verbose": (True,),
        "name": ("the desk: 1",),
    },
    Phase: {
        "name": (),
        "tasks": (),
        "workflow": ("sequential", "parallel"),
        "after": (),
        "when": _WHEN,
        "review": (approve, Task.of("Is it good?", name="look", handler=judge, max_retries=1)),
        "until": ({"subject": {"predicate": holds}}, [Condition("last", predicate=holds)]),
        "max_rounds": (1, 100),
        "on_exhausted": ("keep",),
    },
    Agent: {
        "role": ("Cook of {topic}",),
        "goal": ("Feed {topic}",),
        "llm": _MODELS,
        "background": ("You know {topic}.",),
        "tools": ([search],),
        "allow_delegation": (True,),
        "verbose": (True,),
        "max_iterations": (7,),
        "response_format": ("In short lines.",),
        "history": ("20 turns",),
        "system_prompt": ("You are {role}, who wants to {goal}. {background}", ""),
        "rate_limit": _RATES,
        "max_retries": (0, 4),
        "max_retry_wait": (15, 2.5),
        "llm_timeout": (45, 12.5, None),
    },
    Task: {
        "description": ("Describe {topic}",),
        "expected_output": ("Words on {topic}",),
        "prompt": ("Describe {topic}.\n{revision}{previous}",),
        "agent": (guest,),
        "context": (["first"],),
        "name": ("a name: {topic}",),
        "handler": (say, give),
        "ensemble": (inner,),
        "inputs": ({"what": "{topic}", "year": 1851},),
        "llm": _MODELS,
        "tools": ([search],),
        "timeout": (45, 12.5),
        "output_type": (Dish, {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}),
        "max_output_retries": (0, 2),
        "when": _WHEN,
        "fallback": (Agent(role="Helper", goal="Help with {topic}"),),
        "input_guardrails": (accept, [accept, welcome]),
        "output_guardrails": (accept, [accept, object_once]),
        "review": (Review("during"), [Review("before"), Review("after")]),
        "memory": (["weather", "people"],),
        "history": ("8k tokens, summarised",),
        "rate_limit": _RATES,
        "max_retries": (0, 2),
        "max_retry_wait": (15, 2.5),
        "max_guardrail_retries": (2,),
        "reuse": ("never",),
        "for_each": (["a", {"x": 1}], "{rows}", []),
        "max_items": (20,),
    },
    Tool: {"tool": (), "review": ("before", is_long), "reuse": (True,)},
    Condition: {
        "source": (),
        "equals": ("yes", 3),
        "contains": ("yes",),
        "matches": ("(?i)YES",),
        "predicate": (holds,),
        "default": (True,),
        "field": ("title",),
    },
    Review: {"timing": tuple(ReviewTiming), "timeout": (45, 45.0, None), "on_timeout": ("continue", "fail")},
    PhaseReview: {"by": (), "max_retries": (0, 1), "on_exhausted": ("keep",)},
    RateLimit: {"requests": (1_000,), "period": (60, 0.5), "wait_timeout": (45, 12.5)},
    Budget: {
        "max_cost": (50, 0.5, "1.50", Decimal("50.000000001")),
        "max_tokens": (900_000,),
        "max_llm_calls": (90,),
        "warn_at": (0.5, 1),
        "allow_unknown_cost": (True,),
    },
    PromptTexts: {
        "correction": ("{error} {output_format} {topic}",),
        "revision": ("{feedback}",),
        "guardrail": ("{feedback}",),
    },
    CostConfiguration: {
        "input_rate": (0, Decimal("0.0000003")),
        "output_rate": ("0.00000225", 0.00001),
        "cached_input_rate": (0, None),
        "currency": ("USD",),
    },
    HierarchicalConstraints: {
        "required_workers": (["Taster"],),
        "allowed_workers": (["Cook", "Taster"],),
        "max_calls_per_worker": ({"Taster": 2},),
        "global_max_delegations": (5,),
        "required_stages": ([["Taster"]],),
    },
}
"""By definition and field; partial calls are made for each ensemble. What has no value is the frame for all others."""


class Setting(NamedTuple):
    """One field with one of its values."""

    owner: type
    field: str
    place: int

    @property
    def value(self) -> Any:
        return SAMPLES[self.owner][self.field][self.place]

    def __repr__(self) -> str:
        return f"{self.owner.__name__}.{self.field}[{self.place}]"


SETTINGS: Final = [
    Setting(owner, field, place)
    for owner, by_field in SAMPLES.items()
    for field, values in by_field.items()
    for place in range(len(values))
]


def list_missing() -> list[str]:
    """What has no sample, and what samples there are of nothing."""
    owners = [each.definition for each in vocabulary.SCHEMAS if each.definition is not None]
    known = {Ensemble if owner.__name__ == "EnsembleDefinition" else owner for owner in owners}
    told = [f"{each.__name__} has no samples" for each in known - SAMPLES.keys()]
    for owner, by_field in SAMPLES.items():
        names = {each.name for each in fields(owner) if each.init}
        told += [f"{owner.__name__}.{name} has no sample" for name in names - by_field.keys()]
        told += [f"{owner.__name__} has no field {name}" for name in by_field.keys() - names]
    told += [f"the key {name} of a model has no sample" for name in MODEL_WORDS.keys() - _SERVED.keys()]
    return told


_PARTS: Final[Mapping[type, tuple[type, str, Mapping[str, Any]]]] = {
    Review: (Task, "review", {}),
    Tool: (Task, "tools", {"tool": search, "review": "before"}),
    RateLimit: (Task, "rate_limit", {"requests": 60_000, "period": 1}),
    Condition: (Task, "when", {"source": "first"}),
    PhaseReview: (Phase, "review", {"by": approve}),
    Budget: (Ensemble, "budget", {"max_tokens": 900_000, "allow_unknown_cost": True}),
    PromptTexts: (Ensemble, "texts", {}),
    CostConfiguration: (Ensemble, "cost", {"input_rate": 0, "output_rate": "0.000001"}),
    HierarchicalConstraints: (Ensemble, "hierarchical_constraints", {}),
}
"""Where a small definition stands, and what it has in any case."""


def is_clash(a: Setting, b: Setting) -> bool:
    """Whether two settings are of one place, which has one value."""
    if a[:2] == b[:2]:
        return True
    return any(each.owner in _PARTS and _PARTS[each.owner][:2] == other[:2] for each, other in ((a, b), (b, a)))


def make_ensemble(settings: Sequence[Setting], server: str = SERVER) -> Ensemble:
    """The ensemble in which these are set; `server` is where models are served.

    Raises:
        ValidationError: they can't stand together.
    """
    chosen: dict[type, dict[str, Any]] = {owner: {} for owner in SAMPLES}
    for each in settings:
        value = each.value() if isinstance(each.value, partial) else each.value
        is_served = isinstance(value, Mapping) and value.get("base_url") == SERVER
        chosen[each.owner][each.field] = {**value, "base_url": server} if is_served else value
    for part, (owner, field, base) in _PARTS.items():
        if chosen[part]:
            values = {**base, **chosen[part]}
            if part is Condition:
                values |= {} if values.keys() - {"source", "field"} else {"contains": "yes"}
                values |= {"field": "score"} if values.get("equals") == 3 else {}
            made = part(**values)
            if part is Condition and values.get("default"):
                made = [Condition("first", equals="never"), made]
            chosen[owner][field] = [made] if part is Tool else made
    ensemble, task = chosen[Ensemble], chosen[Task]
    if task.get("inputs") and "ensemble" not in task:
        task["ensemble"] = inner
    phase = chosen[Phase]
    if phase.keys() & {"until", "max_rounds", "on_exhausted"}:
        phase |= {"until": {"last": {"predicate": holds}}, "max_rounds": 2, **phase}
    agent = Agent(**{"role": "Cook", "goal": "Feed people", **chosen[Agent]})
    taster = Agent(role="Taster", goal="Taste")
    is_led = ensemble.get("workflow") is Workflow.HIERARCHICAL or "hierarchical_constraints" in ensemble
    first = Task.of("Start with {topic}", name="first", output_type=Dish, **({} if is_led else {"agent": agent}))
    subject = Task(**{"description": "Go on", "expected_output": "Words", "name": "subject", **task})
    last = Task.of("Sum it up", name="last", context=[subject], **({} if is_led else {"handler": say}))
    ensemble = {
        "llm": model,
        "agents": [agent, taster, guest],
        "inputs": {"topic": "tides", "rows": ["a", "b"]},
        "review_handler": approve,
        **({"workflow": "hierarchical", "manager_llm": model, "manager_prompt": prompts} if is_led else {}),
        **ensemble,
    }
    if not chosen[Phase]:
        return Ensemble(tasks=[first, subject, last], **ensemble)
    opening = Phase.of("opening", first)
    end = Phase(name="end", tasks=[subject, last], after=[opening], **chosen[Phase])
    return Ensemble(phases=[opening, end], **ensemble)


def list_names() -> dict[str, Any]:
    """The variables of a notebook that has all of these."""
    functions = (search, say, give, accept, welcome, object_once, holds, approve, is_long, judge, allow)
    others = {"Dish": Dish, "inner": inner, "store": store, "prompts": prompts, "model": model, "other": other_model}
    return {**{each.__name__: each for each in functions}, **others}
