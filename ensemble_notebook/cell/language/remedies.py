"""Remedies in the words of a cell: errors of a run speak Python, and in a cell the same is written in YAML.

Only words of our own are changed; the table has every remedy that names a field.
"""

from __future__ import annotations

import copy
import re
from typing import Final, TypeVar, cast

from ensemble_notebook.errors import EnsembleError
from ensemble_notebook.errors.origin import iterate_causes

E = TypeVar("E", bound=BaseException)

_REMEDIES: Final = (
    (r"Raise max_iterations\b", "Raise `max_iterations: ...` under the agent"),
    (r"Raise max_output_retries\b", "Raise `max_output_retries: ...` under the task"),
    (r"Raise the agent's llm_timeout\b", "Raise `llm_timeout: ...` under the agent"),
    (r"Raise the task's timeout\b", "Raise `timeout: ...` under the task"),
    (r"Raise the review's timeout\b", "Raise it by `review: {timeout: ...}`"),
    (r"Raise timeout; what was done is kept in \.output\.", "Raise --timeout; what was done is kept in the output."),
    (r"Raise its max_llm_calls\b", "Raise it by `budget: {max_llm_calls: ...}`"),
    (r"Raise the budget's (max_\w+)", r"Raise it by `budget: {\1: ...}`"),
    (
        r"Raise its wait_timeout or its requests\b",
        "Raise it by `rate_limit: {wait_timeout: ...}` or more `requests: ...`",
    ),
    (r"cost=CostConfiguration\(\.\.\.\)", "`cost: {input_rate: ..., output_rate: ...}`"),
    (r"set allow_unknown_cost=True\b", "write `budget: {allow_unknown_cost: true, ...}`"),
    (
        r"ERROR\.result\.score\((.+), replace=True\)\.",
        r"`%ensemble score NAME \1 --replace`, where NAME is the variable after -o.",
    ),
    (r"it is True or False, and never\b", "it is true or false, and never"),
    (r"Did you mean True\?", "Did you mean true?"),
    (r"Did you mean False\?", "Did you mean false?"),
    (r"limit max_tokens instead\b", "limit `budget: {max_tokens: ...}` instead"),
)


def to_cell_words(text: str) -> str:
    """The same text, its remedies in YAML."""
    for python, words in _REMEDIES:
        text = re.sub(python, words, text)
    return text


def in_cell_words(error: E) -> E:
    """The error of a run as a cell shows it: it and our own errors behind it give their remedies in YAML.

    Returns:
        A copy, since the run keeps the error in Python's words; the error itself where nothing is said otherwise.
    """
    shown: list[BaseException] = []
    for each in reversed(list(iterate_causes(error))):
        cause = shown[-1] if shown else None
        args = tuple(to_cell_words(part) if isinstance(part, str) else part for part in each.args)
        if isinstance(each, EnsembleError) and (
            args != each.args or (cause is not None and cause is not each.__cause__)
        ):
            is_suppressed, each = each.__suppress_context__, copy.copy(each)
            each.args, each.__cause__, each.__suppress_context__ = args, cause, is_suppressed
        shown.append(each)
    return cast("E", shown[-1])
