"""Computes the keys of the tasks of one run, from everything that determines a task's result (C34, C34a).

Agents, models, tools and all other declared code are read when the run starts. What a task reads is added when it
starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ensemble_notebook.domain.definitions.condition import Condition
from ensemble_notebook.domain.definitions.delegation import DelegationPolicy
from ensemble_notebook.domain.definitions.hierarchy import HierarchicalConstraints, ManagerPrompt
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_input_name, render
from ensemble_notebook.domain.fingerprints.agent_parts import add_agent, add_team
from ensemble_notebook.domain.fingerprints.content import SCALARS
from ensemble_notebook.domain.fingerprints.parts import Parts, make_content_graph
from ensemble_notebook.domain.fingerprints.task_start import TaskStart
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Graph, PhaseNode, TaskNode
from ensemble_notebook.domain.seams.run_memory import PendingKey, TaskKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationSettings:
    """What an ensemble says of how work is delegated.

    Attributes:
        policies: asked about each delegation, in order.
        max_depth: of delegations.
        constraints, manager_prompt: of the manager; None where it has none.
    """

    policies: Sequence[DelegationPolicy | Any] = ()
    max_depth: int = 3
    constraints: HierarchicalConstraints | None = None
    manager_prompt: ManagerPrompt | None = None


class ContentKeys:
    """The `TaskKeys` of one run.

    Args:
        graph: of the run, with the variables of its agents filled in.
        delegation: what the ensemble says of it.
        openai_url: the address that the environment has for models of OpenAI; None for OpenAI's own.
    """

    def __init__(
        self, graph: Graph, delegation: DelegationSettings | None = None, *, openai_url: str | None = None
    ) -> None:
        self._graph = graph
        self._delegation = delegation or DelegationSettings()
        self._openai_url = openai_url
        self._contents = make_content_graph()
        self._agents: dict[tuple[int, int, tuple[int, ...]], Parts] = {}
        self._team: Parts | None = None
        self._declared = {node.index: self._read_declared(node) for node in graph.all_tasks}
        self._reviewers = {id(phase): self._read_reviewer(phase) for phase in graph.phases}

    def make_key(self, start: TaskStart) -> TaskKey:
        """The key of a task that is about to start. Never raises: what can't be compared is its obstacle."""
        parts = Parts(self._contents)
        try:
            self._add_start(parts, start)
        except Exception as error:  # noqa: BLE001 - objects are anybody's, and may raise whatever they like
            parts.obstacle = f"what it was given can't be compared by content: {type(error).__name__}"
        return parts.to_key()

    def make_key_later(self, start: TaskStart) -> PendingKey:
        """The same, made when it is wanted; made now where something in it may be another one by then."""
        key = PendingKey(partial(self.make_key, start))
        if not self._is_fixed(start):
            key.get()
        return key

    def _is_fixed(self, start: TaskStart) -> bool:
        """Whether a task is given nothing but texts, which stay as they are, and which every thread can compare."""
        if start.memory or start.feedback or start.conversation or start.node.task.inputs or self._graph.managed:
            return False
        if any(output.parsed_output is not None for output in start.context):
            return False
        if not self._counts_inputs(start.node.task):
            return True
        return all(type(each) in SCALARS for each in (*start.inputs.values(), start.item))

    def _counts_inputs(self, task: Task) -> bool:
        """Whether somebody in a task sees the inputs of the run."""
        return task.handler is not None or bool(task.input_guardrails) or self._delegation.manager_prompt is not None

    def make_review_key(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> TaskKey:
        """The key of the review of a phase by a callable: by which code, and of which outputs."""
        parts = Parts(self._contents)
        try:
            parts.include(self._reviewers[id(phase)])
            _add_outputs(parts, outputs)
        except Exception as error:  # noqa: BLE001 - likewise
            parts.obstacle = f"what it was given can't be compared by content: {type(error).__name__}"
        return parts.to_key()

    def _add_start(self, parts: Parts, start: TaskStart) -> None:
        task = start.node.task
        if task.ensemble is None or task.input_guardrails:  # it is told neither
            parts.add_text("description", start.description)
            parts.add_text("expected output", start.expected_output)
        parts.include(self._declared[start.node.index])
        _add_outputs(parts, start.context)
        for number, reason in enumerate(start.missing, 1):
            parts.add_value(f"missing {number}", reason)
        for scope, entries in start.memory.items():
            parts.add_value(f"memory {scope}", [(each.text, each.created_at) for each in entries])
        if start.conversation:
            parts.add_value("conversation", [(each.role, each.text) for each in start.conversation])
        if start.feedback:
            parts.add_value("feedback", list(start.feedback))
        if start.previous is not None:
            parts.add_text("previous", start.previous)
        self._add_inputs(parts, start)

    def _add_inputs(self, parts: Parts, start: TaskStart) -> None:
        """What of the run's inputs counts beside what the texts say."""
        task = start.node.task
        if self._counts_inputs(task):
            # Of the input that has the items, the one item counts, or another one would change them all; unless code
            # looks at the others.
            source = find_input_name(task.for_each) if isinstance(task.for_each, str) else None
            for name, value in start.inputs.items():
                if name != source or start.reads_items:
                    parts.add_value(f"input {name}", value)
            if task.for_each is not None:
                parts.add_value("item", start.item)
        if task.inputs:
            for name, value in fill_inputs(task.inputs, start.inputs, start.context, item=start.item).items():
                parts.add_value(f"input {name} of its ensemble", value)
        for number, node in enumerate(self._graph.managed, 1):
            texts = [render(each, start.inputs) for each in (node.task.description, node.task.expected_output)]
            worker = None if node.task.agent is None or node.agent is None else node.agent.role
            parts.add_value(f"managed task {number}", (*texts, worker, node.context))

    def _read_declared(self, node: TaskNode) -> Parts:
        """What was declared of a task."""
        parts, task = Parts(self._contents), node.task
        try:
            if task.ensemble is not None:
                parts.add_value("ensemble", task.ensemble)
                if self._openai_url is not None:
                    parts.add_value("address of its models", self._openai_url)
            elif node.agent is None:
                parts.add_value("handler", task.handler)
            else:
                parts.include(self._read_agent(node.agent, node.llm, task.tools))
                self._add_delegation(parts, node)
            if node.fallback is not None:
                parts.add_group("fallback", self._read_agent(node.fallback, node.fallback_llm, task.tools))
            self._add_checks(parts, node)
        except Exception as error:  # noqa: BLE001 - likewise
            parts.obstacle = f"what was declared of it can't be compared by content: {type(error).__name__}"
        return parts

    def _read_agent(self, agent: Any, llm: Any, tools: Sequence[object]) -> Parts:
        """What counts of an agent with these tools; read once, however many tasks it has."""
        place = (id(agent), id(llm), tuple(map(id, tools)))
        if place not in self._agents:
            self._agents[place] = parts = Parts(self._contents)
            add_agent(parts, agent, llm, self._openai_url, tools)
        return self._agents[place]

    def _add_checks(self, parts: Parts, node: TaskNode) -> None:
        """What an output must be, and who looks at it."""
        task = node.task
        if task.output_type is not None:
            parts.add_value("output type", task.output_type)
            parts.add_value("max_output_retries", task.max_output_retries)
        if task.output_guardrails and task.max_guardrail_retries:
            parts.add_value("max_guardrail_retries", task.max_guardrail_retries)
        for kind, guardrails in (("input", task.input_guardrails), ("output", task.output_guardrails)):
            for number, guardrail in enumerate(guardrails, 1):
                parts.add_value(f"{kind} guardrail {number}", guardrail, f"the {kind} guardrail {_name(guardrail)}")
        for number, condition in enumerate(task.when or (), 1):
            parts.add_value(f"condition {number}", _list_test(condition), f"its condition {number}")
        if task.memory:
            parts.add_value("memory scopes", list(task.memory))

    def _add_delegation(self, parts: Parts, node: TaskNode) -> None:
        """Whom the agents of a task may ask, and under which rules."""
        asks = any(agent is not None and agent.allow_delegation for agent in (node.agent, node.fallback))
        if not asks and not self._graph.managed:
            return
        if self._team is None:
            self._team = Parts(self._contents)
            add_team(self._team, self._graph.team, self._openai_url)
        parts.include(self._team)
        parts.add_value("max_delegation_depth", self._delegation.max_depth)
        for number, policy in enumerate(self._delegation.policies, 1):
            parts.add_value(f"delegation policy {number}", policy, f"the delegation policy {_name(policy)}")
        if self._delegation.constraints is not None:
            parts.add_value("constraints", self._delegation.constraints)
        if self._delegation.manager_prompt is not None:
            parts.add_value("manager prompt", self._delegation.manager_prompt)

    def _read_reviewer(self, phase: PhaseNode) -> Parts:
        parts = Parts(self._contents)
        review = phase.phase.review
        try:
            parts.add_value("reviewer", getattr(review, "by", review))
        except Exception as error:  # noqa: BLE001 - likewise
            parts.obstacle = f"the reviewer can't be compared by content: {type(error).__name__}"
        return parts


def _add_outputs(parts: Parts, outputs: Sequence[TaskOutput]) -> None:
    """The outputs that a task reads, in order: text and value. The names of their tasks are shown, but not compared."""
    for number, output in enumerate(outputs, 1):
        parts.add_text(f"output {number}", output.raw, ("of", output.name))
        if output.parsed_output is not None:
            parts.add_value(f"value {number}", output.parsed_output, f"the value of {output.name}")


def _list_test(condition: Condition) -> tuple[Any, ...]:
    """The test of a condition, without the name of its source."""
    pattern = None if condition.matches is None else (condition.matches.pattern, condition.matches.flags)
    tests = (condition.equals, condition.contains, pattern, condition.predicate, condition.default)
    return (*tests, condition.field)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
