"""What a scorer is (V3), and a judge (V7): how it is given and called, what it gives, and the records of a scored run.

Knows neither threads nor models: how a function is called and a judge is asked comes from whoever runs the rows. What
is wrong with a scorer is said before anything is paid. A judge is an ensemble: which fields of its typed output are
scores, and what its inputs are filled with.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from inspect import Parameter
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.json_schema import find_kind
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble, is_ensemble
from ensemble_notebook.domain.definitions.output_type import get_parts
from ensemble_notebook.domain.definitions.run_context import RunContext, find_context_parameter, give_context
from ensemble_notebook.domain.outputs.score import Score, ScoreKind, ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import has_handlers
from ensemble_notebook.domain.value_text import JudgedText
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import (
    BudgetExceededError,
    Problem,
    StoreError,
    ValidationError,
    add_origin,
    did_you_mean,
    find_nearest,
    summarize_error,
)
from ensemble_notebook.evaluation.scored_runs import group_by_run
from ensemble_notebook.trace.store.run_store import RunStore

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
FIRST: Final = "first"
SECOND: Final = "second"
PAIR: Final = (FIRST, SECOND)
"""The two texts that a judge of pairs is told."""
EXPECTED: Final = EXPECTED_COLUMNS[0]
REASONS: Final = ("reason", "why")
"""Fields of a judge's output that say why."""
_SCORED: Final = frozenset({"boolean", "integer", "number", "string"})
_EXAMPLE: Final = "such as {passed: bool, reason: str}"


@dataclass(frozen=True, slots=True)
class Judge:
    """An ensemble that scores: its typed final output is the score.

    Attributes:
        ensemble: what judges.
        is_pair: whether it compares the replies of two variants.
    """

    ensemble: Any
    is_pair: bool = False

    def __repr__(self) -> str:
        """As it is written."""
        return f"judged_by({describe_ensemble(self.ensemble)}{', pair=True' if self.is_pair else ''})"


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
        is_pair: whether it judges the replies of two variants beside each other.
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
    is_pair: bool = False
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
        is_pair = isinstance(given, Judge) and given.is_pair
        return Scorer(name=named, shown=ensemble.name or named, judge=ensemble, is_pair=is_pair)
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
    reason = next((each for each in REASONS if kinds.get(each) == "string"), None)
    scored = [field for field, kind in kinds.items() if kind in _SCORED and field != reason]
    if not scored:
        there = f"it has {', '.join(fields)}" if fields else "it has no fields"
        return Problem(f"{shown} puts out no score: {there}. A score is a bool, a number or a text, {_EXAMPLE}.")
    plain = [field for field in scored if kinds[field] != "string"] or scored
    names = {field: name if [field] == plain else f"{name}.{field}" for field in scored}
    return JudgeReader(names=names, reason=reason)


