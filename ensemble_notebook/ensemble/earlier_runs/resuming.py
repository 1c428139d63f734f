"""What a resumed run takes over from the earlier one: its inputs, answers and finished tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.enums import CaptureMode, RunStatus
from ensemble_notebook.domain.outputs.conversation import (
    write_arguments,
)
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.value_text import is_equal
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.ensemble.earlier_runs.call_answers import ResumedCalls, list_reviewed_tools
from ensemble_notebook.ensemble.earlier_runs.claims import check_unclaimed_here
from ensemble_notebook.ensemble.earlier_runs.continuing import find_run
from ensemble_notebook.ensemble.earlier_runs.fork_origin import Origin, find_origin, refuse_foreign
from ensemble_notebook.ensemble.earlier_runs.forking import find_redeclared
from ensemble_notebook.ensemble.earlier_runs.run_journal import MakeDocument
from ensemble_notebook.ensemble.run_settings import (
    Answers,
    Continuable,
    KeptConversations,
    RunResult,
    describe_continued,
    merge_kept_inputs,
)
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.store.run_facts import RememberedRun, RunFacts, StoredResult
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.models.recording.resumer import KeptAnswers

_LISTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedRows:
    """The rows of a map that another one goes on with, by their names there.

    Attributes:
        taken_over: those that do not run again at all.
        unfinished: those that do, and were not done.
        can_ask: whether somebody can be asked in them.
    """

    taken_over: Collection[str]
    unfinished: Collection[str]
    can_ask: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedRun:
    """The run that another one goes on with.

    Attributes:
        run: as it is remembered.
        answers: what models, tools and reviewers have answered.
        documents: make the documents of these.
        results: of its finished tasks, in the order in which they were done.
        trace: of it, from which is told what it took.
        lineage: the ids of the runs that it goes on with itself.
        live: what this process knows of a run that no store has; None of a stored one.
        rows: of a map; None for another run.
    """

    run: RememberedRun
    answers: KeptAnswers
    documents: Sequence[MakeDocument]
    results: Sequence[StoredResult]
    trace: ExecutionTrace
    lineage: Collection[str] = ()
    live: Origin | None = None
    rows: ResumedRows | None = None

    def answer_calls(self, answers: Answers | None, *, anyway: bool) -> ResumedCalls:
        """What is known of the answers to the calls of reviewed tools that wait in it.

        Raises:
            ValidationError: as of `ResumedCalls`.
        """
        lineage = {self.run.run_id, *self.lineage}
        return ResumedCalls(self.run.run_id, self.answers.list_waiting(), answers, lineage, anyway=anyway)

    def merge_inputs(self, given: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs of the earlier run, unless others are given now.

        Raises:
            ValidationError: one of them could not be kept, and is not given.
        """
        facts = self.run.facts
        return merge_kept_inputs(facts.run_id, facts.inputs, facts.lost_inputs, given, variables, "Give them again.")

    def check_deps(self, deps: object) -> None:
        """Check that the functions of its tasks are given what they were given then.

        Raises:
            ValidationError: they were given an object, which is not kept, and are given none now.
        """
        facts = self.run.facts
        if facts.deps is not None and deps is None:
            raise ValidationError(
                f"Run {facts.run_id} had deps, a {facts.deps}, and live objects are not kept: give them again, "
                f"run(resume=..., deps=...)."
            )

    def find_continued(self, given: Continuable) -> Continuable:
        """What the earlier run went on with, unless another output is given now; None where it began afresh.

        Raises:
            ValidationError: that could not be kept, and is not given.
        """
        facts = self.run.facts
        if given is not None:
            return given
        if self.live is not None:
            return self.live.continued
        if facts.continued_from is None:
            return None
        if facts.conversations is None:
            what = describe_continued(facts.continued_from)
            raise ValidationError(
                f"Run {facts.run_id} went on with {what}, whose texts are not kept, since a secret is in them. "
                f"Give that again: run(resume=..., continue_from=...)."
            )
        return KeptConversations(
            run_id=facts.continued_from, capture_mode=facts.capture_mode, conversations=facts.conversations
        )

    def list_done(self, spec: RunSpec) -> Sequence[StoredResult]:
        """List its finished tasks, as far as a run may take them over.

        What counted for each is not known of a live one, so that a change of one task, or of an input, counts for all.
        """
        if (live := self.live) is None:
            return self.results
        then, now = (live.inputs, live.deps, self.run.facts.conversations), (spec.inputs, spec.deps, spec.conversations)
        return self.results if is_equal(then, now) and not find_redeclared(live, spec.graph) else ()

    def prepare(self, spec: RunSpec, redo: Sequence[str], *, anyway: bool) -> None:
        """Keep what finished tasks were answered for themselves, and settle which calls of tools are made again.

        Args:
            spec: of the run that goes on.
            redo: the tools whose calls are made again without asking, although it is not known how they ended.
            anyway: whether to go on although another run does so now.

        Raises:
            ValidationError: another run goes on with this one, or there are other calls, and nobody can be asked.
        """
        if not anyway:
            if self.live is None:
                RunStore.open().check_unclaimed(self.run.run_id)
            check_unclaimed_here(self.run.run_id)
        self.answers.redone = frozenset(redo)
        # The paths of the tasks that were done: one of another name is not kept by its result. In a map, whose tasks
        # are rows, those inside have results; the name of a row may have slashes, too.
        done = [each.path for each in self.list_done(spec)]
        if spec.task_noun.is_run:
            done = [path[:at] for path in done for at, sign in enumerate(path) if sign == "/"]
        paths = {make_task_path(node.name, spec.graph.get_phase_name(node)) for node in spec.graph.tasks}
        self.answers.reserve(paths.intersection(done))
        rows, can_ask = self.rows, spec.review_handler is not None
        if rows is None:
            unknown = self.answers.list_unknown()
        else:
            self.answers.leave_out([mask(each) for each in rows.taken_over])
            unknown, can_ask = self.answers.list_unknown([mask(each) for each in rows.unfinished]), rows.can_ask
        if not can_ask:
            waiting = frozenset(list_reviewed_tools(spec.graph))  # of which a call waits, whatever is known of it
            calls = [(each.name, write_arguments(each.arguments)) for each in unknown if each.name not in waiting]
            refuse_to_repeat(self.run.run_id, calls, "nobody can be asked here")


