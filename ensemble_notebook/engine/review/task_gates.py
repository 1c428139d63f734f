"""The gates of tasks: where a person is asked before, during and after one, and what the answers mean (E27, E45)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ReviewPolicy, ReviewTiming, ToolOutcome
from ensemble_notebook.domain.definitions.review import Review, ReviewDecision, ReviewRequest, ReviewSubject, Verdict
from ensemble_notebook.domain.definitions.tool import human_input
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolCall, ToolSpec
from ensemble_notebook.engine.agent.agent_request import ToolGate
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.lifecycle.task_abandonment import TaskAbandoned
from ensemble_notebook.engine.review.review_queue import ReviewQueue
from ensemble_notebook.engine.specs.resolved_task import ResolvedTask
from ensemble_notebook.errors import ReviewRejectedError

LEFT_RUN: Final = "not done: somebody chose to leave the run"

_BEFORE: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.REJECT, Verdict.EXIT_EARLY)
_AFTER: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
_QUESTION: Final = (Verdict.EDIT, Verdict.EXIT_EARLY)
_HUMAN_INPUT: Final = ToolSpec(
    name="human_input",
    description="Ask the person who runs this for something that only a person knows, and wait for the answer.",
    parameters={
        "type": "object",
        "properties": {"question": {"type": "string", "description": "What to ask, complete and polite."}},
        "required": ["question"],
    },
)


class TaskGates:
    """The gates of all tasks of one run; where nobody can be asked, there are none."""

    def __init__(self, review_queue: ReviewQueue, policy: ReviewPolicy) -> None:
        self._review_queue = review_queue
        self._policy = policy

    @property
    def is_open(self) -> bool:
        """Whether there is anybody to ask."""
        return self._review_queue.has_handler

    async def ask_before(self, resolved: ResolvedTask, task: SpanEmitter) -> ResolvedTask:
        """The resolved task to work with, after the gate before the task; its description may have been edited.

        Raises:
            TaskAbandoned: the person left.
            ReviewRejectedError: the person rejected the task.
        """
        node = resolved.node
        review = self._find_review(node, ReviewTiming.BEFORE)
        if review is None:
            return resolved
        decision = await self._ask("task", resolved.description, node, node.role, review, _BEFORE, task)
        match decision.verdict:
            case Verdict.EXIT_EARLY:
                raise TaskAbandoned(LEFT_RUN)
            case Verdict.EDIT:
                return dataclasses.replace(resolved, description=decision.text)
            case Verdict.REJECT | Verdict.RETRY:
                raise _make_rejection(f"Task {node.name!r} was rejected before it started", decision)
        return resolved

    async def ask_after(
        self, resolved: ResolvedTask, output: TaskOutput, task: SpanEmitter
    ) -> tuple[TaskOutput, str | None]:
        """The output after the gate behind the task, which may have been edited; and feedback, if it is to be redone.

        Raises:
            ReviewRejectedError: the person rejected the output.
        """
        node = resolved.node
        review = self._find_review(node, ReviewTiming.AFTER) or self._find_policy_review(resolved)
        if review is None:
            return output, None
        decision = await self._ask("output", output.raw, node, output.agent_role, review, _AFTER, task)
        match decision.verdict:
            case Verdict.EDIT:
                return dataclasses.replace(output, raw=decision.text), None
            case Verdict.RETRY:
                return output, decision.text
            case Verdict.REJECT:
                raise _make_rejection(f"The output of task {node.name!r} was rejected", decision)
        return output, None

    def make_tool_gate(self, node: TaskNode, agent: Agent) -> ToolGate | None:
        """What looks at each tool call of a task; None where nobody wants to."""
        review = self._find_review(node, ReviewTiming.DURING)
        if review is None:
            return None
        gate = review

        async def approve(call: ToolCall, span: SpanEmitter) -> ToolCall | ToolAnswer:
            if call.name == _HUMAN_INPUT.name:  # asks a person anyway
                return call
            text = json.dumps(call.arguments, ensure_ascii=False, default=str)
            decision = await self._ask("tool", text, node, agent.role, gate, _BEFORE, span, tool=call.name)
            match decision.verdict:
                case Verdict.EXIT_EARLY:
                    raise TaskAbandoned(LEFT_RUN)
                case Verdict.EDIT:
                    return dataclasses.replace(call, arguments=decision.text)
                case Verdict.REJECT | Verdict.RETRY:
                    reason = decision.text or "no reason given"
                    return ToolAnswer(f"Error: a person did not allow this call: {reason}", ToolOutcome.FAILURE)
            return call

        return approve

    def make_tools(self, node: TaskNode, agent: Agent, entries: Sequence[Any]) -> tuple[EngineTool, ...]:
        """The `human_input` of an agent that holds it."""
        if human_input not in entries:
            return ()

        async def answer(arguments: dict[str, Any], span: SpanEmitter) -> ToolAnswer:
            if not self._review_queue.has_handler:
                return ToolAnswer("Error: there is nobody here to ask. Go on without.", ToolOutcome.FAILURE)
            text = str(arguments["question"])
            name = _HUMAN_INPUT.name
            decision = await self._ask("question", text, node, agent.role, Review(), _QUESTION, span, tool=name)
            if decision.verdict is Verdict.EXIT_EARLY:
                raise TaskAbandoned(LEFT_RUN)
            return ToolAnswer(decision.text or "(no answer)", ToolOutcome.SUCCESS)

        return (EngineTool(_HUMAN_INPUT, answer),)

    def _find_review(self, node: TaskNode, timing: ReviewTiming) -> Review | None:
        if not self._review_queue.has_handler:
            return None
        return next((each for each in node.task.review if each.timing is timing), None)

    def _find_policy_review(self, resolved: ResolvedTask) -> Review | None:
        wanted = self._policy is ReviewPolicy.AFTER_EVERY_TASK or (
            self._policy is ReviewPolicy.AFTER_LAST_TASK and resolved.is_last
        )
        return Review() if wanted and self._review_queue.has_handler else None

    async def _ask(
        self,
        subject: ReviewSubject,
        text: str,
        node: TaskNode,
        role: str,
        review: Review,
        verdicts: tuple[Verdict, ...],
        around: SpanEmitter,
        tool: str | None = None,
    ) -> ReviewDecision:
        request = ReviewRequest(
            subject=subject,
            text=text,
            task=node.name,
            phase=around.phase,
            agent=role,
            tool=tool,
            verdicts=verdicts,
            timeout=review.timeout,
            on_timeout=review.on_timeout,
        )
        return await self._review_queue.ask(request, around)


def _make_rejection(what: str, decision: ReviewDecision) -> ReviewRejectedError:
    reason = decision.text.strip() or "no reason given"
    return ReviewRejectedError(f"{what}: {reason}", reason=reason)
