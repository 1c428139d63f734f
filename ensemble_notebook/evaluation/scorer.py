"""What a scorer is (V3), and a judge (V7): how it is given, what it is called with, and what it gives.

Knows neither how a run goes nor who calls a scorer. What is wrong with one is said before anything is paid. A judge is
an ensemble: which fields of its typed output are scores, and what its inputs are filled with.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from inspect import Parameter
from typing import Any, Final

from ensemble_notebook.domain.definitions.json_schema import find_kind
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble, is_ensemble
from ensemble_notebook.domain.definitions.output_type import get_parts
from ensemble_notebook.domain.definitions.run_context import RunContext, find_context_parameter, give_context
from ensemble_notebook.domain.outputs.score import Score
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import JudgedText
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean, find_nearest

PARAMETERS: Final = ("output", "inputs", "expected", "run")
EXPECTED_COLUMNS: Final = ("expected", "target", "expected_output")
"""Names of columns, the first of which that is there holds what a row should come to."""
WANTED: Final = (
    "a scorer is a function with any of the parameters output, inputs, expected and run, one of "
    "ensemble_notebook.scorers, or an ensemble that judges"
)
_LAMBDA: Final = "score"
"""The name of a score whose function has none."""
OUTPUT: Final = "output"
EXPECTED: Final = EXPECTED_COLUMNS[0]
_REASONS: Final = ("reason", "why")
_SCORED: Final = frozenset({"boolean", "integer", "number", "string"})
_EXAMPLE: Final = "such as {passed: bool, reason: str}"


@dataclass(frozen=True, slots=True)
class Judge:
    """An ensemble that scores: its typed final output is the score.

    Attributes:
        ensemble: what judges.
    """

    ensemble: Any

    def __repr__(self) -> str:
        """As it is written."""
        return f"judged_by({describe_ensemble(self.ensemble)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyScorer:
    """A ready-made scorer: a function with values of its own.

    Attributes:
        name: of its scores.
        shown: how it is written.
        function: with parameters as those of any scorer.
        column: of the rows, without which it can't say anything; None where it needs none.
    """

    name: str
    shown: str
    function: Callable[..., Any]
    column: str | None = None

    def __repr__(self) -> str:
        """As it is written."""
        return self.shown


AnyScorer = Callable[..., Any] | ReadyScorer | Judge | Any
"""What scores: a function, a ready-made scorer, or an ensemble, which is a judge."""
AnyScorers = AnyScorer | Sequence[AnyScorer] | Mapping[str, AnyScorer]
"""The forms of ``score=``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is scored.

    Attributes:
        output: of the final task.
        inputs: the row's columns, and the ensemble's inputs.
        expected: what it should come to; None where nobody says.
        run: the `EnsembleOutput` of the row.
    """

    output: TaskOutput
    inputs: Mapping[str, Any]
    expected: Any
    run: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorer:
    """A scorer that was read.

    Attributes:
        name: of its score, where it gives a single one.
        shown: what it is, in words.
        function: to be called; None for a judge.
        judge: the ensemble that judges; None for a function.
        positional, keywords: names of the parameters of the function; ``*`` is the whole run, of a function of one
            parameter with a name of its own.
        column: that a ready-made one needs.
        needs_expected: whether the function can't be called without `expected`.
        is_ready_made: whether it is one of `ensemble_notebook.scorers`.
    """

    name: str
    shown: str
    function: Callable[..., Any] | None = None
    judge: Any = None
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    column: str | None = None
    needs_expected: bool = False
    is_ready_made: bool = False

    def bind(self, subject: Subject) -> Callable[[], Any]:
        """The call of the function for one run."""
        assert self.function is not None
        values = {
            "output": subject.output,
            "inputs": subject.inputs,
            "expected": subject.expected,
            "run": subject.run,
            "*": subject.run,
        }
        given = (values[each] for each in self.positional)
        named = {each: values[each] for each in self.keywords}
        if (context := find_context_parameter(self.function)) is not None:
            deps = getattr(subject.run.ensemble, "deps", None)
            named[context] = RunContext(deps=deps, inputs=subject.inputs, run_id=subject.run.run_id)
        return functools.partial(self.function, *given, **named)

    def read(self, given: Any) -> dict[str, Score]:
        """What it gave, by the names of the scores.

        Raises:
            ValidationError: that is no score; the message goes on from the name of the scorer.
        """
        if not isinstance(given, Mapping) or not given:
            return {self.name: _to_score(given)}
        if wrong := [name for name in given if not isinstance(name, str) or not name.strip()]:
            raise ValidationError(f"it gave a dict with the key {wrong[0]!r}, and the names of scores are texts")
        return {name: _to_score(value) for name, value in given.items()}


def _to_score(given: Any) -> Score:
    return given if isinstance(given, Score) else Score(given)


def read_scorers(given: AnyScorers | None) -> tuple[Scorer, ...]:
    """Read what was given as ``score=``: one scorer, a list of them, or a dict of them by name.

    Raises:
        ValidationError: lists what can't be a scorer, parameters that are not known, and names that stand twice.
    """
    if given is None:
        return ()
    named: list[tuple[str | None, Any]]
    if isinstance(given, Mapping):
        named = list(given.items())
    elif isinstance(given, list | tuple):
        named = [(None, each) for each in given]
    else:
        named = [(None, given)]
    if not named:
        raise ValidationError(f"score is empty: {WANTED}.")
    read: list[Scorer] = []
    problems: list[Problem] = []
    for name, each in named:
        try:
            read.append(_read_scorer(name, each))
        except ValidationError as error:
            problems += error.problems
    names = [each.name for each in read]
    for repeated in dict.fromkeys(each for each in names if names.count(each) > 1):
        same = " and ".join(each.shown for each in read if each.name == repeated)
        told = f"Two scores are called {repeated!r}: {same}. Name them: score={{'{repeated}_2': ...}}."
        problems.append(Problem(told))
    if problems:
        raise ValidationError(problems)
    return tuple(read)


def _read_scorer(name: Any, given: Any) -> Scorer:
    """One scorer; `name` is the one that a dict gives it.

    Raises:
        ValidationError: it is none.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValidationError(f"The name of a score must be text, got {name!r}.")
    if isinstance(given, Judge) or is_ensemble(given):
        ensemble = given.ensemble if isinstance(given, Judge) else given
        named = name or ensemble.name or "judge"
        return Scorer(name=named, shown=ensemble.name or named, judge=ensemble)
    if isinstance(given, ReadyScorer):
        made = _read_function(given.function, given.shown)
        named = name or given.name
        shown, column = given.shown, given.column
        return replace(made, name=named, shown=shown, column=column, needs_expected=False, is_ready_made=True)
    if not callable(given) or isinstance(given, type):
        what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
        guess = ""
        if isinstance(given, str):
            is_call = given.endswith(")")
            guess = f" Did you mean scorers.{given}?" if is_call else " Pass the function itself, not its name."
        raise ValidationError(f"score must be a function, got {what}: {WANTED}.{guess}")
    return _read_function(given, name or name_function(given))


