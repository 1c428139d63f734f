"""Computes the keys of the tasks of one run, from everything that determines a task's result (C34, C34a).

Agents, models, tools and all other declared code are read when the run starts. What a task reads is added when it
starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ensemble_notebook.domain.definitions.delegation import DelegationPolicy, HierarchicalConstraints, ManagerPrompt
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs
from ensemble_notebook.domain.definitions.run_context import takes_context
from ensemble_notebook.domain.definitions.templates import PromptTexts, find_input_name, render
from ensemble_notebook.domain.definitions.tool import get_core_tool
from ensemble_notebook.domain.fingerprints.content import SCALARS, digest
from ensemble_notebook.domain.fingerprints.parts import (
    READS,
    Parts,
    add_agent,
    add_team,
    make_content_graph,
    write_reads,
)
from ensemble_notebook.domain.outputs.conversation import Messages
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import Graph, PhaseNode, TaskNode
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.kept_tasks import EVERY_INPUT, InputRead, PendingKey, Reads, TaskKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationSettings:
    """What an ensemble says of how work is delegated.

    Attributes:
        policies: asked about each delegation, in order.
        max_depth: of delegations.
        constraints, manager_prompt: of the manager; None where it has none.
        texts: that stand in place of ours, for tasks and delegated work alike; None where none do.
    """

    policies: Sequence[DelegationPolicy | Any] = ()
    max_depth: int = 3
    constraints: HierarchicalConstraints | None = None
    manager_prompt: ManagerPrompt | None = None
    texts: PromptTexts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStart:
    """One start of a task, with everything resolved: all that its key is made of.

    Attributes:
        node: the task, with its agent, models, tools and callables.
        description, expected_output: resolved.
        prompt: its own, resolved but for its places; None where it has none.
        context: the outputs that it reads and that are there, in the order of its ``context``.
        missing: why other outputs that it reads are not there, as the prompt says it.
        memory: what was found for it, by scope, the best first.
        feedback: what reviews wanted to be different so far, oldest first.
        previous: what it produced itself at the attempt before; None at the first.
        conversation: who said what in the conversation that it goes on with, in turns.
        history: how much of that is sent; None for all.
        inputs: of the run; handlers and guardrails see them.
        item: the item for which the task starts, which they see, too; None for none.
    """

    node: TaskNode
    description: str
    expected_output: str
    prompt: str | None = None
    context: tuple[TaskOutput, ...] = ()
    missing: tuple[str, ...] = ()
    memory: Mapping[str, Sequence[MemoryEntry]] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()
    previous: str | None = None
    conversation: Messages = ()
    history: str | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    item: Any = None


class TaskKeys:
    """Makes the keys of one run; callables are looked at when it is made, at the start of the run.

    Args:
        graph: of the run, with the variables of its agents filled in.
        delegation: what the ensemble says of it.
        openai_url: the address that the environment has for models of OpenAI; None for OpenAI's own.
        deps: for functions that take a `RunContext`; they count where there are some.
    """

    def __init__(
        self,
        graph: Graph,
        delegation: DelegationSettings | None = None,
        *,
        openai_url: str | None = None,
        deps: object = None,
    ) -> None:
        self._deps = deps
        self._graph = graph
        self._delegation = delegation or DelegationSettings()
        self._openai_url = openai_url
        self._contents = make_content_graph()
        self._agents: dict[tuple[int, int, tuple[int, ...]], Parts] = {}
        self._team: Parts | None = None
        self._contexts: dict[int, bool] = {}
        self._declared = {node.index: self._read_declared(node) for node in graph.all_tasks}
        self._reviewers: dict[int, Parts] = {}
        for phase in graph.phases:
            self._reviewers[id(phase)] = parts = Parts(self._contents)
            with _ObstacleNote(parts, "the reviewer"):
                parts.add_value("reviewer", getattr(phase.phase.review, "by", phase.phase.review))

    def make_key(self, start: TaskStart) -> TaskKey:
        """The key of a task that is about to start. Never raises: what can't be compared is its obstacle."""
        parts = Parts(self._contents)
        with _ObstacleNote(parts, "what it was given"):
            self._add_start(parts, start)
        return self._wait_for_reads(parts, start) if self._sees_inputs(start.node) else parts.to_key()

    def _wait_for_reads(self, parts: Parts, start: TaskStart) -> TaskKey:
        """The key of a task whose code sees the inputs: which of them count is known when it is done."""
        inputs = {}
        for each, value in start.inputs.items():
            inputs[each] = part = Parts(self._contents)
            with _ObstacleNote(part, f"the input {each}"):
                part.add_value(f"input {each}", value)
        source = start.node.task.for_each
        older: tuple[Reads, ...] = (EVERY_INPUT,)
        if isinstance(source, str) and (name := find_input_name(source)) is not None:
            # Of the input that has the items only the one item counted, unless the code looked at the others.
            older = (frozenset(InputRead("value", each) for each in inputs if each != name), EVERY_INPUT)
        return replace(parts.to_key(), complete=partial(_add_reads, parts, inputs), older_reads=older)

    def list_declared(self) -> dict[str, Mapping[str, str]]:
        """The parts that are known of each task before it starts, by its path: its texts as templates, its agent."""
        found: dict[str, Mapping[str, str]] = {}
        for node in self._graph.tasks:
            parts = Parts(self._contents)
            parts.add_text("description", node.task.description)
            parts.add_text("expected output", node.task.expected_output)
            parts.include(self._declared[node.index])
            found[make_task_path(node.name, self._graph.get_phase_name(node))] = parts.shown
        return found

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
        if not self._sees_inputs(start.node):
            return True
        return all(type(each) in SCALARS for each in (*start.inputs.values(), start.item))

    def identify_reviewer(self, handler: Any) -> str | None:
        """A digest of the content of a review handler; None where that can't be compared."""
        parts = Parts(self._contents)
        with _ObstacleNote(parts, "it"):
            parts.add_value("review handler", handler)
        return None if parts.obstacle is not None else parts.digest().hex()

    def make_review_key(self, phase: PhaseNode, outputs: Sequence[TaskOutput]) -> TaskKey:
        """The key of the review of a phase by a callable: by which code, and of which outputs."""
        parts = Parts(self._contents)
        with _ObstacleNote(parts, "what it was given"):
            parts.include(self._reviewers[id(phase)])
            _add_outputs(parts, outputs)
        return parts.to_key()

    def make_whole_key(self, node: TaskNode, description: str, output: TaskOutput) -> TaskKey:
        """The key of the review of a task for each item, as a whole: of what it is, and of what its items put out."""
        parts = Parts(self._contents)
        with _ObstacleNote(parts, "what it was given"):
            parts.include(self._declared[node.index])
            parts.add_text("description of the whole", description)
            parts.add_text("output of the whole", output.raw)
            parts.add_value("values of the items", output.parsed_output)
        return parts.to_key()

    def _add_start(self, parts: Parts, start: TaskStart) -> None:
        task = start.node.task
        if task.ensemble is None or task.input_guardrails:  # it is told neither
            parts.add_text("description", start.description)
            parts.add_text("expected output", start.expected_output)
        if start.prompt is not None:
            parts.add_text("prompt", start.prompt)
        parts.include(self._declared[start.node.index])
        _add_outputs(parts, start.context)
        for number, reason in enumerate(start.missing, 1):
            parts.add_value(f"missing {number}", reason)
        for scope, entries in start.memory.items():
            parts.add_value(f"memory {scope}", [(each.text, each.created_at) for each in entries])
        if start.conversation:
            calls = [[(call.name, call.arguments) for call in each.tool_calls] for each in start.conversation]
            said = [(each.role, each.text) for each in start.conversation]
            asked = [(*words, call) if call else words for words, call in zip(said, calls, strict=True)]
            parts.add_value("conversation", asked)
            if start.history is not None:
                parts.add_text("history", start.history)
        if start.feedback:
            parts.add_value("feedback", list(start.feedback))
        if start.previous is not None:
            parts.add_text("previous", start.previous)
        self._add_inputs(parts, start)

    def _add_inputs(self, parts: Parts, start: TaskStart) -> None:
        """What of the run's inputs counts beside what the texts say, and what code reads."""
        task = start.node.task
        if self._sees_inputs(start.node) and task.for_each is not None:
            parts.add_value("item", start.item)
        if self._delegation.manager_prompt is not None:
            for name, value in start.inputs.items():
                parts.add_value(f"input {name}", value)
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
        with _ObstacleNote(parts, "what was declared of it"):
            if task.ensemble is not None:
                parts.add_value("ensemble", task.ensemble)
                if self._openai_url is not None:
                    parts.add_value("address of its models", self._openai_url)
            elif node.agent is None:
                parts.add_value("handler", task.handler)
            else:
                parts.include(self._read_agent(node.agent, node.llm, task.tools))
                self._add_delegation(parts, node)
                if self._delegation.texts is not None:
                    parts.add_value("texts", self._delegation.texts)
            if self._deps is not None and self._takes_context(node):
                parts.add_value("deps", self._deps, "the deps of the run")
            if node.fallback is not None:
                parts.add_group("fallback", self._read_agent(node.fallback, node.fallback_llm, task.tools))
            self._add_checks(parts, node)
        return parts

    def _sees_inputs(self, node: TaskNode) -> bool:
        """Whether code of a task is given the inputs of the run."""
        return node.task.handler is not None or bool(node.task.input_guardrails) or self._takes_context(node)

    def _takes_context(self, node: TaskNode) -> bool:
        """Whether any code that works on a task takes the `RunContext`."""
        if node.index not in self._contexts:
            agents = [agent for agent in (node.agent, node.fallback) if agent is not None]
            if self._graph.managed or any(agent.allow_delegation for agent in agents):
                agents += (member.agent for member in self._graph.team)
            task = node.task
            functions = (task.handler, *task.tools, *task.input_guardrails, *task.output_guardrails)
            tests = (condition.predicate for condition in task.when or ())
            tools = (tool for agent in agents for tool in agent.tools)
            self._contexts[node.index] = any(map(takes_context, map(get_core_tool, (*functions, *tests, *tools))))
        return self._contexts[node.index]

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
            # Its test, without the name of its source.
            pattern = condition.matches and (condition.matches.pattern, condition.matches.flags)
            tests = (condition.equals, condition.contains, pattern, condition.predicate, condition.default)
            parts.add_value(f"condition {number}", (*tests, condition.field), f"its condition {number}")
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


