"""Whether a function takes one argument, as the handler of a task must."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def find_other_signature(function: Callable[..., Any]) -> str | None:
    """The signature of a function that can't be called with one argument; None where it can, or does not tell."""
    if _plainly_takes_one(function):
        return None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # Some builtins don't tell.
    try:
        signature.bind(None)
    except TypeError:
        return str(signature)
    return None


def _plainly_takes_one(function: Callable[..., Any]) -> bool:
    """True for most that do: the whole question takes as long as all else that is checked of a task.

    Not for one with attributes, which may name another signature.
    """
    if type(function) is not FunctionType or vars(function):
        return False
    code = function.__code__
    return code.co_argcount - len(function.__defaults__ or ()) <= 1 <= code.co_argcount and not code.co_kwonlyargcount
