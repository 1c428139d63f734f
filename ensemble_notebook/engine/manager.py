"""The manager of a hierarchical run: what it is told, whom it may ask, and what it must have done (E22, E25)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.delegation import (
    DELEGATE_TASK,
    MANAGER_GOAL,
    MANAGER_ROLE,
    HierarchicalConstraints,
    ManagedTask,
    normalize_role,
)
from ensemble_notebook.domain.definitions.templates import render
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.engine.agent.prompts import write_system_prompt
from ensemble_notebook.engine.delegation import Delegator, TeamMembers, quote_roles
from ensemble_notebook.engine.function_caller import FunctionCaller
from ensemble_notebook.engine.run_spec import RunSpec
from ensemble_notebook.errors import ConstraintViolationError


class Manager(Delegator):
    """The manager of one run, who delegates, and is the agent of the run's only task.

    Attributes:
        delegated: what its workers completed, in order of completion.
    """

    def __init__(self, spec: RunSpec, team: TeamMembers) -> None:
        super().__init__(MANAGER_ROLE, DELEGATE_TASK, 1, "", team)
        self.delegated: list[TaskOutput] = []
        self._graph = spec.graph
        constraints = spec.constraints or HierarchicalConstraints()
        self._tracker = ConstraintTracker(constraints)
        self._prompt = spec.definition.manager_prompt or DefaultManagerPrompt(constraints)

    async def write_prompts(
        self, description: str, inputs: Mapping[str, Any], caller: FunctionCaller
    ) -> tuple[str, str]:
        """The system prompt, and what the user prompt is about.

        Args:
            description: of the run's only task, resolved, as a review before it may have left it.
            inputs: fill the variables in the texts of the tasks.
            caller: asks a prompt strategy, which may be the user's.

        Raises:
            TypeError: the strategy gave no text.
        """
        managed = self._graph.managed
        tasks = tuple(
            ManagedTask(
                name=node.name,
                # Where there is but one, it is the manager's own, which a review may have edited.
                description=description if len(managed) == 1 else render(node.task.description, inputs),
                expected_output=render(node.task.expected_output, inputs),
                inputs=inputs,
                builds_on=tuple(managed[index].name for index in node.context),
                suggested_worker=None if node.task.agent is None else node.role,
            )
            for node in managed
        )
        texts = (
            await caller.call("manager_prompt", self._prompt.system, self.team.agents),
            await caller.call("manager_prompt", self._prompt.user, tasks),
        )
        for name, text in zip(("system", "user"), texts, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"manager_prompt.{name} must return a text, and returned {type(text).__name__}.")
        return texts

    def find_objection(self, role: str) -> str | None:
        return super().find_objection(role) or self._tracker.find_objection(role)

    def note_approved(self, role: str) -> None:
        self._tracker.note_approved(role)

    def note_refused(self, role: str, reason: str) -> None:
        self._tracker.note_refused(role, reason)

    def note_completed(self, output: TaskOutput) -> None:
        self._tracker.note_completed(output.agent_role)
        self.delegated.append(output)

    def write_reminder(self) -> str | None:
        """What it is told when it says that it is done and is not; None where it is."""
        if not (violations := self._tracker.list_violations()):
            return None
        lines = "\n".join(f"- {each}" for each in violations)
        return (
            f"You are not done yet: these constraints are not met.\n{lines}\n\n"
            f"Delegate what is missing now with {self.tool}, then give your final answer again, complete."
        )

    def list_undone_stages(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The required stages that are not complete, each with the workers that are still to come."""
        return self._tracker.list_undone_stages()

    def check_constraints(self) -> None:
        """It says that it is done: everybody who was required has delivered.

        Raises:
            ConstraintViolationError: not so.
        """
        if violations := self._tracker.list_violations():
            raise ConstraintViolationError(violations, self.delegated)


# Several delegations may be under way at once: each counts from its approval on, whatever comes of it.


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
        found = []
        for worker, role in {normalize_role(role): role for role in self._required}.items():
            if worker in self._completed:
                continue
            asked, refusals = self._approved[worker], self._refusals.get(worker, Counter())
            told = "; ".join(f"{why} ({_count_times(count)})" if count > 1 else why for why, count in refusals.items())
            text = f"Required worker {role!r} was never delegated a task"
            if asked:
                text = f"Required worker {role!r} was delegated a task {_count_times(asked)}, never with success"
            elif told:
                count = refusals.total()
                text += f": {'the request was' if count == 1 else f'{count} requests were'} refused"
            found.append(f"{text}: {told}" if told else text)
        return tuple(found)

    def list_undone_stages(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The stages that are not complete: the number of each, from 1, and the workers that are still to come."""
        found = (
            (number, tuple(role for role in stage if normalize_role(role) not in self._completed))
            for number, stage in enumerate(self._stages, start=1)
        )
        return tuple(each for each in found if each[1])


def _count_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_HOW_TO: Final = (
    f"You do no task yourself. Hand the work to your workers with the tool {DELEGATE_TASK}(agent_role, "
    f"task_description). A worker sees nothing but what you write there, so give it all that it needs, results of "
    f"others included. When every task is done, reply with the final answer."
)


class DefaultManagerPrompt:
    """The prompts of a manager, from the agents that it may ask and the tasks that it sees to.

    Its methods are async although they wait for nothing: sync ones would be called on a thread, as a user's own are.
    """

    def __init__(self, constraints: HierarchicalConstraints) -> None:
        self._rules: list[str] = []  # in words, so that a manager does not have to learn them from refusals
        if constraints.allowed_workers:
            self._rules.append(f"Delegate only to: {quote_roles(constraints.allowed_workers)}.")
        if constraints.required_workers:
            self._rules.append(f"Delegate at least once to each of: {quote_roles(constraints.required_workers)}.")
        if constraints.global_max_delegations:
            self._rules.append(f"Delegations in total: at most {constraints.global_max_delegations}.")
        for role, cap in constraints.max_calls_per_worker.items():
            self._rules.append(f"Delegations to {role!r}: at most {cap}.")
        for number, stage in enumerate(constraints.required_stages, start=1):
            before = "" if number == 1 else f", after everybody of stage {number - 1} is done"
            self._rules.append(f"Stage {number}: {quote_roles(stage)}{before}.")

    async def system(self, workers: Sequence[Agent]) -> str:
        sections = [write_system_prompt(Agent(role=MANAGER_ROLE, goal=MANAGER_GOAL)), _HOW_TO]
        lines = ["## Workers"]
        for worker in workers:
            lines += [f"### {worker.role}", f"Goal: {worker.goal.strip()}"]
            if worker.background and worker.background.strip():
                lines.append(f"Background: {worker.background.strip()}")
        sections.append("\n".join(lines))
        if self._rules:
            sections.append("\n".join(["## Rules", *(f"- {rule}" for rule in self._rules)]))
        return "\n\n".join(sections)

    async def user(self, tasks: Sequence[ManagedTask]) -> str:
        sections = ["## Tasks"]
        for task in tasks:
            lines = [f"### {task.name}", task.description, f"Expected output: {task.expected_output}"]
            if task.builds_on:
                lines.append(f"Builds on the results of: {', '.join(task.builds_on)}")
            if task.suggested_worker is not None:
                lines.append(f"Suggested worker: {task.suggested_worker}")
            sections.append("\n".join(lines))
        return "\n\n".join(sections)
