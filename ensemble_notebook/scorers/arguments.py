"""The arguments of ready-made scorers: checked when a scorer is made, before anything is paid, and written again."""

from __future__ import annotations

import math
from typing import Any

from ensemble_notebook.errors import ValidationError


def check_text(function: str, **values: Any) -> None:
    """Refuse what is no text, or a blank one.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValidationError(f"{function}: {name} must be text, got {value!r}.")
        if not value.strip():
            raise ValidationError(f"{function}: {name} must not be blank.")


def check_flag(function: str, **values: Any) -> None:
    """Refuse what is neither True nor False.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ValidationError(f"{function}: {name} must be True or False, got {value!r}.")


def check_count(function: str, *, least: int = 0, **values: Any) -> None:
    """Refuse what is no whole number of at least `least`.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValidationError(f"{function}: {name} must be a whole number >= {least}, got {value!r}.")


def check_number(function: str, **values: Any) -> None:
    """Refuse what is no finite number of at least 0.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        is_number = hasattr(value, "__float__") and not isinstance(value, bool)
        if not is_number or not math.isfinite(float(value)) or value < 0:
            raise ValidationError(f"{function}: {name} must be a number >= 0, got {value!r}.")


def write_call(function: str, *values: Any, **named: Any) -> str:
    """A call as it is written; named arguments that are None are left out."""
    words = [*map(repr, values), *(f"{name}={value!r}" for name, value in named.items() if value is not None)]
    return f"{function}({', '.join(words)})"
