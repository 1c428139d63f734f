"""Whether an ensemble can run here: the rules between its objects, and that models, tools and types can be had (E5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent, get_core_llm
from ensemble_notebook.domain.definitions.amounts import DOLLARS
from ensemble_notebook.domain.definitions.definition import list_given
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.json_schema import find_schema_faults
from ensemble_notebook.domain.definitions.limits import Budget, CostConfiguration, get_currency
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.outputs.secrets import protect_environment
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.execution_plan import describe_llm
from ensemble_notebook.domain.planning.graph import Graph, get_llm_key
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.budget_reservation import describe_unknown_price
from ensemble_notebook.ensemble.ensemble_tool import find_ensemble
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import AbsentObject, Problem, ValidationError, summarize_error
from ensemble_notebook.evaluation.scorer import Scorer
from ensemble_notebook.models.langchain.tracing import find_tracing_variable
from ensemble_notebook.models.model_kinds import check_allowed, identify_model
from ensemble_notebook.trace.folding.prices import calculate_price


def check_runnable(ensemble: EnsembleDefinition, source: ChatSource) -> tuple[Graph, tuple[str, ...]]:
    """The graph and warnings of an ensemble that can run.

    Raises:
        ValidationError: with every problem found.
    """
    protect_environment()
    graph, warnings = check_ensemble(ensemble)
    # Before all other checks, which would ask the stand-ins for what only the real objects know.
    if absent := list(_find_absent_problems(ensemble, graph)):
        raise ValidationError(absent)
    problems = [*_find_llm_problems(ensemble, graph, source), *_find_tool_problems(graph), *_find_type_problems(graph)]
    problems += _find_currency_problems(ensemble, graph)
    problems += _find_problems_inside(graph, source)
    problems += find_price_problems(ensemble, graph)
    if problems:
        raise ValidationError(problems)
    return graph, warnings


def _find_problems_inside(graph: Graph, source: ChatSource) -> Iterator[Problem]:
    """What keeps the ensembles that do tasks from running, found before the run around them begins."""
    for node in graph.all_tasks:
        inner: Any = node.task.ensemble
        if inner is not None:
            try:
                check_runnable(inner, source)
            except ValidationError as error:
                for problem in error.problems:
                    message = f"The ensemble of task {node.name!r}: {problem.message}"
                    yield Problem(message, node.task, "ensemble")


def _find_currency_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """The prices that are in another currency than the costs of the run."""
    currency = get_currency(ensemble.cost)
    for llm, rates in _list_priced(graph):
        if rates is not None and rates.currency != currency:
            what = f"The price of {describe_llm(llm)}"
            yield Problem(_describe_currency(what, rates.currency, currency), ensemble, "cost")
    for node in graph.all_tasks:
        inner: Any = node.task.ensemble
        if inner is not None and inner.cost is not None and inner.cost.currency != currency:
            what = f"The cost of the ensemble of task {node.name!r}"
            yield Problem(_describe_currency(what, inner.cost.currency, currency), node.task, "ensemble")


def _describe_currency(what: str, given: str, currency: str) -> str:
    return (
        f"{what} is in {given}, and the costs of the run are in {currency}. Write all rates in one currency; that of a "
        f"run is its ensemble's: cost={{..., 'currency': {given!r}}}."
    )


def find_price_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """The models that `max_cost` rules out because nobody knows their price; those of ensembles inside, too."""
    yield from _find_price_problems(ensemble, graph, ensemble.budget, get_currency(ensemble.cost))


def find_kernel_price_problems(
    ensemble: EnsembleDefinition, graph: Graph, budgets: Iterable[Budget]
) -> Iterator[Problem]:
    """The models that a budget of the kernel rules out likewise."""
    held = next((each for each in budgets if _needs_prices(each)), None)
    if held is not None and not any(find_price_problems(ensemble, graph)):  # else its own has said so
        yield from _find_price_problems(ensemble, graph, held, DOLLARS)


def find_forbidden_models(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """The models that are not allowed in this kernel, for who asks before anything is opened."""
    for llm, _ in _list_priced(graph):
        try:
            check_allowed(llm)
        except ValidationError as error:
            yield from (Problem(each.message, ensemble, "llm") for each in error.problems)


def _find_price_problems(
    ensemble: EnsembleDefinition, graph: Graph, budget: Budget | None, currency: str
) -> Iterator[Problem]:
    if budget is not None and _needs_prices(budget):
        for place, owner, field, fault in _find_price_faults(graph, currency, budget.set_by):
            field = field or ("llm" if budget.set_by else "budget")
            yield Problem(f"{place}: {fault}" if place else fault, owner or ensemble, field)


def find_judge_price_problems(ensemble: EnsembleDefinition, scorers: Iterable[Scorer]) -> Iterator[Problem]:
    """The same of the judges of an ensemble's rows, which are paid from its budget, too; and of their currency."""
    currency = get_currency(ensemble.cost)
    for scorer in scorers:
        cost = None if scorer.judge is None else scorer.judge.cost
        if cost is not None and cost.currency != currency:
            what = f"The cost of the judge {scorer.shown}"
            yield Problem(_describe_currency(what, cost.currency, currency), ensemble, "cost")
        elif scorer.judge is not None and _needs_prices(ensemble.budget):
            faults = _find_price_faults(check_ensemble(scorer.judge)[0], currency)
            yield from (Problem(f"The judge {scorer.shown}: {fault}", ensemble, "budget") for *_, fault in faults)


