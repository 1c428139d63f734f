"""Holds a manager to its constraints: a pure state machine over roles (E25).

Several delegations may be under way at once: each counts from its approval on, whatever comes of it.
"""

from __future__ import annotations

from collections import Counter

from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, normalize_role


class ConstraintTracker:
    """The constraints of one run, and what was approved and completed by now. Roles come in any case."""

    def __init__(self, constraints: HierarchicalConstraints) -> None:
        self._required = constraints.required_workers
        self._allowed = frozenset(map(normalize_role, constraints.allowed_workers))
        self._caps = {normalize_role(role): cap for role, cap in constraints.max_calls_per_worker.items()}
        self._total_cap = constraints.global_max_delegations
        self._stages = constraints.required_stages
        self._stage_of = {normalize_role(role): number for number, stage in enumerate(self._stages) for role in stage}
        self._approved: Counter[str] = Counter()
        self._completed: set[str] = set()
        self._refusals: dict[str, Counter[str]] = {}

    def find_objection(self, role: str) -> str | None:
        """Why nothing may be delegated to this worker now; None where it may. Changes nothing."""
        worker = normalize_role(role)
        if self._allowed and worker not in self._allowed:
            return f"Agent {role!r} is not in the allowed_workers list"
        if self._total_cap and self._approved.total() >= self._total_cap:
            return f"Global delegation cap of {self._total_cap} has been reached"
        cap = self._caps.get(worker)
        if cap is not None and self._approved[worker] >= cap:
            return f"Agent {role!r} has reached its delegation cap of {cap}"
        for number, stage in enumerate(self._stages[: self._stage_of.get(worker, 0)], start=1):
            if missing := [each for each in stage if normalize_role(each) not in self._completed]:
                names = ", ".join(map(repr, missing))
                return f"Cannot delegate to {role!r}: stage {number} is not yet complete (still to come: {names})"
        return None

    def note_approved(self, role: str) -> None:
        """A delegation to this worker begins."""
        self._approved[normalize_role(role)] += 1

    def note_completed(self, role: str) -> None:
        """A delegation to this worker has come to an answer."""
        self._completed.add(normalize_role(role))

    def note_refused(self, role: str, reason: str) -> None:
        """A delegation to this worker was refused, or has failed."""
        self._refusals.setdefault(normalize_role(role), Counter())[reason] += 1

    def list_violations(self) -> tuple[str, ...]:
        """What the manager has left undone, one sentence for each required worker."""
        return tuple(
            self._describe_violation(role)
            for worker, role in {normalize_role(role): role for role in self._required}.items()
            if worker not in self._completed
        )

    def _describe_violation(self, role: str) -> str:
        asked, refusals = self._approved[normalize_role(role)], self._refusals.get(normalize_role(role), Counter())
        told = "; ".join(
            f"{reason} ({_count_times(count)})" if count > 1 else reason for reason, count in refusals.items()
        )
        if asked:
            text = f"Required worker {role!r} was delegated a task {_count_times(asked)}, never with success"
            return f"{text}: {told}" if told else text
        text = f"Required worker {role!r} was never delegated a task"
        if not told:
            return text
        count = refusals.total()
        return f"{text}: {'the request was' if count == 1 else f'{count} requests were'} refused: {told}"


def _count_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
