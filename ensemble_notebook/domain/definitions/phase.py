"""The phase: a named group of tasks with predecessors (E3), and the review of its outputs (E28)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, TypedDict, Unpack

from ensemble_notebook.domain.definitions.condition import Condition, normalize_conditions
from ensemble_notebook.domain.definitions.definition import Converted, Definition, converted, definition, shown
from ensemble_notebook.domain.definitions.enums import OnExhausted, OnExhaustedName, Workflow, WorkflowName
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.wording import pluralize


@definition
class PhaseReview(Definition):
    """A review of a phase once its tasks have completed (E28).

    Args:
        by: the reviewer. Either a plain or async function ``(ReviewRequest) -> ReviewDecision``, or a task, which reads
            the outputs of the phase (or of its own `context`) and answers ``APPROVE``, ``RETRY: feedback``, ``RETRY
            task: feedback`` or ``REJECT: reason``.
        max_retries: how often the phase may be sent back, at least 0.
        on_exhausted: what another retry means after that: ``"fail"`` rejects the phase, ``"keep"`` goes on with its
            last outputs and a warning.

    Raises:
        ValidationError: a field has a wrong value.
    """

    by: Task | ReviewHandler = field(kw_only=False)
    max_retries: int = 2
    on_exhausted: Converted[OnExhausted, OnExhausted | OnExhaustedName] = converted(default=OnExhausted.FAIL)

    def __post_init__(self) -> None:
        """Check one review by itself."""
        by: Any = self.by
        if not isinstance(by, Task) and (not callable(by) or isinstance(by, type)):
            raise self._refuse("by", f"PhaseReview by must be a task or a function, got {type(by).__name__}.")
        self._require_integer("max_retries", least=0)
        self._make_enum("on_exhausted", OnExhausted)

    def describe(self) -> str:
        """Say in words who reviews, and how often the phase may be sent back."""
        by = self.by
        who = (by.name or by.description) if isinstance(by, Task) else getattr(by, "__name__", type(by).__name__)
        return f"by {who}, {pluralize(self.max_retries, 'retry')}"


class PhaseFields(TypedDict, total=False):
    """The fields of a `Phase` beside its name and tasks, as `Phase.of` takes them; see ``TaskFields``."""

    workflow: Workflow | WorkflowName | None
    after: Sequence[Phase | str]
    when: Sequence[Condition] | Condition | None
    review: PhaseReview | Task | ReviewHandler | None


@definition
class Phase(Definition):
    """A named group of tasks. It starts once all phases in `after` have completed. Phases are not nested.

    Args:
        name: unique in the ensemble; not blank.
        tasks: at least one.
        workflow: how the tasks follow each other, ``"sequential"`` or ``"parallel"``; None: as in the ensemble.
        after: phases, or names of phases, also of later ones.
        when: a `Condition`, or a list of them; the phase runs if any holds.
        review: a `PhaseReview`, or just its reviewer: a task or a function.

    Raises:
        ValidationError: a field has a wrong value. Names the field, the value, and what was expected.
    """

    name: str
    tasks: Sequence[Task]
    workflow: Converted[Workflow | None, Workflow | WorkflowName | None] = converted(default=None)
    after: Sequence[Phase | str] = ()

    when: Converted[tuple[Condition, ...], Sequence[Condition] | Condition | None] = converted(default=None)
    review: Converted[PhaseReview | None, PhaseReview | Task | ReviewHandler | None] = converted(
        default=None, metadata=shown(PhaseReview.describe)
    )

    @classmethod
    def of(cls, name: str, /, *tasks: Task, **fields: Unpack[PhaseFields]) -> Phase:
        """Make a phase of these tasks: ``Phase.of("draft", write, edit, after=["research"])``.

        Args:
            name: unique in the ensemble.
            *tasks: at least one.
            **fields: all other fields of a `Phase`.
        """
        return cls(name=name, tasks=tasks, **fields)

    def __post_init__(self) -> None:
        """Check one phase by itself."""
        self._require_text("name")
        self._make_tuple("tasks")
        if not self.tasks:
            raise self._refuse("tasks", f"Phase {self.name!r} needs at least one task.")
        members: Sequence[object] = self.tasks
        for index, each in enumerate(members):
            if isinstance(each, Phase):
                raise self._refuse("tasks", f"Phase {self.name!r} holds a phase; phases are not nested.", item=index)
            if not isinstance(each, Task):
                raise self._refuse(
                    "tasks", f"Phase {self.name!r} holds a {type(each).__name__} where a Task belongs.", item=index
                )
        if self.workflow is not None:
            self._check_workflow()
        self._check_after()
        normalize_conditions(self)
        review: Any = self.review
        if review is not None and not isinstance(review, PhaseReview):
            self._set("review", PhaseReview(review))

    def _check_workflow(self) -> None:
        self._make_enum("workflow", Workflow)
        if self.workflow is Workflow.HIERARCHICAL:
            raise self._refuse("workflow", f"Phase {self.name!r} can't be hierarchical: a manager has no single phase.")

    def _check_after(self) -> None:
        self._make_tuple("after")
        for index, each in enumerate(self.after):
            if not isinstance(each, Phase | str):
                raise self._refuse(
                    "after", f"Phase after takes phases or names, got {type(each).__name__}.", item=index
                )
            if each == self.name:
                raise self._refuse("after", f"Phase {self.name!r} can't come after itself.", item=index)

    def __repr__(self) -> str:
        """Name and size."""
        return f"Phase({self.name!r}, {len(self.tasks)} tasks)"
