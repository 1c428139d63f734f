"""Ready-made scorers (V5): ``score=[scorers.equals(), scorers.calls_at_most(3)]``.

Each is a function that gives a scorer. Its scores are called as the function is, unless a name is given:
``score={"polite": scorers.contains("please")}``. A cell takes them as text: ``--score "contains('refund')"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from ensemble_notebook.domain.definitions.condition import describe_pattern, is_found, read_pattern
from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.output_type import is_same_scalar, read_field, to_scalar_text
from ensemble_notebook.domain.outputs.score import RENAMED, Score
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import is_missing
from ensemble_notebook.domain.wording import format_duration, pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean, find_nearest
from ensemble_notebook.evaluation.scorer import EXPECTED_COLUMNS, FIELD_MEANT, Judge, ReadyScorer
from ensemble_notebook.trace.analysis.timeseries import measure_activity
from ensemble_notebook.trace.codec.event_codec import to_plain
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

__all__ = [
    "called",
    "called_in_order",
    "calls_at_most",
    "close_to",
    "contains",
    "cost_at_most",
    "delegated_to",
    "equals",
    "finished_before",
    "judged_by",
    "matches",
    "no_errors",
    "seconds_at_most",
]


def __getattr__(name: str) -> NoReturn:
    """Answer a misspelt scorer with the nearest."""
    guess = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"There is no scorer {name!r}.{guess}", name=name, obj=None)


# --- Scorers that look at what a run has put out ----------------------------------------------------------------------

_EXPECTED = EXPECTED_COLUMNS[0]
_MOST_TOLD: Final = 5


def equals(column: str = _EXPECTED, field: str | None = None, ignore_case: bool = False) -> ReadyScorer:
    """Pass where the output is what a column of the rows says. The score is called ``is_equal``.

    ::

        ensemble.map(rows, score=scorers.equals("city", field="city", ignore_case=True))

    Args:
        column: with the value that is right. Where a row has none, there is no opinion. ``"expected"`` also finds
            ``target``, ``expected_output``, and what ``map(expected=)`` names.
        field: a path into the typed output, such as ``"address.city"``; None: its only field, or the whole text,
            without white space around it.
        ignore_case: whether upper and lower case are the same.

    Raises:
        ValidationError: an argument has a wrong type.
    """
    check_text("equals", column=column)
    if field is not None:
        check_text("equals", field=field)
    if not isinstance(ignore_case, bool):
        raise ValidationError(f"equals: ignore_case must be True or False, got {ignore_case!r}.")
    function = partial(_equals, column, field, ignore_case)
    values = {"field": field, "ignore_case": ignore_case or None}
    shown = write_call("equals", *(() if column == _EXPECTED else (column,)), **values)
    return ReadyScorer(name=RENAMED["equals"], shown=shown, function=function, column=column)


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
    fields = {} if field is not None else _list_fields(output)
    same = [name for name, value in fields.items() if _is_same(value, wanted, ignore_case=ignore_case)]
    if _is_same(given, wanted, ignore_case=ignore_case) or (same and len(fields) == 1):
        return Score(value=True)
    told = f"expected {write_short(wanted)}, got {write_short(given)}"
    if len(fields) < 2:
        return Score(value=False, reason=told)
    meant = " or ".join(f"field={name!r}" for name in (same or [*fields])[:_MOST_TOLD])
    return Score(value=False, reason=f"{told}{FIELD_MEANT}{meant}")


def _list_fields(output: TaskOutput) -> Mapping[str, Any]:
    """The fields of a typed output; none of one that has none."""
    plain = to_plain(output.parsed_output)
    return plain if isinstance(plain, Mapping) else {}


def _is_same(given: Any, wanted: Any, *, ignore_case: bool) -> bool:
    """Whether two values are the same, of which either may be the text of a number, or of true and false."""
    if isinstance(given, str) is not isinstance(wanted, str):
        number = _read_number(given), _read_number(wanted)
        if None not in number:
            return number[0] == number[1]
        ignore_case = ignore_case or isinstance(given, bool) or isinstance(wanted, bool)  # tables write True
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
        return Score(value=False, reason=f"{write_short(output.raw)} is no number")
    # A relative slack of rounding, so that 0.3 is within 0.1 of 0.2.
    is_close = abs(given - right) <= tolerance + 1e-12 * max(abs(given), abs(right))
    return Score(is_close, None if is_close else f"expected {right:g}, got {given:g}")


def judged_by(ensemble: Any, pair: bool = False) -> Judge:
    """A judge: an ensemble whose typed final output is the score. ``score=judge`` says the same.

    ::

        ensemble.map(rows, score={"helpful": scorers.judged_by(judge)})
        variants.map(rows, score={"better": scorers.judged_by(judge, pair=True)})

    Args:
        ensemble: its inputs are filled by name from ``output``, ``expected`` and the columns of the row.
        pair: whether it compares what two variants say to a row: its inputs are ``first``, ``second``, ``expected`` and
            the columns, and one field of its output is ``first``, ``second`` or ``tie``. It is asked both ways round,
            and where it chooses otherwise then, that is a tie.

    Raises:
        ValidationError: it is no ensemble, or `pair` is neither True nor False.
    """
    if not is_ensemble(ensemble):
        raise ValidationError(f"judged_by takes an ensemble, got {type(ensemble).__name__}.")
    if not isinstance(pair, bool):
        raise ValidationError(f"judged_by: pair must be True or False, got {pair!r}.")
    return Judge(ensemble, is_pair=pair)


def _find_wanted(column: str, inputs: Mapping[str, Any], expected: Any) -> Any:
    """What a column of the row says; ``expected`` also by its other names."""
    return expected if column == _EXPECTED else inputs.get(column)


def _read_field(output: TaskOutput, field: str) -> Any:
    if output.parsed_output is None:
        raise ValidationError(f"the output has no type, so there is no field {field!r} in it")
    return read_field(output.parsed_output, field)


def write_short(value: Any) -> str:
    """A value as reasons have it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- Scorers that look at how a run went: which tools were called, by what cost and time ------------------------------