class _ObstacleNote:
    """Objects are anybody's, and may raise whatever they like: then what is read inside can't be compared.

    Why not a function with `contextmanager`: this is entered for each task, and that takes five times as long.
    """

    __slots__ = ("_parts", "_what")

    def __init__(self, parts: Parts, what: str) -> None:
        self._parts, self._what = parts, what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._parts.obstacle = f"{self._what} can't be compared by content: {type(error).__name__}"
        return True


def _add_reads(parts: Parts, inputs: Mapping[str, Parts], reads: Reads) -> TaskKey:
    """The key of the parts of a task and those inputs that its code has read; on whatever thread."""
    whole, without = Parts(parts.graph), parts.digest().hex()
    whole.include(parts)
    names = {each.name for each in reads if each.kind == "value"}
    if reads >= EVERY_INPUT:
        reads, names = EVERY_INPUT, set(inputs)
    reads -= {InputRead("presence", name) for name in names}  # its value tells that, too
    for name in sorted(names.intersection(inputs)):
        whole.include(inputs[name])
    for each in reads:
        if each.kind == "presence":
            whole.add_value(f"presence of input {each.name}", each.name in inputs)
        elif each.kind == "number":
            whole.add_value("number of inputs", len(inputs))
    key = whole.to_key()
    text = whole.shown[READS] = write_reads(reads)
    return replace(key, key=f"{without}/{digest(text.encode()).hex()}/{key.key}")


def _add_outputs(parts: Parts, outputs: Sequence[TaskOutput]) -> None:
    """The outputs that a task reads, in order: text and value. The names of their tasks are shown, but not compared."""
    for number, output in enumerate(outputs, 1):
        parts.add_text(f"output {number}", output.raw, ("of", output.name))
        if output.parsed_output is not None:
            parts.add_value(f"value {number}", output.parsed_output, f"the value of {output.name}")


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
