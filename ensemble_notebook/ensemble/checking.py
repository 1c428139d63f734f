"""`check`: what is expected of a run, told line by line with the span that shows it (V71), for exercises and tests.

Expectations are scorers, and what they say stays with the run as scores (V72). How the table looks is the notebook's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook import scorers as ready_made
from ensemble_notebook.domain.definitions.enums import DONE, ExitReason, SpanStatus
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.outputs.score import CHECK, Score, ScoreKind, ScoreRecord
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.wording import format_duration, pluralize
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.ensemble.scoring import LaterScores, Scorable
from ensemble_notebook.errors import CheckFailed, ValidationError, did_you_mean, summarize_error
from ensemble_notebook.evaluation.scorer import (
    Judge,
    ReadyScorer,
    Scoring,
    describe_score,
    keep_scores,
    make_record,
    read_scorers,
)
from ensemble_notebook.scorers import write_short
from ensemble_notebook.trace.analysis.span_diffs import find_paths
from ensemble_notebook.trace.execution_trace import ExecutionTrace

_SAMPLE: Final = "check(report, called('search'), cost_at_most(0.01))"
_MADE_FOR: Final = "ensemble_notebook.scorers"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExpectation:
    """One line of a check.

    Attributes:
        shown: the expectation, as it is written.
        holds: whether it does.
        reason: why not, where somebody says; perhaps why.
        span: the span that shows it, in words; empty where there is none.
    """

    shown: str
    holds: bool
    reason: str = ""
    span: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckReport:
    """What a check has found.

    Attributes:
        title: how many hold, and of which run.
        note: why none does, of a run that did not come to its end.
        lines: one for each expectation.
    """

    title: str
    note: str = ""
    lines: tuple[CheckedExpectation, ...]

    def __repr__(self) -> str:
        """The table as text."""
        text: str = make_mime_bundle("check", self)["text/plain"]
        return text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("check", self)


def check(output: EnsembleOutput | MapResult, *expectations: Any) -> None:
    """Check what is expected of a run: shows what holds and what does not, and raises where something doesn't.

    ::

        check(report, called("search"), called("delete", at_most=0), finished_before("gather", "brief"))
        check(result, equals(), calls_at_most(3))  # in every row of a map

    What each came to is a score of the run, called ``check.called('search')``: in `output`, its files, and the store.

    Args:
        output: of a run that has ended, however it did; or the result of a map, where what is expected holds if it does
            in every row.
        *expectations: scorers: of `ensemble_notebook.scorers`, functions that give True or False, ensembles that judge.
            One that has no opinion, or fails, does not hold. Of a run that did not come to its end, none does.

    Raises:
        CheckFailed: something does not hold; it is an `AssertionError`.
        ValidationError: there is nothing to check, or an expectation is none.
    """
    run = _find_run(output)
    given = _read_expectations(expectations)
    note, kind = "", "run"
    if isinstance(output, MapResult):
        kind, made = "map", _ask_rows(output, run, given)
    elif (unfinished := _explain_end(run)) is None:
        made = [said[run.name or "run"] for said in _ask(run, given)]
    else:
        note = mask(unfinished.reason or "")
        made = [_make_verdict(run, shown, replace(unfinished, reason=_UNFINISHED)) for shown in given]
    records = [each.record for each in made]
    keep_scores(records)
    output._take_scores(records)
    lines = tuple(
        CheckedExpectation(shown=shown, holds=bool(each.record.passed), reason=each.record.reason or "", span=each.span)
        for shown, each in zip(given, made, strict=True)
    )
    failed = [each for each in lines if not each.holds]
    named = "" if run.name is None else f" of {run.name!r}"
    count = f"{len(lines) - len(failed)} of {len(lines)} hold" if failed or len(lines) > 1 else "It holds"
    render_view("show_check", CheckReport(title=f"{count}: {kind} {run.run_id}{mask(named)}", note=note, lines=lines))
    if failed:
        verb = "does" if len(failed) == 1 else "do"
        what = f"{len(failed)} of {pluralize(len(lines), 'expectation')} {verb} not hold"
        told = "; ".join(f"{each.shown} ({each.reason})" if each.reason else each.shown for each in failed)
        message = f"{note.rstrip('.')}. So {what}." if note else f"{what}: {told}."
        raise CheckFailed(message, failed=[each.shown for each in failed], total=len(lines))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What an expectation comes to in a run, and the span that shows it, in words."""

    record: ScoreRecord
    span: str = ""