#
# Of a run whose tasks were reused there is no trace of the work, so they have no opinion of it.

_REUSED: Final = "reused from an earlier run, whose trace has the work"
# Not attempts: one that was refused for a moment, and made again, is no error of the run.
_BY_WHICH_A_RUN_ERRS: Final = frozenset(
    {SpanKind.TASK, SpanKind.LLM, SpanKind.TOOL, SpanKind.DELEGATION, SpanKind.GUARDRAIL, SpanKind.MEMORY}
)


def called(tool: str, at_least: int | None = None, at_most: int | None = None) -> ReadyScorer:
    """Pass where a tool was called as often as that.

    ::

        ensemble.map(rows, score=scorers.called("search", at_most=3))

    Args:
        tool: its name.
        at_least: the fewest calls; None: 1, and none with ``at_most=0``, which means never.
        at_most: the most calls; None: no limit.

    Raises:
        ValidationError: an argument has a wrong type, or `at_most` is below `at_least`.
    """
    check_text("called", tool=tool)
    if at_most is not None:
        check_count("called", at_most=at_most)
    least = int(at_most != 0) if at_least is None else at_least
    check_count("called", at_least=least)
    if at_most is not None and at_most < least:
        raise ValidationError(f"called: at_most={at_most} is below at_least={least}, which no run can meet.")
    shown = write_call("called", tool, at_least=None if least == int(at_most != 0) else least, at_most=at_most)
    return _make("called", shown, _called, tool, least, at_most)


def _called(run: Any, tool: str, at_least: int, at_most: int | None) -> Score:
    spans = _list_spans(run, SpanKind.TOOL)
    calls = [each for each in spans if each.name == tool]
    count = len(calls)
    told = f"{tool} was called {pluralize(count, 'time')}"
    if at_most is not None and count > at_most:  # shown by the first call that is too many
        return Score(value=False, reason=told, span=calls[at_most])
    last = calls[-1] if calls else None
    names = {each.name for each in spans}
    guess = "" if calls else did_you_mean(tool, names)
    if guess:
        told = f"{told}.{guess}"
    if count < at_least:
        return Score(value=False, reason=told, span=last)
    # What must never be called holds in every run where its name is misspelt.
    doubtful = not calls and find_nearest(tool, names) is not None
    return Score(value=True, reason=told if doubtful else None, span=last)


def called_in_order(tools: Sequence[str]) -> ReadyScorer:
    """Pass where these tools were called one after the other; other calls may be in between.

    ::

        ensemble.map(rows, score=scorers.called_in_order(["search", "answer"]))

    Args:
        tools: their names; one may stand several times.

    Raises:
        ValidationError: it is no list of names, or an empty one.
    """
    given: Any = tools
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValidationError(f"called_in_order takes a list of the names of tools, got {given!r}.")
    for each in tools:
        check_text("called_in_order", tool=each)
    return _make("called_in_order", write_call("called_in_order", list(tools)), _called_in_order, tuple(tools))


