"""Makes the order of a run from a definition: all that can be refused is refused here, before anything is called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.domain.attachments import has_mark, held_by_run
from ensemble_notebook.domain.definitions.agent import Agent, find_llm_fault
from ensemble_notebook.domain.definitions.definition import Definition, get_field_names
from ensemble_notebook.domain.definitions.delegation import DELEGATE, DELEGATE_TASK
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.enums import CaptureMode, RunKind, TaskNoun
from ensemble_notebook.domain.definitions.nested_ensemble import MAX_DEPTH, describe_ensemble
from ensemble_notebook.domain.definitions.review import NOBODY_HERE
from ensemble_notebook.domain.definitions.task import Task
from ensemble_notebook.domain.definitions.templates import find_first_texts, place_texts
from ensemble_notebook.domain.definitions.tool import human_input, is_reviewed, list_told_names
from ensemble_notebook.domain.fingerprints.task_keys import DelegationSettings, TaskKeys
from ensemble_notebook.domain.kernel_limits import cap_budget, kernel_limits
from ensemble_notebook.domain.outputs.conversation import Messages
from ensemble_notebook.domain.outputs.secrets import protect_named
from ensemble_notebook.domain.planning.delegation import (
    AgentResolver,
    find_resolved_role_problems,
    find_resolved_role_warnings,
    list_agent_texts,
    resolve_constraints,
)
from ensemble_notebook.domain.planning.ensemble_rules import check_inner_variables, find_taken_inputs, list_known_items
from ensemble_notebook.domain.planning.ensemble_texts import (
    describe_too_deep,
    has_handlers,
    list_item_inputs,
    list_open_gates,
    list_texts,
)
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedAgent, fill_plan, make_plan
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.domain.planning.only_selection import find_part
from ensemble_notebook.domain.planning.versions import Versions, make_versions
from ensemble_notebook.domain.seams.chat_port import ChatSource
from ensemble_notebook.domain.text_filter import TextFilter
from ensemble_notebook.engine.events.listeners import wants_tokens
from ensemble_notebook.engine.run_services import ParentRun, find_parent_run
from ensemble_notebook.engine.run_spec import RunSpec, find_inner_revision
from ensemble_notebook.ensemble.kernel_budgets import find_kernel_budgets
from ensemble_notebook.ensemble.person import find_person, find_waiting_person
from ensemble_notebook.ensemble.read_inputs import check_sourced, has_sourced, list_taken
from ensemble_notebook.ensemble.run_checks import (
    check_runnable,
    check_textless,
    find_kernel_price_problems,
    warn_of_tracing,
)
from ensemble_notebook.ensemble.run_settings import (
    SETTING_NAMES,
    SHARED_FIELDS,
    ContinuedOutput,
    KeptConversations,
    RunSettings,
    describe_continued,
    resolve_capture_mode,
    write_inputs,
)
from ensemble_notebook.errors import Problem, ValidationError, did_you_mean
from ensemble_notebook.models.openai.endpoint import find_base_url_of_environment
from ensemble_notebook.trace.folding.prices import calculate_price
from ensemble_notebook.trace.store.run_store import RunStore

_FIELDS: Final = get_field_names(EnsembleDefinition)
_MOST_NAMED: Final = 5
_TEXTLESS: Final = (
    "A review at the cell shows texts on the page, or in a terminal, which keep them, and capture_mode metadata keeps "
    "no text. Name a function that answers as `review_handler:`, or take another capture_mode."
)
_REUSES_NO_TEXT: Final = (
    "reuse takes over outputs of earlier runs, and capture_mode metadata keeps no text. Leave out one of them."
)
_REUSES_NO_RUN: Final = (
    "reuse takes over outputs of earlier runs, and no runs are remembered here, since the store is off. Leave out "
    "reuse, or switch it on: ensemble_notebook.config.store = 'auto', or %config EnsembleMagics.store = 'auto'."
)


def ask_person_here(setting: RunSettings) -> RunSettings:
    """The settings of a run that is begun here: with the person who can be asked, if it names nobody else."""
    if setting.review_handler is not None or find_parent_run() is not None or (person := find_person()) is None:
        return setting
    return replace(setting, review_handler=person.reviewer)


def list_gate_warnings(ensemble: EnsembleDefinition, graph: Graph) -> tuple[str, ...]:
    """What is said, before there is a run, of gates at which nobody could be asked if it began here."""
    parent = find_parent_run()
    has_person = parent is not None and parent.spec.person is not None
    is_asked = has_person or ask_person_here(RunSettings()).review_handler is not None
    return () if is_asked else _name_gates(list_open_gates(ensemble, graph))


def _name_gates(gates: Sequence[str]) -> tuple[str, ...]:
    if not gates:
        return ()
    more = f" and {len(gates) - _MOST_NAMED} more" if len(gates) > _MOST_NAMED else ""
    there = "There is a review" if len(gates) == 1 else "There are reviews"
    return (f"{there} of {', '.join(gates[:_MOST_NAMED])}{more}, and {NOBODY_HERE}.",)


def make_source(setting: RunSettings) -> ChatSource:
    """Where the models of a run come from: the process's source, one that writes down what it sees, or a recording.

    A nested run asks through the source of the run around it, so that one recording has both.
    """
    from ensemble_notebook.models.model_source import get_default_source

    parent = find_parent_run()
    if parent is not None and parent.spec.replayed_from is not None:
        return parent.source
    if setting.replay is not None:
        from ensemble_notebook.models.recording.replayer import ReplaySource

        pace = 1.0 if setting.pace == "recorded" else 0.0
        return ReplaySource(setting.replay, pace=pace, runs_tools=setting.replay_tools == "live")
    source = get_default_source() if parent is None else parent.source
    if setting.record is not None:
        from ensemble_notebook.models.recording.recorder import ExchangeLog, RecordingSource
        from ensemble_notebook.models.recording.recording_file import RecordingFile

        file = RecordingFile(setting.record)
        return RecordingSource(source, ExchangeLog(file), file.finish)
    return source


def find_unused(
    ensemble: EnsembleDefinition, variables: Mapping[str, Any], used: Collection[str], sources: Iterable[Any] = ()
) -> list[Problem]:
    """The keywords that no text uses. Where there are handlers, they may want any but what is meant as a field.

    Args:
        ensemble: what runs.
        variables: that were given as keywords.
        used: by texts.
        sources: what may be filled with others, when it is read.
    """
    taken = list_taken(sources)
    unused = [name for name in variables if name not in used and name not in (taken or ())]
    if taken is None or has_handlers(ensemble):

        def is_meant_as_field(name: str) -> bool:  # a part of a definition, or a model, is nothing else
            value = variables[name]
            is_model = not isinstance(value, str | Mapping) and find_llm_fault(value) is None
            return name in _FIELDS and (isinstance(value, Definition) or is_model)

        unused = [name for name in unused if is_meant_as_field(name)]
    problems = []
    for name in unused:
        message = f"A run takes no {name}, which is a field of the ensemble, and no text uses {{{name}}}. For a run of "
        message += f"a changed copy, write ensemble.replace({name}=...).run(...)."
        if name not in _FIELDS:
            message = f"No text uses {name!r}.{did_you_mean(name, (*used, *SETTING_NAMES))}"
        elif name not in SHARED_FIELDS:
            message += f" To compare several, write ensemble.variants({{'NAME': {{{name!r}: ...}}, ...}}).run(...)."
        problems.append(Problem(message))
    return problems


class PreparedEnsemble:
    """An ensemble that was checked, and makes the orders of its runs: what they have in common is made once.

    Args:
        ensemble: what runs.
        setting: of each run.
        source: where models come from.
        resumed_from: the run that is gone on with; None where none is.
        task_noun: what its tasks are: those of a map are runs with keys of their own for reuse.

    Attributes:
        graph: as declared.
        only: the one task that each run is about, and what it builds on; None for all tasks.
        capture_mode: how much of each run is kept.
        gate_warnings: what is said of gates at which nobody can be asked.
        written: the variables of its texts, each with the first text that has it.
        variables: these, and the inputs for whose items tasks run, which are never written.

    Raises:
        ValidationError: it can't run like this, whatever the inputs are.
    """

    def __init__(
        self,
        ensemble: EnsembleDefinition,
        setting: RunSettings,
        source: ChatSource,
        resumed_from: str | None = None,
        *,
        task_noun: TaskNoun = TaskNoun.TASK,
    ) -> None:
        self._ensemble = ensemble
        self._task_noun = task_noun
        self._setting = setting
        self._resumed_from = resumed_from
        parent = find_parent_run()
        self._path = (*(() if parent is None else parent.spec.path), describe_ensemble(ensemble))
        if len(self._path) > MAX_DEPTH + 1:  # one of those that are nested reaches itself
            raise ValidationError(describe_too_deep(self._path))
        # The ensemble of each row was checked by itself, and there may be ten thousand tasks around them.
        self.graph, self._warnings = (
            (build_graph(ensemble), ()) if task_noun.is_run else check_runnable(ensemble, source)
        )
        check_inner_variables(ensemble)
        self.written = find_first_texts(list_texts(ensemble))
        items = find_first_texts(list_item_inputs(ensemble))
        self.variables = self.written | {name: text for name, text in items.items() if name not in self.written}
        workers = [each for node in self.graph.all_tasks for each in (node.agent, node.fallback) if each is not None]
        team = [member.agent for member in self.graph.team]
        self._agents = list(dict.fromkeys((*ensemble.agents, *workers, *team)))  # who takes part, once each
        self._has_resolved_agents = bool(
            find_first_texts(text for agent in self._agents for text in list_agent_texts(agent))
        )
        self.capture_mode = resolve_capture_mode(ensemble.capture_mode)
        if parent is not None and parent.spec.capture_mode is CaptureMode.METADATA:
            self.capture_mode = CaptureMode.METADATA  # no text of what is done inside is kept either (E52)
        self._deps = ensemble.deps if setting.deps is None else setting.deps
        self._conversations = setting.conversations
        continued: Any = setting.continue_from
        self._continued_from = None if continued is None else continued.run_id
        self._earlier_attachments = getattr(continued, "_attachments", None)  # which an output of this process has
        self._is_prompted = isinstance(continued, KeptConversations) and continued.prompt is not None
        if continued is not None:
            self._warnings = (*self._warnings, *self._check_continued(continued))
        self.only = find_part(self.graph, setting.only, said_with="only" if setting.forked_from is None else "until")
        # Of a map, a row forks, and that is told what it does; its own tasks, which are rows, are as they are.
        is_fork = setting.forked_from is not None and not setting.forked_from.is_rerun and not task_noun.is_run
        is_reusing = setting.reuse or resumed_from is not None or is_fork or self.only is not None
        self._is_reusing = is_reusing or (parent is not None and parent.spec.is_reusing)
        if self.capture_mode is CaptureMode.METADATA:
            self._warnings = (*self._warnings, *check_textless(ensemble, self.graph, setting))
        replayed_from = None if setting.replay is None else Path(setting.replay).name
        # The recording of the run around it answers in place of models, if there is one.
        self._replayed_from = (parent is not None and parent.spec.replayed_from) or replayed_from
        # Whether the outputs of tasks are kept, so that later runs can reuse them.
        is_remembered = RunStore.find() is not None if parent is None else parent.spec.keeps_tasks
        is_textless, is_replay = self.capture_mode is CaptureMode.METADATA, self._replayed_from is not None
        self._keeps_tasks = is_remembered and not is_textless and not is_replay
        if setting.reuse and not is_replay and not self._keeps_tasks:
            raise ValidationError(_REUSES_NO_TEXT if is_textless else _REUSES_NO_RUN)
        # A recording spends nothing, and what is inside a run, or a row of a map, is held with it.
        self._is_held = parent is None and not setting.is_row and not is_replay
        if self._is_held and (problems := [*find_kernel_price_problems(ensemble, self.graph, kernel_limits.budgets)]):
            raise ValidationError(problems)
        self._streams = (
            setting.streams or wants_tokens(ensemble.listeners) or wants_tokens(setting.listeners, default=True)
        )
        self.gate_warnings = self._check_gates(parent)
        if not setting.is_row:
            self._warnings = (*self._warnings, *self.gate_warnings)
        self._shared: RunSpec | None = None

    def _check_continued(self, continued: ContinuedOutput) -> Iterator[str]:
        """Settle which conversations tasks go on with; where no task has a namesake, that is told.

        Raises:
            ValidationError: no text is kept of this run, or messages are not for one agent alone.
        """
        names = [node.name for node in self.graph.tasks if node.agent is not None]
        if isinstance(continued, KeptConversations) and continued.messages is not None:
            if len(names) != 1:
                there = ", ".join(names) or "none"
                raise ValidationError(
                    f"continue_from is a list of messages, which are for the only task that has an agent, and here "
                    f"are {len(names)}: {there}. Give an output or the id of a run, in which tasks are found by their "
                    f"names."
                )
            self._conversations = {names[0]: continued.messages}
        if self.capture_mode is CaptureMode.METADATA:
            raise ValidationError(
                f"continue_from goes on with texts of {describe_continued(continued.run_id)}, and capture_mode "
                f"{CaptureMode.METADATA.value} keeps no text of this one. Leave out one of them."
            )
        if not any(name in self._conversations for name in names):
            there = ", ".join(self._conversations) or "none"
            yield (
                f"No task goes on with a conversation of run {continued.run_id}: there are those of {there}, and here "
                f"are the tasks {', '.join(names) or 'of handlers alone'}. Give a task the same name in both."
            )

    def _check_gates(self, parent: ParentRun | None) -> tuple[str, ...]:
        """Say at which gates nobody can be asked, if that is known by now.

        Raises:
            ValidationError: a person would be shown texts, and no text is to be kept.
        """
        reviewer = self._setting.review_handler or (None if parent is None else parent.spec.person)
        is_textless = self.capture_mode is CaptureMode.METADATA and find_waiting_person(reviewer) is not None
        if self._task_noun.is_run or (reviewer is not None and not is_textless):
            return ()
        gates = list_open_gates(self._ensemble, self.graph)
        if is_textless:
            holders: list[Agent | Task] = [*self._agents, *(node.task for node in self.graph.all_tasks)]
            tools = [tool for each in holders for tool in each.tools]
            is_asking = self._ensemble.review_handler is None and (human_input in tools or any(map(is_reviewed, tools)))
            if gates or is_asking:
                raise ValidationError(_TEXTLESS)
            return ()
        return () if self._replayed_from is not None else _name_gates(gates)

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Check the values of a run that is to come.

        Raises:
            ValidationError: as `make_spec`.
        """
        protect_named(values)
        self._refuse_taken(values)
        check_sourced(values)
        written = write_inputs(self.written, values, reads_files=False)[0]
        list_known_items(self.graph, values)
        if self._has_resolved_agents and (
            problems := [*find_resolved_role_problems(self._agents, self.graph, written)]
        ):
            raise ValidationError(problems)

    def _refuse_taken(self, values: Mapping[str, Any]) -> None:
        if problems := [*find_taken_inputs(self._ensemble, values)]:
            raise ValidationError(problems)

    def make_spec(self, values: Mapping[str, Any]) -> RunSpec:
        """Everything that the engine needs for a run with these values of all variables.

        Raises:
            ValidationError: a value can't be written into a text, or makes roles that can't stand side by side.
        """
        self._refuse_taken(values)
        check_sourced(values)
        with held_by_run(self._earlier_attachments) as attachments:
            written, cut_warnings = write_inputs(self.written, values)
        self._refuse_attachments(written)
        ensemble, setting = self._ensemble, self._setting
        shared = self._shared or self._resolve(written)
        if not self._has_resolved_agents:
            self._shared = shared
        parent = find_parent_run()
        person = None if parent is None else parent.spec.person
        items = list_known_items(self.graph, values)
        if items:
            plan = make_plan(self.graph, written, items)
        else:
            plan = fill_plan(self.bare_plan, self.graph, written) if self.written else self.bare_plan
        # Whether no view can tell the plan of one run from that of another: no text of it is told.
        is_plain = not self._has_resolved_agents and all(node.nested is None for node in self.graph.tasks)
        is_plan_shared = self.capture_mode is CaptureMode.METADATA and is_plain
        memory = None
        if any(node.task.memory for node in self.graph.all_tasks):
            from ensemble_notebook.memory.full_text_store import InMemoryStore
            from ensemble_notebook.memory.vector_store_memory import to_memory

            memory = InMemoryStore() if ensemble.memory is None else to_memory(ensemble.memory)
        around = find_kernel_budgets() if self._is_held else ()
        budget, warning = cap_budget(shared.budget, around[-1] if around and kernel_limits.cell_budget else None)
        return replace(
            shared,
            plan=plan,
            bare_plan=self.bare_plan if is_plan_shared and not items else None,
            items=items,
            inputs=values,
            warnings=(*shared.warnings, *cut_warnings, *filter(None, [warning])),
            memory=memory,
            review_handler=(None if setting.is_row else ensemble.review_handler) or setting.review_handler or person,
            person=person if setting.is_row else setting.review_handler or person,
            revision=find_inner_revision(),
            texts=place_texts(ensemble.texts, written),
            attachments=attachments,
            budget=budget,
            budgets_around=around,
            rate_limits=(kernel_limits.class_rate_limit,) if self._is_held and kernel_limits.class_rate_limit else (),
            complete=self._complete if self._is_prompted or has_sourced(values) else None,
        )

    def _refuse_attachments(self, written: Mapping[str, str]) -> None:
        """Refuse a picture or PDF in a text of an agent: models take none in a system prompt."""
        if not (names := {name for name, text in written.items() if has_mark(text)}):
            return
        problems = [
            Problem(
                f"The input {name!r} is a picture or PDF, and {{{name}}} stands in a text of agent {agent.role!r}: "
                f"models take none in a system prompt. Put {{{name}}} into the description of the task."
            )
            for agent in self._agents
            for name in find_first_texts(list_agent_texts(agent))
            if name in names
        ]
        if problems:
            raise ValidationError(problems)

    def _complete(self, values: Mapping[str, Any], messages: Messages | None) -> RunSpec:
        """Everything that the engine needs, now that what is an input of a run has been read.

        Args:
            values: of all variables.
            messages: of the prompt that the only agent goes on with; None where there is none.

        Raises:
            ValidationError: as `make_spec`; or the prompt has no place for what its task reads.
        """
        spec = self.make_spec(values)
        for name in spec.conversations if messages and messages[-1].role == "user" else ():
            if next(node for node in self.graph.tasks if node.name == name).context:
                raise ValidationError(
                    f"continue_from ends with a prompt, which is all that task {name!r} is told, and has no place for "
                    f"the outputs that it reads. Leave out its context, or give the prompt as an input."
                )
        conversations = spec.conversations if messages is None else dict.fromkeys(spec.conversations, messages)
        return replace(spec, conversations=conversations, complete=None)

    @cached_property
    def versions(self) -> Versions:
        """The versions of the definition, the same for all its runs."""
        return make_versions(self._ensemble, list_planned_agents(self._agents, self.graph), self.bare_plan)

    @cached_property
    def bare_plan(self) -> ExecutionPlan:
        """The plan without values of inputs, which all runs have in common."""
        return make_plan(self.graph)

    def _resolve(self, written: Mapping[str, str]) -> RunSpec:
        """Fill the variables in the agents: what of a run depends on its inputs only through these."""
        ensemble, setting = self._ensemble, self._setting
        if problems := [*find_resolved_role_problems(self._agents, self.graph, written)]:
            raise ValidationError(problems)
        resolver, constraints = AgentResolver(written), ensemble.hierarchical_constraints
        graph = resolver.resolve_graph(self.graph)
        constraints = None if constraints is None else resolve_constraints(constraints, graph)
        task_keys = None
        if self._keeps_tasks and not self._task_noun.is_run:  # reads all code that the ensemble names now
            delegation = DelegationSettings(
                policies=ensemble.delegation_policies,
                max_depth=ensemble.max_delegation_depth,
                constraints=constraints,
                manager_prompt=ensemble.manager_prompt,
                texts=ensemble.texts,
            )
            task_keys = TaskKeys(graph, delegation, openai_url=find_base_url_of_environment(), deps=self._deps)
        text_filter = None
        if self.capture_mode is CaptureMode.METADATA:
            text_filter = TextFilter(self._warnings, {resolver.resolve(each).role: each.role for each in self._agents})
        return RunSpec(
            definition=ensemble,
            graph=graph,
            plan=self.bare_plan,
            agents=tuple(list_planned_agents(map(resolver.resolve, self._agents), graph)),
            inputs={},
            warnings=(*self._warnings, *find_resolved_role_warnings(graph), *warn_of_tracing()),
            streams=self._streams,
            capture_mode=self.capture_mode,
            text_filter=text_filter,
            budget=None if setting.is_row else ensemble.budget,
            pricing=calculate_price,
            constraints=constraints,
            replayed_from=self._replayed_from,
            keeps_tasks=self._keeps_tasks,
            task_keys=task_keys,
            is_reusing=self._is_reusing and setting.record is None,
            only=self.only,
            resumed_from=self._resumed_from,
            kind=self._find_kind(),
            forked_from=setting.forked_from,
            path=self._path,
            conversations=self._conversations,
            continued_from=self._continued_from,
            history=setting.history,
            deps=self._deps,
            timeout=setting.timeout,
            task_noun=self._task_noun,
            versions=None if self._task_noun.is_run else self.versions,
            variable=None if setting.origin is None else setting.origin.variable,
        )

    def _find_kind(self) -> RunKind:
        """What the run is; one that is a part of another is that alone."""
        if self._setting.is_row or len(self._path) > 1:
            return RunKind.NESTED
        if (place := self._setting.forked_from) is not None:
            return RunKind.RERUN if place.is_rerun else RunKind.FORK
        return RunKind.MAP if self._task_noun.is_run else RunKind.RUN


def list_planned_agents(agents: Iterable[Agent], graph: Graph) -> Iterator[PlannedAgent]:
    """What views show of who takes part; agents and graph are those of the run."""
    manager = graph.tasks[0].agent if graph.managed else None
    for agent in agents:
        natives = [DELEGATE] if agent.allow_delegation else [DELEGATE_TASK] if agent is manager else []
        yield PlannedAgent(
            role=agent.role,
            goal=agent.goal,
            background=agent.background,
            tools=(*(name for tool in agent.tools for name in list_told_names(tool)), *natives),
            allow_delegation=agent.allow_delegation,
            system_prompt=agent.system_prompt,
        )