def _find_run(output: Any) -> EnsembleOutput:
    """The run that is checked; of a map its own.

    Raises:
        ValidationError: it is something else; says what to do.
    """
    if isinstance(output, EnsembleOutput):
        return output
    if isinstance(output, MapResult):
        if (run := output._last_output) is not None:
            return run
        hint = "there was no row."
    elif output is None:
        hint = "it is None. Run the cell that makes it first, with -o and its name."
    elif isinstance(output, ExecutionTrace):
        hint = f"it is a trace. Its output is load_traces(...).load_output({output.run_id!r})."
    elif isinstance(output, Scorable):
        hint = "there are many runs here. Give that of one: load_output(run_id)."
    elif callable(getattr(output, "result", None)):
        hint = "it still runs, or may. Give .result() of it."
    elif is_ensemble(output):
        hint = "it is an ensemble, which has not run. Give what .run() gives."
    else:
        hint = f"it is a {type(output).__name__}. First comes the output, then what is expected of it: {_SAMPLE}."
    raise ValidationError(f"check takes the output of a run or the result of a map, and {hint}")


def _read_expectations(given: Sequence[Any]) -> dict[str, Any]:
    """The expectations by how they are written, each once.

    Raises:
        ValidationError: there is none, or one is no scorer; names the nearest.
    """
    if not given:
        raise ValidationError(f"check was told nothing to expect: {_SAMPLE}.")
    read: dict[str, Any] = {}
    for each in given:
        _refuse_unread(each)
        (scorer,) = read_scorers(each)
        shown = mask(repr(each) if isinstance(each, ReadyScorer | Judge) else scorer.shown)
        name, number = shown, 1
        while name in read and not (isinstance(each, ReadyScorer) or read[name] is each):  # two lambdas, perhaps
            number += 1
            name = f"{shown} ({number})"
        read[name] = each
    return read


def _refuse_unread(given: Any) -> None:
    """Refuse what people write who mean a scorer.

    Raises:
        ValidationError: says how it is written.
    """
    if isinstance(given, list | tuple | dict | set):
        raise ValidationError(f"check takes expectations one by one, not in a {type(given).__name__}: {_SAMPLE}.")
    if isinstance(given, str):
        word = given.partition("(")[0].strip().rpartition(".")[2]
        known = ready_made.__all__
        told = f" Without quotes it is one: {given}." if word in known and "(" in given else did_you_mean(word, known)
        raise ValidationError(f"The expectation {given!r} is a text, and no scorer.{told}")
    if getattr(given, "__module__", None) == _MADE_FOR and getattr(given, "__name__", None) in ready_made.__all__:
        raise ValidationError(f"{given.__name__} makes an expectation: call it, as in {_SAMPLE}.")
    if isinstance(given, Judge) and given.is_pair:
        raise ValidationError(f"{given!r} compares two variants, and check looks at each run by itself.")
    if not (callable(given) or isinstance(given, ReadyScorer | Judge) or is_ensemble(given)):
        what = "an output" if isinstance(given, Scorable) else repr(given)
        raise ValidationError(f"check takes expectations behind the output, and {what} is none: {_SAMPLE}.")


def _ask(scored: Scorable, given: dict[str, Any]) -> list[dict[str, _Verdict]]:
    """What each expectation says of the runs that have come to their end, by the name of the run.

    Raises:
        ValidationError: one needs what the runs do not have; nothing was called.
    """
    runs = {each.name: each.run for each in scored._list_scored()}
    asked = {
        shown: LaterScores(scored, {shown: each}, scored._expected, is_replacing=True) for shown, each in given.items()
    }
    made = []
    for shown, later in asked.items():
        later.run()
        made.append({name: _read(runs[name], shown, later, said) for name, said in later.scorings.items()})
    return made


def _read(run: EnsembleOutput, shown: str, later: LaterScores, scoring: Scoring) -> _Verdict:
    verdict = _settle(scoring.records)
    if not verdict.value and verdict.reason is None and not later.looks_at_run:
        verdict = replace(verdict, reason=f"the output is {write_short(run.raw)}")
    name = next((each.name for each in scoring.records if not each.passed), shown)
    span_id = scoring.shown_by.get(name)
    if span_id is None and not later.looks_at_run:
        span_id = _find_final_span(run)
    made = _make_verdict(run, shown, replace(verdict, span=span_id))
    if not scoring.records:
        return made
    # Of a judge, its model and costs stay.
    told = {name: getattr(made.record, name) for name in ("name", "passed", "value", "reason")}
    return replace(made, record=replace(scoring.records[0], **told, label=None, error=None, replaces=True))


