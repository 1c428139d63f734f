"""A run that is the same as an earlier one up to a span, is different there, and goes on from there (F2).

It goes on with that run as a resumed one does: what was asked and done is taken over. What depends on the span is not
among it, and at the span itself stands what somebody wants instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ensemble_notebook.domain.definitions.delegation import DELEGATE, DELEGATE_TASK
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.events import LlmCallStarted, TaskInputPrepared
from ensemble_notebook.domain.fingerprints.parts import explain_difference, is_same
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import find_typed_task
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.kept_tasks import DoneTask, KeptTask, KeptTasks, TaskKey
from ensemble_notebook.engine.agent.langchain_tools import to_text
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall, ChangedSource, Reworded
from ensemble_notebook.ensemble.earlier_runs.dependence import Dependence, find_path, list_around
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange
from ensemble_notebook.ensemble.earlier_runs.reuse import find_reads, make_kept_task
from ensemble_notebook.ensemble.earlier_runs.run_journal import DoneWork, MakeDocument, RowPlace, RunJournal
from ensemble_notebook.ensemble.run_settings import Continuable, KeptConversations
from ensemble_notebook.errors import OutputParsingError, StoreError, ValidationError, summarize_error
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_facts import RunFacts, RunOrigin, StoredResult
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.documents import ExchangeReader
    from ensemble_notebook.models.recording.resumer import ForkPoint, KeptAnswers

GIVEN: Final = "given by the fork"


class LiveOutput(Protocol):
    """The output of a run of this process."""

    _journal: RunJournal | None
    _row_place: RowPlace | None

    @property
    def run_id(self) -> str: ...

    @property
    def trace(self) -> ExecutionTrace: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A run that can be forked, from this process or from the store.

    Attributes:
        inputs, lost_inputs: values of its template variables, and the names of those that could not be kept.
        deps: of a live run, the object; of a stored one, what it is called.
        continued: whose conversations its tasks went on with.
        documents: make the documents of its exchanges.
        results: of its tasks, in the order in which they were done.
        cell: that it came from; None where it came from none.
        changes: of the forks by which it came about.
        row: of the run of a row, where the map has it; None of another run.
        find_forked: finds the run that it forks itself; None where it forks none.
        points: of the forks by which it came about; None of a fork whose points are not kept.
        changed: what a fork has changed, by the names of the arguments, and at which span of the run that it forks.
    """

    run_id: str
    trace: ExecutionTrace
    inputs: Mapping[str, Any]
    lost_inputs: Sequence[str] = ()
    deps: Any = None
    is_live: bool = False
    continued: Continuable = None
    documents: Sequence[MakeDocument]
    results: Sequence[StoredResult]
    cell: RunOrigin | None = None
    changes: tuple[ChangedCall, ...] = ()
    row: RowPlace | None = None
    find_forked: Callable[[], Origin] | None = None
    points: Sequence[ForkPoint] | None = None
    changed: tuple[Sequence[str], str | None] = ((), None)

    @property
    def known_as(self) -> str:
        """The id of the run that the store has it in."""
        return self.run_id if self.row is None else self.row.map_run_id


