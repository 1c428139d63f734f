"""The phase: a named group of tasks with predecessors (E3), the review of its outputs (E28), and its rounds (E81)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypedDict, Unpack

from ensemble_notebook.domain.definitions.condition import AnyCondition, Condition, normalize_conditions
from ensemble_notebook.domain.definitions.definition import (
    Converted,
    Definition,
    converted,
    definition,
    get_field_names,
    shown,
)
from ensemble_notebook.domain.definitions.enums import OnExhausted, OnExhaustedName, Workflow, WorkflowName
from ensemble_notebook.domain.definitions.review import ReviewHandler
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.wording import pluralize


@definition
class PhaseReview(Definition):
    """A review of a phase once its tasks have completed.

    Args:
        by: the reviewer. Either a plain or async function ``(ReviewRequest) -> ReviewDecision``, or a task, which reads
            the outputs of the phase (or of its own `context`) and answers ``APPROVE``, ``RETRY: feedback``, ``RETRY
            task: feedback`` or ``REJECT: reason``. The task may be given as a mapping of its fields, or as its
            description: ``"Is this fit to print?"``.
        max_retries: how often the phase may be sent back, at least 0.
        on_exhausted: what another retry means after that: ``"fail"`` rejects the phase, ``"keep"`` goes on with its
            last outputs and a warning.

    Raises:
        ValidationError: a field has a wrong value.
    """

    by: Converted[Task | ReviewHandler, Task | ReviewHandler | str | Mapping[str, Any]] = field(kw_only=False)
    max_retries: int = 2
    on_exhausted: Converted[OnExhausted, OnExhausted | OnExhaustedName] = converted(default=OnExhausted.FAIL)

    def __post_init__(self) -> None:
        """Check one review by itself."""
        by: Any = self.by
        if isinstance(by, str) and by.isidentifier():  # a cell would look for a function of this name
            message = f"PhaseReview by takes a function or a task, and {by!r} is a name. Pass the object itself."
            raise self._refuse("by", message)
        if isinstance(by, type) or not callable(by):
            read = {"description": by} if isinstance(by, str) else by
            self._set("by", self._to_part("by", read, Task, "a task, a function, or what is to be looked at as a text"))
        self._require_integer("max_retries", least=0)
        self._make_enum("on_exhausted", OnExhausted)

    def describe(self) -> str:
        """Say in words who reviews, and how often the phase may be sent back."""
        by = self.by
        who = (by.name or by.description) if isinstance(by, Task) else getattr(by, "__name__", type(by).__name__)
        return f"by {who}, {pluralize(self.max_retries, 'retry')}"


AnyPhaseReview = PhaseReview | Task | ReviewHandler | str | Mapping[str, Any]
"""The forms of the review of a phase."""


class PhaseFields(TypedDict, total=False):
    """The fields of a `Phase` beside its name and tasks, as `Phase.of` takes them; see ``TaskFields``."""

    workflow: Workflow | WorkflowName | None
    after: Sequence[Phase | str] | Phase | str
    when: Sequence[AnyCondition] | AnyCondition | None
    review: AnyPhaseReview | None
    until: Sequence[AnyCondition] | AnyCondition | None
    max_rounds: int | None
    on_exhausted: OnExhausted | OnExhaustedName


MOST_ROUNDS: Final = 100


@definition
class Phase(Definition):
    """A named group of tasks. It starts once all phases in `after` have completed. Phases are not nested.

    Args:
        name: unique in the ensemble; not blank.
        tasks: at least one.
        workflow: how the tasks follow each other, ``"sequential"`` or ``"parallel"``; None: as in the ensemble.
        after: phases, or names of phases, also of later ones, or a single one.
        when: a `Condition`, or a mapping, as of a `Task`, or a list of them; the phase runs if any holds.
        review: a `PhaseReview`, a mapping of its fields, or just its reviewer.
        until: conditions on tasks of the phase, in the forms of `when`: the phase is done again until one of them
            holds. Not beside `review`.
        max_rounds: how often it is done at most, the first time included, up to 100; needed beside `until`.
        on_exhausted: what becomes of a phase whose `until` does not hold after that: ``"fail"``, or ``"keep"``: it goes
            on with its last outputs and a warning.

    Raises:
        ValidationError: a field has a wrong value. Names the field, the value, and what was expected.
    """

    name: str
    tasks: Sequence[Task]
    workflow: Converted[Workflow | None, Workflow | WorkflowName | None] = converted(default=None)
    after: Converted[tuple[Phase | str, ...], Sequence[Phase | str] | Phase | str] = converted(default=())

    when: Converted[tuple[Condition, ...], Sequence[AnyCondition] | AnyCondition | None] = converted(default=None)
    review: Converted[PhaseReview | None, AnyPhaseReview | None] = converted(
        default=None, metadata=shown(PhaseReview.describe)
    )
    until: Converted[tuple[Condition, ...], Sequence[AnyCondition] | AnyCondition | None] = converted(default=None)
    max_rounds: int | None = None
    on_exhausted: Converted[OnExhausted, OnExhausted | OnExhaustedName] = converted(default=OnExhausted.FAIL)

    @classmethod
    def of(cls, name: str, /, *tasks: Task | Sequence[Task], **fields: Unpack[PhaseFields]) -> Phase:
        """Make a phase of these tasks: ``Phase.of("draft", write, edit, after="research")``.

        Args:
            name: unique in the ensemble.
            *tasks: at least one; they may also stand in a list.
            **fields: all other fields of a `Phase`.
        """
        members: list[Any] = []
        for each in tasks:
            members += each if isinstance(each, list | tuple) else [each]
        return cls(name=name, tasks=members, **fields)

    def __post_init__(self) -> None:
        """Check one phase by itself."""
        self._require_text("name")
        self._require_whole_characters("name", self.name)
        self._make_tuple("tasks")
        if not self.tasks:
            raise self._refuse("tasks", f"Phase {self.name!r} needs at least one task.")
        members: Sequence[object] = self.tasks
        for index, each in enumerate(members):
            if isinstance(each, Phase):
                raise self._refuse("tasks", f"Phase {self.name!r} holds a phase; phases are not nested.", item=index)
            if not isinstance(each, Task):
                message = f"Phase {self.name!r} holds a {type(each).__name__} where a Task belongs."
                raise self._refuse("tasks", message, item=index)
        if self.workflow is not None:
            self._make_enum("workflow", Workflow)
        if self.workflow is Workflow.HIERARCHICAL:
            raise self._refuse("workflow", f"Phase {self.name!r} can't be hierarchical: a manager has no single phase.")
        self._check_after()
        normalize_conditions(self)
        given: Any = self.review
        if given is not None and not isinstance(given, PhaseReview):  # the fields of one, or just the reviewer
            has_fields = isinstance(given, Mapping) and given.keys() & set(get_field_names(PhaseReview))
            self._set(
                "review", self._to_part("review", given if has_fields else {"by": given}, PhaseReview, "a review")
            )
        normalize_conditions(self, "until")
        self._make_enum("on_exhausted", OnExhausted)
        self._check_rounds()

    def _check_rounds(self) -> None:
        """A phase that is done again has a condition and a limit, and nobody else who may send it back."""
        if not self.until:
            for name, default in (("max_rounds", None), ("on_exhausted", OnExhausted.FAIL)):
                if getattr(self, name) != default:
                    message = f"Phase {self.name!r} has {name} without until, which says when it has been done often"
                    raise self._refuse(name, f"{message} enough. For a review, it stands in the review.")
            return
        if any(each.default for each in self.until):
            message = f"Phase {self.name!r} until: 'default' tests nothing here. Say what the task must have said."
            raise self._refuse("until", message)
        if self.max_rounds is None:
            message = f"Phase {self.name!r} has until without max_rounds: how often it is done at most"
            raise self._refuse("until", f"{message}, such as max_rounds=5.")
        self._require_integer("max_rounds", least=1)
        if self.max_rounds > MOST_ROUNDS:
            message = f"Phase {self.name!r} max_rounds must be at most {MOST_ROUNDS}, got {self.max_rounds}."
            raise self._refuse("max_rounds", message)
        if self.review is not None:
            message = f"Phase {self.name!r} has both until and review, which may each send it back."
            remedy = "Leave one of them out, or put the reviewer into the phase, as the task that until tests."
            raise self._refuse("review", f"{message} {remedy}")

    def _check_after(self) -> None:
        self._make_tuple("after", Phase, str)
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
