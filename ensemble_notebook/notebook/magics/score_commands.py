"""``%ensemble score``: adds scores to a run of this notebook, or to a remembered one (V6)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.binding.scorer_binder import ScorerMistake, find_scorer
from ensemble_notebook.cell.language.options import DEFAULT_OUT
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import load_result
from ensemble_notebook.ensemble.many_runs.map_handle import MapHandle
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.run_handle import RunHandle
from ensemble_notebook.errors import RunInterrupted, ScoringError, ValidationError, make_readable
from ensemble_notebook.evaluation.scorer import read_scorers
from ensemble_notebook.evaluation.scoring import describe_score
from ensemble_notebook.notebook.magics.named_runs import WAYS, find_remembered

if TYPE_CHECKING:
    from collections.abc import Iterator

_USAGE: Final = (
    f"%ensemble score takes a run {WAYS} and what scores it: %ensemble score RUN [NAME=]SCORER, such as "
    f"%ensemble score report \"contains('refund')\" -o scored."
)


def score_run(words: Sequence[str], shell: Any) -> MapResult | EnsembleOutput:
    """Score a run, and bind what has the scores to the name after ``-o``, or ``_ensemble``.

    Raises:
        ValidationError: no run or no scorer is named, or one of them is wrong.
        StoreError: there is no such run.
        ScoringError: a scorer failed for each run; what has the scores is bound all the same.
    """
    rest, out, expected, replaces = _read_words(words)
    if len(rest) < 2:
        raise ValidationError(_USAGE)
    found = _find_result(rest[0], shell)
    scorers: dict[str, Any] = {}
    for text in rest[1:]:
        name, scorer = _find_scorer(text, shell)
        (read,) = read_scorers(scorer if name is None else {name: scorer})
        if read.name in scorers:
            raise ValidationError(f"--score: two scores are called {read.name!r}. Name them: NAME={text}.")
        scorers[read.name] = scorer
    try:
        scored = found.score(scorers, replace=replaces, expected=expected)
    except (ScoringError, RunInterrupted) as error:
        if error.output is not None:
            shell.user_ns[out] = error.output
        raise
    shell.user_ns[out] = scored
    if isinstance(scored, EnsembleOutput):
        told = (f"{each.name}: {describe_score(each)}" for each in scored.score_records if each.name in scorers)
        sys.stdout.write(make_readable("\n".join(told) + "\n"))
    return scored


def _read_words(words: Sequence[str]) -> tuple[list[str], str, str | None, bool]:
    """The run and the scorers; the name to bind, the column of what a run should come to, and whether to replace."""
    rest, out, expected, replaces = [], DEFAULT_OUT, None, False
    given: Iterator[str] = iter(words)
    for word in given:
        if word in ("-o", "--out"):
            out = next(given, "")
            if not out.isidentifier():
                raise ValidationError(f"%ensemble score: {word} wants the name of a variable, got {out!r}.")
        elif word == "--expected":
            expected = next(given, None)
        elif word == "--replace":
            replaces = True
        else:
            rest.append(word)
    return rest, out, expected, replaces


def _find_scorer(text: str, shell: Any) -> tuple[str | None, Any]:
    try:
        return find_scorer(text, shell.user_ns)
    except ScorerMistake as mistake:
        raise ValidationError(f"{mistake.message} {mistake.hint}".rstrip()) from None


def _find_result(word: str, shell: Any) -> MapResult | EnsembleOutput:
    """What a word names: the value of a variable, else a remembered run.

    Raises:
        ValidationError: the variable has a run that goes on.
        StoreError: no run is remembered by this name.
    """
    value = shell.user_ns.get(word)
    if isinstance(value, RunHandle | MapHandle):
        if value.output is None:
            raise ValidationError(f"{word} is a run that goes on. Wait for it with {word}.result().")
        value = value.output
    if isinstance(value, EnsembleOutput | MapResult):
        return value
    return load_result(find_remembered(word, shell).run_id)