def refuse_to_repeat(run_id: str, calls: Sequence[tuple[str, str]], obstacle: str) -> None:
    """Refuse to go on where calls of tools would be made again that may have done their work.

    Args:
        run_id: of the run that is gone on with.
        calls: of which no end is known: the tool, and what it was given; none: nothing is refused.
        obstacle: why nobody is asked about them.

    Raises:
        ValidationError: there are such calls.
    """
    if not calls:
        return
    told = ", ".join(f"{name}({given})" for name, given in calls[:_LISTED])
    more = f" and {len(calls) - _LISTED} more" if len(calls) > _LISTED else ""
    names = ", ".join(repr(name) for name in dict.fromkeys(name for name, _ in calls))
    raise ValidationError(
        f"Run {run_id} was ended while tools were at work, and it is not known how they ended: {mask(told)}{more}. "
        f"What they do may be done already, and {obstacle}. To have them called again, resume it with redo=[{names}]."
    )


def load_resumed_run(resume: str | RunResult) -> ResumedRun:
    """Load the run to resume.

    Args:
        resume: an output of it; or its id, a prefix of the id, its name, or its position (``"-1"`` is the last run).

    Raises:
        StoreError: it is not in the store, or the store can't be read.
        ValidationError: it can't be resumed: it kept no text, has not ended, or another framework ran it.
    """
    from ensemble_notebook.models.recording.resumer import KeptAnswers

    run_id = resume if isinstance(resume, str) else resume.run_id
    if getattr(resume, "_journal", None) is not None:
        there = RunStore.find()
        if there is None or there.find_exact(run_id) is None:
            return _take_up_live(resume)
    else:
        refuse_foreign(resume)
    if getattr(resume, "capture_mode", None) is CaptureMode.METADATA:
        raise _refuse_textless(run_id)
    store = RunStore.open()
    run = find_run(store, run_id)
    if run.status is RunStatus.RUNNING:
        raise ValidationError(f"Run {run.run_id} is still going on: wait for its end, or stop it, to resume it.")
    check_resumable(run)
    if run.facts.forked_from_span is not None and run.facts.kind == "fork":
        raise _refuse_fork(run.run_id, f"{run.facts.forked_from_run} at {run.facts.forked_from_span}")
    documents = store.load_exchanges(run.run_id)
    answers = KeptAnswers(documents, run.run_id)
    results, trace = store.load_results(run.run_id), store.load_trace(run)
    # One that was killed before an event of it was stored tells nothing of what was taken by then; the one before does.
    known = run
    while trace.plan is None and known.facts.resumed_from is not None:
        known = store.find_run(known.facts.resumed_from)
        trace = store.load_trace(known)
    made = [lambda _, each=each: each for each in documents]
    lineage, earlier = set[str](), run.facts.resumed_from
    while earlier is not None and earlier not in lineage:
        lineage.add(earlier)
        found = store.find_exact(earlier)
        earlier = None if found is None else found.facts.resumed_from
    return ResumedRun(
        run=run,
        answers=answers,
        documents=made,
        results=results,
        trace=trace,
        lineage=lineage,
    )


def _take_up_live(output: Any) -> ResumedRun:
    """The run of an output of this process that no store has, from its journal. Errors as of `load_resumed_run`."""
    from ensemble_notebook.models.recording.resumer import KeptAnswers

    journal, live = output._journal, find_origin(output)
    if live.find_forked is not None:
        raise _refuse_fork(live.run_id, live.find_forked().run_id)
    assert live.trace.started_at is not None  # what has an output has begun
    facts = RunFacts(
        run_id=live.run_id,
        name=output.ensemble.name,
        started_at=live.trace.started_at,
        inputs=live.inputs,
        conversations=output._earlier,
        deps=None if live.deps is None else type(live.deps).__name__,
    )
    return ResumedRun(
        run=RememberedRun(facts=facts, status=output.status, ended_at=live.trace.ended_at),
        answers=KeptAnswers([make(False) for make in live.documents], live.run_id),
        documents=live.documents,
        results=live.results,
        trace=live.trace,
        lineage=journal.lineage,
        live=live,
    )


def _refuse_fork(run_id: str, forked: str) -> ValidationError:
    return ValidationError(
        f"Run {run_id} is a fork of {forked}, and what that changes is not kept to be gone on with. Fork that run "
        f"again, or this one at the span at which it stopped."
    )


def check_resumable(run: RememberedRun) -> None:
    """Check that enough is kept of a run to go on with it.

    Raises:
        ValidationError: it kept no text, or another framework ran it.
    """
    refuse_foreign(run)
    if not run.facts.keeps_texts:
        raise _refuse_textless(run.run_id)


def _refuse_textless(run_id: str) -> ValidationError:
    return ValidationError(
        f"Run {run_id} can't be resumed: capture_mode {CaptureMode.METADATA.value} keeps nothing of what was said. Run "
        f"it anew."
    )
