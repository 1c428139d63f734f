"""The spans of two runs side by side (T22): which are the same, changed, added or removed, and what that cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from ensemble_notebook.domain.definitions.enums import CaptureMode, SpanStatus
from ensemble_notebook.domain.wording import UNKNOWN, format_count, format_duration, format_money
from ensemble_notebook.trace.analysis.timeseries import list_startup_times
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.tables.table import Column, Dtype, Table, make_known

RUN_PATH: Final = "/"

# Others go by their own name: of the task, tool, role, guardrail. That of a model call is its model, which may change.
_NAMES: Final = {SpanKind.TURN: "turn", SpanKind.LLM: "llm", SpanKind.ATTEMPT: "attempt", SpanKind.REVIEW: "review"}


def find_paths(spans: Iterable[Span]) -> dict[str, str]:
    """The path of each span, by its id: names joined by ``/``. The second span of a path gets ``#2`` and so on.

    The order is that in which spans were planned, or began, inside their parent. The path of the run is ``/``.

    Args:
        spans: of one run, in order of first appearance.
    """
    paths: dict[str, str] = {}
    counts: defaultdict[str, int] = defaultdict(int)
    taken: set[str] = set()
    for span in spans:
        if span.kind is SpanKind.RUN:
            path = RUN_PATH
        else:
            around = paths.get(span.enclosing_id or "", RUN_PATH)
            name = span.wait_kind or "wait" if span.kind is SpanKind.WAIT else _NAMES.get(span.kind, span.name)
            path = stem = name if around == RUN_PATH else f"{around}/{name}"
            while path in taken or (path == stem and counts[stem]):
                counts[stem] += 1
                path = f"{stem}#{counts[stem]}"
            counts[stem] = max(1, counts[stem])
        taken.add(path)
        paths[span.span_id] = path
    return paths


RowStatus = Literal["same", "changed", "added", "removed", "reused"]

# What has an output of its own, in contrast to what only frames the outputs of others.
_WITH_OUTPUT: Final = (SpanKind.TASK, SpanKind.LLM, SpanKind.TOOL, SpanKind.DELEGATION, SpanKind.REVIEW)
# Another try, or a wait, says how a piece of work went and not what it was: what is around it does not change by it.
_PASSING: Final = (SpanKind.ATTEMPT, SpanKind.WAIT)
_Key = tuple[str, SpanKind]


class Amounts(NamedTuple):
    """What a span took; None is unknown, or nothing that its kind has."""

    ms: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: Decimal | None = None

    @property
    def tokens(self) -> int | None:
        """Both sorts together."""
        known = None not in (self.input_tokens, self.output_tokens)
        return (self.input_tokens or 0) + (self.output_tokens or 0) if known else None

    def less(self, other: Amounts) -> Amounts:
        """The differences; None where either is unknown."""
        pairs: Iterable[tuple[Any, Any]] = zip(self, other, strict=True)
        return Amounts(*(None if one is None or two is None else one - two for one, two in pairs))


class RunSide:
    """One of the two runs, and all that is compared of it.

    Attributes:
        fold: its spans.
        has_texts: whether texts were kept.
        paths: of its spans, by their ids.
        prompts: that its tasks and turns were given, by the ids of these.
        startups: times in which models were made ready and nothing was at work.
    """

    def __init__(self, fold: TraceFold) -> None:
        self.fold = fold
        self.has_texts = fold.capture_mode is not CaptureMode.METADATA
        self.paths = find_paths(fold.spans.values())
        self.prompts: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
        self.startups = list_startup_times(fold)
        for message in chain.from_iterable(fold.messages.values()):
            if message.is_prompt:
                self.prompts[message.span.span_id] += (message.text,)

    def index_spans(self) -> dict[str | None, dict[_Key, Span]]:
        """The spans by path and kind, in order, for each path that something is inside; None for the run itself."""
        inside: defaultdict[str | None, dict[_Key, Span]] = defaultdict(dict)
        for span_id, span in self.fold.spans.items():
            around = None if span.kind is SpanKind.RUN else self.paths.get(span.enclosing_id or "", RUN_PATH)
            inside[around][self.paths[span_id], span.kind] = span
        return inside

    def measure(self, span: Span | None) -> Amounts:
        """What a span took, without the time in which models were made ready; a task's time never has that in it."""
        amounts = measure_amounts(span)
        if span is None or amounts.ms is None or span.kind is SpanKind.TASK or not self.startups:
            return amounts
        start_ms, end_ms = span.start_ms or 0.0, span.end_ms or 0.0
        waited_ms = sum(max(0.0, min(end_ms, until_ms) - max(start_ms, from_ms)) for from_ms, until_ms in self.startups)
        return amounts._replace(ms=amounts.ms - waited_ms)


