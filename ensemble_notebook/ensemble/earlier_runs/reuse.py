"""The tasks of earlier runs and of a resumed one, for the engine; and those of this run, for later ones (C33, C34).

`domain/fingerprints` decides what makes two tasks equal; the engine decides what to do with a result that is found.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.fingerprints.parts import explain_difference, is_same, read_reads
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.kept_tasks import Approval, DoneTask, InputRead, KeptTask, KeptTasks, Reads, TaskKey
from ensemble_notebook.errors import StoreError, get_message
from ensemble_notebook.trace.folding.prices import TaskSpending
from ensemble_notebook.trace.store.run_facts import StoredResult
from ensemble_notebook.trace.store.run_writer import FinishedTask, RunWriter
from ensemble_notebook.trace.store.store_reader import ResultReader

ASKED_FOR: Final = "it is the one that was asked for"


@dataclass(eq=False)
class RememberedTasks:
    """The `KeptTasks` of one run.

    Attributes:
        results: of earlier runs.
        writer: of this run.
        spending: of this run; read by the writer thread.
        currency: of that spending.
        paths: of the tasks of this run.
        is_map: whether its tasks are rows of a map, which are independent of each other.
    """

    results: ResultReader
    writer: RunWriter
    spending: TaskSpending
    currency: str
    paths: Sequence[str]
    is_map: bool = False

    def __post_init__(self) -> None:
        """Begin without anything taken."""
        self._runs_alike: Sequence[str] | None = None
        self._taken: dict[tuple[str, str], str] = {}

    def find(
        self,
        path: str,
        key: TaskKey,
        *,
        attempt: int = 1,  # noqa: ARG002 - its key tells it
        is_asked_for: bool = False,
    ) -> tuple[KeptTask | None, str]:
        """The newest result with this key, preferring the task at this path; and why it can be reused or not."""
        if is_asked_for:
            return None, ASKED_FOR
        if key.obstacle is not None:
            return None, key.obstacle
        try:
            if key.complete is None:
                found, reads = self._look_up(path, key.key), frozenset[InputRead]()
            else:
                found, reads = self._find_by_reads(path, key)
            if found is not None and found.output is not None:
                self._taken[_find_origin(found)] = path
                return make_kept_task(found, found.output, reads), f"unchanged since run {_find_origin(found)[0]}"
            return None, self._explain(path, key)
        except StoreError as error:
            return None, f"the run store can't be read: {get_message(error)}"

    def _look_up(self, path: str, key: str) -> StoredResult | None:
        """The newest result of this key that can serve this task."""
        if not self.is_map or path.endswith("/"):  # approvals are no samples
            return self.results.find(key, path)

        def is_of_repeat(found: StoredResult) -> bool:
            # An independent sample of this task of a map (V2): sample k of an earlier map is for repeat k. What this
            # map itself has done, or taken for another task, is not.
            if found.run_id == self.writer.facts.run_id and found.path != path:
                return False
            is_free = self._taken.get(_find_origin(found), path) == path
            return is_free and _read_repeats(found.path) == _read_repeats(path)

        return self.results.find(key, path, is_of_repeat)

    def reserve(self, results: Iterable[StoredResult]) -> None:
        """Keep results for the tasks at their own paths, since this run goes on with the one that has them."""
        self._taken.update({_find_origin(each): each.path for each in results})

    def _find_by_reads(self, path: str, key: TaskKey) -> tuple[StoredResult | None, Reads]:
        """The result of a task whose inputs are the same as far as its code has read them, and what it has read.

        Code that reads other inputs for other values has done so in several ways, each of which may fit.
        """
        first: tuple[StoredResult | None, Reads] = None, frozenset()
        ways = [reads for parts in self.results.list_kinds(key.key) if (reads := read_reads(parts)) is not None]
        for is_older, reads in (*((False, each) for each in ways), *((True, each) for each in key.older_reads)):
            whole = key.with_reads(reads)
            wanted = whole.key.rpartition("/")[2] if is_older else whole.key
            found = None if whole.obstacle is not None else self._look_up(path, wanted)
            if found is not None and found.path == path:
                return found, reads
            if first[0] is None:
                first = found, reads
        return first

    def is_given(self, path: str) -> bool:  # noqa: ARG002 - only a fork gives outputs
        """Whether somebody gives the output of a task: nobody does."""
        return False

    def keep(self, done: DoneTask) -> None:
        """Store a result. One that can't be compared gets a key that no other task has."""
        self.writer.add_result(partial(self._make_result, done))  # a closure is an object for each variable, too

    def close(self) -> None:
        """The run is over."""
        self.results.close()

    def _make_result(self, done: DoneTask) -> FinishedTask:
        """What the writer thread stores."""
        made, output, run_id = done.key.get(), done.output, self.writer.facts.run_id
        if (saving := output.saving) is not None:  # what the work took when it was done
            cost, currency, made_in, made_at = saving.cost, saving.currency, saving.run_id, saving.path or done.path
            tokens, duration = saving.tokens, saving.duration
        else:
            totals = self.spending.sum_task(done.path)
            cost, currency = None if totals is None else totals.cost, self.currency
            made_in, made_at = run_id, done.path
            tokens, duration = None if totals is None else totals.total_tokens, output.duration
        return FinishedTask(
            done.path,
            made.key if made.obstacle is None else _make_own_key(run_id, done.path),
            made.parts,
            output if saving is None else replace(output, saving=None),
            done.obstacle,
            done.delegated,
            {
                "tokens": tokens,
                "cost": None if cost is None else str(cost),
                "currency": currency,
                "duration_ms": duration.total_seconds() * 1000,
                "made_in": made_in,
                "made_at": made_at,
                "attempt": done.attempt,
                "feedback": list(done.feedback),
                "approvals": [[each.gate, each.by, each.reviewer, each.run_id or run_id] for each in done.approvals],
            },
        )

    def _explain(self, path: str, key: TaskKey) -> str:
        """Why no stored result can be reused."""
        facts = self.writer.facts
        if self._runs_alike is None:  # this run itself, too, since a task may be done more than once
            self._runs_alike = [facts.run_id, *self.results.list_runs_alike(facts, self.paths)]
        last = self.results.find_last(self._runs_alike, path)
        if last is None:
            run = self.results.find_last_run(facts.name, facts.run_id)
            if run is not None and not run.keeps_texts:
                return f"run {run.run_id} kept no text (capture_mode {run.capture_mode.value})"
            return "no remembered run has completed it"
        now = key.with_reads(find_reads(last, key))
        if now.obstacle is not None:
            return now.obstacle
        if last.key == now.key and last.obstacle is not None:
            return f"nothing changed, but {last.obstacle}"
        if last.key == _make_own_key(last.run_id, last.path) and is_same(last.parts, now.parts):
            return f"what run {last.run_id} did is for that run alone"
        return explain_difference(last.parts, now.parts)


