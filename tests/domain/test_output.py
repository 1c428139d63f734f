"""What a task leaves behind (E7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ensemble_notebook.domain.outputs.task_output import TaskOutput


def output(parsed: Any = None) -> TaskOutput:
    return TaskOutput(
        name="count",
        raw="3",
        task_description="Count",
        agent_role="Handler",
        completed_at=datetime.now(UTC),
        duration=timedelta(seconds=1),
        parsed_output=parsed,
    )


def test_an_output_reads_as_its_text() -> None:
    assert str(output()) == "3"


def test_the_value_behind_the_text_is_had_by_its_type_e7() -> None:
    made = output([1, 2])
    assert made.get_parsed_output(list) == [1, 2]
    assert made.output_type is list


@pytest.mark.parametrize("parsed, found", [(None, "no parsed output"), ("3", "a str")])
def test_no_value_or_one_of_another_type_is_a_value_error_e7(parsed: Any, found: str) -> None:
    with pytest.raises(ValueError, match=f"^Task 'count' has {found}, not a int.$"):
        output(parsed).get_parsed_output(int)


def test_an_output_without_a_value_has_no_type() -> None:
    assert output().output_type is None
