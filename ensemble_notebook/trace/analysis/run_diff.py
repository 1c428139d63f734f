"""Runs compared (T22): `a.diff(b)` says what changed from the first to the second, a history the same of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import RunKind, RunStatus
from ensemble_notebook.domain.outputs.secrets import mask_repr
from ensemble_notebook.domain.seams.views import make_mime_bundle, render_view
from ensemble_notebook.domain.wording import (
    format_count,
    format_duration,
    format_moment,
    format_money,
    format_zone,
    pluralize,
)
from ensemble_notebook.errors import SuggestsNames
from ensemble_notebook.errors.pickling import Pickled
from ensemble_notebook.trace.analysis.span_diffs import (
    DIFF,
    SIGNS,
    DiffLine,
    RowDiff,
    RunSide,
    compare_rows,
    format_deltas,
    format_difference,
    leave_out_kept,
    make_diff_lines,
    render_diff_lines,
)
from ensemble_notebook.trace.analysis.text_changes import TextChanges, describe_definition, describe_inputs
from ensemble_notebook.trace.analysis.timeseries import find_latest_ms
from ensemble_notebook.trace.folding.milestones import is_startup
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.spans.timeline_wording import name_status
from ensemble_notebook.trace.tables.table import UTC_TIME, Column, HasFrames, Table, as_frame, make_known

_UNENDED: Final = (RunStatus.PENDING, RunStatus.RUNNING)
_MOST_NAMED: Final = 5
_PROMPTS: Final = {"system": "system prompt", "user": "user prompt"}


@mask_repr
class RunDiff(Pickled, HasFrames):
    """What changed from one run to another: ``a.diff(b)``. Each difference is `b` less `a`; unknown is NA.

    Rows are matched by path, which is made of stable names and never of times, so that runs of other length, failed,
    interrupted and loaded ones can be compared::

        a.diff(b).frame.query("kind == 'task' and output_changed")
        print(a.diff(b).prompts)

    Args:
        before, after: what is known of `a` and of `b`; they may go on meanwhile, which the first use does not follow.
        labels: what tells them apart, where they are variants of one ensemble.

    Attributes:
        before, after, labels: as given.
    """

    def __init__(self, before: TraceFold, after: TraceFold, labels: tuple[str, str] | None = None) -> None:
        self.before = before
        self.after = after
        self.labels = labels
        with before.lock, after.lock:
            self._sides = RunSide(before), RunSide(after)

    def _get_pickled_state(self) -> dict[str, Any]:
        """What is compared; the comparison is made again when it is used."""
        return {name: vars(self)[name] for name in ("before", "after", "labels", "_sides")}

    @property
    def rows(self) -> Sequence[RowDiff]:
        """The rows of `frame` with their spans, each below the one around it; startups of models as well."""
        return self._from_fork[0]

    @cached_property
    def all_rows(self) -> Sequence[RowDiff]:
        """The same with what a fork has kept of the other run."""
        return compare_rows(*self._sides, self.forked_at)

    @cached_property
    def _from_fork(self) -> tuple[Sequence[RowDiff], Sequence[RowDiff]]:
        """The rows, where one run forks the other those from there on; and the outermost ones of what it kept."""
        return (self.all_rows, ()) if self._fork is None else leave_out_kept(self.all_rows, *self._fork)

    @cached_property
    def _fork(self) -> tuple[int, Span] | None:
        """Which of the runs is forked by the other, 0 or 1, and the span where; None where neither is."""
        folds = self.before, self.after
        for number, (origin, fork) in enumerate((folds, folds[::-1])):
            if fork.kind is RunKind.FORK and fork.forked_from_run == origin.run_id:
                point = origin.spans.get(fork.forked_from_span or "")
                return None if point is None else (number, point)
        return None

    @property
    def forked_at(self) -> str | None:
        """The path at which one of the runs forks the other, and from which they are compared; None: neither does."""
        return None if self._fork is None else self._sides[self._fork[0]].paths[self._fork[1].span_id]

    @as_frame(DIFF)
    def frame(self) -> Sequence[RowDiff]:
        return [row for row in self.rows if not is_startup(row.span)]

    @property
    def task_rows(self) -> list[RowDiff]:
        """The rows of the tasks of the runs themselves, without delegated work."""
        return [row for row in self.rows if row.span.is_own_task]

    @property
    def run_row(self) -> RowDiff | None:
        """The row of the runs as a whole; None where neither has begun."""
        return self.rows[0] if self.rows and self.rows[0].span.kind is SpanKind.RUN else None

    @cached_property
    def inputs(self) -> TextChanges:
        """The template variables that are not the same."""
        return self._compare_texts(describe_inputs(self.before), describe_inputs(self.after))

    @cached_property
    def definition(self) -> TextChanges:
        """What was declared otherwise: the ensemble, its agents, phases and tasks, field by field."""
        before, after = (describe_definition(side.fold, has_texts=self.has_texts) for side in self._sides)
        return TextChanges.between(before, after)

    @cached_property
    def prompts(self) -> TextChanges:
        """The prompts that are not the same, of what was asked in both runs."""
        before, after = map(_index_prompts, self._sides)
        common = [name for name in before if name in after]
        return self._compare_texts({name: before[name] for name in common}, {name: after[name] for name in common})

    @cached_property
    def outputs(self) -> TextChanges:
        """The outputs that are not the same, of the tasks that both runs have; one of them may have no output."""
        before: dict[str, str] = {}
        after: dict[str, str] = {}
        for row in self.task_rows:
            if row.before is not None and row.after is not None:
                before |= {row.path: row.before.output} if row.before.output else {}
                after |= {row.path: row.after.output} if row.after.output else {}
        return self._compare_texts(before, after)

    @property
    def has_texts(self) -> bool:
        """Whether both runs have kept their texts; else there are only names and numbers to compare."""
        return all(side.has_texts for side in self._sides)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What could not be compared, and why, in sentences."""
        notes = []
        for side, name in zip(self._sides, "AB", strict=True):
            if not side.has_texts:
                notes.append(
                    f"Run {name} has kept no texts (capture mode metadata): prompts and outputs can't be compared."
                )
            if side.fold.status in _UNENDED:
                notes.append(f"Run {name} had not ended: what it had not come to by then is unknown.")
            if side.fold.plan is None:
                notes.append(f"Run {name} has no plan, so its tasks have no definition to compare.")
        notes += self._describe_fork()
        notes += self._describe_reused()
        if any(side.startups for side in self._sides):
            notes.append("Startups of models are left out of all differences in time.")
        if self.before.currency != self.after.currency:
            currencies = f"{self.before.currency} and {self.after.currency}"
            notes.append(f"The runs have costs in {currencies}, which can't be subtracted.")
        return tuple(notes)

    @cached_property
    def is_of_two_ensembles(self) -> bool:
        """Whether both runs have tasks, and none in common: then only `frame` lists what either has."""
        sides = [(row.before is not None, row.after is not None) for row in self.task_rows]
        return (True, True) not in sides and (True, False) in sides and (False, True) in sides

    @property
    def summary(self) -> str:
        """How many tasks changed, and how much more or less the second run took, in one line."""
        said, row = [self.task_summary], self.run_row
        if row is None or self.is_of_two_ensembles:
            return said[0]
        if row.delta.ms is not None:
            said.append(f"time {format_difference(row.delta.ms, format_duration)}")
        if row.delta.tokens is not None:
            said.append(f"tokens {format_difference(row.delta.tokens, format_count)}")
        if row.delta.cost is not None:
            write = partial(format_money, currency=self.after.currency)
            said.append(f"cost {format_difference(row.delta.cost, write)}")
        return " · ".join(said)

    @property
    def task_summary(self) -> str:
        """How many tasks changed: ``3 tasks: 2 same, 1 changed``."""
        if self.is_of_two_ensembles:
            whole = [row for row in self.task_rows if row.span.item_of is None]
            first = sum(row.before is not None for row in whole)
            other = pluralize(len(whole) - first, "task")
            return f"A and B are different ensembles: of {first:,} and {other} they have none in common"
        counts = Counter(row.status for row in self.task_rows)
        tasks = [f"{counts[status]} {status}" for status in SIGNS if counts[status]]
        return f"{pluralize(counts.total(), 'task')}: {', '.join(tasks)}" if tasks else "no tasks"

    @property
    def sides(self) -> list[tuple[str, str]]:
        """Both runs, each as ``A`` or ``B`` and in a line that tells which it is."""
        labels = self.labels or (None, None)
        sides = zip("AB", (self.before, self.after), labels, strict=True)
        return [(side, describe_side(fold, label)) for side, fold, label in sides]

    @property
    def timeline(self) -> Any:
        """Both runs, one above the other, where the notebook layer can show them."""
        return render_view("diff_timeline", self)

    @property
    def lines(self) -> list[DiffLine]:
        """The runs, their phases and tasks, as a person reads them; none of different ensembles."""
        return [] if self.is_of_two_ensembles else make_diff_lines(self.rows, self.after.currency)

    def _compare_texts(self, before: Mapping[str, str], after: Mapping[str, str]) -> TextChanges:
        return TextChanges.between(before, after) if self.has_texts else TextChanges()

    def _describe_fork(self) -> Iterator[str]:
        """Where one of them forks the other, and what is left out for that."""
        if self._fork is None:
            return
        origin, fork = "AB"[self._fork[0]], "BA"[self._fork[0]]
        changed = (self.after, self.before)[self._fork[0]].changed
        told = f" ({', '.join(changed)})" if changed else ""
        kept = [row.path for row in self._from_fork[1] if row.span.is_own_task]
        named = ", ".join([*kept[:_MOST_NAMED], *(["…"] if len(kept) > _MOST_NAMED else [])])
        left = f"What it kept is left out: {named}, and all else before that" if kept else "What was before is left out"
        yield f"Run {fork} forks run {origin} at {self.forked_at}{told}. {left}."

    def _describe_reused(self) -> Iterator[str]:
        """What either run took from an earlier one."""
        for number, name in enumerate("AB"):
            spans = [(row.path, (row.before, row.after)[number]) for row in self.rows if row.is_reused]
            reused = [path for path, span in spans if span is not None and span.reused]
            if not reused:
                continue
            told = [*reused[:_MOST_NAMED], *(["…"] if len(reused) > _MOST_NAMED else [])]
            verb, what = ("is", "it") if len(reused) == 1 else ("are", "them")
            yield (
                f"Run {name} has reused {', '.join(told)}, which {verb} not compared; neither is the time of what is "
                f"around {what}."
            )

    def __repr__(self) -> str:
        """The summary, and what changed, as text."""
        lines = [*(f"{side} {said}" for side, said in self.sides), self.summary]
        lines += self.notes
        if self.lines:
            lines += ["", *render_diff_lines(self.lines)]
        for title, changes in self.list_parts():
            lines += ["", title, *(f"  {line}".rstrip() for line in changes.splitlines())]
        return "\n".join(lines)

    def list_parts(self) -> list[tuple[str, TextChanges]]:
        """The texts that changed, with a title for each sort; sorts in which nothing did are left out."""
        return [(title, changes) for title, changes in self._parts.items() if changes]

    def describe_rest(self) -> str:
        """The sorts of texts in which nothing changed, or of which nothing is known; empty where there is none."""
        rest = [title.lower() for title, changes in self._parts.items() if not changes]
        lost = [] if self.has_texts else [each for each in rest if each != "definition"]
        same = [each for each in rest if each not in lost]
        said = (f"{word}: {', '.join(names)}" for word, names in (("same", same), ("not kept", lost)) if names)
        return " · ".join(said)

    @property
    def _parts(self) -> dict[str, TextChanges]:
        if self.is_of_two_ensembles:
            return {}
        return {"Inputs": self.inputs, "Definition": self.definition, "Prompts": self.prompts, "Outputs": self.outputs}

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("diff", self)