def _make_own_key(run_id: str, path: str) -> str:
    """The key of a result that serves nobody but those who go on with its run."""
    return f"{run_id}/{path}"


class NestedTasks:
    """The `KeptTasks` of a nested run, which is stored as a part of the run around it.

    Args:
        around: of the run around it.
        prefix: of the paths of its tasks.
    """

    def __init__(self, around: KeptTasks, prefix: str) -> None:
        self._around = around
        self._prefix = prefix

    def find(
        self, path: str, key: TaskKey, *, attempt: int = 1, is_asked_for: bool = False
    ) -> tuple[KeptTask | None, str]:
        """As the run around it finds it."""
        return self._around.find(self._prefix + path, key, attempt=attempt, is_asked_for=is_asked_for)

    def is_given(self, path: str) -> bool:
        """As the run around it has it."""
        return self._around.is_given(self._prefix + path)

    def keep(self, done: DoneTask) -> None:
        """As the run around it keeps it."""
        self._around.keep(replace(done, path=self._prefix + done.path))


def find_reads(found: StoredResult, key: TaskKey) -> Reads:
    """What the code of a stored task has read of the inputs, for a task of this key."""
    reads = read_reads(found.parts)
    return reads if reads is not None else next(iter(key.older_reads), frozenset())


def make_kept_task(found: StoredResult, output: TaskOutput, reads: Reads) -> KeptTask:
    """A stored result in the form that the engine takes over."""
    facts = found.facts
    run_id, path = _find_origin(found)
    cost, currency = facts.get("cost"), facts.get("currency")
    try:  # the file may have been edited
        known = Decimal(cost) if isinstance(cost, str) else None
    except InvalidOperation:
        known = None
    return KeptTask(
        run_id=run_id,
        path=path,
        output=output,
        delegated=found.delegated,
        tokens=read_number(facts, "tokens", int),
        cost=known if known is not None and known.is_finite() and 0 <= known < 2**53 else None,
        currency=currency if isinstance(currency, str) else None,
        duration_ms=read_number(facts, "duration_ms", int | float) or 0.0,
        reads=reads,
        approvals=tuple(read_approvals(found)),
    )


