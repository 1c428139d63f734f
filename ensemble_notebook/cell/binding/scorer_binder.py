"""Scorers that a cell's first line names (V4): functions of the notebook, ready-made ones, ensembles that judge.

A ready-made one is read as a call with plain values: the text is parsed, and never evaluated.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook import scorers as ready_made
from ensemble_notebook.cell.reading.mistakes import MistakeReport, join_names, quote, suggest_name
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.templates import find_first_texts
from ensemble_notebook.domain.planning.ensemble_texts import list_item_inputs, list_texts
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.ensemble.scoring import read_judge
from ensemble_notebook.errors import Problem, ValidationError
from ensemble_notebook.evaluation.scorer import (
    Judge,
    ReadyScorer,
    Scorer,
    find_expected_column,
    find_lacking_columns,
    find_lacking_inputs,
    read_scorers,
)

_NAMED: Final = re.compile(r"\s*([^=('\"]+?)\s*=\s*(?!=)(.*)", re.DOTALL)
_MODULE: Final = "scorers"
_JUDGED: Final = "judged_by"
_SAMPLE: Final = "contains('refund')"
_EXAMPLE: Final = f'Write a function of the notebook, an ensemble, or a ready-made one such as "{_SAMPLE}".'
_SINGLE: Final = re.compile(r"(\w+)\(([^()'\",=]+)\)")


@dataclass(frozen=True, slots=True)
class ScorerMistake(Exception):  # noqa: N818 - it is reported, and never seen
    """What is wrong with a text that should name a scorer.

    Attributes:
        message: what it is.
        hint: what to write.
        word: the part of the text that is meant; empty for all of it.
    """

    message: str
    hint: str = ""
    word: str = ""


def find_scorer(text: str, names: Mapping[str, Any]) -> tuple[str | None, Any]:
    """What a text names as a scorer: its own name where ``NAME=`` gives one, and the scorer.

    Args:
        text: ``[NAME=]SCORER``.
        names: the variables of the notebook.

    Raises:
        ScorerMistake: it names none.
    """
    match = _NAMED.fullmatch(text)
    name, written = (None, text.strip()) if match is None else (match[1], match[2].strip())
    if not written:
        raise ScorerMistake(f"--score {text}: the scorer is missing.", _EXAMPLE)
    scorer = _find_variable(written, names) if written.isidentifier() else _read_call(written, names)
    try:
        read_scorers(scorer)
    except ValidationError as error:
        raise ScorerMistake(f"--score {text}: {error}") from None
    return name, scorer


def find_scorers(texts: Sequence[str], names: Mapping[str, Any], option: str = "") -> dict[str, Any]:
    """What texts name as scorers, by the names of their scores.

    Args:
        texts: each ``[NAME=]SCORER``.
        names: the variables of the notebook.
        option: that stands before each of them.

    Raises:
        ValidationError: a text names none, or two are called alike.
    """
    found: dict[str, Any] = {}
    for text in texts:
        try:
            name, scorer = find_scorer(text, names)
        except ScorerMistake as mistake:
            raise ValidationError(f"{mistake.message} {mistake.hint}".rstrip()) from None
        (read,) = read_scorers(scorer if name is None else {name: scorer})
        if read.name in found:
            raise ValidationError(f"--score: two scores are called {read.name!r}. Name them: {option}NAME={text}.")
        found[read.name] = scorer
    return found


def list_scorer_names(names: Mapping[str, Any]) -> Iterator[str]:
    """The words that may stand as a scorer: functions and ensembles of the notebook, and ready-made ones."""
    for name, value in names.items():
        if not name.startswith("_") and (inspect.isfunction(value) or _is_scorer(value)):
            yield name
    for name in ready_made.__all__:
        if name != _JUDGED:
            parameters = inspect.signature(getattr(ready_made, name)).parameters.values()
            yield f"{name}(" if any(each.default is each.empty for each in parameters) else f"{name}()"


def _is_scorer(value: Any) -> bool:
    return isinstance(value, ReadyScorer | Judge) or is_ensemble(value)


def _is_own(word: str, names: Mapping[str, Any]) -> bool:
    """Whether the notebook has something of this name, and not the ready-made scorer itself."""
    return word in names and not (word in ready_made.__all__ and names[word] is getattr(ready_made, word))


def _find_variable(word: str, names: Mapping[str, Any]) -> Any:
    """A variable of the notebook, or a ready-made scorer that needs no values."""
    if _is_own(word, names):
        found = names[word]
        if _is_scorer(found) or (callable(found) and not isinstance(found, type)):
            return found
        message = f"--score: {word!r} is no scorer, but a value of type {type(found).__name__}."
        raise ScorerMistake(message, _EXAMPLE, word)
    if word in ready_made.__all__:
        return _make(word, (), {})
    known = [each.rstrip("()") for each in list_scorer_names(names)]
    raise ScorerMistake(f"--score: there is no scorer {quote(word)}.{suggest_name(word, known)}", _EXAMPLE, word)


def _read_call(text: str, names: Mapping[str, Any]) -> Any:
    """A ready-made scorer with plain values."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        match = _SINGLE.fullmatch(text)
        meant = f"{match[1]}('{match[2]}')" if match else _SAMPLE
        hint = _suggest_quotes(meant) if "(" in text else _EXAMPLE
        raise ScorerMistake(f"--score: {quote(text)} can't be read.", hint, text) from None
    word, has_module = _read_name(call)
    if not isinstance(call, ast.Call) or word is None:
        message = f"--score: {quote(text)} is no call of a ready-made scorer, and nothing else is evaluated here."
        raise ScorerMistake(message, _EXAMPLE, text)
    if _is_own(word, names) and not has_module:
        hint = f"Call it in a cell above, and name what it gives: `scorer = {text}`, then `--score scorer`."
        raise ScorerMistake(f"--score: {word!r} is of the notebook, whose functions are not called here.", hint, word)
    if word not in ready_made.__all__:
        message = f"--score: there is no ready-made scorer {quote(word)}.{suggest_name(word, ready_made.__all__)}"
        raise ScorerMistake(message, f"There are {join_names(ready_made.__all__)}.", word)
    if word == _JUDGED:
        return _read_pair_judge(call, names)
    hint = _suggest_quotes(ast.unparse(_TextMaker().visit(ast.parse(text, mode="eval"))))
    values: dict[str, Any] = {}
    for each in call.keywords:
        if each.arg is None:
            raise ScorerMistake("--score: the values of a scorer are written one by one, without **.", _EXAMPLE)
        values[each.arg] = _read_value(each.value, hint)
    return _make(word, [_read_value(each, hint) for each in call.args], values)