def _needs_prices(budget: Budget | None) -> bool:
    return budget is not None and budget.max_cost is not None and not budget.allow_unknown_cost


def _find_price_faults(
    graph: Graph, currency: str, set_by: str = ""
) -> Iterator[tuple[str, Task | Agent | None, str, str]]:
    """Why prices of models are unknown, and what to do.

    For one in an ensemble inside with the place, owner and field of the outermost, else with none.
    """
    sample, at = TokenUsage(input_tokens=1, output_tokens=1), datetime.now(UTC)
    for llm, rates in _list_priced(graph):
        with suppress(ValidationError):  # said already, where the models are checked
            model = identify_model(llm)
            price = calculate_price(
                sample, provider=model.provider, model=model.name, at=at, rates=rates, currency=currency
            )
            if price is None:
                yield "", None, "", describe_unknown_price(model.name, model.provider, set_by)
    found: list[tuple[str, Task | Agent, str, Any]] = [
        (f"The ensemble of task {node.name!r}", node.task, "ensemble", node.task.ensemble) for node in graph.all_tasks
    ]
    for holder in list_tool_holders(graph):
        tools: Iterable[Any] = holder.tools
        inside = ((tool, find_ensemble(tool)) for tool in tools)  # functions have no name of this kind
        found += [(f"The tool {tool.name!r}", holder, "tools", inner) for tool, inner in inside if inner is not None]
    for place, owner, field, inner in found:
        if inner is not None:
            for *_, fault in _find_price_faults(check_ensemble(inner)[0], currency, set_by):
                yield place, owner, field, fault


def _list_priced(graph: Graph) -> Iterable[tuple[Any, CostConfiguration | None]]:
    """The models of an ensemble with their rates, once each."""
    used = [(node.llm, node.rates) for node in graph.all_tasks]
    used += [(node.fallback_llm, node.fallback_rates) for node in graph.all_tasks]
    used += [(member.llm, member.rates) for member in graph.team]
    return {(get_llm_key(llm), id(rates)): (llm, rates) for llm, rates in used if llm is not None}.values()