def read_approvals(found: StoredResult) -> Iterator[Approval]:
    """The gates that let a stored task pass; those that can't be read did not."""
    value, size = found.facts.get("approvals"), len(fields(Approval))
    for each in value if isinstance(value, list) else ():
        if isinstance(each, list) and len(each) == size and all(isinstance(part, str | None) for part in each):
            yield Approval(*each)


def _find_origin(found: StoredResult) -> tuple[str, str]:
    """The run that did the work, and the path of the task there. The run that stored the result may have reused it."""
    made_in, made_at = found.facts.get("made_in"), found.facts.get("made_at")
    return (made_in if isinstance(made_in, str) else found.run_id, made_at if isinstance(made_at, str) else found.path)


def name_repeat(name: str, repeat: int | None) -> str:
    """The name of the task that is one repeat of a row. The first is called as a row without repeats."""
    if not name:
        return f"repeat {repeat}"
    return name if repeat is None or repeat == 1 else f"{name} (repeat {repeat})"


_REPEAT: Final = re.compile(r"(?:^repeat | \(repeat )(\d+)\)?/")


def _read_repeats(path: str) -> tuple[str, ...]:
    """Which repeats a task belongs to, by its path; the first of all is none."""
    return tuple(each for each in _REPEAT.findall(path) if each != "1")


def read_number(facts: Mapping[str, Any], name: str, kind: Any) -> Any:
    """A number from the store; None if it is missing or wrong, since the file may have been edited."""
    value = facts.get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < 2**53 else None


class ResumedTasks:
    """The `KeptTasks` of a run that goes on with another one.

    Args:
        results: of that run, in the order in which its tasks were done.
        kept_tasks: where this run's own are kept; None where no run is remembered.
        is_reusing: whether tasks of other runs serve, too, where this one has none.
    """

    def __init__(
        self, results: Iterable[StoredResult], kept_tasks: RememberedTasks | None, *, is_reusing: bool
    ) -> None:
        self._results: Mapping[str, list[StoredResult]] = defaultdict(list)
        for result in results:
            self._results[result.path].append(result)
        if kept_tasks is not None:
            kept_tasks.reserve(result for same in self._results.values() for result in same)
        self._kept_tasks = kept_tasks
        self._is_reusing = is_reusing
        self._found: dict[tuple[str, str], str] = {}

    def find(
        self, path: str, key: TaskKey, *, attempt: int = 1, is_asked_for: bool = False
    ) -> tuple[KeptTask | None, str]:
        """The task at this path, if it was done with the same input; and why it can be taken over or not.

        Of several results the first is taken, since the resumed run went on with it. If a review sent it back then, the
        review does so again.
        """
        results = self._results.get(path, [])
        now = [key.with_reads(find_reads(each, key)) for each in results]
        pairs = zip(results, now, strict=True)
        same = [  # one without a key is of a run of this process, of which nothing has changed
            (each, whole)
            for each, whole in pairs
            if not each.key or each.key == whole.key or is_same(each.parts, whole.parts)
        ]
        for kept, whole in same:
            if kept.output is not None:
                self._found[path, whole.key] = kept.output.raw
                equal = [each for each, _ in same if each.output is not None and each.output.raw == kept.output.raw]
                feedback = kept.facts.get("feedback")  # a store that somebody has edited may hold anything
                task = replace(
                    make_kept_task(kept, kept.output, find_reads(kept, key)),
                    attempt=read_number(kept.facts, "attempt", int) or 1,
                    feedback=tuple(map(str, feedback)) if isinstance(feedback, list) else (),
                    # Some of the gates perhaps let the output pass when it was there already.
                    approvals=tuple(dict.fromkeys(passed for each in equal for passed in read_approvals(each))),
                )
                return task, f"done in run {kept.run_id}"
        if self._is_reusing and self._kept_tasks is not None:
            return self._kept_tasks.find(path, key, attempt=attempt, is_asked_for=is_asked_for)
        if same:
            return None, f"it was done, but {same[0][0].obstacle}"
        if results:
            return None, explain_difference(results[-1].parts, now[-1].parts)
        return None, "it was not done when the run stopped"

    def is_given(self, path: str) -> bool:  # noqa: ARG002 - only a fork gives outputs
        """Whether somebody gives the output of a task: nobody does."""
        return False

    def keep(self, done: DoneTask) -> None:
        """Store a result, unless it came from the resumed run, and no gate has let it pass since."""
        is_known = self._found.get((done.path, done.key.get().key)) == done.output.raw
        is_new = not is_known or any(each.run_id is None for each in done.approvals)
        if is_new and self._kept_tasks is not None:
            self._kept_tasks.keep(done)

    def close(self) -> None:
        """The run is over."""
        if self._kept_tasks is not None:
            self._kept_tasks.close()