def find_origin(run: Any) -> Origin:
    """The run to fork: a live output, or one of the store.

    Raises:
        StoreError: it is not in the store, or the store can't be read.
        ValidationError: it kept no text, or has not ended.
    """
    from ensemble_notebook.ensemble.earlier_runs.resuming import find_run

    journal = getattr(run, "_journal", None)
    if journal is not None:
        known, stored = RunStore.find(), list[StoredResult]()
        if known is not None:  # which knows what counted for each, so that it is told what has changed since
            with suppress(StoreError):
                stored = known.load_results(run.run_id)
        results = [*map(partial(_to_result, run.run_id), journal.done, _match(journal.done, stored))]
        return Origin(
            run_id=run.run_id,
            trace=run.trace,
            inputs=journal.inputs,
            deps=journal.deps,
            is_live=True,
            continued=journal.continued,
            documents=tuple(journal.documents),
            results=results,
            cell=journal.cell,
            changes=journal.changes,
            row=run._row_place,
            find_forked=None if journal.origin is None else lambda: journal.origin,
            points=journal.points,
        )
    if getattr(run, "capture_mode", None) is CaptureMode.METADATA:
        raise ValidationError(f"Run {run.run_id} can't be forked: this run kept no texts (capture_mode metadata).")
    place: RowPlace | None = getattr(run, "_row_place", None)
    if place is not None and not place.is_kept:
        raise ValidationError(
            f"Row {place.row!r} ran on an executor, and what was said in it is not kept here: map it without executor= "
            f"to fork it."
        )
    store, word = RunStore.open(), run if isinstance(run, str | int) else (place and place.map_run_id) or run.run_id
    found = find_run(store, str(word))
    if found.status is RunStatus.RUNNING:
        raise ValidationError(f"Run {found.run_id} is still going on: wait for its end, or stop it, to fork it.")
    if not found.facts.keeps_texts:
        raise ValidationError(f"Run {found.run_id} can't be forked: this run kept no texts (capture_mode metadata).")
    facts = found.facts
    continued: Continuable = None
    if facts.continued_from is not None and facts.conversations is not None:
        continued = KeptConversations(
            run_id=facts.continued_from, capture_mode=facts.capture_mode, conversations=facts.conversations
        )
    documents = [lambda _, each=each: each for each in store.load_exchanges(found.run_id)]
    if place is not None:
        inputs = run.inputs if place.inputs is None else place.inputs
        return Origin(
            run_id=run.run_id,
            trace=run.trace,
            inputs=inputs,
            deps=facts.deps,
            documents=documents,
            results=list(_list_inside(store.load_results(found.run_id), place.prefix)),
            row=place,
        )
    cell, changes = load_changes(store, facts)
    return Origin(
        run_id=found.run_id,
        trace=store.load_trace(found),
        inputs=facts.inputs,
        lost_inputs=facts.lost_inputs,
        deps=facts.deps,
        continued=continued,
        documents=documents,
        results=store.load_results(found.run_id),
        find_forked=None if facts.forked_from_run is None else partial(find_origin, facts.forked_from_run),
        changed=(facts.changed, facts.forked_from_span),
        cell=cell,
        changes=changes,
    )


def load_changes(store: RunStore, facts: RunFacts) -> tuple[RunOrigin | None, tuple[ChangedCall, ...]]:
    """The cell that a stored run came from, and the changes of the forks by which it came about.

    Raises:
        StoreError: a run that it forks is gone.
    """
    from ensemble_notebook.ensemble.earlier_runs.resuming import find_run

    if facts.forked_from_run is None:
        return facts.origin if facts.origin is not None and facts.origin.text else None, ()
    forked = find_run(store, facts.forked_from_run)
    cell, before = load_changes(store, forked.facts)
    trace = store.load_trace(forked)
    span = trace._fold.spans.get(facts.forked_from_span or "")
    if span is None:
        return cell, before
    events = store.load_trace(find_run(store, facts.run_id))._events
    told = next((each.changed for each in events if isinstance(each, LlmCallStarted) and each.changed), ())
    texts = {each.role: each.text for each in reversed(told)}
    change = ForkChange(
        names=facts.changed,
        system_prompt=texts.get("system") if "system_prompt" in facts.changed else None,
        user_prompt=texts.get("user") if "user_prompt" in facts.changed else None,
        messages=told if "messages" in facts.changed else None,
    )
    lost = tuple(name for name in facts.changed if name in ("llm", "parameters"))
    return cell, (*before, replace(describe_change(trace, span, change), lost=lost))


def load_changed_source(run_id: str, ensemble: Any) -> ChangedSource:
    """What was different in a fork of an earlier process, for its cell. Errors as of `load_changes`."""
    from ensemble_notebook.ensemble.earlier_runs.resuming import find_run

    store = RunStore.open()
    facts = find_run(store, run_id).facts
    cell, changes = load_changes(store, facts)
    return ChangedSource(changes=changes, cell=cell, ensemble=ensemble, inputs=facts.inputs)


def _list_inside(results: Iterable[StoredResult], prefix: str) -> Iterator[StoredResult]:
    """Those of the run inside another one, whose paths begin so, as that run itself has them."""
    for each in results:
        if each.path.startswith(prefix):
            yield replace(each, path=each.path.removeprefix(prefix))


def _match(done: Sequence[DoneWork], stored: Sequence[StoredResult]) -> Iterator[StoredResult | None]:
    """What the store has of each task that was done, in the same order."""
    by_path: dict[str, list[StoredResult]] = defaultdict(list)
    for result in reversed(stored):
        by_path[result.path].append(result)
    for each in done:
        yield by_path[each.path].pop() if by_path[each.path] else None