def describe_side(fold: TraceFold, label: str | None = None) -> str:
    """A run in a line: what tells it apart from others of its name, its name, when it began, how it ended."""
    began = None if fold.run is None else fold.run.start_time
    when = [] if began is None else [f"{format_moment(began)} {format_zone(began)}"]
    names = list(dict.fromkeys(filter(None, (label, fold.name)))) or ["run"]
    return " · ".join([*names, fold.run_id[:8], *when, name_status(fold.status)])


def _index_prompts(side: RunSide) -> dict[str, str]:
    """The prompts of all tasks by path, the n-th of a task and sort with ``#n``."""
    counts: Counter[str] = Counter()
    prompts = {}
    for message in chain.from_iterable(side.fold.messages.values()):
        if not message.is_earlier and (sort := _PROMPTS.get(message.role)) is not None:
            name = f"{side.paths[message.span.span_id]}, {sort}"
            counts[name] += 1
            prompts[name if counts[name] == 1 else f"{name} #{counts[name]}"] = message.text
    return prompts


@dataclass(frozen=True)
class ComparedRun:
    """One run, and what changed since the one before.

    Attributes:
        fold: of the run.
        diff: from the run that it forks, else from the latest earlier run of the same name; None where there is none.
    """

    fold: TraceFold
    diff: RunDiff | None

    @cached_property
    def wall_ms(self) -> float:
        """How long it took, or how far it has come."""
        return find_latest_ms(self.fold)

    @property
    def row(self) -> RowDiff | None:
        """How it differs as a whole."""
        return None if self.diff is None else self.diff.run_row

    @property
    def outputs_changed(self) -> int | None:
        """How many tasks wrote something else; None where nothing was compared, or no texts were kept."""
        if self.diff is None or not self.diff.has_texts:
            return None
        return sum(row.output_changed is True for row in self.diff.task_rows)