def _read_pair_judge(call: ast.Call, names: Mapping[str, Any]) -> Any:
    """``judged_by(JUDGE, pair=True)``, the one call in which a variable stands."""
    judge = names.get(call.args[0].id) if len(call.args) == 1 and isinstance(call.args[0], ast.Name) else None
    if is_ensemble(judge) and [ast.unparse(each) for each in call.keywords] == ["pair=True"]:
        return ready_made.judged_by(judge, pair=True)
    hint = f'Write `--score JUDGE`, or of two variants `--score "NAME={_JUDGED}(JUDGE, pair=True)"`.'
    raise ScorerMistake("--score: a judge is named by its variable.", hint, _JUDGED)


class _TextMaker(ast.NodeTransformer):
    """Makes texts of the names among the values of a call."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Leave the name of what is called as it is."""
        node.args = [self.visit(each) for each in node.args]
        node.keywords = [self.visit(each) for each in node.keywords]
        return node

    def visit_Name(self, node: ast.Name) -> ast.Constant:
        """A name is a text that has lost its quotes."""
        return ast.Constant(node.id)


def _suggest_quotes(call: str) -> str:
    """How a call is written where the line takes its quotes away, as a shell does."""
    shown = _SAMPLE if '"' in call else call
    return f'Quotes inside a word get lost in this line. Put the whole between double quotes: "{shown}".'


def _read_name(call: ast.AST) -> tuple[str | None, bool]:
    """What is called: ``contains``, or ``scorers.contains``; None where it is something else."""
    function = call.func if isinstance(call, ast.Call) else None
    if isinstance(function, ast.Name):
        return function.id, False
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == _MODULE:
        return function.attr, True
    return None, False


