"""What a run will take, before anything is called: no model is started, none is asked (E4).

The low end is one short reply for each task that surely runs. The high end is the most that each agent is allowed: all
its tool calls, one in each reply, and every reply as long as it may be; prompts are counted by their bytes, much as a
budget counts them. A task that runs for each item counts once for each; where their number is not known, none is sure,
and the most is its `max_items`. Not in it, since nobody can know: requests that fail and are tried again, the work that
peers delegate to each other, what memory adds to a prompt, and tasks and phases that a review sends back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.cost import Price, Pricing
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs
from ensemble_notebook.domain.definitions.templates import ItemTemplate, hide_item, render
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate, Number, Range, TaskEstimate
from ensemble_notebook.domain.outputs.metrics import TokenUsage
from ensemble_notebook.domain.planning.agent_resolution import AgentResolver
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, get_llm_key, resolve_llm
from ensemble_notebook.domain.planning.known_items import NONE_KNOWN, KnownItems, list_known_items
from ensemble_notebook.domain.planning.nested_tasks import walk_tasks
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.engine.agent.agent_loop import WARNINGS_BEFORE_END
from ensemble_notebook.engine.agent.prompts import write_system_prompt, write_user_prompt
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.limits.budget_admission import describe_unknown_price
from ensemble_notebook.engine.limits.budget_ledger import MAX_OUTPUT_TOKENS
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError
from ensemble_notebook.models.model_identity import ModelIdentity, identify_model

BYTES_PER_TOKEN: Final = 4
SHORT_REPLY: Final = 50
TOOL_RESULT: Final = 1000
# What providers put around the texts of a prompt and its tools.
WRAPPING: Final = 1024

_FREE: Final = Range(Decimal(0), Decimal(0))


def estimate(
    ensemble: EnsembleDefinition,
    graph: Graph,
    values: Mapping[str, Any],
    pricing: Pricing,
    at: datetime,
    items: KnownItems = NONE_KNOWN,
) -> CostEstimate:
    """What a run would take.

    Args:
        ensemble: a valid one.
        graph: of it.
        values: of the template variables; those without a value are left as they are.
        pricing: what requests cost.
        at: when it would run; list prices depend on the date.
        items: those that are known by now (E53).
    """
    estimator = _Estimator(ensemble, AgentResolver(values).resolve_graph(graph), values, pricing, at, items)
    currency = "USD" if ensemble.cost is None else ensemble.cost.currency
    return CostEstimate(tasks=tuple(estimator.tasks()), currency=currency)


def find_price_problems(
    ensemble: EnsembleDefinition, graph: Graph, pricing: Pricing, at: datetime
) -> Iterator[Problem]:
    """The models that `max_cost` rules out because nobody knows their price (E36)."""
    budget = ensemble.budget
    if budget is None or budget.max_cost is None or budget.allow_unknown_cost:
        return
    used = {
        get_llm_key(llm): llm for node in walk_tasks(graph) for llm in (node.llm, node.fallback_llm) if llm is not None
    }
    used |= {get_llm_key(member.llm): member.llm for member in graph.team}
    sample = TokenUsage(input_tokens=1, output_tokens=1)
    for llm in used.values():
        try:
            model = identify_model(llm)
        except ValidationError:  # said already, where the models are checked
            continue
        if pricing(sample, provider=model.provider, model=model.name, at=at) is None:
            yield Problem(describe_unknown_price(model.name, model.provider), ensemble, "budget")


@dataclass(frozen=True, slots=True)
class _AgentShare:
    """Something for one agent to do: tokens of its first request, and how many replies it may take.

    Attributes:
        model: who replies.
        prompt: tokens of the first request.
        rounds: replies that it may take.
        is_sure: whether it is done at all.
    """

    model: ModelIdentity
    prompt: Range[int]
    rounds: int
    is_sure: bool

    @property
    def input_tokens(self) -> Range[int]:
        """Of all requests; each carries what was said before."""
        growth = self.rounds * (self.rounds - 1) // 2 * (_estimate_reply(self.model).high + TOOL_RESULT)
        return Range(self.prompt.low * self.is_sure, self.rounds * self.prompt.high + growth)

    @property
    def output_tokens(self) -> Range[int]:
        """Of all replies."""
        reply = _estimate_reply(self.model)
        return Range(reply.low * self.is_sure, self.rounds * reply.high)

    @property
    def largest_input(self) -> int:
        """Of its last request, at most."""
        return self.prompt.high + (self.rounds - 1) * (_estimate_reply(self.model).high + TOOL_RESULT)


class _Estimator:
    def __init__(
        self,
        ensemble: EnsembleDefinition,
        graph: Graph,
        values: Mapping[str, Any],
        pricing: Pricing,
        at: datetime,
        items: KnownItems,
    ) -> None:
        self._items = items
        self._ensemble = ensemble
        self._graph = graph
        self._values = values
        self._pricing = pricing
        self._at = at
        self._identities: dict[object, ModelIdentity] = {}
        self._has_manager = ensemble.workflow is Workflow.HIERARCHICAL

    def tasks(self) -> Iterator[TaskEstimate]:
        for node in self._graph.all_tasks:
            yield self._estimate_task(node)
        if self._has_manager:
            for member in self._graph.team:
                yield self._estimate_worker(member.agent)

    def _estimate_task(self, node: TaskNode) -> TaskEstimate:
        is_sure = not node.when and (node.phase is None or not self._graph.phases[node.phase].when)
        if node.task.ensemble is not None:
            one = self._estimate_ensemble(node, is_sure)
        elif node.agent is None:
            return TaskEstimate(name=node.name, agent=node.role, model=None, cost=_FREE)
        else:
            one = self._add_shares(node.name, node.role, self._size_shares(node, node.agent, is_sure))
        if node.task.for_each is None:
            return one
        count = self._count_items(node)
        return replace(
            one,
            llm_calls=one.llm_calls.times(count),
            input_tokens=one.input_tokens.times(count),
            output_tokens=one.output_tokens.times(count),
            cost=None if one.cost is None else one.cost.times(count),
        )

    def _count_items(self, node: TaskNode) -> Range[int]:
        """How often a task runs."""
        if node.task.for_each is None:
            return Range(1, 1)
        items = self._items.get(node.index)
        return Range(0, node.task.max_items) if items is None else Range(len(items), len(items))

    def _size_shares(self, node: TaskNode, agent: Agent, is_sure: bool) -> list[_AgentShare]:
        """What a task is for its agent, and for its fallback; of one that runs for each item, what one item is."""
        shares = [self._size_share(node, agent, node.llm, is_sure)]
        if node.fallback is not None:
            shares.append(self._size_share(node, node.fallback, node.fallback_llm, is_sure=False))
        return shares

    def _write_texts(self, node: TaskNode) -> list[tuple[str, str]]:
        """Description and expected output; where the items are known, those of the shortest and of the longest."""
        task, items = node.task, self._items.get(node.index)
        if task.for_each is None:
            return [(render(task.description, self._values), render(task.expected_output, self._values))]
        if not items:
            description, expected = hide_item(task.description), hide_item(task.expected_output)
            return [(render(description, self._values), render(expected, self._values))]
        templates = [ItemTemplate(text, self._values) for text in (task.description, task.expected_output)]
        texts = []
        for item in items:
            try:
                texts.append((templates[0].fill(item), templates[1].fill(item)))
            except (LookupError, EnsembleError):  # it will fail, and cost nothing
                continue
        texts.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        return [texts[0], texts[-1]] if texts else [("", "")]

    def _estimate_ensemble(self, node: TaskNode, is_sure: bool) -> TaskEstimate:
        """What the ensemble of a task takes; what the task reads counts as nothing, since nobody knows it yet."""
        inner: Any = node.task.ensemble
        values = {**inner.inputs, **fill_inputs(node.task.inputs, self._values)}
        graph = check_ensemble(inner)[0]
        found = estimate(inner, graph, values, self._pricing, self._at, list_known_items(graph, values))
        models = dict.fromkeys(each.model for each in found.tasks if each.model is not None)
        return TaskEstimate(
            name=node.name,
            agent=node.role,
            model=", ".join(models) or None,
            llm_calls=_from_nothing(found.llm_calls, is_sure),
            input_tokens=_from_nothing(found.input_tokens, is_sure),
            output_tokens=_from_nothing(found.output_tokens, is_sure),
            cost=None if found.cost is None else _from_nothing(found.cost, is_sure),
            tasks=found.tasks,
        )

    def _size_share(self, node: TaskNode, agent: Agent, llm: Any, is_sure: bool) -> _AgentShare:
        task = node.task
        instructions = "" if task.output_type is None else get_output_format(task.output_type).instructions
        tools = Toolbox((*agent.tools, *task.tools)).specs
        user_prompts = [
            write_user_prompt(description, expected, output_format=instructions)
            for description, expected in self._write_texts(node)
        ]
        texts = [write_system_prompt(agent)]
        texts += [json.dumps([tool.name, tool.description, dict(tool.parameters)], default=str) for tool in tools]
        if self._has_manager:
            team = [member.agent for member in self._graph.team]
            texts += [text for each in team for text in (each.role, each.goal, each.background or "")]
        sizes = [_estimate_size([*texts, user_prompt]) for user_prompt in user_prompts]
        prompt = Range(sizes[0].low, sizes[-1].high)
        for index in node.context:
            prompt += self._estimate_context(self._graph.tasks[index])
        rounds = 1 + (task.max_output_retries if task.output_type is not None else 0)
        if tools or agent.allow_delegation or self._has_manager:
            rounds += agent.max_iterations + WARNINGS_BEFORE_END
        return _AgentShare(self._get_identity(llm), prompt, rounds, is_sure)

    def _estimate_worker(self, agent: Agent) -> TaskEstimate:
        """What a worker may be asked for by the manager, whose words are at most as long as a reply."""
        tools = Toolbox(agent.tools).specs
        size = _estimate_size(
            [
                write_system_prompt(agent),
                *(json.dumps(dict(tool.parameters), default=str) for tool in tools),
            ]
        )
        rounds = 1 + (agent.max_iterations + WARNINGS_BEFORE_END if tools else 0)
        prompt = Range(size.low, size.high + MAX_OUTPUT_TOKENS)
        share = _AgentShare(self._get_identity(resolve_llm(agent, self._ensemble)), prompt, rounds, is_sure=False)
        return self._add_shares(agent.role, agent.role, [share] * self._ensemble.manager_max_iterations)

    def _estimate_context(self, node: TaskNode) -> Range[int]:
        """The output of another task, in a prompt."""
        reply = Range(0, MAX_OUTPUT_TOKENS) if node.agent is None else _estimate_reply(self._get_identity(node.llm))
        return reply.times(self._count_items(node))

    def _add_shares(self, name: str, role: str, shares: list[_AgentShare]) -> TaskEstimate:
        total = TaskEstimate(name=name, agent=role, model=shares[0].model.name, cost=_FREE)
        for share in shares:
            cost = self._estimate_cost(share)
            total = TaskEstimate(
                name=name,
                agent=role,
                model=total.model,
                llm_calls=total.llm_calls + Range(int(share.is_sure), share.rounds),
                input_tokens=total.input_tokens + share.input_tokens,
                output_tokens=total.output_tokens + share.output_tokens,
                cost=None if total.cost is None or cost is None else total.cost + cost,
            )
        return total

    def _estimate_cost(self, share: _AgentShare) -> Range[Decimal] | None:
        low = self._find_price(share.model, share.input_tokens.low, share.output_tokens.low)
        # All requests at the rate of the largest one, since some prices rise with the length of the prompt.
        largest = self._find_price(share.model, share.largest_input, _estimate_reply(share.model).high)
        if low is None or largest is None:
            return None
        inputs = largest.input * share.input_tokens.high / share.largest_input
        return Range(low.total, inputs + share.rounds * largest.output)

    def _find_price(self, model: ModelIdentity, inputs: int, outputs: int) -> Price | None:
        usage = TokenUsage(input_tokens=inputs, output_tokens=outputs)
        return self._pricing(usage, provider=model.provider, model=model.name, at=self._at)

    def _get_identity(self, llm: Any) -> ModelIdentity:
        key = get_llm_key(llm)
        if key not in self._identities:
            self._identities[key] = identify_model(llm)
        return self._identities[key]


def _from_nothing(found: Range[Number], is_sure: bool) -> Range[Number]:
    """A range that begins at nothing where it may not come to it."""
    return found if is_sure else Range(type(found.low)(0), found.high)


def _estimate_reply(model: ModelIdentity) -> Range[int]:
    """Tokens of one reply; where the model has no limit, the one that a budget would give it."""
    most = model.max_tokens or MAX_OUTPUT_TOKENS
    return Range(min(SHORT_REPLY, most), most)


def _estimate_size(texts: list[str]) -> Range[int]:
    """Tokens of texts: a quarter of their bytes is usual, and more than their bytes can't be."""
    size = sum(len(text.encode()) for text in texts)
    return Range(size // BYTES_PER_TOKEN, size + WRAPPING)
