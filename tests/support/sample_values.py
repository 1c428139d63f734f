"""A value or more for each key of the cell language, as a cell has it; what it names is in `sample_names`.

With any of them a run of the cells in `tests/seams` ends well, and says the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from tests.support.sample_settings import SERVER

HERE: Final = "tests.support.sample_names."
FRAME: Final = frozenset(
    {
        *(("cell", "tasks"), ("cell", "phases"), ("cell", "agents"), ("cell", "workflow")),
        *(("phase", "tasks"), ("phase", "after"), ("phase", "name"), ("phase", "workflow")),
        *(("agent", "goal"), ("task", "description"), ("task", "agent"), ("task", "context"), ("task", "name")),
        *(("task", "ensemble"), ("task", "inputs"), ("task", "for_each")),
    }
)
"""The keys that the cells are made of, with or without any other."""
_MODELS: Final = (
    HERE + "other_model",
    "scripted",
    {
        "model": "m",
        "base_url": SERVER,
        "api_key_env": "SAMPLE_KEY",
        "temperature": 0.5,
        "max_tokens": 200,
        "top_p": 0.5,
        "seed": 3,
        "stop": ["END"],
        "reasoning_effort": "low",
        "extra_body": {"a": [1, {"b": None}]},
        "schema_mode": "prompt",
        "max_retry_wait": 20,
        "cost": {"input_rate": 0.000002, "cached_input_rate": 0.0000005, "output_rate": 0.00001},
    },
    {"model": HERE + "other_model", "cost": {"input_rate": 0.000002, "output_rate": 0.00001}},
)
_RATES: Final = ("60000/min", {"requests": 1000, "period": 0.5, "wait_timeout": 45}, HERE + "bucket")
_GUARDRAILS: Final = (HERE + "accept", [HERE + "accept", HERE + "pass_it"])
_WHEN: Final = (
    {"source": {"contains": "yes"}},
    [{"source": {"matches": "(?i)YES"}}, {"source": {"equals": "no"}}],
    {"source": {"predicate": HERE + "holds"}},
    {"source": {"default": True}},
    {"source": {"field": "score", "equals": 3}},
    {"source": {"equals": "never"}},
)
SAMPLES: Final[Mapping[tuple[str, str], tuple[Any, ...]]] = {
    ("cell", "llm"): _MODELS,
    ("cell", "error_strategy"): ("continue_on_error", "partial"),
    ("cell", "fallback_is_warning"): (False,),
    ("cell", "manager_llm"): (HERE + "model",),
    ("cell", "manager_max_iterations"): (7,),
    ("cell", "manager_prompt"): (HERE + "prompts",),
    ("cell", "hierarchical_constraints"): (
        {
            "required_workers": ["Cook"],
            "allowed_workers": ["Cook", "Taster"],
            "max_calls_per_worker": {"Cook": 2},
            "global_max_delegations": 5,
            "required_stages": [["Cook"], ["Taster"]],
        },
    ),
    ("cell", "delegation_policies"): ([HERE + "allow"],),
    ("cell", "max_delegation_depth"): (2,),
    ("cell", "listeners"): ([HERE + "accept"],),
    ("cell", "capture_mode"): ("metadata", "standard", "full"),
    ("cell", "trace_exporter"): ("traces/", "run.trace.json", HERE + "accept"),
    ("cell", "rate_limit"): _RATES,
    ("cell", "budget"): (
        "900k tokens, 90 calls",
        {"max_cost": 50, "warn_at": 0.5, "allow_unknown_cost": True},
        {"max_tokens": 900_000, "max_llm_calls": 90},
        HERE + "purse",
    ),
    ("cell", "max_concurrency"): (1, 2, None),
    ("cell", "memory"): (True, "notes.db", HERE + "store"),
    ("cell", "review_handler"): (HERE + "approve", HERE + "edit"),
    ("cell", "review_policy"): ("after_every_task", "after_last_task"),
    ("cell", "cost"): (
        {"input_rate": 0.000001, "cached_input_rate": 0.0000005, "output_rate": 0.00000225, "currency": "USD"},
    ),
    ("cell", "inputs"): ({"topic": "tides", "year": 1851},),
    ("cell", "deps"): (HERE + "prompts",),
    ("cell", "texts"): (
        {"correction": "{error}\n{output_format} {topic}", "revision": "{attempt} {feedback} {previous}"},
        {"guardrail": "{feedback}"},
    ),
    ("cell", "verbose"): (True,),
    ("cell", "name"): ("the desk: 1",),
    ("phase", "when"): _WHEN,
    ("phase", "review"): (
        HERE + "approve",
        {"by": HERE + "approve", "max_retries": 1, "on_exhausted": "keep"},
        {"by": {"description": "Is it good?", "max_output_retries": 1, "max_retries": 1}, "max_retries": 0},
        "Is it any good?",
    ),
    ("phase", "until"): ({"last": {"predicate": HERE + "holds"}}, [{"last": {"equals": "never"}}, {"each": "never"}]),
    ("phase", "max_rounds"): (1, 3),
    ("phase", "on_exhausted"): ("keep",),
    ("agent", "role"): ("Cook of {topic}",),
    ("agent", "llm"): _MODELS,
    ("agent", "background"): ("You know {topic}, and 'quotes': \"both\".", None),
    ("agent", "tools"): (
        [HERE + "search", HERE + "weigh"],
        [HERE + "search", {"tool": HERE + "weigh", "review": "before", "reuse": True}],
    ),
    ("agent", "allow_delegation"): (True,),
    ("agent", "verbose"): (True,),
    ("agent", "max_iterations"): (7,),
    ("agent", "response_format"): ("Write about {topic} in short lines.\nTwo of them.",),
    ("agent", "history"): ("20 turns",),
    ("agent", "system_prompt"): ("You are {role}, and want to {goal}: {topic}.", ""),
    ("agent", "rate_limit"): _RATES,
    ("agent", "max_retries"): (0, 4),
    ("agent", "max_retry_wait"): (15, 2.5),
    ("agent", "llm_timeout"): (45, 12.5, None),
    ("task", "expected_output"): ("Words on {topic}",),
    ("task", "prompt"): ("Say what {topic} is:\n\n{context}\n{revision}",),
    ("task", "handler"): (HERE + "count", HERE + "count_later"),
    ("task", "llm"): _MODELS,
    ("task", "tools"): (HERE + "measure", [HERE + "measure", HERE + "look_up"]),
    ("task", "timeout"): (45, 12.5, None),
    ("task", "output_type"): (
        HERE + "Dish",
        {"title": "str", "score": "int"},
        {
            "type": "object",
            "properties": {"title": {"type": "string"}, "score": {"type": "integer"}},
            "required": ["title", "score"],
        },
    ),
    ("task", "max_output_retries"): (0, 2),
    ("task", "when"): _WHEN,
    ("task", "fallback"): ("taster", {"role": "Helper", "goal": "Help with {topic}", "max_retries": 1}),
    ("task", "input_guardrails"): _GUARDRAILS,
    ("task", "output_guardrails"): _GUARDRAILS,
    ("task", "max_guardrail_retries"): (2,),
    ("task", "max_retries"): (0, 2),
    ("task", "max_retry_wait"): (15, 2.5),
    ("task", "review"): (
        *("before", "during", "after"),
        {"timing": "after", "timeout": 45, "on_timeout": "continue"},
        {"timing": "before", "timeout": None, "on_timeout": "fail"},
    ),
    ("task", "memory"): ("weather", ["weather", "people"]),
    ("task", "history"): ("8k tokens, summarised",),
    ("task", "rate_limit"): _RATES,
    ("task", "max_items"): (20,),
    ("task", "reuse"): ("never",),
}
_PARTS: Final = {
    "reviewed tool": ("tools",),
    "cost": ("cost",),
    "texts": ("texts",),
    "rate": ("rate_limit",),
    "budget": ("budget",),
    "condition": ("when",),
    "review": ("review",),
    "phase review": ("review",),
    "constraints": ("hierarchical_constraints",),
    "llm": ("llm",),
}
"""The keys in whose values each small place of the language stands."""


def list_missing() -> list[str]:
    """Say of each key of the language that has no sample what is to be done."""
    told = []
    groups = [group.schema for group in vocabulary.CELL.key_groups.values()]  # other words for keys of the cell
    for schema in (each for each in vocabulary.SCHEMAS if each not in groups):
        for key in schema.keys:
            if schema.name in _PARTS:
                values = [values for (_, name), values in SAMPLES.items() if name in _PARTS[schema.name]]
                is_there = key in _list_keys(values)
            else:
                is_there = (schema.name, key) in {*FRAME, *SAMPLES}
            if not is_there:
                told.append(f"The key {key!r} of {schema.label} has no sample: give it one in SAMPLES ({__name__}).")
    return told


def _list_keys(value: Any) -> set[str]:
    """All keys of mappings in a value, however deep."""
    if isinstance(value, Mapping):
        return {*value, *(key for each in value.values() for key in _list_keys(each))}
    return {key for each in value for key in _list_keys(each)} if isinstance(value, list | tuple) else set()