def _ask_rows(result: MapResult, run: EnsembleOutput, given: dict[str, Any]) -> list[_Verdict]:
    """What each expectation comes to in a map: it holds where it holds in each row.

    Raises:
        ValidationError: as `_ask`.
    """
    rows = [each for each in result.rows if each.status != SETTLED]  # such a one was not needed
    ends = {each.name: why for each in rows if (why := _explain_row(each)) is not None}
    said = _ask(result, given) if len(ends) < len(rows) else [{} for _ in given]
    made = []
    for shown, by_row in zip(given, said, strict=True):
        told = [by_row.get(each.name) or _make_verdict(each.output or run, shown, ends[each.name]) for each in rows]
        failed = [(row, verdict) for row, verdict in zip(rows, told, strict=True) if not verdict.record.passed]
        reason, span = f"in {len(rows) - len(failed):,} of {pluralize(len(rows), 'row')}", ""
        if failed:
            row, first = failed[0]
            reason = ": ".join(filter(None, [f"{reason}, not in {row.name!r}", first.record.reason]))
            span = mask(f"{row.name}, {first.span}") if first.span else ""
        record = _make_verdict(run, shown, Score(not failed, reason)).record
        kind = next((each.record.kind for each in by_row.values()), record.kind)
        made.append(_Verdict(replace(record, kind=kind), span))
    return made


def _explain_row(row: RowResult) -> Score | None:
    """Why nothing that is expected of a row holds; None where its run came to its end."""
    if row.output is None:
        return Score(value=False, reason=f"it did not run ({row.reason or row.status})")
    return _explain_end(row.output)


def _settle(records: Sequence[ScoreRecord]) -> Score:
    """Whether an expectation holds, by all that it said."""
    if fault := next((each.error for each in records if each.error is not None), None):
        return Score(value=False, reason=f"it could not tell: {fault}")
    verdicts = [each for each in records if each.passed is not None]
    if not verdicts:
        said = next((each for each in records if each.measure is not None), None)
        if said is not None:
            what = describe_score(said)
            return Score(
                value=False, reason=f"it gave {what}, which neither passes nor fails: compare it in a function"
            )
        why = next((each.reason for each in records if each.reason), None)
        return Score(value=False, reason="it had no opinion" if why is None else f"it had no opinion: {why}")
    failed = [each for each in verdicts if not each.passed]
    named = len(verdicts) > 1
    told = [f"{each.name} {describe_score(each)}" if named else each.reason for each in failed or verdicts[:1]]
    return Score(value=not failed, reason="; ".join(filter(None, told)) or None)


def _find_final_span(output: EnsembleOutput) -> str | None:
    """The task that gave the output."""
    final = output.get_final_output()
    spans = (each for each in output.trace._fold.spans.values() if each.is_own_task)
    return next((each.span_id for each in spans if final is not None and each.name == final.name), None)


def _explain_end(output: EnsembleOutput) -> Score | None:
    """Why nothing that is expected of a run holds, since it did not come to its end; None where it did."""
    reason, final = output.exit_reason, output.get_final_output()
    spans = output.trace._fold.spans.values()
    if reason is ExitReason.NOBODY_TO_ASK:
        return Score(value=False, reason="The run waits for the answer of a person.")
    if output.status in DONE:
        return None if final is not None else Score(value=False, reason="The run has put out nothing.")
    if reason in _STOPPED:
        cut = next((each for each in spans if each.is_own_task and each.status in _CUT), None)
        return Score(value=False, reason=f"The run {_STOPPED[reason]}.", span=cut)
    fatal = next((each for each in spans if each.is_origin and each.is_fatal), None)
    first = output.failures[0] if output.failures else None
    told = "." if first is None else f" at {first.name!r}: {summarize_error(first.error)}"
    return Score(value=False, reason=f"The run failed{told}", span=fatal)


_UNFINISHED: Final = "the run did not come to its end"
_CUT: Final = (SpanStatus.CANCELLED, SpanStatus.INTERRUPTED)
_STOPPED: Final = {
    ExitReason.INTERRUPTED: "was stopped before its end",
    ExitReason.TIMEOUT: "was out of time",
    ExitReason.BUDGET_EXCEEDED: "had used up its budget",
}


def _make_verdict(run: EnsembleOutput, shown: str, score: Score) -> _Verdict:
    facts = {"run_id": run.run_id, "kind": ScoreKind.CODE, "scorer": shown, "replaces": True}
    return _Verdict(make_record(f"{CHECK}{shown}", score, facts, datetime.now(UTC)), _describe_span(run, score.span))


def _describe_span(output: EnsembleOutput, span_id: str | None) -> str:
    """What a span is, where, and when it was: ``tool gather/search, after 0.2 s``."""
    spans = output.trace._fold.spans
    span = None if span_id is None else spans.get(span_id)
    if span is None:
        return ""
    when = "" if span.start_ms is None else f", after {format_duration(span.start_ms)}"
    return f"{span.kind} {find_paths(spans.values())[span.span_id]}{when}"
