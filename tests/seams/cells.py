"""The cells of the suite: a frame of five kinds of tasks, in four forms, with the sample values that a row chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.writing.yaml_text import write_yaml
from tests.support.sample_settings import SERVER
from tests.support.sample_values import HERE, SAMPLES

ABSENT: Final = "(absent)"
FORMS: Final = ("chain", "graph", "phases", "manager")
HOLDERS: Final = ("ask", "count", "nest", "each")
"""The tasks that keys are put on: by an agent with a tool, by a handler, by an ensemble, and one for each item.

Each comes after the one before it, so that all runs go alike.
"""
START: Final[Mapping[str, Any]] = {
    "description": "Start with {topic}",
    "agent": "cook",
    "output_type": {"title": "str", "score": "int"},
}
TASKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "start": START,
    "ask": {"description": "Ask a caller about {topic}", "agent": "cook", "context": ["start"]},
    "count": {"description": "Count what {topic} says", "handler": HERE + "count_later", "context": ["ask"]},
    "nest": {"ensemble": HERE + "inner", "inputs": {"who": "{topic}: {context}"}, "context": ["start", "count"]},
    "each": {
        "for_each": ["a {x}", {"x": 1}],
        "description": "Look at {item}",
        "agent": "taster",
        "context": ["start", "nest"],
    },
    "last": {"description": "Put {topic} together", "agent": "cook", "context": ["ask", "count", "nest", "each"]},
}


def list_factors() -> dict[str, tuple[Any, ...]]:
    """The places of a cell where a key may stand, each with its values; the first is to leave it out."""
    factors: dict[str, tuple[Any, ...]] = {}
    for (place, key), values in SAMPLES.items():
        for name in [f"task.{holder}.{key}" for holder in HOLDERS] if place == "task" else [f"{place}.{key}"]:
            factors[name] = (ABSENT, *values)
    return factors


def make_cell(row: Mapping[str, Any], server: str = SERVER) -> str:
    """The text of the cell of a row."""
    chosen = {name: value for name, value in row.items() if "." in name and value is not ABSENT}
    by_place: dict[str, dict[str, Any]] = {}
    for name, value in chosen.items():
        place, key = name.rsplit(".", 1)
        by_place.setdefault(place, {})[key] = value
    is_led = row["form"] == "manager"
    tasks = {
        name: {**fields, **_put_source(by_place.get(f"task.{name}", {}))}
        for name, fields in TASKS.items()
        if not is_led or name in ("start", "ask", "last")
    }
    if is_led:
        tasks = {
            name: {k: v for k, v in fields.items() if k not in ("context", "agent")} for name, fields in tasks.items()
        }
    agents = {
        "cook": {"role": "Cook", "goal": "Feed people", "tools": [HERE + "search"], **by_place.get("agent", {})},
        "taster": {"role": "Taster", "goal": "Taste {topic}"},
    }
    cell: dict[str, Any] = {"llm": HERE + "model", "agents": agents, **by_place.get("cell", {})}
    if row["form"] == "phases":
        later = {name: fields for name, fields in tasks.items() if name not in ("start", "ask")}
        of_phase = _complete_rounds(by_place.get("phase", {}))
        cell["phases"] = {
            "find": {"tasks": {name: tasks[name] for name in ("start", "ask")}},
            "work": {"after": "find", "workflow": "parallel", "tasks": later, **of_phase},
        }
    elif row["form"] == "graph":
        cell["tasks"] = tasks
    else:
        cell["tasks"] = [{"name": name, **fields} for name, fields in tasks.items()]
        cell |= {"workflow": "hierarchical"} if is_led else {}
    return write_yaml(cell).replace(SERVER, server)


def _complete_rounds(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a phase, of which those about rounds stand together and never beside a review."""
    keys = {"until", "max_rounds", "on_exhausted"} & fields.keys()
    if keys and "review" in fields:
        fields = {key: value for key, value in fields.items() if key not in keys}
    elif keys:
        kept = {"until": {"last": {"equals": "never"}}, "max_rounds": 2, "on_exhausted": "keep"}
        fields = {**kept, **fields}
    return _put_source(fields)


def _put_source(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the name of a task as the source of conditions."""
    put = {"when": lambda value: [_put_start(each) for each in value] if isinstance(value, list) else _put_start(value)}
    return {key: put.get(key, lambda each: each)(value) for key, value in fields.items()}


def _put_start(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {"start": condition["source"]}