@dataclass(slots=True, kw_only=True)
class RowDiff:
    """One row: a span in one run, or in both. What it took is told as the second run's less the first's.

    Attributes:
        path: as `find_paths` gives it.
        around: the path of what it is inside; None for the run.
        before, after: its span in the first and in the second run; None where it has none.
        is_point: whether it is where one of the runs forks the other: what a fork gives there, no run has done before.
        output_changed: None where it has no output, or where texts were not kept.
        delta: what is only in one run counts whole; so does what was planned and never ran, which took no time.
    """

    path: str
    around: str | None
    before: Span | None
    after: Span | None
    is_point: bool = False
    status: RowStatus = field(init=False)
    output_changed: bool | None = None
    delta: Amounts = field(default_factory=Amounts)

    def __post_init__(self) -> None:
        self.status = "added" if self.before is None else "removed" if self.after is None else "same"

    @property
    def is_reused(self) -> bool:
        """Whether one of the runs took the result of an earlier one, and the other one did the work."""
        if self.before is None or self.after is None or self.is_point:
            return False
        return self.before.reused != self.after.reused

    @property
    def span(self) -> Span:
        """Its span in the second run, or else in the first."""
        found = self.before if self.after is None else self.after
        assert found is not None
        return found


def _make_delta(name: str, dtype: Dtype, meaning: str) -> Column:
    return Column(f"delta_{name}", dtype, meaning, f"delta.{name}")


DIFF: Final = Table(
    "span of either run: the same path in both is one row, wherever in time it was",
    None,
    (
        Column("path", "string", "names from the outside in, joined by /, the n-th of a name with #n; / is the run"),
        make_known("kind", "category", "of the span", "span.kind.value"),
        Column("task", "category", "name of the task that it belongs to", "span.task"),
        make_known(
            "status",
            "category",
            "same, changed (in what was asked, who was asked or what came of it; of what is inside it, too), added, "
            "removed, or reused: one of the runs took it from an earlier one, so its amounts are not compared; time, "
            "tokens, cost, waits and further attempts alone change nothing",
        ),
        Column("output_changed", "boolean", "whether its text is another one; NA where it has none or none was kept"),
        _make_delta("ms", "Float64", "second run less first, of duration_ms as in frames.tasks and frames.spans"),
        _make_delta("input_tokens", "Int64", "second less first; NA where a part of either is unknown"),
        _make_delta("output_tokens", "Int64", "second less first; NA where a part of either is unknown"),
        _make_delta("cost", "Float64", "second less first, in their currency; NA where a part of either is unknown"),
    ),
)


