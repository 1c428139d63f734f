"""The finished tasks of the resumed run, for the engine; including those that other runs could not reuse (C33)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ensemble_notebook.domain.fingerprints.key_difference import explain_difference, is_same
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.seams.run_memory import KeptTask, PendingKey, TaskKey
from ensemble_notebook.ensemble.earlier_runs.remembered_tasks import RememberedTasks, make_kept_task, read_number
from ensemble_notebook.trace.store.run_facts import StoredResult


class ResumedTasks:
    """The `KeptTasks` of a run that goes on with another one.

    Args:
        results: of that run, in the order in which its tasks were done.
        kept_tasks: where this run's own are kept.
        is_reusing: whether tasks of other runs serve, too, where this one has none.
    """

    def __init__(self, results: Iterable[StoredResult], kept_tasks: RememberedTasks, *, is_reusing: bool) -> None:
        self._results: Mapping[str, list[StoredResult]] = defaultdict(list)
        for result in results:
            self._results[result.path].append(result)
        self._kept_tasks = kept_tasks
        self._is_reusing = is_reusing
        self._found: dict[tuple[str, str], str] = {}

    def find(self, path: str, key: TaskKey, *, is_asked_for: bool = False) -> tuple[KeptTask | None, str]:
        """The task at this path, if it was done with the same input; and why it can be taken over or not.

        Of several results the first is taken, since the resumed run went on with it. If a review sent it back then, the
        review does so again.
        """
        results = self._results.get(path, [])
        same = [each for each in results if each.key == key.key or is_same(each.parts, key.parts)]
        kept = next((each for each in same if each.output is not None), None)
        if kept is not None and kept.output is not None:
            self._found[path, key.key] = kept.output.raw
            return _add_attempt(make_kept_task(kept, kept.output), kept), f"done in run {kept.run_id}"
        if self._is_reusing:
            return self._kept_tasks.find(path, key, is_asked_for=is_asked_for)
        if same:
            return None, f"it was done, but {same[0].obstacle}"
        if results:
            return None, explain_difference(results[-1].parts, key.parts)
        return None, "it was not done when the run stopped"

    def keep(
        self,
        path: str,
        key: PendingKey,
        output: TaskOutput,
        delegated: Sequence[TaskOutput] = (),
        *,
        obstacle: str | None = None,
        attempt: int = 1,
        feedback: Sequence[str] = (),
    ) -> None:
        """Store a result, unless it came from the resumed run."""
        if self._found.get((path, key.get().key)) != output.raw:
            self._kept_tasks.keep(path, key, output, delegated, obstacle=obstacle, attempt=attempt, feedback=feedback)

    def close(self) -> None:
        """The run is over."""
        self._kept_tasks.close()


def _add_attempt(task: KeptTask, kept: StoredResult) -> KeptTask:
    """The task, with what was said to it by then; a store that somebody has edited may hold anything (E71)."""
    feedback = kept.facts.get("feedback")
    said = tuple(map(str, feedback)) if isinstance(feedback, list) else ()
    return replace(task, attempt=read_number(kept.facts, "attempt", int) or 1, feedback=said)
