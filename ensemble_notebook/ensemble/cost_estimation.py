"""What a run will take, before anything is called: no model is started, none is asked (E4).

What is likely is a reply of the usual length for each task, as earlier runs have had it, or as is assumed, and two
replies where there are tools; prompts are as long as they are. The low end is one short reply for each task that surely
runs. The high end is the most that each agent is allowed: all
its tool calls, one in each reply, and every reply as long as it may be; prompts are counted by their bytes, much as a
budget counts them. A task that runs for each item counts once for each; where their number is not known, none is sure,
and the most is its `max_items`. Not in it, since nobody can know: requests that fail and are tried again, the work that
peers delegate to each other, what memory adds to a prompt, and tasks and phases that a review sends back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.attachments import TOKENS_EACH, count_marked_tokens
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import Workflow
from ensemble_notebook.domain.definitions.limits import CostConfiguration, Price, get_currency
from ensemble_notebook.domain.definitions.nested_ensemble import fill_inputs
from ensemble_notebook.domain.definitions.templates import ITEM, PlacedText, get_prompt_places
from ensemble_notebook.domain.kernel_limits import cap_budget, kernel_limits
from ensemble_notebook.domain.outputs.cost_estimate import ONCE, CostEstimate, Range, TaskEstimate, combine
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.planning.delegation import AgentResolver
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble, list_known_items
from ensemble_notebook.domain.planning.execution_plan import NONE_KNOWN, KnownItems
from ensemble_notebook.domain.planning.graph import Graph, TaskNode, TeamMember, build_graph, get_llm_key
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.engine.agent.agent_loop import WARNINGS_BEFORE_END
from ensemble_notebook.engine.agent.prompts import PromptParts, write_own_prompt, write_system_prompt, write_user_prompt
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.budget_ledger import MAX_OUTPUT_TOKENS
from ensemble_notebook.errors import EnsembleError, StoreError
from ensemble_notebook.models.model_kinds import identify_model
from ensemble_notebook.models.model_spec import ModelIdentity
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.store.run_store import RunStore

BYTES_PER_TOKEN: Final = 4
_LEAST_ATTACHED: Final = 85  # as OpenAI counts a picture of any size in its cheapest form
SHORT_REPLY: Final = 50
TOOL_RESULT: Final = 1000
# What is likely where no earlier run tells it.
USUAL_REPLY: Final = 250
_USUAL_RESULT: Final = 250
_USUAL_ITEMS: Final = 10
# What providers put around the texts of a prompt and its tools.
WRAPPING: Final = 1024

_FREE: Final = Range(Decimal(0), Decimal(0))


def estimate(
    ensemble: EnsembleDefinition,
    graph: Graph,
    values: Mapping[str, Any],
    at: datetime,
    items: KnownItems = NONE_KNOWN,
    replies: Mapping[str, int] = MappingProxyType({}),
    currency: str | None = None,
) -> CostEstimate:
    """What a run would take.

    Args:
        ensemble: a valid one.
        graph: of it.
        values: of the template variables; those without a value are left as they are.
        at: when it would run; list prices depend on the date.
        items: those that are known by now.
        replies: usual tokens of a reply, by the path of the task; see `find_usual_replies`.
        currency: of the run that it is a part of; None: its own.
    """
    currency = currency or get_currency(ensemble.cost)
    resolved = AgentResolver(values).resolve_graph(graph)
    estimator = _Estimator(ensemble, resolved, values, at, items, replies, currency)
    budget, _ = cap_budget(ensemble.budget, kernel_limits.cell_budget)
    return CostEstimate(
        tasks=tuple(estimator.tasks()),
        currency=currency,
        limit=None if budget is None or budget.max_cost is None else Decimal(str(budget.max_cost)),
        assumed_reply=USUAL_REPLY if estimator.is_assuming else None,
    )


def estimate_calls(
    ensemble: EnsembleDefinition,
    *,
    name: str,
    role: str,
    llm: Any,
    rates: CostConfiguration | None,
    texts: Sequence[str],
    reply: int | None,
    count: int,
    at: datetime,
) -> CostEstimate:
    """What a model call takes that is made again.

    Args:
        ensemble: whose budget and currency hold.
        name: of the task.
        role: of the agent.
        llm: who is asked.
        rates: what that costs; None: by the public price list.
        texts: all that it is told.
        reply: tokens of the reply that it had; None where that is not known.
        count: how often it is made.
        at: when; list prices depend on the date.
    """
    estimator = _Estimator(ensemble, build_graph(ensemble), {}, at, NONE_KNOWN, {}, get_currency(ensemble.cost))
    model, size = identify_model(llm), _estimate_size([*texts])
    likely = min(USUAL_REPLY if reply is None else max(reply, 1), _estimate_reply(model).high)
    share = _AgentShare(model, rates, size, ONCE, is_sure=True, reply=likely)
    task = estimator._add_shares(name, role, [share]).times(Range(count, count))
    budget, _ = cap_budget(ensemble.budget, kernel_limits.cell_budget)
    return CostEstimate(
        tasks=(task,),
        currency=estimator.currency,
        limit=None if budget is None or budget.max_cost is None else Decimal(str(budget.max_cost)),
        assumed_reply=USUAL_REPLY if reply is None else None,
    )


def find_usual_replies(name: str | None, graph: Graph) -> Mapping[str, int]:
    """How many tokens the tasks of an ensemble replied with in its last runs, by path, where the store has them.

    Args:
        name: that its runs are remembered under; None: they have none, and nothing is known of them.
        graph: of the ensemble.
    """
    store = RunStore.find()
    if name is None or store is None:
        return {}
    paths = {make_task_path(node.name, graph.get_phase_name(node)) for node in graph.all_tasks}
    try:
        sizes = store.load_reply_sizes(name, paths)
    except StoreError:
        return {}
    return {path: max(1, round(size / BYTES_PER_TOKEN)) for path, size in sizes.items()}


@dataclass(frozen=True, slots=True)
class _AgentShare:
    """Something for one agent to do: tokens of its first request, and how many replies it may take.

    Attributes:
        model: who replies.
        rates: what the model costs; None: by the public price list.
        prompt: tokens of the first request.
        rounds: replies that it may take, and likely takes.
        is_sure: whether it is done at all.
        reply: likely tokens of one.
        is_likely: whether it is likely to be done: not what only takes over.
    """

    model: ModelIdentity
    rates: CostConfiguration | None
    prompt: Range[int]
    rounds: Range[int]
    is_sure: bool
    reply: int
    is_likely: bool = True

    @property
    def llm_calls(self) -> Range[int]:
        """Replies that are asked for."""
        return Range(int(self.is_sure), self.rounds.high, self.rounds.likely * self.is_likely)

    @property
    def input_tokens(self) -> Range[int]:
        """Of all requests; each carries what was said before."""
        rounds, usual = self.rounds.high, self.rounds.likely
        growth = rounds * (rounds - 1) // 2 * (_estimate_reply(self.model).high + TOOL_RESULT)
        likely = usual * self.prompt.likely + usual * (usual - 1) // 2 * (self.reply + _USUAL_RESULT)
        return Range(self.prompt.low * self.is_sure, rounds * self.prompt.high + growth, likely * self.is_likely)

    @property
    def output_tokens(self) -> Range[int]:
        """Of all replies."""
        reply = _estimate_reply(self.model)
        likely = self.rounds.likely * self.reply * self.is_likely
        return Range(reply.low * self.is_sure, self.rounds.high * reply.high, likely)

    @property
    def largest_input(self) -> int:
        """Of its last request, at most."""
        return self.prompt.high + (self.rounds.high - 1) * (_estimate_reply(self.model).high + TOOL_RESULT)


@dataclass
class _Estimator:
    ensemble: EnsembleDefinition
    graph: Graph
    values: Mapping[str, Any]
    at: datetime
    items: KnownItems
    replies: Mapping[str, int]
    currency: str
    is_assuming: bool = False

    def __post_init__(self) -> None:
        self._identities: dict[object, ModelIdentity] = {}
        self._has_manager = self.ensemble.workflow is Workflow.HIERARCHICAL

    def tasks(self) -> Iterator[TaskEstimate]:
        for node in self.graph.all_tasks:
            rounds = self._find_rounds(node)
            yield replace(self._estimate_task(node).times(rounds), rounds=rounds)
        if self._has_manager:
            for member in self.graph.team:
                yield self._estimate_worker(member)

    def _estimate_task(self, node: TaskNode) -> TaskEstimate:
        is_sure = not node.when and (node.phase is None or not self.graph.phases[node.phase].when)
        if node.task.ensemble is not None:
            one = self._estimate_ensemble(node, is_sure)
        elif node.agent is None:
            return TaskEstimate(name=node.name, agent=node.role, model=None, cost=_FREE)
        else:
            # Of a task that runs for each item, what one item is.
            shares = [self._size_share(node, node.agent, node.llm, node.rates, is_sure)]
            if node.fallback is not None:
                takes_over = self._size_share(
                    node, node.fallback, node.fallback_llm, node.fallback_rates, is_sure=False
                )
                shares.append(replace(takes_over, is_likely=False))
            one = self._add_shares(node.name, node.role, shares)
        return one if node.task.for_each is None else one.times(self._count_items(node))

    def _find_rounds(self, node: TaskNode) -> Range[int]:
        """How often the phase of a task is done."""
        most = None if node.phase is None else self.graph.phases[node.phase].phase.max_rounds
        return Range(1, most or 1)

    def _count_items(self, node: TaskNode) -> Range[int]:
        """How often a task runs."""
        if node.task.for_each is None:
            return Range(1, 1)
        items = self.items.get(node.index)
        if items is None:
            return Range(0, node.task.max_items, min(node.task.max_items, _USUAL_ITEMS))
        return Range(len(items), len(items))

    def _write_prompts(self, node: TaskNode, output_format: str) -> list[str]:
        """The user prompt; where the items are known, that of the shortest and of the longest. It reads nothing yet."""
        task, items = node.task, self.items.get(node.index)
        places: Sequence[str]
        if task.prompt is None:
            given, places = [task.description, task.expected_output], () if task.for_each is None else (ITEM,)
        else:
            given, places = [task.prompt], get_prompt_places(has_items=task.for_each is not None)
        texts = [PlacedText(text, self.values, places) for text in given]
        if task.for_each is None or not items:
            return [_frame(texts, output_format)]
        prompts = []
        for item in items:
            try:
                prompts.append(_frame([text.fill_item(item) for text in texts], output_format))
            except (LookupError, EnsembleError):  # it will fail, and cost nothing
                continue
        prompts.sort(key=len)
        return [prompts[0], prompts[-1]] if prompts else [""]

    def _estimate_ensemble(self, node: TaskNode, is_sure: bool) -> TaskEstimate:
        """What the ensemble of a task takes; what the task reads counts as nothing, since nobody knows it yet."""
        inner: Any = node.task.ensemble
        values = {**inner.inputs, **fill_inputs(node.task.inputs, self.values)}
        graph = check_ensemble(inner)[0]
        found = estimate(inner, graph, values, self.at, list_known_items(graph, values), currency=self.currency)
        models = dict.fromkeys(each.model for each in found.tasks if each.model is not None)
        return TaskEstimate(
            name=node.name,
            agent=node.role,
            model=", ".join(models) or None,
            **combine(lambda each: each if is_sure else Range(type(each.low)(0), each.high, each.likely), found),
            tasks=found.tasks,
            servers=found.servers,
        )

    def _size_share(
        self, node: TaskNode, agent: Agent, llm: Any, rates: CostConfiguration | None, is_sure: bool
    ) -> _AgentShare:
        task = node.task
        instructions = "" if task.output_type is None else get_output_format(task.output_type).instructions
        tools = Toolbox((*agent.tools, *task.tools)).specs
        user_prompts = self._write_prompts(node, instructions)
        texts = [write_system_prompt(agent)]
        texts += [json.dumps([tool.name, tool.description, dict(tool.parameters)], default=str) for tool in tools]
        if self._has_manager:
            team = [member.agent for member in self.graph.team]
            texts += [text for each in team for text in (each.role, each.goal, each.background or "")]
        sizes = [_estimate_size([*texts, user_prompt]) for user_prompt in user_prompts]
        prompt = Range(sizes[0].low, sizes[-1].high, (sizes[0].low + sizes[-1].low) // 2)
        for read in (self.graph.tasks[index] for index in node.context):  # the outputs of other tasks
            reply = Range(0, MAX_OUTPUT_TOKENS, USUAL_REPLY)
            if read.agent is not None:
                identity = self._get_identity(read.llm)
                reply = replace(_estimate_reply(identity), middle=self._find_reply(read, identity))
            prompt += reply.times(self._count_items(read))
        if self._find_rounds(node).high > 1:  # its own last output, and what it is judged by
            prompt += Range(0, 2 * _estimate_reply(self._get_identity(llm)).high)
        most, likely = 1 + (task.max_output_retries if task.output_type is not None else 0), 1
        if tools or agent.allow_delegation or self._has_manager:
            most += agent.max_iterations + WARNINGS_BEFORE_END
            likely += len(self.graph.team) if self._has_manager else 1
        model = self._get_identity(llm)
        replies = Range(1, most, min(likely, most))
        return _AgentShare(model, rates, prompt, replies, is_sure, self._find_reply(node, model))

    def _find_reply(self, node: TaskNode | None, model: ModelIdentity) -> int:
        """Likely tokens of a reply: as in earlier runs, else as assumed."""
        path = None if node is None else make_task_path(node.name, self.graph.get_phase_name(node))
        found = self.replies.get(path or "")
        self.is_assuming = self.is_assuming or found is None
        return min(USUAL_REPLY if found is None else found, _estimate_reply(model).high)

    def _estimate_worker(self, member: TeamMember) -> TaskEstimate:
        """What a worker may be asked for by the manager, whose words are at most as long as a reply."""
        agent = member.agent
        tools = Toolbox(agent.tools).specs
        size = _estimate_size(
            [write_system_prompt(agent), *(json.dumps(dict(tool.parameters), default=str) for tool in tools)]
        )
        most = 1 + (agent.max_iterations + WARNINGS_BEFORE_END if tools else 0)
        prompt = Range(size.low, size.high + MAX_OUTPUT_TOKENS, size.low + USUAL_REPLY)
        model, rounds = self._get_identity(member.llm), Range(1, most, min(2, most))
        share = _AgentShare(model, member.rates, prompt, rounds, is_sure=False, reply=self._find_reply(None, model))
        rare = [replace(share, is_likely=False)] * (self.ensemble.manager_max_iterations - 1)
        return self._add_shares(agent.role, agent.role, [share, *rare])

    def _add_shares(self, name: str, role: str, shares: list[_AgentShare]) -> TaskEstimate:
        total = TaskEstimate(name=name, agent=role, model=shares[0].model.name, cost=_FREE)
        for share in shares:
            inputs, outputs = share.input_tokens, share.output_tokens
            # The least where all of the prompt is in the provider's cache already.
            low = self._find_price(share, inputs.low, outputs.low, cached=inputs.low)
            # All requests at the rate of the largest one, since some prices rise with the length of the prompt.
            largest = self._find_price(share, share.largest_input, _estimate_reply(share.model).high)
            likely = self._find_price(share, inputs.likely, outputs.likely)
            cost = None
            if total.cost is not None and low is not None and largest is not None and likely is not None:
                most = largest.input * inputs.high / share.largest_input + share.rounds.high * largest.output
                cost = total.cost + Range(low.total, most, likely.total)
            total = replace(
                total,
                llm_calls=total.llm_calls + share.llm_calls,
                input_tokens=total.input_tokens + inputs,
                output_tokens=total.output_tokens + outputs,
                cost=cost,
                servers=tuple(dict.fromkeys(filter(None, (*total.servers, share.model.server)))),
            )
        return total

    def _find_price(self, share: _AgentShare, inputs: int, outputs: int, cached: int | None = None) -> Price | None:
        return calculate_price(
            TokenUsage(input_tokens=inputs, output_tokens=outputs, cache_read_tokens=cached),
            provider=share.model.provider,
            model=share.model.name,
            at=self.at,
            rates=share.rates,
            currency=self.currency,
        )

    def _get_identity(self, llm: Any) -> ModelIdentity:
        key = get_llm_key(llm)
        if key not in self._identities:
            self._identities[key] = identify_model(llm)
        return self._identities[key]


def _frame(texts: Sequence[PlacedText], output_format: str) -> str:
    """A user prompt of its description and expected output, or of its own prompt alone."""
    if len(texts) == 1:
        return write_own_prompt(texts[0], PromptParts(output_format=output_format))
    return write_user_prompt(texts[0].text, texts[1].text, output_format=output_format)


def _estimate_reply(model: ModelIdentity) -> Range[int]:
    """Tokens of one reply; where the model has no limit, the one that a budget would give it."""
    most = model.max_tokens or MAX_OUTPUT_TOKENS
    return Range(min(SHORT_REPLY, most), most)


def _estimate_size(texts: list[str]) -> Range[int]:
    """Tokens of texts: a quarter of their bytes is usual, and more than their bytes can't be."""
    size, attached = sum(len(text.encode()) for text in texts), sum(map(count_marked_tokens, texts))
    return Range(size // BYTES_PER_TOKEN + attached // TOKENS_EACH * _LEAST_ATTACHED, size + attached + WRAPPING)
