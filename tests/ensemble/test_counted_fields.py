"""Each field of a task decides whether an earlier output counts for it, or is listed as one that does not (C34a)."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import pytest

from ensemble_notebook import EnsembleOutput, Task
from tests.support.sample_settings import Setting, make_ensemble

NOT_COUNTED: Final = {
    "name": "another name is for people",
    "timeout": "what was done in time is done",
    "review": "who looks at an output makes none",
    "rate_limit": "it makes a task wait",
    "max_retries": "it came of the last of them",
    "max_retry_wait": "it came after the last of them",
    "for_each": "its items are compared, each by what it is told",
    "max_items": "it is a bound, and no item is another one by it",
}
"""Why nothing else comes of a task by them."""

BESIDE: Final = {
    "max_output_retries": "output_type",
    "max_guardrail_retries": "output_guardrails",
    "max_items": "for_each",
}
"""What a field is about, and without which it says nothing."""


def run(*names: str, **options: Any) -> EnsembleOutput:
    """A run in which the task `subject` has the first value that there is for each of these fields."""
    return make_ensemble([Setting(Task, name, 0) for name in names]).run(**options)


def is_reused(output: EnsembleOutput) -> bool:
    """Whether nothing was done for that task, whatever its name is now."""
    (subject,) = [each for each in output if each.name not in ("first", "last")]
    return all(each.reused for each in subject.item_outputs or [subject])


FIELDS: Final = {each.name for each in dataclasses.fields(Task) if each.init}


@pytest.mark.usefixtures("store_path")
@pytest.mark.parametrize("field", sorted(FIELDS - {"reuse"}))  # which says of itself whether an output is taken
def test_each_field_of_a_task_decides_whether_it_is_reused_or_is_listed_c34a(field: str) -> None:
    beside = (BESIDE[field],) if field in BESIDE else ()
    options = {"continue_from": run(*beside)} if field == "history" else {}
    run(*beside, **options)
    assert is_reused(run(*beside, reuse=True, **options))
    assert is_reused(run(*beside, field, reuse=True, **options)) == (field in NOT_COUNTED)


def test_only_fields_of_a_task_are_listed() -> None:
    assert NOT_COUNTED.keys() | BESIDE.keys() <= FIELDS