def compare_rows(first: RunSide, second: RunSide, point: str | None = None) -> list[RowDiff]:
    """The rows, each below the one around it; in order of the first run, with what was added after what it followed.

    Args:
        first: the one run.
        second: the other run.
        point: the path at which one of them forks the other; None where neither does.
    """
    has_texts = first.has_texts and second.has_texts
    same_currency = first.fold.currency == second.fold.currency
    rows = _pair(first, second)
    for row in rows:
        row.is_point = row.path == point
        delta = second.measure(row.after).less(first.measure(row.before))
        row.delta = delta if same_currency else delta._replace(cost=None)
        if row.before is None or row.after is None:
            continue
        if has_texts and row.span.kind in _WITH_OUTPUT:
            row.output_changed = row.before.output != row.after.output
        prompts = first.prompts.get(row.before.span_id), second.prompts.get(row.after.span_id)
        if (has_texts and prompts[0] != prompts[1]) or _list_facts(row.before, has_texts) != _list_facts(
            row.after, has_texts
        ):
            row.status = "changed"
    by_path = {row.path: row for row in rows}
    for row in rows:  # from the outside in
        around = by_path.get(row.around or "")
        is_inside = around is not None and around.status == "reused"
        if row.is_reused and not is_inside:
            _take_out(row, by_path)
        if row.is_reused or is_inside:
            row.status, row.delta = "reused", Amounts()
    for row in reversed(rows):  # from the inside out
        around = by_path.get(row.around or "")
        if around is not None and row.status not in ("same", "reused") and row.span.kind not in _PASSING:
            around.status = "changed" if around.status == "same" else around.status
    return rows


def leave_out_kept(rows: Iterable[RowDiff], origin_number: int, point: Span) -> tuple[list[RowDiff], list[RowDiff]]:
    """The rows from a fork on, and the outermost ones of what it kept: what was over before it, or is apart from it.

    Args:
        rows: of the two runs, from the outside in.
        origin_number: 0 where the second run forks the first, else 1.
        point: the span of the forked run at which it does.
    """
    left, kept = list[RowDiff](), dict[str, RowDiff]()
    without = set[str]()
    for row in rows:
        of_origin, of_fork = (row.before, row.after) if origin_number == 0 else (row.after, row.before)
        was_over = of_origin is not None and of_origin.end_seq is not None and of_origin.end_seq < point.seq
        if row.around in without:
            without.add(row.path)
        elif not row.is_point and of_fork is not None and (of_fork.reused or was_over):
            without.add(row.path)
            kept[row.path] = row
        else:
            left.append(row)
    return left, [*kept.values()]


def _take_out(row: RowDiff, by_path: Mapping[str, RowDiff]) -> None:
    """Only one of the runs did this: what it took is no difference of what is around, whose time can't be compared."""
    around, spent = by_path.get(row.around or ""), row.delta
    if not any(each is not None and (each.usage_leaf or each.totals is not None) for each in (row.before, row.after)):
        spent = Amounts(None, 0, 0, Decimal(0))  # its kind, such as a tool, takes no tokens
    while around is not None:
        around.delta = around.delta.less(spent)._replace(ms=None)
        around = by_path.get(around.around or "")


def _pair(first: RunSide, second: RunSide) -> list[RowDiff]:
    """The rows from the outside in, in order, not compared yet."""
    before, after = first.index_spans(), second.index_spans()
    inside: dict[str | None, list[RowDiff]] = defaultdict(list)
    for around in dict.fromkeys([*before, *after]):
        olds, news = before.get(around, {}), after.get(around, {})
        for key in _merge(olds, news):
            inside[around].append(RowDiff(path=key[0], around=around, before=olds.get(key), after=news.get(key)))
    rows: list[RowDiff] = []
    waiting = inside.get(None, [])[::-1]
    while waiting:
        rows.append(waiting.pop())
        waiting += inside.get(rows[-1].path, [])[::-1]
    return rows


def _merge(olds: Iterable[_Key], news: Iterable[_Key]) -> Iterator[_Key]:
    """All keys in the order of the first, each new one after the last that is in both."""
    known = dict.fromkeys(olds)
    followers: defaultdict[_Key | None, list[_Key]] = defaultdict(list)
    last: _Key | None = None
    for key in news:
        if key in known:
            last = key
        else:
            followers[last].append(key)
    yield from followers[None]
    for key in known:
        yield key
        yield from followers.get(key, ())


def _list_facts(span: Span, has_texts: bool) -> tuple[Any, ...]:
    """What makes a span the same as another one: what was asked, who was asked, and what came of it."""
    attributes = span.attributes or {}
    facts = (
        *(span.status, span.error_type, span.agent, span.outcome, span.review_decision, span.delegate_to),
        *(span.provider, span.model_requested, span.model, span.finish_reason),
        attributes.get("settings"),
    )
    return (*facts, span.description, span.input, span.output) if has_texts else facts