def _called_in_order(run: Any, tools: Sequence[str]) -> Score:
    spans = _list_spans(run, SpanKind.TOOL)
    rest, found = iter(spans), None
    for tool in tools:
        call = next((each for each in rest if each.name == tool), None)
        if call is None:
            names = [each.name for each in spans]
            told = ", ".join(names[:_MOST_TOLD]) + ("..." if len(names) > _MOST_TOLD else "") or "nothing"
            reason = f"{tool} was not called at its place; called were: {told}"
            return Score(value=False, reason=reason, span=found)
        found = call
    return Score(value=True, span=found)


def delegated_to(role: str) -> ReadyScorer:
    """Pass where work was delegated to the agent of this role; a request that was refused is none.

    ::

        ensemble.map(rows, score=scorers.delegated_to("Researcher"))

    Args:
        role: of the agent.

    Raises:
        ValidationError: it is no text, or a blank one.
    """
    check_text("delegated_to", role=role)
    return _make("delegated_to", write_call("delegated_to", role), _delegated_to, role)


def _delegated_to(run: Any, role: str) -> Score:
    spans = _list_spans(run, SpanKind.DELEGATION)
    granted = [each for each in spans if each.worker is not None or each.status is not SpanStatus.ERROR]
    if (found := next((each for each in granted if each.name == role), None)) is not None:
        return Score(value=True, span=found)
    if (refused := next((each for each in spans if each.name == role), None)) is not None:
        return Score(value=False, reason=f"it was refused: {refused.reason or refused.error_message}", span=refused)
    told = ", ".join(dict.fromkeys(str(each.name) for each in granted)) or "nobody"
    return Score(value=False, reason=f"work was delegated to {told}")


def calls_at_most(n: int) -> ReadyScorer:
    """Pass where the run made no more than this many model calls.

    ::

        ensemble.map(rows, score=scorers.calls_at_most(3))

    Args:
        n: the most model calls; attempts that were repeated count once.

    Raises:
        ValidationError: it is no whole number, or below 0.
    """
    check_count("calls_at_most", n=n)
    return _make("calls_at_most", write_call("calls_at_most", n), _calls_at_most, n)


def _calls_at_most(run: Any, n: int) -> Score:
    count = run.metrics.llm_call_count
    calls = _list_spans(run, SpanKind.LLM)
    shown = calls[min(n, len(calls) - 1)] if calls else None  # the first one that is too many, else the last
    return Score(count <= n, f"{pluralize(count, 'model call')}" if count > n else None, span=shown)


def cost_at_most(usd: float) -> ReadyScorer:
    """Pass where the run cost no more than that. There is no opinion where a price is not known.

    ::

        ensemble.map(rows, score=scorers.cost_at_most(0.002))

    Args:
        usd: the most, in the currency of the prices, which is US dollars unless the ensemble's `cost` says otherwise.

    Raises:
        ValidationError: it is no number, or below 0.
    """
    check_number("cost_at_most", usd=usd)
    return _make("cost_at_most", write_call("cost_at_most", usd), _cost_at_most, usd)


def _cost_at_most(run: Any, usd: float) -> Score:
    metrics = run.metrics
    cost = 0.0 if metrics.cost is None else float(metrics.cost)
    priced = [each for each in _list_spans(run, SpanKind.LLM) if each.totals is not None]
    dearest = max(priced, key=lambda each: (each.totals and each.totals.cost) or 0, default=None)
    if cost > usd:
        return Score(value=False, reason=f"it cost {metrics.cost} {metrics.currency}", span=dearest)
    is_known = metrics.cost_complete and (metrics.cost is not None or not metrics.llm_call_count)
    return Score(value=True, span=dearest) if is_known else Score(None, "a price is not known")


def seconds_at_most(s: float) -> ReadyScorer:
    """Pass where something was at work in the run for no longer than that: `active_ms` of `frames.runs`.

    What it waited for counts nothing: rate limits, places, people, the time before a request is made again.

    ::

        ensemble.map(rows, score=scorers.seconds_at_most(20))

    Args:
        s: seconds.

    Raises:
        ValidationError: it is no number, or below 0.
    """
    check_number("seconds_at_most", s=s)
    return _make("seconds_at_most", write_call("seconds_at_most", s), _seconds_at_most, s)


def _seconds_at_most(run: Any, s: float) -> Score:
    took = sum(each.active_ms for each in measure_activity(run.trace._fold)) / 1000
    spans = (each for each in run.trace._fold.spans.values() if each.kind is not SpanKind.RUN)
    longest = max(spans, key=lambda each: each.self_ms or 0, default=None)
    return Score(took <= s, f"it was at work for {took:.3g} s" if took > s else None, span=longest)


