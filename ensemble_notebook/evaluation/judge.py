"""Judges (V7): which fields of an ensemble's typed output are scores, and what its inputs are filled with.

Runs nothing: whoever can run an ensemble hands in its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.definitions.json_schema import find_kind
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble
from ensemble_notebook.domain.definitions.output_type import get_parts
from ensemble_notebook.domain.outputs.score import Score
from ensemble_notebook.domain.value_text import JudgedText
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import Problem, did_you_mean
from ensemble_notebook.evaluation.scorer import EXPECTED_COLUMNS, Subject

OUTPUT: Final = "output"
EXPECTED: Final = EXPECTED_COLUMNS[0]
_REASONS: Final = ("reason", "why")
_SCORED: Final = frozenset({"boolean", "integer", "number", "string"})
_EXAMPLE: Final = "such as {passed: bool, reason: str}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge has said of one run.

    Attributes:
        value: its typed final output.
        model: that it asked; several are joined.
        cost: in the currency of the run.
        version: of its definition: another prompt or model is another version.
    """

    value: Any
    model: str | None = None
    cost: Decimal | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReader:
    """Reads the typed output of a judge as scores.

    Attributes:
        names: of the scores, by field.
        reason: the field that says why; None where there is none.
    """

    names: Mapping[str, str]
    reason: str | None

    def read(self, value: Any) -> dict[str, Score]:
        """The scores of one output, by name. A field that is None is no opinion."""
        parts = get_parts(value)
        reason = None if self.reason is None else parts.get(self.reason)
        told = None if reason is None else str(reason)
        return {name: Score(parts.get(field), told) for field, name in self.names.items()}


def make_reader(name: str, ensemble: Any, schema: Mapping[str, Any] | None) -> JudgeReader | Problem:
    """How the typed output of a judge is read; what is wrong with it, where it can't be.

    A single bool or number is called by the judge's name, several are ``judge.field``, and so are texts beside one.

    Args:
        name: of the judge's scores.
        ensemble: the judge.
        schema: the JSON schema of its final output; None where that has no type.
    """
    shown = f"The judge {describe_ensemble(ensemble)}"
    if schema is None:
        return Problem(f"{shown} has no typed output: give its last task an output_type, {_EXAMPLE}.")
    fields: Mapping[str, Any] = schema.get("properties", {})
    kinds = {field: find_kind(each, schema) for field, each in fields.items()}
    reason = next((each for each in _REASONS if kinds.get(each) == "string"), None)
    scored = [field for field, kind in kinds.items() if kind in _SCORED and field != reason]
    if not scored:
        there = f"it has {', '.join(fields)}" if fields else "it has no fields"
        return Problem(f"{shown} puts out no score: {there}. A score is a bool, a number or a text, {_EXAMPLE}.")
    plain = [field for field in scored if kinds[field] != "string"] or scored
    names = {field: name if [field] == plain else f"{name}.{field}" for field in scored}
    return JudgeReader(names=names, reason=reason)


def find_lacking_inputs(
    ensemble: Any, variables: Mapping[str, str], columns: Sequence[str], expected: str | None
) -> Iterator[Problem]:
    """The inputs of a judge that nothing fills.

    Args:
        ensemble: the judge.
        variables: of its texts, each with the first text that has it.
        columns: of the rows, and inputs of the ensemble that is judged.
        expected: the column of what a row should come to; None where there is none.
    """
    known = [*ensemble.inputs, OUTPUT, *([] if expected is None else [EXPECTED]), *columns]
    lacking = [name for name in variables if name not in known]
    if lacking:
        names = ", ".join(f"{{{name}}}" for name in lacking)
        verb = "is no column" if len(lacking) == 1 else "are no columns"
        near = did_you_mean(lacking[0], known)
        yield Problem(
            f"The judge {describe_ensemble(ensemble)} asks for {names}, which {verb} of the rows.{near} Its "
            f"{pluralize(len(variables), 'input')} {'is' if len(variables) == 1 else 'are'} filled by name: from "
            f"{', '.join(known)}."
        )


def fill_inputs(ensemble: Any, variables: Mapping[str, str], subject: Subject, *, has_handlers: bool) -> dict[str, Any]:
    """The inputs of a judge for one run: what its texts name, or all where handlers may want any.

    Args:
        ensemble: the judge, whose own inputs give way.
        variables: of its texts.
        subject: what is judged.
        has_handlers: whether functions see its inputs.
    """
    known = {**ensemble.inputs, **subject.inputs, OUTPUT: JudgedText(subject.output.raw), EXPECTED: subject.expected}
    return known if has_handlers else {name: known[name] for name in variables}