def name_function(function: Any) -> str:
    """What the scores of a function are called: as the function is; ``score`` where it has no name of its own."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if not isinstance(name, str):  # an object that can be called
        return type(inner).__name__
    return _LAMBDA if name == "<lambda>" else name


def _read_function(function: Callable[..., Any], shown: str) -> Scorer:
    """How a function is called.

    Raises:
        ValidationError: it takes nothing, or a parameter that nobody knows.
    """
    bound: set[str] = set()  # the names that a `functools.partial` has filled
    inner: Any = function
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    try:  # the parameters that are given by name; one for the `RunContext` goes by its annotation
        found: Iterable[Parameter] = inspect.signature(give_context(function)).parameters.values()
    except (TypeError, ValueError):  # written in C, and says nothing of itself
        found = (Parameter("run", Parameter.POSITIONAL_ONLY),)
    parameters = [each for each in found if each.name not in bound]
    named = [each for each in parameters if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    takes_all = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    scorer = Scorer(name=shown, shown=shown, function=function)
    if len(named) == 1 and not takes_all and named[0].name not in PARAMETERS:
        if named[0].kind is Parameter.KEYWORD_ONLY:
            raise ValidationError(_describe_unknown(shown, named))
        return replace(scorer, positional=("*",))
    if unknown := [each for each in named if each.name not in PARAMETERS]:
        raise ValidationError(_describe_unknown(shown, unknown))
    if not named and not takes_all:
        raise ValidationError(f"The scorer {shown} takes no parameter, so it can't see what it scores: {WANTED}.")
    positional = tuple(each.name for each in named if each.kind is Parameter.POSITIONAL_ONLY)
    keywords = [each.name for each in named if each.kind is not Parameter.POSITIONAL_ONLY]
    if takes_all:
        keywords += [each for each in PARAMETERS if each not in (*positional, *keywords)]
    needs = any(each.name == "expected" and each.default is Parameter.empty for each in named)
    return replace(scorer, positional=positional, keywords=tuple(keywords), needs_expected=needs)


def _describe_unknown(shown: str, unknown: Sequence[Parameter]) -> str:
    names = ", ".join(repr(each.name) for each in unknown)
    first = unknown[0].name
    near = did_you_mean(first, PARAMETERS) if find_nearest(first, PARAMETERS) is not None else ""
    return (
        f"The scorer {shown} has a parameter that is not known: {names}.{near} A scorer takes any of "
        f"{', '.join(PARAMETERS)}; functools.partial sets others."
    )


def find_expected_column(columns: Iterable[str], named: str | None) -> str | None:
    """Which column holds what a row should come to; None where there is none.

    Args:
        columns: of the rows.
        named: by ``expected=``; None: the first of `EXPECTED_COLUMNS` that is there.

    Raises:
        ValidationError: the column that was named is not there.
    """
    known = list(columns)
    if named is None:
        return next((each for each in EXPECTED_COLUMNS if each in known), None)
    if named not in known:
        raise ValidationError(f"expected={named!r}: no column is called so.{_list_columns(named, known)}")
    return named


def find_lacking_columns(scorers: Iterable[Scorer], columns: Sequence[str], expected: str | None) -> Iterator[Problem]:
    """What scorers need that the rows do not have.

    Args:
        scorers: all of them.
        columns: of the rows, and the ensemble's inputs.
        expected: the column of what a row should come to.
    """
    for each in scorers:
        column = each.column
        if column == EXPECTED_COLUMNS[0] and expected is not None:
            continue
        if column is not None and column not in columns:
            yield Problem(f"The scorer {each.shown} needs a column {column!r}.{_list_columns(column, columns)}")
        elif each.needs_expected and expected is None:
            told = ", ".join(EXPECTED_COLUMNS[:-1]) + f" or {EXPECTED_COLUMNS[-1]}"
            yield Problem(
                f"The scorer {each.shown} needs what a row should come to, and no column is called {told}. "
                f"Name one: expected='COLUMN'.{_list_columns('expected', columns)}"
            )


def _list_columns(wanted: str, columns: Sequence[str]) -> str:
    near = find_nearest(wanted, columns)
    guess = "" if near is None else f" Did you mean {near!r}?"
    return f"{guess} The columns are {', '.join(columns)}." if columns else " The rows have no columns."


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
