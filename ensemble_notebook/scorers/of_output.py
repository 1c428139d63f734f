"""Scorers that look at what a run has put out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from ensemble_notebook.domain.definitions.condition import describe_pattern, is_found, read_pattern
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.output_type import is_same_scalar, read_field, to_scalar_text
from ensemble_notebook.domain.outputs.score import Score
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import is_missing
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.evaluation.scorer import EXPECTED_COLUMNS, Judge, ReadyScorer
from ensemble_notebook.scorers.arguments import check_flag, check_number, check_text, write_call

_EXPECTED = EXPECTED_COLUMNS[0]


def equals(column: str = _EXPECTED, field: str | None = None, ignore_case: bool = False) -> ReadyScorer:
    """Pass where the output is what a column of the rows says.

    ::

        ensemble.map(rows, score=scorers.equals("city", field="city", ignore_case=True))

    Args:
        column: with the value that is right. Where a row has none, there is no opinion. ``"expected"`` also finds
            ``target``, ``expected_output``, and what ``map(expected=)`` names.
        field: a path into the typed output, such as ``"address.city"``; None: the whole text, without white space
            around it.
        ignore_case: whether upper and lower case are the same.

    Raises:
        ValidationError: an argument has a wrong type.
    """
    check_text("equals", column=column)
    if field is not None:
        check_text("equals", field=field)
    check_flag("equals", ignore_case=ignore_case)
    function = partial(_equals, column, field, ignore_case)
    values = {"field": field, "ignore_case": ignore_case or None}
    shown = write_call("equals", *(() if column == _EXPECTED else (column,)), **values)
    return ReadyScorer(name="equals", shown=shown, function=function, column=column)


def _equals(
    column: str,
    field: str | None,
    ignore_case: bool,
    /,
    output: TaskOutput,
    inputs: Mapping[str, Any],
    expected: Any,
) -> Score:
    wanted = _find_wanted(column, inputs, expected)
    if is_missing(wanted):
        return Score(None, f"the row has no {column}")
    given = output.raw if field is None else _read_field(output, field)
    is_same = _is_same(given, wanted, ignore_case=ignore_case)
    return Score(is_same, None if is_same else f"expected {_shorten(wanted)}, got {_shorten(given)}")


def _is_same(given: Any, wanted: Any, *, ignore_case: bool) -> bool:
    """Whether two values are the same, of which either may be the text of a number, or of true and false."""
    if isinstance(given, str) is not isinstance(wanted, str):
        number = _read_number(given), _read_number(wanted)
        if None not in number:
            return number[0] == number[1]
        given, wanted = to_scalar_text(given), to_scalar_text(wanted)
    if ignore_case and isinstance(given, str) and isinstance(wanted, str):
        given, wanted = given.casefold(), wanted.casefold()
    return is_same_scalar(given, wanted)


def _read_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def contains(text: str) -> ReadyScorer:
    """Pass where the text of the output has this text in it.

    ::

        ensemble.map(rows, score=scorers.contains("refund"))

    Args:
        text: a part of the output, with upper and lower case as they are.

    Raises:
        ValidationError: it is no text, or an empty one.
    """
    check_text("contains", text=text)
    return ReadyScorer(name="contains", shown=write_call("contains", text), function=partial(_contains, text))


def _contains(text: str, /, output: TaskOutput) -> bool:
    return text in output.raw


def matches(pattern: str | re.Pattern[str]) -> ReadyScorer:
    """Pass where a regular expression is found in the text of the output.

    ::

        ensemble.map(rows, score=scorers.matches("(?i)refund (of|for) [0-9]+"))

    Args:
        pattern: it is searched for. A search that takes longer than a second fails the score, not the row.

    Raises:
        ValidationError: it can't be read as one, or is too large.
    """
    try:
        read = read_pattern(pattern)
    except ValueError as error:
        shown = describe_pattern(pattern.pattern if isinstance(pattern, re.Pattern) else pattern)
        raise ValidationError(f"matches takes a regular expression, and {shown} {error}.") from error
    return ReadyScorer(name="matches", shown=write_call("matches", read.pattern), function=partial(_matches, read))


def _matches(pattern: re.Pattern[str], /, output: TaskOutput) -> bool:
    return is_found(pattern, output.raw, "scorer")


def close_to(column: str, tolerance: float) -> ReadyScorer:
    """Pass where the output is a number close to the one in a column of the rows.

    ::

        ensemble.map(rows, score=scorers.close_to("price", 0.5))

    Args:
        column: with the number that is right. Where a row has none, there is no opinion.
        tolerance: how far off the output may be, in the unit of the column.

    Raises:
        ValidationError: an argument has a wrong type, or the tolerance is below 0.
    """
    check_text("close_to", column=column)
    check_number("close_to", tolerance=tolerance)
    shown = write_call("close_to", column, tolerance)
    return ReadyScorer(name="close_to", shown=shown, function=partial(_close_to, column, tolerance), column=column)


def _close_to(column: str, tolerance: float, /, output: TaskOutput, inputs: Mapping[str, Any], expected: Any) -> Score:
    wanted = _find_wanted(column, inputs, expected)
    if is_missing(wanted):
        return Score(None, f"the row has no {column}")
    right = float(wanted)
    value = output.parsed_output
    try:
        given = float(output.raw if value is None or isinstance(value, bool | Mapping) else value)
    except (TypeError, ValueError):
        return Score(value=False, reason=f"{_shorten(output.raw)} is no number")
    # A relative slack of rounding, so that 0.3 is within 0.1 of 0.2.
    is_close = abs(given - right) <= tolerance + 1e-12 * max(abs(given), abs(right))
    return Score(is_close, None if is_close else f"expected {right:g}, got {given:g}")


def judged_by(ensemble: Any) -> Judge:
    """A judge: an ensemble whose typed final output is the score. ``score=judge`` says the same.

    ::

        ensemble.map(rows, score={"helpful": scorers.judged_by(judge)})

    Args:
        ensemble: its inputs are filled by name from ``output``, ``expected`` and the columns of the row.

    Raises:
        ValidationError: it is no ensemble.
    """
    if not is_ensemble(ensemble):
        raise ValidationError(f"judged_by takes an ensemble, got {type(ensemble).__name__}.")
    return Judge(ensemble)


def _find_wanted(column: str, inputs: Mapping[str, Any], expected: Any) -> Any:
    """What a column of the row says; ``expected`` also by its other names."""
    return expected if column == _EXPECTED else inputs.get(column)


def _read_field(output: TaskOutput, field: str) -> Any:
    if output.parsed_output is None:
        raise ValidationError(f"the output has no type, so there is no field {field!r} in it")
    return read_field(output.parsed_output, field)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
