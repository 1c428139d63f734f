"""The gates of tasks: where a person is asked before, during and after one, and what the answers mean (E27, E45)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import OnTimeout, ReuseMode, ReviewPolicy, ReviewTiming, ToolOutcome
from ensemble_notebook.domain.definitions.review import (
    Review,
    ReviewAnswer,
    ReviewDecision,
    ReviewHandler,
    ReviewRequest,
    ReviewSubject,
    Verdict,
)
from ensemble_notebook.domain.definitions.tool import human_input
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import ToolAnswer, ToolSpec
from ensemble_notebook.engine.agent.agent_request import RepeatGate, ToolGate
from ensemble_notebook.engine.agent.toolbox import EngineTool
from ensemble_notebook.engine.call_gates import CallGates
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.review_queue import ReviewQueue
from ensemble_notebook.engine.run_spec import ResolvedTask
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.errors import ReviewRejectedError

_BEFORE: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.REJECT, Verdict.EXIT_EARLY)
_AFTER: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
_AGAIN: Final = (Verdict.APPROVE, Verdict.REJECT, Verdict.EXIT_EARLY)
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


_is_mending_forbidden: Final[ContextVar[bool]] = ContextVar("ensemble_is_mending_forbidden", default=False)


class TaskGates:
    """The gates of all tasks of one run. Where nobody can be asked, the `on_timeout` of each decides at once.

    Attributes:
        calls: the gates of single calls of reviewed tools.
    """

    def __init__(
        self,
        review_queue: ReviewQueue,
        policy: ReviewPolicy,
        note_passed: Callable[[TaskNode, ReviewTiming, ReviewAnswer, ReviewHandler | None], None],
        calls: CallGates,
    ) -> None:
        self.calls = calls
        self._review_queue = review_queue
        self._policy = policy
        self._note_passed = note_passed

    @property
    def reviewer(self) -> ReviewHandler | None:
        """Whoever decides; None where nobody can be asked."""
        return self._review_queue.handler

    def has_gate(self, resolved: ResolvedTask, timing: ReviewTiming) -> bool:
        """Whether there is a gate before or after a task."""
        return self._find_gate(resolved, timing) is not None

    async def ask_before(self, resolved: ResolvedTask, task: SpanEmitter) -> ResolvedTask:
        """The resolved task to work with, after the gate before the task; its description may have been edited.

        Raises:
            TaskAbandoned: the person left.
            ReviewRejectedError: the person rejected the task.
        """
        node = resolved.node
        review = self._find_gate(resolved, ReviewTiming.BEFORE)
        if review is None:
            return resolved
        asked = resolved.description if resolved.prompt is None else resolved.prompt.text
        answer = await self._ask("task", asked, node.name, node.role, review, _BEFORE, task)
        if answer.is_decided:
            self._note_passed(node, ReviewTiming.BEFORE, answer, self.reviewer)
        decision = answer.decision
        match decision.verdict:
            case Verdict.EDIT:
                if resolved.prompt is None:
                    return dataclasses.replace(resolved, description=decision.text)
                # The places of its own prompt are still to be filled.
                return dataclasses.replace(resolved, prompt=resolved.prompt.with_text(decision.text))
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
        review = self._find_gate(resolved, ReviewTiming.AFTER)
        if review is None:
            return output, None
        answer = await self._ask("output", output.raw, node.name, output.agent_role, review, _AFTER, task)
        if answer.is_decided:
            self._note_passed(node, ReviewTiming.AFTER, answer, self.reviewer)
        decision = answer.decision
        match decision.verdict:
            case Verdict.EDIT:
                return dataclasses.replace(output, raw=decision.text), None
            case Verdict.RETRY:
                return output, decision.text
            case Verdict.REJECT:
                raise _make_rejection(f"The output of task {node.name!r} was rejected", decision)
        return output, None

    def may_mend_calls(self, node: TaskNode) -> bool:
        """Whether calls of its tools may be mended: not where they have side effects, or a person decides (E13)."""
        asks = bool(node.task.review) or self._policy is not ReviewPolicy.NEVER
        return node.task.reuse is not ReuseMode.NEVER and not asks and not _is_mending_forbidden.get()

    def forbid_mending(self, node: TaskNode) -> None:
        """Have no call mended from here on in this context, of runs inside too, where none of this task may be."""
        if not self.may_mend_calls(node):
            _is_mending_forbidden.set(True)

    def make_tool_gate(self, node: TaskNode, agent: Agent) -> ToolGate | None:
        """What looks at each tool call of a task; None where nobody wants to."""
        gate = _find_review(node, ReviewTiming.DURING)
        if gate is None:
            return None

        async def approve(call: ToolCall, span: SpanEmitter) -> ToolCall | ToolAnswer:
            if call.name == _HUMAN_INPUT.name:  # asks a person anyway
                return call
            text = json.dumps(call.arguments, ensure_ascii=False, default=str)
            answer = await self._ask("tool", text, node.name, agent.role, gate, _BEFORE, span, tool=call.name)
            decision = answer.decision
            match decision.verdict:
                case Verdict.EDIT:
                    return dataclasses.replace(call, arguments=decision.text)
                case Verdict.REJECT | Verdict.RETRY:
                    reason = decision.text or "no reason given"
                    return ToolAnswer(f"Error: a person did not allow this call: {reason}", ToolOutcome.DECLINED)
            return call

        return approve

    def make_repeat_gate(self, node: TaskNode, agent: Agent) -> RepeatGate:
        """What asks about a call that was begun in an earlier run, and whose end is not known (C33)."""

        async def ask_again(call: ToolCall, begun_in: str, span: SpanEmitter) -> ToolAnswer | None:
            arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
            text = f"{arguments}\n\nThis call was begun in run {begun_in}, and its end is not known. Make it again?"
            # Not made again where nobody answers. The run in the text has it asked anew in each run that goes on.
            gate = Review(timing=ReviewTiming.DURING, on_timeout=OnTimeout.FAIL)
            answer = await self._ask("tool", text, node.name, agent.role, gate, _AGAIN, span, tool=call.name)
            decision = answer.decision
            if decision.verdict is Verdict.APPROVE:
                return None
            reason = decision.text or "no reason given"
            return ToolAnswer(
                f"Error: this call was begun before, its end is not known, and a person did not allow it to be made "
                f"again: {reason}",
                ToolOutcome.DECLINED,
            )

        return ask_again

    def make_tools(self, node: TaskNode, agent: Agent, entries: Sequence[Any]) -> tuple[EngineTool, ...]:
        """The `human_input` of an agent that holds it."""
        if human_input not in entries:
            return ()

        async def answer(arguments: dict[str, Any], span: SpanEmitter) -> ToolAnswer:
            text = str(arguments["question"])
            said = await self._ask_question(agent.role, node.name, _HUMAN_INPUT.name, text, span)
            if said is None:
                return ToolAnswer("Error: there is nobody here to ask. Go on without.", ToolOutcome.FAILURE)
            return ToolAnswer(said or "(no answer)", ToolOutcome.SUCCESS)

        return (EngineTool(_HUMAN_INPUT, answer),)

    async def ask_for_tool(self, role: str, tool: str, question: str, span: SpanEmitter) -> str | None:
        """The answer of the person to a question of a tool; None where nobody answers, or nobody is there.

        Raises:
            TaskAbandoned: the person left the run.
        """
        return await self._ask_question(role, span.task or "", tool, question, span) or None

    async def _ask_question(self, role: str, task: str, tool: str, question: str, span: SpanEmitter) -> str | None:
        """The answer of the person, which may be empty; None where nobody is there."""
        if not self._review_queue.has_handler:
            self._review_queue.warn_of_question(f"{role} of task {task!r}")
            return None
        return (await self._ask("question", question, task, role, Review(), _QUESTION, span, tool=tool)).decision.text

    def _find_gate(self, resolved: ResolvedTask, timing: ReviewTiming) -> Review | None:
        """The gate before or after a task, be it that of the policy; one item of a task has none."""
        if resolved.is_item:
            return None
        if (review := _find_review(resolved.node, timing)) is not None or timing is not ReviewTiming.AFTER:
            return review
        is_wanted = self._policy is ReviewPolicy.AFTER_EVERY_TASK or (
            self._policy is ReviewPolicy.AFTER_LAST_TASK and resolved.is_last
        )
        return Review() if is_wanted else None

    async def _ask(
        self,
        subject: ReviewSubject,
        text: str,
        task: str,
        role: str,
        review: Review,
        verdicts: tuple[Verdict, ...],
        around: SpanEmitter,
        tool: str | None = None,
    ) -> ReviewAnswer:
        """Ask.

        Raises:
            TaskAbandoned: a review ends the run, before the task is done.
        """
        request = ReviewRequest(
            subject=subject,
            text=text,
            task=task,
            phase=around.phase,
            agent=role,
            tool=tool,
            verdicts=verdicts,
            timeout=review.timeout,
            on_timeout=review.on_timeout,
        )
        answer = await self._review_queue.ask(request, around)
        if answer.decision.verdict is Verdict.EXIT_EARLY and subject != "output":
            raise TaskAbandoned(f"not done: {self._review_queue.left}", has_worked=subject != "task")
        return answer


def _find_review(node: TaskNode, timing: ReviewTiming) -> Review | None:
    return next((each for each in node.task.review if each.timing is timing), None)


def _make_rejection(what: str, decision: ReviewDecision) -> ReviewRejectedError:
    reason = decision.text.strip() or "no reason given"
    return ReviewRejectedError(f"{what}: {reason}", reason=reason)
