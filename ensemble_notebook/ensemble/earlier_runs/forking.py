"""A run that is the same as an earlier one up to a span, is different there, and goes on from there (F2).

It goes on with that run as a resumed one does: what was asked and done is taken over. What depends on the span is not
among it, and at the span itself stands what somebody wants instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import SpanStatus
from ensemble_notebook.domain.events import RunStarted
from ensemble_notebook.domain.fingerprints.parts import explain_difference, is_same
from ensemble_notebook.domain.fingerprints.task_keys import TaskKeys
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.ensemble_texts import find_typed_task
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.kept_tasks import DoneTask, KeptTask, KeptTasks, PendingKey, TaskKey
from ensemble_notebook.engine.agent.langchain_tools import to_text
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall
from ensemble_notebook.ensemble.earlier_runs.dependence import Dependence, find_path, list_around
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange
from ensemble_notebook.ensemble.earlier_runs.fork_origin import Origin, describe_change
from ensemble_notebook.ensemble.earlier_runs.fork_place import (
    find_call_of,
    find_number,
    find_own_task,
    find_place,
    read_documents,
)
from ensemble_notebook.ensemble.earlier_runs.reuse import find_reads, make_kept_task
from ensemble_notebook.ensemble.earlier_runs.run_journal import MakeDocument
from ensemble_notebook.ensemble.run_settings import merge_kept_inputs
from ensemble_notebook.errors import OutputParsingError, ValidationError, summarize_error
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_facts import StoredResult

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.documents import ExchangeReader
    from ensemble_notebook.models.recording.resumer import ForkPoint, KeptAnswers


GIVEN: Final = "given by the fork"
CHANGED: Final = "a fork has changed something in its run"


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
        is_replayed: whether it was a replay: one model is asked in place of all.
        redeclared: what is declared otherwise since, in words, by the path of the task, where no store can tell.
    """

    origin: Origin
    span: Span
    change: ForkChange
    dependence: Dependence
    answers: KeptAnswers
    documents: Sequence[MakeDocument]
    results: Mapping[str, list[tuple[StoredResult, str]]]
    given: tuple[str, TaskOutput] | None = None
    is_replayed: bool = False
    redeclared: Mapping[str, str] = field(default_factory=dict)

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
        origin, again = self.origin, "Give them again: fork(..., inputs={...})."
        return merge_kept_inputs(origin.run_id, origin.inputs, origin.lost_inputs, given, variables, again)

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


def fork_run(origin: Origin, span: Any, change: ForkChange, graph: Graph, *, asked_in: str | None = None) -> ForkedRun:
    """What a fork takes over of a run.

    Args:
        origin: the run.
        span: where: a span or its id.
        change: what is to be different there.
        graph: of the ensemble, as it is now.
        asked_in: the task that the fork is done in, of a row of a map; None: it is a run of its own.

    Raises:
        ValidationError: there is no such span, nothing can be forked there, or what is given does not fit.
    """
    from ensemble_notebook.models.recording.resumer import KeptAnswers

    is_replayed = _check_model(origin, change)
    holder, point_span = find_place(origin, span, change)
    _check_task(point_span, holder, graph)
    dependence = Dependence(holder.trace._fold, holder.trace._events, graph, point_span)
    made = _make_documents(holder, asked_in)
    reader = read_documents(document for _, document in made)
    path = next((find_path(each) for each in list_around(point_span) if each.is_own_task), None) or ""
    task = mask(asked_in or path)
    point = _make_point(holder, point_span, change, reader, task, graph)
    _check_reply(point_span, change, graph)
    earlier = _list_earlier(holder, point_span, task)
    keeper = _DocumentKeeper(holder.trace._fold.spans, reader, dependence, point, earlier)
    kept = [(make, document) for make, document in made if keeper.keeps(document)]
    numbers = {document.get("exchange") for _, document in kept}
    _check_masks(holder, kept, reader, task, point)
    survived = keeper.list_survived()
    asked_anew = [each.request for number, each in reader.exchanges.items() if number not in numbers]
    changes = holder.changes
    if holder is not origin:  # what was forked on the way since, and does not depend on this, is that of the fork
        of_task = {number for number, each in reader.exchanges.items() if each.task == task}
        kept = [each for each in kept if "llm" in each[1] or _get_number(each[1]) in of_task]
        dependence = Dependence(origin.trace._fold, origin.trace._events, graph, find_own_task(origin, path))
        made = _make_documents(origin, asked_in)
        others = _DocumentKeeper(
            origin.trace._fold.spans, read_documents(document for _, document in made), dependence, None
        )
        survived |= others.list_survived()
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
            survived=survived,
            read=reader if holder is origin else None,  # numbers are those of one run
        ),
        documents=[make for make, _ in kept],
        results=results,
        is_replayed=is_replayed,
        redeclared=find_redeclared(origin, graph),
        given=_make_given(holder, point_span, change, graph),
        changes=(*changes, *(change.came_of or [describe_change(holder.trace, point_span, change)])),
    )


