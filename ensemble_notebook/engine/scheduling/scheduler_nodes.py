"""The tasks and phases of a run, as the scheduler sees them: what they wait for, and what became of them."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ensemble_notebook.domain.definitions.enums import ErrorStrategy


class State(Enum):
    """Of a node. The last four are for good, unless a phase is sent back; ``PASSED_OVER``: skipped for a condition."""

    HELD = auto()
    READY = auto()
    RUNNING = auto()
    AWAITING_REVIEW = auto()
    IN_REVIEW = auto()
    SUCCEEDED = auto()
    FAILED = auto()
    SKIPPED = auto()
    PASSED_OVER = auto()


UNSTARTED: Final = (State.HELD, State.READY)
RESOLVED: Final = (State.SUCCEEDED, State.FAILED, State.SKIPPED, State.PASSED_OVER)
MISSED: Final = (State.FAILED, State.SKIPPED)


class Group:
    """Nodes that open together and share an error strategy: the body of a phase, or the run as a whole.

    Attributes:
        owner: the phase; None for the run.
        unresolved: how many of its nodes are not.
        has_failed: a node failed, or was skipped for a failure elsewhere.
        is_cut: a node did not come to its end because nothing was to start any more, or everything was to stop.
    """

    __slots__ = ("has_failed", "is_cut", "nodes", "owner", "strategy", "unresolved")

    def __init__(self, owner: Node | None, strategy: ErrorStrategy) -> None:
        self.owner = owner
        self.strategy = strategy
        self.nodes: list[Node] = []
        self.unresolved = 0
        self.has_failed = False
        self.is_cut = False


class Node:
    """A task, or a phase.

    Attributes:
        body: the tasks of a phase; None for a task.
        has_review: a phase that is reviewed.
        needs: what it depends on.
        tests: its conditions by number, each with the node that must have succeeded for it to hold.
        tested: numbers of the conditions on its own output.
        links: how many nodes hold it until they are resolved. `holds`: how many still do, its group included.
        readers: nodes of its group that can't do without it. `followers`: those that only wait for it.
    """

    __slots__ = (
        "body",
        "followers",
        "group",
        "has_review",
        "holds",
        "index",
        "links",
        "name",
        "needs",
        "readers",
        "state",
        "tested",
        "tests",
    )

    def __init__(self, index: int, name: str, group: Group) -> None:
        self.index = index
        self.name = name
        self.group = group
        self.body: Group | None = None
        self.has_review = False
        self.needs: tuple[Node, ...] = ()
        self.tests: tuple[tuple[int, Node], ...] = ()
        self.tested: list[int] = []
        self.links = 0
        self.holds = 1
        self.readers: list[Node] = []
        self.followers: list[Node] = []
        self.state = State.HELD
        group.nodes.append(self)
        group.unresolved += 1

    @property
    def word(self) -> str:
        """What became of a node that did not succeed."""
        return "failed" if self.state is State.FAILED else "was skipped"

    @property
    def fate(self) -> str:
        """The same, with its name."""
        return f"{self.name!r}, which {self.word}"


def body_of(phase: Node) -> Group:
    """The tasks of a phase."""
    assert phase.body is not None
    return phase.body
