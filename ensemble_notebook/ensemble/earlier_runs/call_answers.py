"""Answers to the calls of reviewed tools that an earlier run has left pending: read, checked, and each used once."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.domain.definitions.definition import show_value
from ensemble_notebook.domain.definitions.review import ReviewAnswer, ReviewDecision, Verdict
from ensemble_notebook.domain.definitions.tool import Tool, ToolSource, list_tool_names
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.planning.delegation import build_team_graph
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.ensemble.ensemble_tool import RowHandler, find_ensemble
from ensemble_notebook.ensemble.run_checks import list_tool_holders
from ensemble_notebook.ensemble.run_settings import Answers
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.trace.store.run_store import RunStore
from ensemble_notebook.trace.store.used_answers import UsedAnswer

_DECISIONS: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.REJECT)
_FIELDS: Final = ("decision", "arguments", "reason", "by", "always")
_FORMS: Final = "'approve', {'decision': 'reject', 'reason': ...} or {'decision': 'edit', 'arguments': {...}}"
_FAMILIAR: Final = dict.fromkeys(("decline", "declined", "deny", "refuse"), "reject") | {"accept": "approve"}
_LISTED: Final = 5

# Those that were used in this process, by the ids of the calls: they count once with the store off, too.
_used_here: Final[dict[str, UsedAnswer]] = {}
_lock: Final = threading.Lock()


def read_answer(call_id: str, given: Any) -> ReviewAnswer:
    """Read one answer.

    Args:
        call_id: of the call, for messages.
        given: a `ReviewDecision`, the word of one, or a mapping with ``decision``, and ``arguments``, ``reason``,
            ``by`` (who answered) and ``always``, each where it is wanted.

    Raises:
        ValidationError: it is none of these; says what is wrong.
    """
    try:
        if isinstance(given, ReviewDecision):
            if given.verdict not in _DECISIONS:
                raise ValidationError(
                    f"can't be {given.verdict.value!r}: a call that waits is approved, edited or rejected."
                )
            return ReviewAnswer(given)
        fields = {"decision": given} if isinstance(given, str) else given
        if not isinstance(fields, Mapping):
            raise ValidationError(f"must be a ReviewDecision, {_FORMS}, got {show_value(given)}.")
        return _read_fields({str(name): each for name, each in fields.items()})
    except ValidationError as error:
        raise ValidationError(f"answers[{call_id!r}] {error}") from None


def _read_fields(fields: Mapping[str, Any]) -> ReviewAnswer:
    """Raises ValidationError, whose text goes on after the place."""
    for name in fields:
        if name not in _FIELDS:
            raise ValidationError(f"has no {name!r}.{did_you_mean(name, _FIELDS)} Its fields are {', '.join(_FIELDS)}.")
    word = fields.get("decision")
    if word not in list(_DECISIONS):
        near = _FAMILIAR.get(str(word), str(word))
        hint = f" Write {near!r}." if near != word else did_you_mean(near, [each.value for each in _DECISIONS])
        raise ValidationError(f"must be {_FORMS}, got the decision {show_value(word)}.{hint}")
    is_edit, reason = word == Verdict.EDIT, fields.get("reason", "")
    for name, is_right, wanted in (
        ("by", isinstance(fields.get("by"), str | None), "a text, who answered"),
        ("always", isinstance(fields.get("always", False), bool), "True or False"),
        ("arguments", isinstance(fields.get("arguments"), Mapping | str) == is_edit, "there for 'edit' alone, by name"),
        ("reason", isinstance(reason, str) and (not reason or word == Verdict.REJECT), "a text, for 'reject' alone"),
    ):
        if not is_right:
            raise ValidationError(f"has {name}={show_value(fields.get(name))}, which must be {wanted}.")
    always, by = fields.get("always", False), fields.get("by")
    if is_edit:
        return ReviewAnswer(replace(ReviewDecision.edit(fields["arguments"]), always=always), by)
    return ReviewAnswer(ReviewDecision(verdict=Verdict(word), text=reason, always=always), by)


class ResumedCalls:
    """The `CallAnswers` of a run that goes on with another one. An answer is noted before it is used.

    Args:
        resumed_id: the run that is gone on with.
        waiting: the calls that wait there.
        answers: to some of them.
        lineage: the ids of the runs that it goes on with itself, which may have used an answer and died.
        anyway: whether to go on although another run has used an answer; what that is to is asked about anew.

    Raises:
        ValidationError: an answer is no answer, is to a call that does not wait there, or comes second; or another run
            has used an answer to one of the calls that wait.
    """

    def __init__(
        self,
        resumed_id: str,
        waiting: Sequence[PendingCall],
        answers: Answers | None,
        lineage: Collection[str],
        *,
        anyway: bool,
    ) -> None:
        self._resumed_id = resumed_id
        self._run_id = ""
        self._answers = {str(name): read_answer(str(name), each) for name, each in (answers or {}).items()}
        self._unused = {*self._answers}
        self._store = RunStore.find()
        ids = [each.id for each in waiting]
        asked = {*ids, *self._answers}
        self._used = {} if self._store is None else self._store.load_answers(asked)
        self._used |= {call_id: _used_here[call_id] for call_id in asked if call_id in _used_here}
        for call_id in self._answers:
            if (used := self._used.get(call_id)) is not None:
                raise ValidationError(f"Call {call_id} is answered already: {used}. An answer counts once.")
            if call_id not in ids:
                there = ", ".join(f"{each.id} ({each.tool})" for each in waiting[:_LISTED]) or "none"
                more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
                hint = did_you_mean(call_id, ids)
                raise ValidationError(
                    f"No call {call_id!r} waits in run {resumed_id}.{hint} There wait: {there}{more}."
                )
        for call_id in ids:
            used = self._used.get(call_id)
            if used is not None and used.used_in not in lineage and not anyway:
                raise ValidationError(
                    f"Call {call_id} of run {resumed_id} is answered already: {used}. Go on from there: "
                    f"resume={used.used_in!r}. With anyway=True this call is asked about anew."
                )

    def begin(self, run_id: str) -> None:
        """The run that goes on has this id."""
        self._run_id = run_id

    def find(self, call_id: str) -> ReviewAnswer | None:
        """The answer that was given to a call with this run; None where none was. The run has come to that call."""
        self._unused.discard(call_id)
        return self._answers.get(call_id)

    def is_used(self, call_id: str) -> bool:
        """Whether a run that this one goes on with has used an answer to this call."""
        return call_id in self._used

    def use(self, call_id: str, answer: ReviewAnswer) -> None:
        """Note that an answer is used, for all processes where there is a store, else for this one.

        Raises:
            ValidationError: another one was used before; says by whom it was given, and when.
            StoreError: it can't be noted, and so not used.
        """
        noted = UsedAnswer(
            used_in=self._run_id, at=datetime.now(UTC), by=answer.by, decision=answer.decision.verdict.value
        )
        with _lock:  # one thread at a time
            earlier = _used_here.get(call_id)
            if earlier is None and self._store is not None:
                earlier = self._store.use_answer(call_id, self._resumed_id, noted)
            if earlier is None:
                _used_here[call_id] = noted
        if earlier is not None:
            raise ValidationError(f"Call {call_id} is answered already: {earlier}. An answer counts once.")

    def describe_unused(self) -> str:
        """Say which answers were not used, and why that may be; empty where all were."""
        if not self._unused:
            return ""
        calls = ", ".join(sorted(self._unused))
        return (
            f"No use was made of the answer to {calls}: the run did not come to that call, since it ended before, or "
            f"what its task is told has changed. The answer has not counted."
        )


def list_reviewed_tools(graph: Graph) -> Iterator[str]:
    """List the names of the reviewed tools of a run and of those inside it, as far as they are known before it."""
    for holder in list_tool_holders(graph):
        for tool in holder.tools:
            if isinstance(tool, ToolSource):
                yield from tool.reviewed_names
            elif isinstance(tool, Tool):
                yield from list_tool_names(tool) or ()
            if (inner := find_ensemble(tool)) is not None:
                yield from list_reviewed_tools(build_team_graph(inner))
    for node in graph.all_tasks:
        if node.nested is not None:
            yield from list_reviewed_tools(node.nested)
        if isinstance(rows := node.task.handler, RowHandler):
            for inner in {id(each): each for each in rows.ensembles.values()}.values():
                yield from list_reviewed_tools(build_team_graph(inner))
