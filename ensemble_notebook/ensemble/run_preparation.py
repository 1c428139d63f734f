"""Makes the order of a run from a definition: all that can be refused is refused here, before anything is called."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.cost import Pricing
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.domain.definitions.hierarchy import DELEGATE, DELEGATE_TASK
from ensemble_notebook.domain.definitions.memory import MemoryStore
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import check_variables, find_variables
from ensemble_notebook.domain.definitions.tool import list_tool_names
from ensemble_notebook.domain.events.textless_event import TextFilter
from ensemble_notebook.domain.outputs.secrets import protect_environment, protect_named
from ensemble_notebook.domain.planning.agent_resolution import AgentResolver, resolve_constraints
from ensemble_notebook.domain.planning.execution_plan import PlannedAgent, make_plan
from ensemble_notebook.domain.planning.graph import Graph, get_llm_key
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.domain.rules.resolved_role_rules import find_resolved_role_problems, find_resolved_role_warnings
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.agent.toolbox import Toolbox
from ensemble_notebook.engine.events.listener_delivery import wants_tokens
from ensemble_notebook.engine.limits.parent_run import ParentRun, find_parent_run
from ensemble_notebook.engine.specs.run_spec import RunSpec
from ensemble_notebook.ensemble.cost_estimation import find_price_problems
from ensemble_notebook.ensemble.run_inputs import list_tasks, list_texts, merge_inputs, write_inputs
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import AbsentObject, Problem, ValidationError, did_you_mean, get_state, summarize_error
from ensemble_notebook.models.langchain.tracing import find_tracing_variable
from ensemble_notebook.trace.capture import resolve_capture_mode
from ensemble_notebook.trace.folding.prices import calculate_price


def make_source(setting: RunSettings) -> ChatSource:
    """Where the models of a run come from: the process's source, one that writes down what it sees, or a recording.

    A nested run asks through the source of the run around it, so that one recording has both (E52).
    """
    from ensemble_notebook.models.model_source import get_default_source

    parent = find_parent_run()
    if parent is not None and parent.replayed_from is not None:
        return parent.source
    if setting.replay is not None:
        from ensemble_notebook.models.recording.replayer import ReplaySource

        pace = 1.0 if setting.pace == "recorded" else 0.0
        return ReplaySource(setting.replay, pace=pace, runs_tools=setting.replay_tools == "live")
    source = get_default_source() if parent is None else parent.source
    if setting.record is not None:
        from ensemble_notebook.models.recording.recorder import RecordingSource

        return RecordingSource(source, setting.record)
    return source


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
    problems += find_price_problems(ensemble, graph, make_pricing(ensemble), datetime.now(UTC))
    if problems:
        raise ValidationError(problems)
    return graph, warnings


def make_pricing(ensemble: EnsembleDefinition) -> Pricing:
    """What its requests cost: by its own rates, else by the public list."""
    return functools.partial(calculate_price, rates=ensemble.cost)


def make_run_spec(
    ensemble: EnsembleDefinition,
    inputs: Mapping[str, Any] | None,
    variables: Mapping[str, Any],
    setting: RunSettings,
    source: ChatSource,
) -> RunSpec:
    """Everything that the engine needs for one run.

    Raises:
        ValidationError, PromptTemplateError: it can't run like this.
    """
    values = merge_inputs(ensemble, inputs, variables)
    protect_named(values)
    graph, warnings = check_runnable(ensemble, source)
    texts = list_texts(ensemble)
    check_variables(texts, values)
    if all(task.handler is None for task in list_tasks(ensemble)):
        _refuse_unused(variables, texts)
    written, cut_warnings = write_inputs(texts, values)
    agents = _list_agents(ensemble, graph)
    if problems := [*find_resolved_role_problems(agents, graph, written)]:
        raise ValidationError(problems)
    resolver = AgentResolver(written)
    run_graph, constraints = resolver.resolve_graph(graph), ensemble.hierarchical_constraints
    parent = find_parent_run()
    capture_mode = resolve_capture_mode(ensemble.capture_mode)
    if parent is not None and parent.capture_mode is CaptureMode.METADATA:
        capture_mode = CaptureMode.METADATA  # no text of what is done inside is kept either (E52)
    text_filter = None
    if capture_mode is CaptureMode.METADATA:
        warnings = (*warnings, *_check_textless(ensemble, graph, setting))
        text_filter = TextFilter(warnings, {resolver.resolve(each).role: each.role for each in agents})
    return RunSpec(
        graph=run_graph,
        plan=make_plan(graph, written),
        agents=tuple(list_planned_agents(map(resolver.resolve, agents), run_graph)),
        name=ensemble.name,
        workflow=ensemble.workflow.value,
        error_strategy=ensemble.error_strategy,
        inputs=values,
        max_concurrency=ensemble.max_concurrency,
        warnings=(*warnings, *cut_warnings, *find_resolved_role_warnings(run_graph), *_warn_of_tracing()),
        streams=setting.streams or wants_tokens(ensemble.listeners) or wants_tokens(setting.listeners, default=True),
        memory=_make_memory(ensemble, graph),
        capture_mode=capture_mode,
        text_filter=text_filter,
        budget=ensemble.budget,
        pricing=make_pricing(ensemble),
        rate_limit=ensemble.rate_limit,
        review_handler=ensemble.review_handler or setting.review_handler,
        review_policy=ensemble.review_policy,
        delegation_policies=ensemble.delegation_policies,
        max_delegation_depth=ensemble.max_delegation_depth,
        constraints=None if constraints is None else resolve_constraints(constraints, run_graph),
        manager_prompt=ensemble.manager_prompt,
        replayed_from=_name_recording(setting, parent),
    )


def _name_recording(setting: RunSettings, parent: ParentRun | None) -> str | None:
    """The recording that answers in place of models: that of the run around it, else its own; None where none does."""
    if parent is not None and parent.replayed_from is not None:
        return parent.replayed_from
    return None if setting.replay is None else Path(setting.replay).name


def _check_textless(ensemble: EnsembleDefinition, graph: Graph, setting: RunSettings) -> Iterator[str]:
    """Say what keeps texts although the capture mode is metadata (T6a).

    Raises:
        ValidationError: a recording would be nothing but texts.
    """
    if setting.record is not None:
        raise ValidationError(
            "record keeps all that models are asked and answer, and capture_mode metadata keeps no text. "
            "Leave out one of them."
        )
    if ensemble.memory is not None and any(node.task.memory for node in graph.all_tasks):
        yield "The memory keeps texts in its own store, as it was asked to; capture_mode metadata does not change that."


def _warn_of_tracing() -> Iterator[str]:
    """Who has switched tracing on expects uploads, and would look for them in vain (E68)."""
    variable = find_tracing_variable()
    if variable is not None and not config.langsmith:
        yield (
            f"{variable} is set, and has no effect here: a run contacts its models and nobody else. "
            f"ensemble_notebook.config.langsmith = True lets LangChain's tracing through."
        )


def _list_agents(ensemble: EnsembleDefinition, graph: Graph) -> list[Agent]:
    """Who takes part, once each: the ensemble's agents, then those of its tasks and their fallbacks, and the team."""
    workers = [each for node in graph.all_tasks for each in (node.agent, node.fallback) if each is not None]
    return list(dict.fromkeys((*ensemble.agents, *workers, *(member.agent for member in graph.team))))