def measure_amounts(span: Span | None) -> Amounts:
    """What a span took. One that is not there took nothing, which is known, and so did one that never ran."""
    if span is None:
        return Amounts(0.0, 0, 0, Decimal(0))
    ms = span.own_ms if span.kind is SpanKind.TASK else span.duration_ms
    if span.start_ms is None and span.status is not SpanStatus.PENDING:
        ms = 0.0
    if span.usage_leaf:
        return Amounts(ms, span.input_tokens, span.output_tokens, span.cost)
    totals = span.totals
    if totals is None:
        return Amounts(ms, None, None, None)
    tokens = (totals.input_tokens, totals.output_tokens) if totals.tokens_complete else (None, None)
    return Amounts(ms, *tokens, totals.cost if totals.cost_complete else None)


SIGNS: Final[dict[RowStatus, str]] = {
    "same": "=",
    "changed": "≠",
    "added": "+",
    "removed": "\N{MINUS SIGN}",
    "reused": "↺",
}
HEADS: Final = ("output", "time", "", "tokens", "", "cost", "")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A phase or task in both runs.

    Attributes:
        name: of the phase or task.
        depth: level of indentation, from 0.
        status: same, changed, added, removed or reused.
        is_whole: whether it stands for several tasks: a phase, or the run.
        cells: one for each of `HEADS`: the values of the second run, and the differences.
    """

    name: str
    depth: int
    status: RowStatus
    is_whole: bool
    cells: tuple[str, ...]

    @property
    def sign(self) -> str:
        """The status as a character."""
        return SIGNS[self.status]


def make_diff_lines(rows: Iterable[RowDiff], currency: str) -> list[DiffLine]:
    """The lines of these rows, in order. Delegated work is part of the task that delegated it."""
    lines = []
    for row in rows:
        span, amounts = row.span, measure_amounts(row.after)
        if span.kind not in (SpanKind.RUN, SpanKind.PHASE) and not span.is_own_task:
            continue
        money = format_money(amounts.cost, currency)
        values = (
            (format_duration(amounts.ms), format_count(amounts.tokens), money)
            if row.after is not None
            else ("", "", "")
        )
        pairs = zip(values, format_deltas(row, currency), strict=True)
        cells = ({None: "", True: "changed", False: "same"}[row.output_changed], *chain.from_iterable(pairs))
        is_task, name = span.kind is SpanKind.TASK, "the whole run" if span.kind is SpanKind.RUN else span.name
        lines.append(DiffLine(name, int(is_task and span.phase is not None), row.status, not is_task, cells))
    return lines


def render_diff_lines(lines: Sequence[DiffLine]) -> list[str]:
    """The lines as aligned text, below a line of headers."""
    names = [f"{line.sign} {'  ' * line.depth}{line.name}" for line in lines]
    cells = [HEADS, *(line.cells for line in lines)]
    width = max(map(len, names), default=0)
    columns = [max(len(each[place]) for each in cells) for place in range(len(HEADS))]
    texts = ["  task", *names]
    return [
        "  ".join([text.ljust(width), *(cell.rjust(size) for cell, size in zip(row, columns, strict=True))]).rstrip()
        for text, row in zip(texts, cells, strict=True)
    ]


def format_difference(value: Any, write: Callable[[Any], str]) -> str:
    r"""A difference with its sign: ``+1.2 s``, ``\N{MINUS SIGN}$0.002``, ``±0``, ``<$0.00001``; a dash if unknown."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "±0"
    told = write(abs(value))
    return told if told.startswith("<") else f"{'+' if value > 0 else SIGNS['removed']}{told}"


def format_deltas(row: RowDiff, currency: str) -> tuple[str, str, str]:
    """The differences in time, tokens and cost, each with its sign."""
    return (
        format_difference(row.delta.ms, format_duration),
        format_difference(row.delta.tokens, format_count),
        format_difference(row.delta.cost, partial(format_money, currency=currency)),
    )
