"""Scorers that look at how a run went: which tools were called, by what cost and time.

Of a run whose tasks were reused there is no trace of the work, so they have no opinion of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.outputs.score import Score
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.evaluation.scorer import ReadyScorer
from ensemble_notebook.scorers.arguments import check_count, check_number, check_text, write_call
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind

_MOST_TOLD: Final = 5
_REUSED: Final = "reused from an earlier run, whose trace has the work"
# Not attempts: one that was refused for a moment, and made again, is no error of the run.
_BY_WHICH_A_RUN_ERRS: Final = frozenset(
    {SpanKind.TASK, SpanKind.LLM, SpanKind.TOOL, SpanKind.DELEGATION, SpanKind.GUARDRAIL, SpanKind.MEMORY}
)


def called(tool: str, at_least: int = 1, at_most: int | None = None) -> ReadyScorer:
    """Pass where a tool was called as often as that.

    ::

        ensemble.map(rows, score=scorers.called("search", at_most=3))

    Args:
        tool: its name.
        at_least: the fewest calls.
        at_most: the most calls; None: no limit.

    Raises:
        ValidationError: an argument has a wrong type, or `at_most` is below `at_least`.
    """
    check_text("called", tool=tool)
    check_count("called", at_least=at_least)
    if at_most is not None:
        check_count("called", at_most=at_most)
        if at_most < at_least:
            raise ValidationError(f"called: at_most={at_most} is below at_least={at_least}, which no run can meet.")
    shown = write_call("called", tool, at_least=None if at_least == 1 else at_least, at_most=at_most)
    return _make("called", shown, _called, tool, at_least, at_most)


def _called(run: Any, tool: str, at_least: int, at_most: int | None) -> Score:
    names = [each.name for each in _list_spans(run, SpanKind.TOOL)]
    count = names.count(tool)
    is_met = count >= at_least and (at_most is None or count <= at_most)
    guess = did_you_mean(tool, set(names)) if not count else ""
    return Score(is_met, f"{tool} was called {pluralize(count, 'time')}.{guess}" if not is_met else None)


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
    names = [each.name for each in _list_spans(run, SpanKind.TOOL)]
    rest = iter(names)
    missing = next((tool for tool in tools if tool not in rest), None)
    if missing is None:
        return Score(value=True)
    told = ", ".join(names[:_MOST_TOLD]) + ("..." if len(names) > _MOST_TOLD else "") or "nothing"
    return Score(value=False, reason=f"{missing} was not called at its place; called were: {told}")


def delegated_to(role: str) -> ReadyScorer:
    """Pass where work was delegated to the agent of this role.

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
    names = [each.name for each in _list_spans(run, SpanKind.DELEGATION)]
    if role in names:
        return Score(value=True)
    told = ", ".join(dict.fromkeys(map(str, names))) or "nobody"
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
    return Score(count <= n, f"{pluralize(count, 'model call')}" if count > n else None)


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
    if cost > usd:
        return Score(value=False, reason=f"it cost {metrics.cost} {metrics.currency}")
    is_known = metrics.cost_complete and (metrics.cost is not None or not metrics.llm_call_count)
    return Score(value=True) if is_known else Score(None, "a price is not known")


def seconds_at_most(s: float) -> ReadyScorer:
    """Pass where the run took no longer than that, from its start to its end.

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
    took = run.total_duration.total_seconds()
    return Score(took <= s, f"it took {took:.3g} s" if took > s else None)


def no_errors() -> ReadyScorer:
    """Pass where nothing went wrong on the way: no task, model call, tool, delegation, guardrail or memory failed.

    A request that was made again, and answered, is no error.

    ::

        ensemble.map(rows, score=scorers.no_errors())
    """
    return _make("no_errors", write_call("no_errors"), _no_errors)


def _no_errors(run: Any) -> Score:
    spans = run.trace.fold.spans.values()
    failed = [each for each in spans if each.kind in _BY_WHICH_A_RUN_ERRS and each.status is SpanStatus.ERROR]
    if not failed:
        return Score(value=True)
    told = ", ".join(f"{each.kind} {each.name}" for each in failed[:_MOST_TOLD])
    more = f" and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
    return Score(value=False, reason=f"failed: {told}{more}")


def _make(name: str, shown: str, check: Callable[..., Score], *values: Any) -> ReadyScorer:
    return ReadyScorer(name=name, shown=shown, function=partial(_look, check, values))


def _look(check: Callable[..., Score], values: Sequence[Any], /, run: Any) -> Score:
    if any(part.reused for each in run.task_outputs for part in each.item_outputs or (each,)):
        return Score(None, _REUSED)
    return check(run, *values)


def _list_spans(run: Any, kind: SpanKind) -> list[Span]:
    """The spans of a kind that began, in order."""
    spans = [each for each in run.trace.fold.spans.values() if each.kind is kind and each.start_ms is not None]
    return sorted(spans, key=lambda each: each.start_ms or 0.0)