def list_planned_agents(agents: Iterable[Agent], graph: Graph) -> Iterator[PlannedAgent]:
    """What views show of who takes part; agents and graph are those of the run."""
    manager = graph.tasks[0].agent if graph.managed else None
    for agent in agents:
        natives = [DELEGATE] if agent.allow_delegation else [DELEGATE_TASK] if agent is manager else []
        yield PlannedAgent(
            role=agent.role,
            goal=agent.goal,
            background=agent.background,
            tools=(*(name for tool in agent.tools for name in list_tool_names(tool) or ()), *natives),
            allow_delegation=agent.allow_delegation,
        )


def _make_memory(ensemble: EnsembleDefinition, graph: Graph) -> MemoryStore | None:
    """The ensemble's store, or one for this run alone; None where no task remembers anything."""
    if not any(node.task.memory for node in graph.all_tasks):
        return None
    from ensemble_notebook.memory.in_memory_store import InMemoryStore
    from ensemble_notebook.memory.memory_conversion import to_memory

    return InMemoryStore() if ensemble.memory is None else to_memory(ensemble.memory)


def _find_absent_problems(ensemble: EnsembleDefinition, graph: Graph) -> Iterator[Problem]:
    """A problem for each object that a pickle has left out, and that nobody has put back (E63)."""
    tasks = [node.task for node in (*graph.all_tasks, *graph.managed)]
    agents = [each for task in tasks for each in (task.agent, task.fallback)]
    for owner in dict.fromkeys((ensemble, *ensemble.agents, *tasks, *agents)):
        for field, value in () if owner is None else get_state(owner).items():
            for each in value if isinstance(value, tuple) else (value,):
                if isinstance(each, AbsentObject):
                    yield Problem(str(each.make_error()), owner, field)