def _to_result(run_id: str, done: DoneWork, stored: StoredResult | None) -> StoredResult:
    facts = {"attempt": done.attempt, "feedback": list(done.feedback)}
    facts["approvals"] = [[each.gate, each.by, each.reviewer, each.run_id or run_id] for each in done.approvals]
    return StoredResult(
        run_id=run_id,
        path=done.path,
        key="" if stored is None else stored.key,
        parts={} if stored is None else stored.parts,
        obstacle=None,
        output=replace(done.output, saving=None),
        delegated=done.delegated,
        facts=facts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedRun:
    """The run that another one forks, without what depends on the span at which it does.

    Attributes:
        origin: the run.
        span: where.
        change: what is different there.
        answers: what models, tools and reviewers have answered; the point is in them.
        documents: make the documents of these.
        results: of its tasks, by their paths, each with the reason why it is kept.
        given: the path of the task whose output is given, and that output.
        changes: of the forks by which it comes about, this one included.
    """

    origin: Origin
    span: Span
    change: ForkChange
    dependence: Dependence
    answers: KeptAnswers
    documents: Sequence[MakeDocument]
    results: Mapping[str, list[tuple[StoredResult, str]]]
    given: tuple[str, TaskOutput] | None = None

    @property
    def points(self) -> Sequence[ForkPoint]:
        """Its own, after those of the forks by which the run came about."""
        own = self.answers.point
        return (*(self.origin.points or ()), *(() if own is None else (own,)))

    changes: tuple[ChangedCall, ...] = ()

    def merge_inputs(self, given: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of the origin, and those that could not be kept of it.

        Raises:
            ValidationError: one of them could not be kept, and is not given.
        """
        merged = {**self.origin.inputs, **(given or {})}
        if lost := [name for name in self.origin.lost_inputs if name not in merged and name not in variables]:
            names = ", ".join(map(repr, lost))
            raise ValidationError(
                f"Run {self.origin.run_id} had inputs that are not kept, since they are no plain values, or secret: "
                f"{names}. Give them again: fork(..., inputs={{...}})."
            )
        return merged

    def choose_deps(self, given: object, own: object) -> object:
        """What functions that take a `RunContext` are given: that of a live origin, unless another is given now.

        Raises:
            ValidationError: a stored run had some, which are not kept, and none are given.
        """
        if given is not None or self.origin.deps is None:
            return given
        if self.origin.is_live:
            return self.origin.deps
        if own is None:
            raise ValidationError(
                f"Run {self.origin.run_id} had deps, a {self.origin.deps}, and live objects are not kept: give them "
                f"again, fork(..., deps=...)."
            )
        return None


def fork_run(origin: Origin, span: Any, change: ForkChange, graph: Graph) -> ForkedRun:
    """What a fork takes over of a run.

    Args:
        origin: the run.
        span: where: a span or its id.
        change: what is to be different there.
        graph: of the ensemble, as it is now.

    Raises:
        ValidationError: there is no such span, nothing can be forked there, or what is given does not fit.
    """
    from ensemble_notebook.models.recording.resumer import KeptAnswers

    holder, point_span = find_place(origin, span, change)
    _check_task(point_span, holder, graph)
    dependence = Dependence(holder.trace._fold, holder.trace._events, graph, point_span)
    made = [(make, make(False)) for make in holder.documents]
    reader = read_documents(document for _, document in made)
    asking = next(find_path(each) for each in list_around(point_span) if each.is_own_task)
    task = mask(asking or "")
    point = _make_point(holder, point_span, change, reader, task, graph)
    _check_reply(point_span, change, graph)
    earlier = _list_earlier(holder, point_span, task)
    keeper = _DocumentKeeper(holder.trace._fold.spans, reader, dependence, point, earlier)
    kept = [(make, document) for make, document in made if keeper.keeps(document)]
    numbers = {document.get("exchange") for _, document in kept}
    _check_masks(holder, kept, reader, task, point)
    asked_anew = [each.request for number, each in reader.exchanges.items() if number not in numbers]
    changes = holder.changes
    if holder is not origin:  # what was forked on the way since, and does not depend on this, is that of the fork
        of_task = {number for number, each in reader.exchanges.items() if each.task == task}
        kept = [each for each in kept if "llm" in each[1] or _get_number(each[1]) in of_task]
        dependence = Dependence(origin.trace._fold, origin.trace._events, graph, _find_task(origin, asking or ""))
        made = [(make, make(False)) for make in origin.documents]
        others = _DocumentKeeper(
            origin.trace._fold.spans, read_documents(document for _, document in made), dependence, None
        )
        kept += (
            (make, document)
            for make, document in made
            if "llm" not in document and _get_number(document) not in of_task and others.keeps(document)
        )
        changes = origin.changes
    results = _list_kept_results(origin, dependence)
    return ForkedRun(
        origin=origin if holder is origin else replace(holder, inputs=origin.inputs, lost_inputs=origin.lost_inputs),
        span=point_span,
        change=change,
        dependence=dependence,
        answers=KeptAnswers(
            [document for _, document in kept],
            origin.run_id,
            point,
            earlier=earlier,
            forked_task=task,
            asked_anew=asked_anew,
        ),
        documents=[make for make, _ in kept],
        results=results,
        given=_make_given(holder, point_span, change, graph),
        changes=(*changes, *(change.came_of or [describe_change(holder.trace, point_span, change)])),
    )


def _get_number(document: Mapping[str, Any]) -> Any:
    """The number of the exchange that a document is of, or belongs to."""
    return document.get("exchange", document.get("asked_in"))


def _list_kept_results(origin: Origin, dependence: Dependence) -> dict[str, list[tuple[StoredResult, str]]]:
    """The results that are kept, by path, each with the reason.

    Raises:
        ValidationError: one of them is not in the store, since a secret is in it, or for what it is.
    """
    results: dict[str, list[tuple[StoredResult, str]]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for result in origin.results:
        why = dependence.explain_result(result.path, counts[result.path])
        counts[result.path] += 1
        if why is None:
            continue
        if result.output is None:
            raise ValidationError(
                f"What task {result.path!r} of run {origin.run_id} put out is needed as it was, and the store has not "
                f"all of it: {result.obstacle or 'it is not there'}. Fork the output while its process lives, or fork "
                f"the run at that task."
            )
        results[result.path].append((result, why))
    return results


def _check_task(span: Span, origin: Origin, graph: Graph) -> None:
    """Check that the task around a span is one of this ensemble.

    Raises:
        ValidationError: it is not, so that the fork would never come to the span.
    """
    task = next(each for each in list_around(span) if each.is_own_task and each.item_of is None)
    paths = [make_task_path(each.name, graph.get_phase_name(each)) for each in graph.all_tasks]
    if (path := find_path(task)) not in paths:
        raise ValidationError(
            f"Span {span.span_id} of run {origin.run_id} is in task {path!r}, and this ensemble has none of that name: "
            f"its tasks are {', '.join(paths)}. Fork it with the ensemble that made the run."
        )


def _list_earlier(origin: Origin, span: Span, task: str) -> list[ForkPoint]:
    """The points that the fork of a fork comes to in its task before its own: what they change is asked once more.

    Raises:
        ValidationError: it is a stored one, whose changes are not kept.
    """
    if span.kind is SpanKind.TASK:
        return []
    points = [each for each in origin.points or () if each.task == task and each.exchange is not None]
    names, at = origin.changed
    if not {"reply", "tool_result", "output"}.issuperset(names) and origin.find_forked is not None:
        before = origin.find_forked()
        changed = None if at is None else before.trace._fold.spans.get(at)
        around = () if changed is None else list_around(changed)
        if any(mask(find_path(each) or "") == task for each in around):
            raise ValidationError(
                f"Run {origin.run_id} is a fork that has changed {' and '.join(names)} in task {task!r}, and what that "
                f"was is not kept. Fork its output while its process lives, or {before.run_id} at {at} with all of it."
            )
    return [replace(each, is_reached=False, asked_system="") for each in points if each.changes_request]


def _check_reply(span: Span, change: ForkChange, graph: Graph) -> None:
    """Check that a reply that is given is of the output type of its task.

    Raises:
        ValidationError: it is not.
    """
    task = next(each for each in list_around(span) if each.kind is SpanKind.TASK)
    if change.reply is None or change.reply.tool_calls or not task.is_own_task:
        return
    names = {make_task_path(each.name, graph.get_phase_name(each)): each for each in graph.tasks}
    node = names.get(make_task_path(task.item_of or task.name, task.phase))
    output_type = None if node is None else find_typed_task(node).output_type
    if output_type is not None:
        _read_typed(f"reply= does not fit task {task.name!r}", output_type, change.reply.text)


def _read_typed(told: str, output_type: Any, text: str, value: Any = None) -> Any:
    """The value of what is given in place of an output.

    Raises:
        ValidationError: it is not of the output type.
    """
    try:
        return get_output_format(output_type).read_or_fail(text, value)
    except OutputParsingError as error:
        said = summarize_error(error).removeprefix("The reply does not fit ")
        raise ValidationError(f"{told}: it does not fit {said.partition(' Raise max_output_retries')[0]}") from None


def _check_masks(
    origin: Origin,
    kept: Sequence[tuple[MakeDocument, Mapping[str, Any]]],
    reader: ExchangeReader,
    task: str,
    point: ForkPoint | None,
) -> None:
    """Check that all is there that the model at the point is told: a mask is never sent.

    Raises:
        ValidationError: a secret was masked in something that was said before the point.
    """
    for _, document in kept:
        number = _get_number(document)
        exchange = reader.exchanges.get(number)
        is_before = point is not None and exchange is not None and exchange.task == task and number != point.exchange
        is_masked = exchange is not None and (("tool" not in document and exchange.is_masked) or document.get("masked"))
        if is_before and is_masked:
            said = f"what tool {document['tool']} answered" if "tool" in document else "a reply of the model"
            raise ValidationError(
                f"Run {origin.run_id} can't be forked there: {said} in task {task!r} before it holds a secret, "
                f"of which the store has a mask. Fork the output while its process lives, or fork at an earlier span."
            )


# --- Where a fork is: in the run itself, or in one that it forks and has kept that of ---------------------------------


def find_place(origin: Origin, given: Any, change: ForkChange) -> tuple[Origin, Span]:
    """The span of a fork, and the run that has done it: that of a kept task is in a run that this one forks.

    Raises:
        ValidationError: there is no such span, or it can't be forked there.
    """
    span_id = given if isinstance(given, str) else getattr(given, "span_id", "")
    found = origin.trace._fold.spans.get(span_id)
    is_inside = change.is_of_call or change.answer is not None
    if found is not None and not (found.kind is SpanKind.TASK and found.reused and is_inside):
        return origin, _find_span(origin, given, change)
    path = None if found is None else find_path(found)
    around: Origin | None = origin
    while around is not None and around.find_forked is not None:
        around = around.find_forked()
        spans = around.trace._fold.spans
        span = spans.get(span_id) if path is None else next((s for s in spans.values() if find_path(s) == path), None)
        if span is None or (path is not None and span.reused):
            continue
        span = _find_span(around, span, change)
        if (kept := _find_kept(origin, around, span)) is not None:
            return origin, kept
        task = next((each for each in list_around(span) if each.is_own_task), None)
        now = None if task is None else _find_task(origin, find_path(task) or "")
        if now is not None and now.reused:
            return around, span
        raise ValidationError(
            f"Span {span_id} of run {around.run_id} was done anew in its fork {origin.run_id}: name the span there."
        )
    if found is not None:
        raise ValidationError(
            f"Task {found.name!r} of run {origin.run_id} was reused ({found.reuse_reason}): its calls are in that run. "
            f"Fork that one, or this one with output=."
        )
    return origin, _find_span(origin, given, change)


def _find_task(origin: Origin, path: str) -> Span:
    """The task of a run at a path.

    Raises:
        ValidationError: there is none.
    """
    spans = origin.trace._fold.spans.values()
    if (found := next((each for each in spans if find_path(each) == path), None)) is None:
        raise ValidationError(f"Run {origin.run_id} has no task {path!r} any more.")
    return found


def _find_kept(origin: Origin, forked: Origin, span: Span) -> Span | None:
    """The span by which a fork has kept one of the run that it forks; None where it has none of its own."""
    spans = origin.trace._fold.spans
    if span.kind is SpanKind.TASK:
        path = find_path(span)
        return next((each for each in spans.values() if path is not None and find_path(each) == path), None)
    number = read_documents(make(False) for make in forked.documents).spans.get(find_call_of(forked, span).span_id)
    kept = read_documents(make(False) for make in origin.documents).spans
    call = next((spans[each] for each, of in kept.items() if of == number and each in spans), None)
    if call is None or not call.reused or span.kind is SpanKind.LLM:
        return call if call is not None and call.reused else None
    beside = (each for each in spans.values() if each.kind is SpanKind.TOOL and each.parent is call.parent)
    return next((each for each in beside if each.tool_call_id == span.tool_call_id), None)


def _find_span(origin: Origin, given: Any, change: ForkChange) -> Span:
    """The span of the model call, tool call or task that a fork is at.

    Raises:
        ValidationError: there is none, or it can't be forked there.
    """
    span_id = given if isinstance(given, str) else getattr(given, "span_id", None)
    span = None if span_id is None else origin.trace._fold.spans.get(span_id)
    if span is None:
        told = span_id or repr(given)
        owner = str(told).partition(".")[0]
        whose = f" It is one of run {owner}: fork that." if owner not in (told, origin.run_id) else ""
        raise ValidationError(
            f"Run {origin.run_id} has no span {told}.{whose} output.frames.spans lists them: model calls, tool calls, "
            f"tasks."
        )
    wanted = (SpanKind.TOOL,) if change.answer is not None else ()
    wanted = (SpanKind.TASK,) if change.has_output else wanted
    wanted = (SpanKind.LLM,) if change.is_of_call else wanted
    if span.kind is SpanKind.ATTEMPT and SpanKind.LLM in (wanted or (SpanKind.LLM,)):
        span = span.parent or span
    if SpanKind.LLM in wanted and span.kind in (SpanKind.TURN, SpanKind.TASK):
        inside = (each for each in origin.trace._fold.spans.values() if each.kind is SpanKind.LLM)
        span = next((each for each in inside if span in list_around(each)), span)
    if span.kind not in (wanted or (SpanKind.LLM, SpanKind.TOOL, SpanKind.TASK)):
        kinds = " or ".join(kind.traits.title.lower() for kind in wanted) or "model call, tool call or task"
        raise ValidationError(
            f"Span {span.span_id} of run {origin.run_id} is a {span.kind.traits.title.lower()}: {change.describe()} is "
            f"for a {kinds}."
        )
    if span.kind is SpanKind.TOOL and span.tool in (DELEGATE, DELEGATE_TASK):
        inside = (each for each in origin.trace._fold.spans.values() if each.kind is SpanKind.LLM)
        last = next((each for each in reversed([*inside]) if span in list_around(each)), None)
        instead = "" if last is None else f" Fork at its last model call, {last.span_id}, instead."
        raise ValidationError(f"Span {span.span_id} is a delegation, which a worker has done, and no tool.{instead}")
    if span.end_seq is None:
        raise ValidationError(f"Span {span.span_id} is still running, and has nothing yet that could be changed.")
    return span


def find_call_of(origin: Origin, span: Span) -> Span:
    """The model call whose reply asked for a tool call; a model call itself."""
    spans = origin.trace._fold.spans.values()
    calls = (each for each in spans if each.kind is SpanKind.LLM and each.parent is span.parent)
    return next(calls, span) if span.kind is SpanKind.TOOL else span


def _find_exchange(origin: Origin, call: Span, reader: ExchangeReader) -> int | None:
    """The number of the exchange of a model call; None where it was never sent.

    Raises:
        ValidationError: it was sent, and that is not kept.
    """
    exchange = reader.spans.get(call.span_id)
    if exchange is None and (call.reused or call.is_call):
        raise ValidationError(
            f"What was said in span {call.span_id} of run {origin.run_id} is not kept with its place: the run was made "
            f"by an earlier version, or its store was cleared. Run it again, and fork that run."
        )
    return exchange


def read_documents(documents: Iterable[Mapping[str, Any]]) -> ExchangeReader:
    """Read what was said in a run; what is not whole is passed over."""
    from ensemble_notebook.models.recording.documents import BROKEN_DOCUMENT, ExchangeReader

    reader = ExchangeReader()
    for document in documents:
        try:
            reader.add(document)
        except BROKEN_DOCUMENT:
            continue
    return reader


def _make_point(
    origin: Origin, span: Span, change: ForkChange, reader: ExchangeReader, task: str, graph: Graph
) -> ForkPoint | None:
    """The point for the answers; None where the fork is at a task."""
    if span.kind is SpanKind.TASK:
        return None
    call = find_call_of(origin, span)
    exchange = _find_exchange(origin, call, reader)
    if span.kind is SpanKind.TOOL and (exchange is None or span.tool_call_id is None):
        raise ValidationError(f"Span {span.span_id} of run {origin.run_id} is a tool call that no reply asked for.")
    return change.make_point(
        exchange=exchange,
        call_id=span.tool_call_id if span.kind is SpanKind.TOOL else None,
        task=task,
        llm=find_llm(graph, span),
    )


def find_llm(graph: Graph, span: Span) -> Any:
    """The model of the agent that a span is of; None where it is not in the graph."""
    members = ((each.agent.role, each.llm) for each in graph.team)
    nodes = ((each.agent.role, each.llm) for each in graph.all_tasks if each.agent is not None)
    own = (each.llm for each in graph.all_tasks if each.name == span.task and each.role == span.agent)
    return next(own, None) or dict([*members, *nodes]).get(span.agent or "")


def _make_given(origin: Origin, span: Span, change: ForkChange, graph: Graph) -> tuple[str, TaskOutput] | None:
    """The task whose output is given, and that output.

    Raises:
        ValidationError: it is not of the output type of the task.
    """
    if not change.has_output:
        return None
    path = find_path(span)
    node = next((each for each in graph.tasks if make_task_path(each.name, graph.get_phase_name(each)) == path), None)
    if path is None or node is None:
        raise ValidationError(
            f"Task {span.name!r} of run {origin.run_id} is no task of the plan: give its last model call a reply=."
        )
    value = change.output
    text = value if isinstance(value, str) else to_text(value)
    if (output_type := find_typed_task(node).output_type) is not None:
        given = None if isinstance(value, str) else value
        _read_typed(f"output= does not fit task {span.name!r}", output_type, text, given)
    ended = span.end_time or span.start_time
    assert ended is not None
    return path, TaskOutput(
        name=node.name,
        raw=text,
        task_description=span.description or "",
        agent_role=node.role,
        completed_at=ended,
        duration=span.duration or (ended - ended),
        tool_call_count=0,
        parsed_output=None if isinstance(value, str) else value,
    )


def describe_change(trace: ExecutionTrace, span: Span, change: ForkChange) -> ChangedCall:
    """What is different at a span of a run.

    Args:
        trace: of the run.
        span: the model call, tool call or task.
        change: what is wanted there.
    """
    around = list_around(span)
    path = next((found for each in around if (found := find_path(each)) is not None), None)
    told = _find_told(trace, span) if change.is_of_call else ("", "")
    system, user, is_conversation = change.system_prompt, change.user_prompt, False
    if change.messages:
        system = next((each.text for each in change.messages[:1] if each.role == "system"), None)
        others = change.messages if system is None else change.messages[1:]
        user = others[0].text if others else None
        is_conversation = len(others) != 1 or others[0].role != "user"
    return ChangedCall(
        names=change.names,
        task=path,
        agent=span.agent,
        is_delegated=any(each.delegation_id is not None for each in around),
        is_nested=span.nested_in is not None,
        system=_reword(told[0], system),
        user=_reword(told[1], user),
        is_conversation=is_conversation,
        llm=change.llm,
        parameters=change.parameters or {},
    )


def _reword(before: str, after: str | None) -> Reworded | None:
    return None if after is None or after == before else Reworded(before, after)


def _find_told(trace: ExecutionTrace, span: Span) -> tuple[str, str]:
    """The prompts of the task that a call is of, as they were sent to it last."""
    owners = {each.span_id for each in list_around(span)}
    system = user = ""
    for event in reversed(trace._events):
        is_before = span.end_seq is None or event.seq <= span.end_seq
        if isinstance(event, TaskInputPrepared) and event.span_id in owners and is_before:
            system, user = system or event.system_prompt, user or event.user_prompt
            if system and user:
                break
    return system, user


class _DocumentKeeper:
    """Tells which documents of a run a fork keeps.

    Args:
        spans: of the run.
        reader: has read them.
        dependence: of its spans.
        point: of the fork.
        earlier: points that it comes to before, of forks by which the run came about.
    """

    def __init__(
        self,
        spans: Mapping[str, Span],
        reader: ExchangeReader,
        dependence: Dependence,
        point: ForkPoint | None,
        earlier: Sequence[ForkPoint] = (),
    ) -> None:
        self._known_by = {each.exchange for each in (*earlier, point) if each is not None}
        self._dependence = dependence
        self._point = point
        self._spans = spans
        self._calls = {number: spans[span_id] for span_id, number in reader.spans.items() if span_id in spans}
        self._tools: dict[tuple[str, str], Span] = {}
        for each in spans.values():
            if each.kind is SpanKind.TOOL and each.parent is not None and each.tool_call_id is not None:
                self._tools[each.parent.span_id, each.tool_call_id] = each

    def keeps(self, document: Mapping[str, Any]) -> bool:
        """Whether a document is kept."""
        if "tool" in document:
            call = self._calls.get(document["asked_in"])
            turn = None if call is None or call.parent is None else call.parent.span_id
            span = None if turn is None else self._tools.get((turn, document["call"]))
        elif "review" in document:
            span = self._spans.get(document.get("span", ""))
        elif "exchange" in document:
            number = document["exchange"]
            if number in self._known_by:
                return True  # the fork knows by it where it is
            span = self._calls.get(number)
            if span is None and "span" not in document:  # of the conversation that it goes on with
                return True
            if span is None:  # an attempt before the last one of its call
                span = self._spans.get(document["span"])
                if span is self._dependence.point:  # whose request that one is told by
                    return True
        else:
            return True
        return span is not None and self._dependence.explain(span) is not None


class ForkedTasks:
    """The `KeptTasks` of a fork.

    Args:
        forked: the run that it forks.
        kept_tasks: where its own are kept.
    """

    def __init__(self, forked: ForkedRun, kept_tasks: KeptTasks) -> None:
        self._forked = forked
        self._kept_tasks = kept_tasks
        self._is_given = False

    def find(
        self,
        path: str,
        key: TaskKey,
        *,
        attempt: int = 1,
        is_asked_for: bool = False,  # noqa: ARG002 - what `until` names is done anew only where it depends on the fork
    ) -> tuple[KeptTask | None, str]:
        """What the origin had done at this path, where that does not depend on the fork."""
        forked = self._forked
        nested = (span := forked.dependence.find_task(path)) is not None and span.nested_in is not None
        if nested and not forked.dependence.is_clear(path):
            return None, "an ensemble of this name runs several times in its task"  # its calls are known one by one
        if forked.given is not None and self.is_given(path):
            self._is_given = True
            return KeptTask(run_id=forked.origin.run_id, path=path, output=forked.given[1], is_given=True), GIVEN
        for found, why in (*forked.results.get(path, ()),):
            kept = None if found.output is None else make_kept_task(found, found.output, find_reads(found, key))
            done_as = found.facts.get("attempt")
            done_at = done_as if isinstance(done_as, int) else 1
            if kept is None or done_at < attempt:
                continue
            if nested:  # a function may run the same ensemble again, for something else
                forked.results[path].remove((found, why))
            if key.parts and found.parts:
                whole = key.with_reads(kept.reads)
                if found.key != whole.key and not is_same(found.parts, whole.parts):
                    changed = explain_difference(found.parts, whole.parts)
                    why = f"{why}; it has changed since: {changed}"
                    warning = f"What task {path!r} had put out in run {found.run_id} is kept, and since then {changed}."
                    kept = replace(kept, warning=warning)
            feedback = found.facts.get("feedback")
            said = tuple(map(str, feedback)) if isinstance(feedback, list) else ()
            return self._price(replace(kept, attempt=done_at, feedback=said)), why
        return None, "it depends on the fork"

    def _price(self, kept: KeptTask) -> KeptTask:
        """With what it took, which the results of a live run do not tell."""
        span = self._forked.dependence.find_task(kept.path)
        if span is None or span.totals is None or not self._forked.origin.is_live:
            return kept
        totals = span.totals
        return replace(
            kept,
            tokens=totals.total_tokens,
            cost=totals.cost,
            currency=span.currency,
            duration_ms=span.duration_ms or 0.0,
        )

    def is_given(self, path: str) -> bool:
        """Whether the fork gives the output of this task."""
        return not self._is_given and self._forked.given is not None and self._forked.given[0] == path

    def keep(self, done: DoneTask) -> None:
        """A task is done."""
        self._kept_tasks.keep(done)
