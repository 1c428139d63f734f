"""A run that can be forked, from this process or from the store: what was said and done in it, and by what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus, find_framework
from ensemble_notebook.domain.events import LlmCallStarted, TaskInputPrepared
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall, ChangedSource, Reworded
from ensemble_notebook.ensemble.earlier_runs.continuing import find_run
from ensemble_notebook.ensemble.earlier_runs.dependence import find_path, list_around
from ensemble_notebook.ensemble.earlier_runs.fork_change import ForkChange
from ensemble_notebook.ensemble.earlier_runs.run_journal import DoneWork, MakeDocument, RowPlace, RunJournal
from ensemble_notebook.ensemble.run_settings import Continuable, KeptConversations
from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span import Span
from ensemble_notebook.trace.store.run_facts import RunFacts, RunOrigin, StoredResult
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.resumer import ForkPoint


class LiveOutput(Protocol):
    """The output of a run of this process."""

    _journal: RunJournal | None
    _row_place: RowPlace | None

    @property
    def run_id(self) -> str: ...

    @property
    def ensemble(self) -> Any: ...

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
        graph: of the ensemble that a live run had; None of a stored one.
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
    graph: Graph | None = None

    def go_back(self) -> Origin | None:
        """The run that it forks; None where it forks none, or the store has that no more."""
        if self.find_forked is None:
            return None
        try:
            return self.find_forked()
        except (StoreError, ValidationError):
            return None

    def make_finder(self) -> Callable[[], Origin]:
        """What finds it again. One of the store is read again: it is as large as a run, and few forks are forked."""
        return partial(find_origin, self.run_id) if not self.is_live and self.row is None else lambda: self

    @property
    def known_as(self) -> str:
        """The id of the run that the store has it in."""
        return self.run_id if self.row is None else self.row.map_run_id


def refuse_textless(run_id: str) -> ValidationError:
    """What to raise where a run that kept no texts is to be forked."""
    return ValidationError(f"Run {run_id} can't be forked: this run kept no texts (capture_mode metadata).")


def refuse_foreign(run: Any) -> None:
    """Check that a run, an output or one of the store, is no run of another framework or session of a coding agent.

    Raises:
        ValidationError: it is one.
    """
    facts: RunFacts | None = getattr(run, "facts", None)
    trace: ExecutionTrace | None = getattr(run, "trace", None)
    framework = facts.framework if facts is not None else None if trace is None else find_framework(trace.workflow)
    if framework is not None:
        raise ValidationError(
            f"Run {run.run_id} can't be forked, resumed or asked again as it was: it was read from what "
            f"{framework} told, which does not have what ran. Run it again where it ran."
        )


def find_origin(run: Any) -> Origin:
    """The run to fork: a live output, or one of the store.

    Raises:
        StoreError: it is not in the store, or the store can't be read.
        ValidationError: it kept no text, or has not ended.
    """
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
            find_forked=journal.find_forked,
            points=journal.points,
            graph=build_team_graph(run.ensemble),
        )
    refuse_foreign(run)
    if getattr(run, "capture_mode", None) is CaptureMode.METADATA:
        raise refuse_textless(run.run_id)
    place: RowPlace | None = getattr(run, "_row_place", None)
    if place is not None and not place.is_kept:
        raise ValidationError(
            f"Row {place.row!r} ran on an executor, and what was said in it is not kept here: map it without executor= "
            f"to fork it."
        )
    store, word = RunStore.open(), run if isinstance(run, str | int) else (place and place.map_run_id) or run.run_id
    found = find_run(store, str(word))
    refuse_foreign(found)
    if found.status is RunStatus.RUNNING:
        raise ValidationError(f"Run {found.run_id} is still going on: wait for its end, or stop it, to fork it.")
    if not found.facts.keeps_texts:
        raise refuse_textless(found.run_id)
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
    model = facts.changed_model or {}
    change = ForkChange(
        names=facts.changed,
        system_prompt=texts.get("system") if "system_prompt" in facts.changed else None,
        user_prompt=texts.get("user") if "user_prompt" in facts.changed else None,
        messages=told if "messages" in facts.changed else None,
        **model,
    )
    lost = tuple(name for name in facts.changed if name in ("llm", "parameters") and name not in model)
    return cell, (*before, replace(describe_change(trace, span, change), lost=lost))


def load_changed_source(run_id: str, ensemble: Any) -> ChangedSource:
    """What was different in a fork of an earlier process, for its cell. Errors as of `load_changes`."""
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
