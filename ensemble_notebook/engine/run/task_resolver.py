"""Resolves each task that starts: what it reads, and what of that is missing and why (E28, E32, E33, E46)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace

from ensemble_notebook.domain.definitions.review import ReviewDecision
from ensemble_notebook.domain.definitions.templates import PlacedText, escape_variables, get_prompt_places, render
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.execution_plan import find_final_tasks
from ensemble_notebook.domain.planning.graph import PhaseNode, TaskNode
from ensemble_notebook.engine.run_spec import FIRST_ATTEMPT, MissingOutput, ResolvedTask, Revision, RunSpec
from ensemble_notebook.errors import summarize_error


class TaskResolver:
    """Resolves the tasks of one run.

    Args:
        spec: the run.
        outputs: by index of their tasks; grows while the run goes on.
        revisions: of the tasks that are not at their first attempt; whoever works on them keeps it up to date, too.
    """

    def __init__(
        self, spec: RunSpec, outputs: Mapping[int, TaskOutput], revisions: MutableMapping[TaskNode, Revision]
    ) -> None:
        graph, only = spec.graph, spec.only
        self._spec = spec
        self._graph = graph
        self._outputs = outputs
        self._revisions = revisions
        self._last = frozenset(find_final_tasks(graph) if only is None else (only.task,))
        self._judges = frozenset(graph.conditions[each].source for phase in graph.phases for each in phase.until)
        self._reasons_of_absence: dict[int, str] = {}
        self._attempts: dict[PhaseNode, int] = {}

    def resolve(self, node: TaskNode) -> ResolvedTask:
        """What a task is given that starts now."""
        planned = self._spec.plan.tasks[node.index]
        return ResolvedTask(
            node=node,
            description=planned.description,
            expected_output=planned.expected_output,
            context=self.find_outputs(node.context),
            missing=self._describe_all_missing(node.context),
            revision=self._revisions.get(node, FIRST_ATTEMPT),
            is_last=node.index in self._last,
            is_judge=node.index in self._judges,
            prompt=self._place_prompt(node),
            item_source=None if node.item_source is None else self._outputs.get(node.item_source),
        )

    def resolve_reviewer(self, reviewer: TaskNode, phase: PhaseNode) -> ResolvedTask:
        """What the task that reviews a phase is given: what it says that it reads, else all of the phase."""
        reads = reviewer.context or phase.tasks
        return ResolvedTask(
            node=reviewer,
            description=render(reviewer.task.description, self._spec.inputs),
            expected_output=render(reviewer.task.expected_output, self._spec.inputs),
            context=self.find_outputs(reads),
            missing=self._describe_all_missing(reviewer.context),
            is_judge=True,
            prompt=self._place_prompt(reviewer),
        )

    def _place_prompt(self, node: TaskNode) -> PlacedText | None:
        """The own prompt of a task, with its variables filled in; or that of the conversation that it goes on with."""
        task = node.task
        if (told := self._spec.find_prompt(node.name)) is not None:
            return PlacedText(escape_variables(told), {}, ())
        if task.prompt is None:
            return None
        return PlacedText(task.prompt, self._spec.inputs, get_prompt_places(has_items=task.for_each is not None))

    def find_outputs(self, tasks: Iterable[int]) -> tuple[TaskOutput, ...]:
        """The outputs of these tasks that are there, in the same order."""
        return tuple([self._outputs[index] for index in tasks if index in self._outputs])

    def note_absence(self, task: int, reason: str) -> None:
        """Remember that a task will have no output, for a reason in a few words."""
        self._reasons_of_absence[task] = reason

    def count_attempts(self, phase: PhaseNode) -> int:
        """How often a phase has been done, the present attempt included."""
        return self._attempts.get(phase, 1)

    def send_back(self, phase: PhaseNode, tasks: Sequence[int], decision: ReviewDecision) -> None:
        """Let these tasks of a phase be done once more, each with the feedback that is meant for it."""
        self._attempts[phase] = self.count_attempts(phase) + 1
        addressed = dict(decision.addressed)
        for node in [self._graph.tasks[index] for index in tasks]:
            output = self._outputs.get(node.index)
            feedback = addressed.get(node.name) if addressed else decision.text
            before = self._revisions.get(node, FIRST_ATTEMPT)
            # What was passed over by its condition is told the feedback, too, and has had no attempt yet.
            after = before.add(feedback) if output is None else before.follow(feedback, output.raw)
            self._revisions[node] = after

    def begin_round(self, phase: PhaseNode, until: str) -> None:
        """Let all tasks of a phase be done once more, each with its own last output and what went on was decided by.

        Args:
            phase: one that is done until a condition holds.
            until: the condition, in words.
        """
        self._attempts[phase] = self.count_attempts(phase) + 1
        tested = list(dict.fromkeys(self._graph.conditions[number].source for number in phase.until))
        for node in [self._graph.tasks[index] for index in phase.tasks]:
            # Who judges is not told of its own judgement, and who reads it in this round is not told of the last one.
            judges = [] if node.index in tested else [each for each in tested if each not in node.context]
            said = [f"### {each.name}\n{each.raw}" for each in self.find_outputs(judges)]
            output, before = self._outputs.get(node.index), self._revisions.get(node, FIRST_ATTEMPT)
            after = before if output is None else before.follow(None, output.raw)
            self._revisions[node] = replace(after, round="\n\n".join([f"It is done again {until}.", *said]))

    def _describe_all_missing(self, tasks: Iterable[int]) -> tuple[MissingOutput, ...]:
        missing: list[MissingOutput] = []
        for index in tasks:
            output = self._outputs.get(index)
            if output is None:
                planned = self._spec.plan.tasks[index]
                reason = self._reasons_of_absence.get(index, "it has no output")
                given = {"name": planned.name, "agent_role": planned.agent, "description": planned.description}
                missing.append(MissingOutput(**given, reason=reason))
                continue
            for failure in output.item_failures:  # its output has the others
                told = failure.item_description or failure.name
                reason = f"it failed ({summarize_error(failure.error)})"
                role = failure.agent_role
                missing.append(MissingOutput(name=failure.name, agent_role=role, description=told, reason=reason))
        return tuple(missing)
