"""The definition and inputs of a run as texts that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ensemble_notebook.domain.planning.execution_plan import PlannedTask
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.clean_text import clean_text

_NOTHING: Final[tuple[Any, ...]] = (None, "", (), {}, False)


def describe_definition(fold: TraceFold, *, has_texts: bool) -> dict[str, str]:
    """The definition of a run, part by part, as ``field: value`` lines; secrets masked.

    Args:
        fold: of a run, finished or not.
        has_texts: False leaves out what `CaptureMode.METADATA` does not keep, so that such a run can be compared with
            one that has texts.
    """
    budget = {} if fold.budget is None else fold.budget.limits
    limits = {f"budget {name}": value for name, value in budget.items()}
    facts = {"name": fold.declared_name, "workflow": fold.workflow, "max_concurrency": fold.max_concurrency, **limits}
    parts = {"ensemble": _write(facts)}
    for agent in fold.agents:
        texts = {"goal": agent.goal, "background": agent.background} if has_texts else {}
        others = {"tools": agent.tools, "allow_delegation": agent.allow_delegation}
        parts[f"agent {clean_text(agent.role)}"] = _write({**texts, **others})
    if fold.plan is None:
        return parts
    for name, after in fold.plan.phases.items():
        parts[f"phase {name}"] = _write({"after": after, **fold.plan.phase_settings.get(name, {})})
    for task in fold.plan.tasks:
        place = task.name if task.phase is None else f"{task.phase}/{task.name}"
        parts[f"task {place}"] = _write(_list_fields(task, has_texts=has_texts))
    return parts


def describe_inputs(fold: TraceFold) -> dict[str, str]:
    """The template variables, by name, as texts."""
    return {f"input {name}": value for name, value in fold.inputs.items()}


def _list_fields(task: PlannedTask, *, has_texts: bool) -> Mapping[str, Any]:
    texts = {"description": task.description, "expected_output": task.expected_output, "when": task.when}
    return {
        **(texts if has_texts else {}),
        "agent": task.agent,
        "llm": task.llm,
        "context": task.context,
        "after": tuple(name for name in task.depends_on if name not in task.context),
        "max_retries": task.max_retries,
        **task.settings,
    }


def _write(fields: Mapping[str, Any]) -> str:
    """One line for each field that is set."""
    return "".join(f"{name}: {_write_value(value)}\n" for name, value in fields.items() if value not in _NOTHING)


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return ", ".join(clean_text(str(each)) for each in value)
    return clean_text(str(value))