def _read_delta(name: str) -> Any:
    return lambda compared: None if compared.row is None else getattr(compared.row.delta, name)


def _read_text(name: str) -> Any:
    return lambda compared: (None if compared.diff is None else str(getattr(compared.diff, name))) or None


HISTORY: Final = Table(
    "run, newest first. What changed is told from the run that it forks, else the latest earlier run of the same name",
    make_known("run_id", "string", "unique", "fold.run_id"),
    (
        Column("name", "category", "of the ensemble", "fold.name"),
        Column("start_time", UTC_TIME, "when it started", "fold.run.start_time"),
        Column("status", "category", "how it ended, or stands", "fold.status.value"),
        Column(
            "compared_with", "string", "run_id of the run before", lambda each: each.diff and each.diff.before.run_id
        ),
        Column(
            "inputs",
            "object",
            "dict of the template variables, as text; NA where there are none",
            lambda each: dict(each.fold.inputs) or None,
        ),
        Column("definition", "string", "what was declared otherwise, with the words marked", _read_text("definition")),
        Column("prompts", "string", "what was asked otherwise, with the words marked", _read_text("prompts")),
        Column("outputs", "string", "what was written otherwise, with the words marked", _read_text("outputs")),
        Column("outputs_changed", "Int64", "how many tasks wrote something else"),
        Column("input_tokens", "Int64", "known part", "fold.metrics.input_tokens"),
        Column("output_tokens", "Int64", "known part", "fold.metrics.output_tokens"),
        Column("cost", "Float64", "known part, in currency", "fold.metrics.cost"),
        Column("currency", "category", "of the cost", "fold.metrics.currency"),
        Column("wall_ms", "Float64", "from start to end, or to its last event"),
        Column("delta_ms", "Float64", "more than the run before", _read_delta("ms")),
        Column("delta_input_tokens", "Int64", "more than the run before", _read_delta("input_tokens")),
        Column("delta_output_tokens", "Int64", "more than the run before", _read_delta("output_tokens")),
        Column("delta_cost", "Float64", "more than the run before, in currency", _read_delta("cost")),
    ),
)


