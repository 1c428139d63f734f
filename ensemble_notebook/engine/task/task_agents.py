"""Has agents work on the tasks of a run: models that are made ready, prompts, tools, delegation (E1, E22, E23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.amounts import read_history
from ensemble_notebook.domain.events import TaskInputPrepared, Warned
from ensemble_notebook.domain.outputs.conversation import Messages, ShortenedHistory, guess_tokens, make_conversation
from ensemble_notebook.domain.seams.chat_port import ChatPort
from ensemble_notebook.engine.agent.agent_request import AgentRequest, WorkResult
from ensemble_notebook.engine.agent.agent_runner import AgentRunner
from ensemble_notebook.engine.agent.call_again import CallAgain
from ensemble_notebook.engine.agent.preparation import PreparedModels, PreparedTools
from ensemble_notebook.engine.agent.prompts import (
    MemoryEntries,
    PromptParts,
    frame_prompt,
    warn_of_long_context,
    write_own_prompt,
    write_system_prompt,
    write_task_sections,
)
from ensemble_notebook.engine.agent.structured_output import get_output_format
from ensemble_notebook.engine.request_limits import RequestLimits
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.run_spec import ResolvedTask
from ensemble_notebook.engine.task.task_work import TaskWork
from ensemble_notebook.engine.task_gates import TaskGates

if TYPE_CHECKING:
    from ensemble_notebook.engine.delegation import DelegationTools
    from ensemble_notebook.engine.manager import Manager


class TaskAgents:
    """The agents of one run, and what they are asked for. Made for the first: a run of handlers has none.

    Args:
        services: of the run.
        limits: of all model requests of the run.
        gates: approve tool calls, and give the tool by which an agent asks a person.
        tools: opens those that are behind connections.

    Attributes:
        manager: of a hierarchical run, whose only task is the manager's; else None.
    """

    def __init__(self, services: RunServices, limits: RequestLimits, gates: TaskGates, tools: PreparedTools) -> None:
        self._services = services
        self._spec = services.spec
        self._gates = gates
        self._models = PreparedModels(services.source, services.span)
        self._runner = AgentRunner(services, self._models, limits, tools, gates.ask_for_tool)
        self._delegation_tools: DelegationTools | None = None
        self.manager: Manager | None = None
        if self._spec.graph.team:  # somebody delegates; most runs never load these modules
            from ensemble_notebook.engine.delegation import DelegationTools, TeamMembers
            from ensemble_notebook.engine.manager import Manager

            team = TeamMembers(self._spec.graph.team)
            self._delegation_tools = DelegationTools(services, team, self._runner, gates)
            self.manager = Manager(self._spec, team) if self._spec.graph.managed else None

    def close(self) -> None:
        """Release what is still being made ready: the run is over."""
        self._models.stop()

    async def run(self, work: TaskWork, agent: Agent, llm: Any, *, is_fallback: bool) -> WorkResult:
        """Have an agent do a task, in the time that this has.

        Raises:
            DeadlineExceededError: the time is over.
            AgentExecutionError: the model can't be had; or as `AgentRunner.run`.
        """
        # Getting a model ready (imports, weights) happens once for all, so it is on no task's clock.
        port = await self._models.get(llm, agent, work.resolved.description, work.span)
        return await work.deadline.limit(self._run_with(port, work, agent, is_fallback=is_fallback), "nothing yet")

    async def call_again(self, call: CallAgain, work: TaskWork) -> WorkResult:
        """Make a model call again, in the time that its task has.

        Raises:
            DeadlineExceededError: the time is over.
            AgentExecutionError: the model can't be had, or gave no reply.
        """
        description = work.resolved.description
        port = await self._models.get(call.llm, call.agent, description, work.span)
        llm = self._runner.make_llm(call.make_request(description), port)
        return await work.deadline.limit(call.ask(port, llm, work.span), f"a request to {port.name}")

    async def _run_with(self, port: ChatPort, work: TaskWork, agent: Agent, *, is_fallback: bool) -> WorkResult:
        before = None if is_fallback else work.loop_before
        request = await self._make_request(work, agent, is_fallback=is_fallback, is_going_on=before is not None)
        for message in warn_of_long_context(work.resolved.context):
            work.span.emit(Warned, message=message)
        result = await self._runner.run(request, port, work.span, work.watch, before)
        if self.manager is not None:
            self.manager.check_constraints()
        return result

    async def _make_request(
        self, work: TaskWork, agent: Agent, *, is_fallback: bool, is_going_on: bool
    ) -> AgentRequest:
        """What an agent is asked to do for a task; one that `is_going_on` has been told who it is, and what was said.

        Raises:
            Exception: what the user's manager prompt raised.
        """
        resolved, began_s = work.resolved, work.span.stream.offset_s()
        node, task = work.node, work.node.task
        if self.manager is not None:
            services = self._services
            prompts = await self.manager.write_prompts(resolved.description, services.inputs, services.caller)
        else:
            prompts = write_system_prompt(agent), write_task_sections(resolved.description, resolved.expected_output)
        system_prompt, sections = prompts
        taken_s = work.span.stream.offset_s() - began_s
        history = self._spec.find_history(task, agent)
        llm = node.fallback_llm if is_fallback else node.llm
        tools = (*agent.tools, *task.tools)
        engine_tools = [*self._gates.make_tools(node, agent, tools)]
        if self._delegation_tools is not None:
            engine_tools += self._delegation_tools.make_tools(node, agent, node.name)
            if self.manager is not None:
                engine_tools.append(self._delegation_tools.make_tool(self.manager, node))

        def write_user_prompt(output_format: str, sent: ShortenedHistory) -> str:
            """The whole user prompt; emits the event of all prompts, of which `taken_s` went into the other parts."""
            began_s = work.span.stream.offset_s()
            around = {"memory": work.memory, "revision": work.revision, "output_format": output_format}
            text = _frame(resolved, sections, **around, texts=self._spec.texts)
            work.span.emit(
                TaskInputPrepared,
                system_prompt="" if is_going_on else system_prompt,
                user_prompt=text,
                context=tuple(each.name for each in resolved.context),
                build_s=taken_s + work.span.stream.offset_s() - began_s,
                earlier=sent.sent,
                left_out=sent.left_out,
            )
            return text

        # As a LangChain model counts them by its `custom_get_token_ids`, else four characters each. Its
        # `get_num_tokens` is not asked: it fetches a tokenizer from the network.
        count = getattr(llm, "custom_get_token_ids", None)
        return AgentRequest(
            agent=agent,
            description=resolved.description,
            system_prompt=system_prompt,
            write_user_prompt=write_user_prompt,
            tools=tools,
            engine_tools=tuple(engine_tools),
            output_format=None if task.output_type is None else get_output_format(task.output_type),
            max_output_retries=task.max_output_retries,
            max_retries=task.max_retries,
            max_retry_wait_s=agent.find_max_retry_wait(llm, task.max_retry_wait),
            rate_limits=() if task.rate_limit is None else (task.rate_limit,),
            approve=self._gates.make_tool_gate(node, agent),
            ask_again=self._gates.make_repeat_gate(node, agent),
            review_call=self._gates.calls.make_gate(node, agent),
            mends_calls=self._gates.may_mend_calls(node),
            write_reminder=None if self.manager is None else self.manager.write_reminder,
            is_fallback=is_fallback,
            earlier=self._spec.get_earlier(node.name),
            history=None if history is None else read_history(history),
            count_tokens=(lambda text: len(count(text))) if callable(count) else guess_tokens,
            rates=node.fallback_rates if is_fallback else node.rates,
        )

    def make_messages(self, resolved: ResolvedTask, memory: MemoryEntries, reply: str) -> Messages:
        """The conversation of a task that an earlier run has done, as this run would have had it."""
        agent = resolved.node.agent
        if agent is None or self.manager is not None:
            return ()
        sections = write_task_sections(resolved.description, resolved.expected_output)
        prompt = _frame(resolved, sections, memory=memory, revision=resolved.revision, texts=self._spec.texts)
        earlier = self._spec.get_earlier(resolved.node.name)
        return make_conversation(write_system_prompt(agent), earlier, prompt, reply)


def _frame(resolved: ResolvedTask, sections: str, **around: Any) -> str:
    """The user prompt of a task: its own, or its `sections` in our frame; `around` is as of `PromptParts`."""
    parts = PromptParts(context=resolved.context, missing=resolved.missing, is_judge=resolved.is_judge, **around)
    return frame_prompt(sections, parts) if resolved.prompt is None else write_own_prompt(resolved.prompt, parts)