def find_lacking_inputs(
    scorer: Scorer,
    variables: Mapping[str, str],
    columns: Sequence[str],
    expected: str | None,
    apart: Collection[str] = (),
) -> Iterator[Problem]:
    """The inputs of a judge that nothing fills.

    Args:
        scorer: the judge.
        variables: of its texts, each with the first text that has it.
        columns: of the rows, and inputs of the ensemble that is judged.
        expected: the column of what a row should come to; None where there is none.
        apart: those of them that variants change.
    """
    ensemble = scorer.judge
    texts = PAIR if scorer.is_pair else (OUTPUT,)
    if scorer.is_pair:
        columns = [each for each in columns if each not in apart]
    known = [*ensemble.inputs, *texts, *([] if expected is None else [EXPECTED]), *columns]
    lacking = [name for name in variables if name not in known]
    shown = f"The judge {describe_ensemble(ensemble)}"
    if scorer.is_pair and (changed := [name for name in lacking if name in apart]):
        yield Problem(
            f"{shown} asks for {{{changed[0]}}}, which variants change: of the two that it compares it hears "
            f"{{{FIRST}}} and {{{SECOND}}} alone."
        )
    elif scorer.is_pair and OUTPUT in lacking:
        yield Problem(f"{shown} asks for {{{OUTPUT}}}, and one that compares has two: {{{FIRST}}} and {{{SECOND}}}.")
    elif scorer.is_pair and not {*PAIR} <= {*variables} and not lacking and not has_handlers(ensemble):
        yield Problem(f"{shown} compares two replies, so its texts have both {{{FIRST}}} and {{{SECOND}}}.")
    elif not scorer.is_pair and {*PAIR} <= {*lacking}:
        yield Problem(f"{shown} compares {{{FIRST}}} and {{{SECOND}}}: give it as judged_by(JUDGE, pair=True).")
    elif lacking:
        names = ", ".join(f"{{{name}}}" for name in lacking)
        verb = "is no column" if len(lacking) == 1 else "are no columns"
        near = did_you_mean(lacking[0], known)
        yield Problem(
            f"{shown} asks for {names}, which {verb} of the rows.{near} Its "
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


FIELD_MEANT: Final = "; it has several fields, so say which is meant: "
"""Stands in the reason of a ready-made scorer that compared a whole typed output, before the fields."""
NOT_ASKED: Final = "not asked, since the budget is used up"
_log: Final = logging.getLogger("ensemble_notebook.run")


class ScorerCalls(Protocol):
    """How scorers are called where a run is scored."""

    async def call(self, scorer: Scorer, function: Callable[[], Any]) -> Any:
        """What the function of a scorer gives, awaited where it is async.

        Raises:
            Exception: what it raised.
        """

    async def ask(self, scorer: Scorer, subject: Subject) -> Judgement:
        """What a judge says.

        Raises:
            Exception: what ended its run.
        """


@dataclass(slots=True)
class Scoring:
    """What came of scoring one run.

    Attributes:
        records: of the scores, in the order of the scorers.
        faults: what scorers raised, by the name of the scorer.
        shown_by: ids of the spans that show a score, by its name.
        is_unpaid: whether the budget ended a judge.
    """

    records: list[ScoreRecord] = field(default_factory=list)
    faults: dict[str, Exception] = field(default_factory=dict)
    shown_by: dict[str, str] = field(default_factory=dict)
    is_unpaid: bool = False


async def score_run(
    scorers: Sequence[Scorer],
    subject: Subject,
    place: Mapping[str, Any],
    calls: ScorerCalls,
    readers: Mapping[str, JudgeReader],
    scoring: Scoring,
    *,
    keeps_texts: bool = True,
) -> None:
    """Score one run. What a scorer raises is a record, and never ends anything.

    Args:
        scorers: one after the other.
        subject: the run.
        place: the fields of a record that say which run it is, and whether earlier scores are replaced.
        calls: how they are called.
        readers: of the judges, by the name of the scorer.
        scoring: gets what came of it, one scorer at a time, so that a stop leaves what was scored by then.
        keeps_texts: whether texts of errors may be kept.

    Raises:
        CancelledError: it was stopped.
    """
    for scorer in scorers:
        reader = readers.get(scorer.name)
        made = _Maker(scorer, place, reader, keeps_texts=keeps_texts)
        if reader is not None and scoring.is_unpaid:
            scoring.records += made.make_failed(NOT_ASKED)
            continue
        try:
            if reader is None:
                read = scorer.read(await calls.call(scorer, scorer.bind(subject)))
                records = [made.make(name, score) for name, score in read.items()]
                scoring.shown_by |= {name: score.span for name, score in read.items() if score.span is not None}
            else:
                judgement = await calls.ask(scorer, subject)
                scores = reader.read(judgement.value).items()
                # The cost of one run of the judge stands with its first score, so that a plain sum is right.
                records = [made.make(*each, judgement, is_first=not at) for at, each in enumerate(scores)]
            taken = {each.name for each in scoring.records}
            if twice := next((each.name for each in records if each.name in taken), None):
                raise ValidationError(f"it gave a score {twice!r}, and so did another scorer")
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it is anybody's, and the run is none the worse for it (E59)
            scoring.is_unpaid = scoring.is_unpaid or (reader is not None and isinstance(error, BudgetExceededError))
            scoring.faults[scorer.name] = error
            scoring.records += made.make_failed(error)
        else:
            scoring.records += records


class _Maker:
    """Makes the records of one scorer for one run."""

    def __init__(
        self, scorer: Scorer, place: Mapping[str, Any], reader: JudgeReader | None, *, keeps_texts: bool
    ) -> None:
        self._names = [scorer.name] if reader is None else list(reader.names.values())
        self._keeps_texts = keeps_texts
        kind = ScoreKind.CODE if scorer.judge is None else ScoreKind.JUDGE
        self._facts = {**place, "kind": kind, "scorer": scorer.shown if keeps_texts else scorer.name}

    def make(
        self, name: str, score: Score, judgement: Judgement | None = None, *, is_first: bool = True
    ) -> ScoreRecord:
        """What was given."""
        facts: dict[str, Any] = {}
        if judgement is not None:
            cost = judgement.cost if is_first else None
            facts = {"model": judgement.model, "cost": cost, "scorer_version": judgement.version}
        return make_record(name, score, {**self._facts, **facts}, datetime.now(UTC))

    def make_failed(self, error: Exception | str) -> list[ScoreRecord]:
        """That nothing was given, and why."""
        told = error if isinstance(error, str) else describe_fault(error, keeps_texts=self._keeps_texts)
        now = datetime.now(UTC)
        return [ScoreRecord(name=name, scored_at=now, error=told, **self._facts) for name in self._names]


def describe_fault(error: Exception, *, keeps_texts: bool) -> str:
    """What a scorer failed with, secrets masked; where no texts are kept, its type: the rest may quote the output."""
    return mask(add_origin(summarize_error(error), error)) if keeps_texts else type(error).__name__


def make_record(name: str, score: Score, facts: Mapping[str, Any], scored_at: datetime) -> ScoreRecord:
    """The record of what was given, secrets masked.

    Args:
        name: of the score.
        score: what was given.
        facts: other fields of the record: by whom, and of which run.
        scored_at: UTC.
    """
    value = score.value
    given: dict[str, Any] = {}
    if isinstance(value, bool):
        given = {"passed": value, "value": float(value)}
    elif isinstance(value, str):
        given = {"label": mask(value)}
    elif value is not None:
        given = {"value": float(value)}
    reason = None if score.reason is None else mask(score.reason)
    if score.low is not None and score.high is not None:
        given |= {"low": float(score.low), "high": float(score.high)}
    return ScoreRecord(
        name=name, scored_at=scored_at, reason=reason, higher_is_better=score.higher_is_better, **given, **facts
    )


def describe_score(record: ScoreRecord) -> str:
    """What was given, in words: ``passed``, ``0.5``, ``warm``; why there is nothing, where there is not."""
    if record.error is not None:
        return f"no score: {record.error}"
    if record.passed is not None:
        told = "passed" if record.passed else "not passed"
    elif record.value is not None:
        told = f"{record.value:g}"
    else:
        told = "no opinion" if record.label is None else record.label
    return told if record.reason is None else f"{told} ({record.reason})"


def keep_scores(records: Iterable[ScoreRecord]) -> bool:
    """Add scores to the runs that they are of, in the configured store, after these have ended.

    Args:
        records: of runs of their own, or of rows of maps.

    Returns:
        Whether all are kept: False where there is no store, it can't be written, which is logged, or it does not have
        one of the runs.
    """
    store = RunStore.find()
    if store is None:
        return False
    try:
        kept = [store.add_scores(*each) for each in group_by_run(records, is_stored=True).items()]
    except StoreError as error:
        _log.warning("The scores are not stored: %s", error)
        return False
    return all(kept)


def list_score_warnings(records: Iterable[ScoreRecord]) -> Iterator[str]:
    """One warning for each scorer that failed, with a count and the place, or that could say nothing of any run.

    Args:
        records: the scores that count.
    """
    for name, same in _group(records).items():
        count = len({each.run_id for each in same})
        errors = {each.run_id: each.error for each in same if each.error is not None}
        if errors:
            which = f"{len(errors):,} of {pluralize(count, 'run')}" if count > 1 else "the only run"
            yield f"The scorer {name} failed for {which}: {next(iter(errors.values()))}"
        elif all(each.measure is None for each in same):
            which = f"any of {pluralize(count, 'run')}" if count > 1 else "the only run"
            yield f"The scorer {name} had no opinion of {which}."
        elif all(not each.passed and FIELD_MEANT in (each.reason or "") for each in same):
            meant = Counter(str(each.reason).partition(FIELD_MEANT)[2] for each in same).most_common(1)[0][0]
            outputs = pluralize(count, "typed output")
            yield f"The scorer {name} found none of {outputs} equal as a whole: say which field is meant, {meant}."


def find_useless(records: Iterable[ScoreRecord]) -> tuple[str, str] | None:
    """A scorer that failed for every run: its name, and a sentence that says so; None where there is no such scorer."""
    for name, same in _group(records).items():
        if all(each.error is not None for each in same):
            count = len({each.run_id for each in same})
            runs = "the only run" if count == 1 else f"each of {pluralize(count, 'run')}"
            return name, f"The scorer {name} failed for {runs}: {str(same[0].error).removesuffix('.')}."
    return None


def _group(records: Iterable[ScoreRecord]) -> Mapping[str, list[ScoreRecord]]:
    """The scores by whoever gave them; people never fail."""
    by_scorer: defaultdict[str, list[ScoreRecord]] = defaultdict(list)
    for each in records:
        if each.scorer is not None:
            by_scorer[each.scorer].append(each)
    return by_scorer
