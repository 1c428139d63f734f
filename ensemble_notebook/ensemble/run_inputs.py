"""The inputs of a run as its texts have them: every variable has a value, and every value can be written (E6, E47)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.templates import find_variables
from ensemble_notebook.domain.value_text import describe_limited_table, explain_unwritable, write_value
from ensemble_notebook.errors import Problem, ValidationError


def merge_inputs(
    ensemble: EnsembleDefinition, inputs: Mapping[str, Any] | None, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of all template variables: own defaults, then `inputs`, then keywords."""
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValidationError(f"inputs must map names to values, got {type(inputs).__name__}.")
    return {**ensemble.inputs, **(inputs or {}), **variables}


def write_inputs(texts: Sequence[str], values: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Write the values that texts use. Others are for handlers, and may be anything.

    Returns:
        The written values by name, and a warning for each table that is limited.

    Raises:
        ValidationError: values that no prompt can hold, all of them.
    """
    written: dict[str, str] = {}
    warnings: list[str] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(name for text in texts for name in find_variables(text) if name in values):
        try:
            value = write_value(values[name], config.max_table_chars)
        except Exception as error:  # noqa: BLE001 - it is anybody's object
            fault = explain_unwritable(error)
            problems.append(Problem(f"The input {name!r} can't be written into a text: {fault}"))
            continue
        written[name] = value.text
        if value.shown:
            warnings.append(describe_limited_table(f"The input {name!r}", value))
    if problems:
        raise ValidationError(problems)
    return written, warnings