def _make_documents(origin: Origin, asked_in: str | None) -> list[tuple[MakeDocument, Mapping[str, Any]]]:
    """What was said in a run, each with what makes it; of a row, as asked in its task, not in that of the map."""
    makers, spans = origin.documents, origin.trace._fold.spans
    if origin.row is not None:
        makers = [partial(_name_task, make, spans, asked_in) for make in makers]
    return [(make, make(False)) for make in makers]


def _name_task(
    make: MakeDocument, spans: Mapping[str, Span], asked_in: str | None, is_masking: bool
) -> Mapping[str, Any]:
    """A document of the run of a row, which a map has under the name of the row, as its fork asks for it."""
    document = make(is_masking)
    if "exchange" not in document or (span := spans.get(document.get("span", ""))) is None:
        return document
    own = next((each for each in list_around(span) if each.is_own_task), None)
    return {**document, "task": mask(asked_in or (own and find_path(own)) or "")}


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


def find_redeclared(origin: Origin, graph: Graph) -> dict[str, str]:
    """What is declared otherwise than in a live run of which no store knows what counted for its tasks."""
    if origin.graph is None or all(each.parts for each in origin.results):
        return {}
    then, now = ([(node.task, node.agent, node.llm) for node in each.tasks] for each in (origin.graph, graph))
    if all(one is other for a, b in zip(then, now, strict=False) for one, other in zip(a, b, strict=True)):
        return {}  # code is read for a while
    before, after = TaskKeys(origin.graph).list_declared(), TaskKeys(graph).list_declared()
    both = ((path, before[path], parts) for path, parts in after.items() if path in before)
    return {path: explain_difference(old, new) for path, old, new in both if not is_same(old, new)}


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
    is_changed = not {"reply", "tool_result", "output"}.issuperset(names)
    if is_changed and (before := origin.go_back()) is not None:
        changed = None if at is None else before.trace._fold.spans.get(at)
        around = () if changed is None else list_around(changed)
        if any(mask(find_path(each) or "") == task for each in around):
            raise ValidationError(
                f"Run {origin.run_id} is a fork that has changed {' and '.join(names)} in task {task!r}, and what that "
                f"was is not kept. Fork its output while its process lives, or {before.run_id} at {at} with all of it."
            )
    return [replace(each, is_reached=False, asked_system="") for each in points if each.changes_request]


def _check_model(origin: Origin, change: ForkChange) -> bool:
    """Check that there is a model to ask; gives whether the run was a replay, so that there is only the one given.

    Raises:
        ValidationError: there is none, or one is given where no call is changed.
    """
    run: Origin | None = origin
    while run is not None:
        begun = next((each for each in run.trace._events if isinstance(each, RunStarted)), None)
        if begun is not None and begun.replayed_from is not None:
            if change.llm is None:
                raise ValidationError(
                    f"Run {run.run_id} was replayed from {begun.replayed_from}, and no model was asked. Name the one "
                    f"that a fork of it is to ask: fork(..., llm=...)."
                )
            return True
        run = run.go_back()
    alone = next((name for name in change.names if name in ("reply", "tool_result", "output")), None)
    if alone is not None and change.llm is not None:
        raise ValidationError(f"{alone}= stands in place of what comes of the call: leave out llm=.")
    return False


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


def _make_point(
    origin: Origin, span: Span, change: ForkChange, reader: ExchangeReader, task: str, graph: Graph
) -> ForkPoint | None:
    """The point for the answers; None where the fork is at a task."""
    if span.kind is SpanKind.TASK:
        return None
    call = find_call_of(origin, span)
    exchange = find_number(origin, call, reader)
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

    def list_survived(self) -> set[int]:
        """The exchanges of the model calls that failed in a task which was done all the same, as by its fallback."""
        failed = ((number, span) for number, span in self._calls.items() if span.status is SpanStatus.ERROR)
        return {
            number
            for number, span in failed
            if any(each.is_own_task and each.status is SpanStatus.OK for each in list_around(span))
        }

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
        self._is_changed = any(each.names for each in forked.changes)

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
        span = forked.dependence.find_task(path)
        nested = span is not None and span.nested_in is not None
        if span is not None and not forked.dependence.is_clear(path):  # its calls are known one by one
            what = "an ensemble of this name runs" if nested else "it was asked"
            return None, f"{what} several times in its {'task' if nested else 'phase'}"
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
            changed = None if found.parts else forked.redeclared.get(path)
            if key.parts and found.parts:
                whole = key.with_reads(kept.reads)
                if found.key != whole.key and not is_same(found.parts, whole.parts):
                    changed = explain_difference(found.parts, whole.parts)
            if changed is not None:
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
        """A task is done. What came of a change answers another question: only who goes on with this run has it."""
        if self._is_changed:
            key = done.key
            done = replace(done, key=PendingKey(lambda: replace(key.get(), obstacle=CHANGED)))
        self._kept_tasks.keep(done)
