"""What a live run holds of itself beside its events, so that another one can begin in the middle of it (F2).

The texts are as they were said: what a store keeps of them has its secrets masked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.kept_tasks import Approval, DoneTask, KeptTask, KeptTasks, TaskKey
from ensemble_notebook.ensemble.run_settings import Continuable

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedCall
    from ensemble_notebook.trace.store.run_facts import RunOrigin

MakeDocument = Callable[[bool], Mapping[str, Any]]


class DoneWork(NamedTuple):
    """A task that was done, without what its key is made of: a run of thousands of tasks holds one for each.

    Attributes:
        path, output, delegated, attempt, feedback, approvals: as of a `DoneTask`.
    """

    path: str
    output: TaskOutput
    delegated: tuple[TaskOutput, ...]
    attempt: int
    feedback: Sequence[str]
    approvals: tuple[Approval, ...]


@dataclass(slots=True, kw_only=True)
class RunJournal:
    """What was said and done in a run.

    Attributes:
        inputs: values of its template variables.
        deps: for functions that take a `RunContext`.
        continued: whose conversations its tasks went on with.
        documents: make the documents of its exchanges, in order.
        done: what was done, in order; a task that was done several times is there for each.
        cell: that it came from, as that of the run that it forks; None where it came from none.
        changes: of the forks by which it came about, in order.
        find_forked: finds the run that it forks, an `Origin`; None where it forks none.
        points: of the forks by which it came about, in order, each a `ForkPoint`.
        lineage: the ids of the runs that it goes on with.
    """

    inputs: Mapping[str, Any]
    deps: object = None
    continued: Continuable = None
    documents: list[MakeDocument] = field(default_factory=list)
    done: list[DoneWork] = field(default_factory=list)
    cell: RunOrigin | None = None
    changes: tuple[ChangedCall, ...] = ()
    find_forked: Callable[[], Any] | None = None
    points: Sequence[Any] = ()
    lineage: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPlace:
    """Where the store has what was said and done in the run of a row: it is a part of its map.

    Attributes:
        map_run_id: of the map.
        row: the name of the row's task there.
        prefix: of the paths of its own tasks there.
        inputs: of the row, where they are known; None: what the output tells of them.
        is_kept: whether it has; what is done on an executor stays there.
    """

    map_run_id: str
    row: str
    prefix: str
    inputs: Mapping[str, Any] | None = None
    is_kept: bool = True


class JournalledTasks:
    """The `KeptTasks` of a run that writes what is done into its journal, too.

    Args:
        journal: of the run.
        kept_tasks: of earlier runs; None where none is remembered.
    """

    def __init__(self, journal: RunJournal, kept_tasks: KeptTasks | None) -> None:
        self._journal = journal
        self._kept_tasks = kept_tasks

    def find(
        self, path: str, key: TaskKey, *, attempt: int = 1, is_asked_for: bool = False
    ) -> tuple[KeptTask | None, str]:
        """As those of earlier runs."""
        if self._kept_tasks is None:
            return None, "no run is remembered"
        return self._kept_tasks.find(path, key, attempt=attempt, is_asked_for=is_asked_for)

    def is_given(self, path: str) -> bool:
        """As those of earlier runs."""
        return self._kept_tasks is not None and self._kept_tasks.is_given(path)

    def keep(self, done: DoneTask) -> None:
        """A task is done."""
        work = DoneWork(done.path, done.output, done.delegated, done.attempt, done.feedback, done.approvals)
        self._journal.done.append(work)
        if self._kept_tasks is not None:
            self._kept_tasks.keep(done)