def finished_before(a: str, b: str) -> ReadyScorer:
    """Pass where one task or phase had ended when another one began.

    ::

        check(report, scorers.finished_before("gather", "brief"))

    Args:
        a: name of the task or phase that comes first.
        b: name of the other one. Where the run has none that is called so, there is no opinion.

    Raises:
        ValidationError: one is no text, or a blank one, or both are the same.
    """
    check_text("finished_before", a=a, b=b)
    if a == b:
        raise ValidationError(f"finished_before takes two tasks or phases, and both are {a!r}.")
    return _make("finished_before", write_call("finished_before", a, b), _finished_before, a, b)


def _finished_before(run: Any, a: str, b: str) -> Score:
    spans = [each for each in run.trace._fold.spans.values() if each.kind in (SpanKind.TASK, SpanKind.PHASE)]
    names = list(dict.fromkeys(each.name for each in spans))
    if missing := next((each for each in (a, b) if each not in names), None):
        return Score(None, f"the run has no task or phase {missing!r}.{did_you_mean(missing, names)}")
    first, second = ([each for each in spans if each.name == name] for name in (a, b))
    for name, same in ((a, first), (b, second)):
        if any(each.start_ms is None for each in same):
            return Score(value=False, reason=f"{name} never began", span=same[0])
    last = max(first, key=lambda each: math.inf if each.end_ms is None else each.end_ms)
    begun = min(second, key=lambda each: each.start_ms or 0.0)
    if last.end_ms is not None and last.end_ms <= (begun.start_ms or 0.0):
        return Score(value=True, span=last)
    ended = "never ended" if last.end_ms is None else f"ended after {format_duration(last.end_ms)}"
    reason = f"{a} {ended}, and {b} began after {format_duration(begun.start_ms or 0.0)}"
    return Score(value=False, reason=reason, span=begun)


def no_errors() -> ReadyScorer:
    """Pass where nothing went wrong on the way: no task, model call, tool, delegation, guardrail or memory failed.

    A request that was made again, and answered, is no error.

    ::

        ensemble.map(rows, score=scorers.no_errors())
    """
    return _make("no_errors", write_call("no_errors"), _no_errors)


def _no_errors(run: Any) -> Score:
    spans = run.trace._fold.spans.values()
    failed = [each for each in spans if each.kind in _BY_WHICH_A_RUN_ERRS and each.status is SpanStatus.ERROR]
    if not failed:
        return Score(value=True)
    told = ", ".join(f"{each.kind} {each.name}" for each in failed[:_MOST_TOLD])
    more = f" and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
    return Score(value=False, reason=f"failed: {told}{more}", span=failed[0])


def _make(name: str, shown: str, check: Callable[..., Score], *values: Any) -> ReadyScorer:
    return ReadyScorer(name=name, shown=shown, function=partial(_look, check, values))


def _look(check: Callable[..., Score], values: Sequence[Any], /, run: Any) -> Score:
    if any(part.reused for each in run.task_outputs for part in each.item_outputs or (each,)):
        return Score(None, _REUSED)
    return check(run, *values)


def _list_spans(run: Any, kind: SpanKind) -> list[Span]:
    """The spans of a kind that ran, in order: a tool has not heard of a call that was declined."""
    began = [each for each in run.trace._fold.spans.values() if each.kind is kind and each.start_ms is not None]
    ran = [each for each in began if each.status is not SpanStatus.SKIPPED]
    return sorted(ran, key=lambda each: each.start_ms or 0.0)


# --- Their arguments: checked when a scorer is made, before anything is paid, and written again -----------------------


def check_text(function: str, **values: Any) -> None:
    """Refuse what is no text, or a blank one.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValidationError(f"{function}: {name} must be text, got {value!r}.")
        if not value.strip():
            raise ValidationError(f"{function}: {name} must not be blank.")


def check_count(function: str, **values: Any) -> None:
    """Refuse what is no whole number of at least `least`.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValidationError(f"{function}: {name} must be a whole number >= 0, got {value!r}.")


def check_number(function: str, **values: Any) -> None:
    """Refuse what is no finite number of at least 0.

    Raises:
        ValidationError: names function and argument.
    """
    for name, value in values.items():
        is_number = hasattr(value, "__float__") and not isinstance(value, bool)
        if not is_number or not math.isfinite(float(value)) or value < 0:
            raise ValidationError(f"{function}: {name} must be a number >= 0, got {value!r}.")


def write_call(function: str, *values: Any, **named: Any) -> str:
    """A call as it is written; named arguments that are None are left out."""
    words = [*map(repr, values), *(f"{name}={value!r}" for name, value in named.items() if value is not None)]
    return f"{function}({', '.join(words)})"