@mask_repr
class RunHistory(SuggestsNames, HasFrames):
    """Runs in a row; a notebook shows it as one table, and `frame` has the same as data.

    Args:
        folds: of the runs, newest first. Those at the end that nothing is told of serve to compare with.
        shown: how many of them are told of.
    """

    def __init__(self, folds: Sequence[TraceFold], shown: int) -> None:
        self.runs: list[ComparedRun] = []
        for place, fold in enumerate(folds[:shown]):
            origin = next((each for each in folds if each.run_id == fold.forked_from_run), None)
            alike = (each for each in folds[place + 1 :] if each.name == fold.name and each.kind is not RunKind.RERUN)
            before = origin if fold.kind is RunKind.FORK and origin is not None else next(alike, None)
            before = None if fold.kind is RunKind.RERUN else before  # its tasks are replies
            self.runs.append(ComparedRun(fold, None if before is None else RunDiff(before, fold)))

    @as_frame(HISTORY)
    def frame(self) -> Sequence[ComparedRun]:
        return self.runs

    def __repr__(self) -> str:
        """Each run with its inputs, what it took, and what changed."""
        return "\n\n".join(map(_describe, self.runs)) or "No run is remembered yet."

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("run_history", self)


def describe_amounts(compared: ComparedRun) -> tuple[tuple[str, ...], ...]:
    """Time, tokens and cost of a run, each with how much more that is than before, where it was compared."""
    metrics, row = compared.fold.metrics, compared.row
    money = partial(format_money, currency=metrics.currency)
    amounts = format_duration(compared.wall_ms), format_count(metrics.total_tokens), money(metrics.cost)
    if row is None:
        return tuple((amount,) for amount in amounts)
    return tuple(zip(amounts, format_deltas(row, metrics.currency), strict=True))


def _describe(compared: ComparedRun) -> str:
    amounts = zip(("time", "tokens", "cost"), describe_amounts(compared), strict=True)
    lines = [
        describe_side(compared.fold),
        "  " + ", ".join(f"{name} {' '.join(parts)}" for name, parts in amounts),
        *(f"  input {name}: {value}" for name, value in compared.fold.inputs.items()),
    ]
    if (diff := compared.diff) is not None:
        lines.append(f"  since {diff.before.run_id[:8]}: {diff.task_summary}")
        for title, changes in diff.list_parts():
            lines += [f"  {title}", *(f"    {line}".rstrip() for line in changes.splitlines())]
        lines += [f"  {rest}" for rest in [diff.describe_rest()] if rest]
    return "\n".join(lines)