def _find_llm_problems(ensemble: EnsembleDefinition, graph: Graph, source: ChatSource) -> Iterator[Problem]:
    seen: set[object] = set()
    for llm, owners in _list_models(graph):
        if llm is None or get_llm_key(llm) in seen:
            continue
        seen.add(get_llm_key(llm))
        try:
            source.check(llm)
        except ValidationError as error:
            owner = next((each for each in owners if each is not None and each.llm is llm), ensemble)
            field = "manager_llm" if owner is ensemble and llm is ensemble.manager_llm else "llm"
            yield from (Problem(problem.message, owner, field) for problem in error.problems)


def _list_models(graph: Graph) -> Iterator[tuple[Any, tuple[Task | Agent | None, ...]]]:
    """Every model that may be used, and the definitions that may have named it."""
    for member in graph.team:
        yield member.llm, (member.agent,)
    for node in graph.all_tasks:
        yield node.llm, (node.task, node.task.agent)
        yield node.fallback_llm, (node.task.fallback,)


def _refuse_unused(variables: Mapping[str, Any], texts: Sequence[str]) -> None:
    """A keyword that no text uses is a misspelt one (E5). Where there are handlers, they may want any variable."""
    used = {name for text in texts for name in find_variables(text)}
    unused = [name for name in variables if name not in used]
    if unused:
        # The keywords that every way to run takes; `start` takes more.
        known = [*used, "timeout", "record", "replay", "replay_tools", "pace"]
        raise ValidationError([Problem(f"No text uses {name!r}.{did_you_mean(name, known)}") for name in unused])


def _find_tool_problems(graph: Graph) -> Iterator[Problem]:
    """Tools that no model can be shown; found now, since in the run it would cost what was done by then."""
    for holder in _list_tool_holders(graph):
        try:
            Toolbox(holder.tools)
        except ValidationError as error:
            yield from (Problem(problem.message, holder, "tools", problem.item) for problem in error.problems)


def _list_tool_holders(graph: Graph) -> Iterable[Agent | Task]:
    """The definitions that hold tools, once each."""
    everybody = [each for node in graph.all_tasks for each in (node.agent, node.task, node.task.fallback)]
    everybody += [member.agent for member in graph.team]
    return dict.fromkeys(each for each in everybody if each is not None and each.tools)


def _find_type_problems(graph: Graph) -> Iterator[Problem]:
    """Output types that have no JSON schema."""
    for node in graph.all_tasks:
        if node.task.output_type is None:
            continue
        try:
            get_output_format(node.task.output_type)
        except Exception as error:  # noqa: BLE001 - pydantic's for fields that JSON does not know, the validator's
            message = f"The output_type of task {node.name!r} has no JSON schema: {summarize_error(error)}"
            yield Problem(message, node.task, "output_type")