def _read_value(node: ast.expr, hint: str) -> Any:
    """A plain value: a text, a number, True, False, None, or a list of these."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        written = ast.unparse(node)
        message = f"--score: {quote(written)} is no plain value, and nothing is evaluated here."
        hint = hint if isinstance(node, ast.Name | ast.List) else f'Write texts between quotes: "{_SAMPLE}".'
        raise ScorerMistake(message, hint, written) from None


def _make(word: str, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The ready-made scorer with these values."""
    function = getattr(ready_made, word)
    try:
        inspect.signature(function).bind(*values, **named)
    except TypeError as error:
        known = list(inspect.signature(function).parameters)
        wrong = next((each for each in named if each not in known), None)
        near = "" if wrong is None else suggest_name(wrong, known)
        parameters = inspect.signature(function).parameters.values()
        usage = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
        raise ScorerMistake(f"--score {word}: {error}.{near}", f"It is {word}({usage}).", wrong or word) from None
    try:
        return function(*values, **named)
    except ValidationError as error:
        raise ScorerMistake(f"--score: {error}", "", word) from None


# --- The scorers of a cell, with the place of each mistake ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CellScorers:
    """What scores the runs of a cell.

    Attributes:
        score: the scorers, by the names of their scores.
        expected: the column of what a run should come to, where the line names one.
    """

    score: Mapping[str, Any]
    expected: str | None = None


def bind_scorers(
    texts: Sequence[str],
    expected: str | None,
    names: Mapping[str, Any] | None,
    columns: Sequence[str],
    report: MistakeReport,
    varied: Collection[str] = (),
) -> CellScorers | None:
    """Find the scorers that the first line of a cell names, and report what is wrong with them.

    Args:
        texts: each ``[NAME=]SCORER``.
        expected: the column of what a run should come to; None where the line names none.
        names: the variables of the notebook; None where they are not known: then nothing is scored.
        columns: of the rows, and names of inputs.
        report: gets the mistakes.
        varied: the inputs that variants change; none: there is one variant.
    """
    if names is None or not texts:
        return None
    found: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for text in texts:
        place = report.source.locate_option(text)
        try:
            name, scorer = find_scorer(text, names)
        except ScorerMistake as fault:
            word = report.source.locate_option(fault.word) if fault.word else place
            report.add_mistake(word, fault.message, fault.hint)
            continue
        (read,) = read_scorers(scorer if name is None else {name: scorer})
        if read.name in found:
            hint = f"Name them: --score NAME={text}."
            report.add_mistake(place, f"--score: two scores are called {read.name!r}.", hint)
            continue
        found[read.name], places[read.name] = scorer, place
    try:
        column = find_expected_column(columns, expected)
    except ValidationError as error:
        report.add_mistake(report.source.locate_option(expected or ""), f"--expected: {error}", "")
        return CellScorers(found, expected)
    for each in read_scorers(found) if found else ():
        of_judge = _find_judge_problems(each, columns, column, varied)
        for problem in [*find_lacking_columns([each], columns, column), *of_judge]:
            report.add_mistake(places[each.name], problem.message, "")
    return CellScorers(found, expected)


def _find_judge_problems(
    scorer: Scorer, columns: Sequence[str], expected: str | None, varied: Collection[str]
) -> Iterator[Problem]:
    """What a judge lacks to judge these rows; none for other scorers."""
    judge = scorer.judge
    if judge is None:
        return
    if scorer.is_pair and not varied:
        yield Problem(
            f"The judge {scorer.shown} compares two variants, and there is nothing to compare: name what differs, as "
            "--vary NAME=A --vary NAME=B, or give the judge by itself."
        )
    try:
        reader = read_judge(scorer, build_graph(judge))
    except ValidationError as error:
        yield from error.problems
        return
    if isinstance(reader, Problem):
        yield reader
    variables = find_first_texts([*list_texts(judge), *list_item_inputs(judge)])
    yield from find_lacking_inputs(scorer, variables, columns, expected, varied)
