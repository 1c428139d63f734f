"""The output that a cell goes on with, by the name of its variable (E55)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ensemble_notebook.cell.text.mistakes import MistakeReport, join_names
from ensemble_notebook.cell.text.source_text import OPTIONS
from ensemble_notebook.cell.text.suggestions import suggest_name

_HOW: Final = "--continue takes the variable of an earlier cell, as `-o` has bound it."


def find_continued(name: str, namespace: Mapping[str, Any] | None, report: MistakeReport) -> Any:
    """Find the output of an earlier run, also by the handle of one in the background; None after a mistake."""
    names = {} if namespace is None else namespace
    found: Any = names.get(name)
    if hasattr(type(found), "is_done"):
        if not found.is_done:
            report.add_mistake(OPTIONS, f"the run of {name!r} is still going on.", f"Wait for it: `{name}.result()`.")
            return None
        found = found.output
    if _is_output(found):
        return found
    known = [each for each, value in list(names.items()) if not each.startswith("_") and _is_output(value)]
    there = f" Outputs here: {join_names(known)}." if known else ""
    if name not in names:
        message = f"--continue {name}: there is no variable {name!r} in this notebook.{suggest_name(name, known)}"
    else:
        message = f"--continue {name}: {name!r} holds no output of a run, but a value of type {type(found).__name__}."
    report.add_mistake(OPTIONS, message, f"{_HOW}{there}")
    return None


def _is_output(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(type(value), "get_conversations", None))
