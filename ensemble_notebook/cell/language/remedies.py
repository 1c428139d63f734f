"""Remedies in the words of a cell: errors of a run speak Python, and in a cell the same is written in YAML.

Only words of our own are changed; the table has every remedy that names a field.
"""

from __future__ import annotations

import re
from typing import Final

from ensemble_notebook.errors import EnsembleError
from ensemble_notebook.errors.origin import iterate_causes

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
    (r"limit max_tokens instead\b", "limit `budget: {max_tokens: ...}` instead"),
)


def to_cell_words(text: str) -> str:
    """The same text, its remedies in YAML."""
    for python, words in _REMEDIES:
        text = re.sub(python, words, text)
    return text


def use_cell_words(error: BaseException) -> None:
    """Have an error of a run, and our own errors behind it, give their remedies in YAML."""
    for each in iterate_causes(error):
        if isinstance(each, EnsembleError):
            each.args = tuple(to_cell_words(part) if isinstance(part, str) else part for part in each.args)
