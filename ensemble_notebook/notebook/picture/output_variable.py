"""Finds the variable that holds an output, for expressions that users copy (C31)."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython


def find_variable(output: object) -> str | None:
    """The name of a variable that has this very output, one that a person chose first; None where there is none.

    What IPython itself keeps results under (``_``, ``_3``, ``Out``) says nothing tomorrow, so it is no answer.
    """
    untyped_get: Any = get_ipython
    shell = untyped_get()
    names: dict[str, Any] = {} if shell is None else shell.user_ns
    found = [name for name, value in list(names.items()) if value is output]
    chosen = [name for name in found if not name.startswith("_")]
    return next(iter([*chosen, *(name for name in found if name == "_ensemble")]), None)