def check_textless(ensemble: EnsembleDefinition, graph: Graph, setting: RunSettings) -> Iterator[str]:
    """Say what keeps texts although the capture mode is metadata.

    Raises:
        ValidationError: a recording would be nothing but texts, and so is what a run is resumed from.
    """
    if setting.resume is not None:
        raise ValidationError(
            "resume goes on with what was said, and capture_mode metadata keeps no text. Leave out one of them."
        )
    if setting.record is not None:
        raise ValidationError(
            "record keeps all that models are asked and answer, and capture_mode metadata keeps no text. "
            "Leave out one of them."
        )
    if ensemble.memory is not None and any(node.task.memory for node in graph.all_tasks):
        yield "The memory keeps texts in its own store, as it was asked to; capture_mode metadata does not change that."


def warn_of_tracing() -> Iterator[str]:
    """Who has switched tracing on expects uploads, and would look for them in vain."""
    variable = find_tracing_variable()
    if variable is not None and not config.langsmith:
        yield (
            f"{variable} is set, and has no effect here: a run contacts its models and nobody else. "
            f"ensemble_notebook.config.langsmith = True lets LangChain's tracing through."
        )


def _find_absent_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """A problem for each object that a pickle has left out, and that nobody has put back."""
    tasks = [node.task for node in (*graph.all_tasks, *graph.managed)]
    agents = [each for task in tasks for each in (task.agent, task.fallback)]
    for owner in dict.fromkeys((ensemble, *ensemble.agents, *tasks, *agents)):
        for field, value in () if owner is None else list_given(owner):
            if isinstance(value, str):
                continue
            for each in value if isinstance(value, tuple) else (get_core_llm(value),):
                if isinstance(each, AbsentObject):
                    yield Problem(str(each.make_error()), owner, field)


def _find_llm_problems(ensemble: EnsembleDefinition, graph: Graph, source: ChatSource) -> Iterator[Problem]:
    seen: set[object] = set()
    models: list[tuple[Any, tuple[Task | Agent | None, ...]]] = [(each.llm, (each.agent,)) for each in graph.team]
    for node in graph.all_tasks:
        models += [(node.llm, (node.task, node.task.agent)), (node.fallback_llm, (node.task.fallback,))]
    for llm, owners in models:  # that may be used, each with the definitions that may have named it
        if llm is None or get_llm_key(llm) in seen:
            continue
        seen.add(get_llm_key(llm))
        try:
            source.check(llm)
        except ValidationError as error:
            owner = next((each for each in owners if each is not None and get_core_llm(each.llm) is llm), ensemble)
            is_managers = owner is ensemble and llm is get_core_llm(ensemble.manager_llm)
            field = "manager_llm" if is_managers else "llm"
            yield from (Problem(problem.message, owner, field) for problem in error.problems)


def _find_tool_problems(graph: Graph) -> Iterator[Problem]:
    """Tools that no model can be shown; found now, since in the run it would cost what was done by then."""
    for holder in list_tool_holders(graph):
        try:
            Toolbox(holder.tools)
        except ValidationError as error:
            yield from (Problem(problem.message, holder, "tools", problem.item) for problem in error.problems)


def list_tool_holders(graph: Graph) -> Iterable[Agent | Task]:
    """The definitions that hold tools, once each."""
    everybody = [each for node in graph.all_tasks for each in (node.agent, node.task, node.task.fallback)]
    everybody += [member.agent for member in graph.team]
    return dict.fromkeys(each for each in everybody if each is not None and each.tools)


def _find_type_problems(graph: Graph) -> Iterator[Problem]:
    """Output types that have no JSON schema, and classes whose schema nothing fits; other schemas were looked at."""
    for node in graph.all_tasks:
        kind = node.task.output_type
        if kind is None:
            continue
        try:
            faults = find_schema_faults(get_output_format(kind).schema) if isinstance(kind, type) else []
        except Exception as error:  # noqa: BLE001 - pydantic's for fields that JSON does not know, the validator's
            message = f"The output_type of task {node.name!r} has no JSON schema: {summarize_error(error)}"
            yield Problem(message, node.task, "output_type")
            continue
        for fault in faults:
            where = f", at {'.'.join(map(str, fault.path))}" if fault.path else ""
            yield Problem(f"The output_type of task {node.name!r}{where}: {fault.message}", node.task, "output_type")
