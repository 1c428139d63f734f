"""The gates of single calls: those of reviewed tools are asked about one by one, and wait where nobody answers.

E122 to E127. A call is made only after an answer that is for it alone, or for all calls of its tool in this run.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.enums import ExitReason, ToolOutcome
from ensemble_notebook.domain.definitions.review import (
    A_PERSON,
    ReviewAnswer,
    ReviewRequest,
    Verdict,
)
from ensemble_notebook.domain.definitions.tool import BEFORE, ReviewedCall
from ensemble_notebook.domain.events import Warned
from ensemble_notebook.domain.outputs.conversation import ToolCall
from ensemble_notebook.domain.outputs.pending_call import PendingCall
from ensemble_notebook.domain.planning.graph import TaskNode
from ensemble_notebook.domain.seams.chat_port import CallLeftPending, ReviewedRun, ToolAnswer, ToolSpec
from ensemble_notebook.domain.value_text import read_json, to_plain
from ensemble_notebook.engine.agent.agent_request import CallGate
from ensemble_notebook.engine.agent.tool_arguments import check_given_arguments
from ensemble_notebook.engine.agent.toolbox import CallToReview
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.events.nested_events import CallingSpan
from ensemble_notebook.engine.review_queue import ReviewQueue
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.errors import EnsembleError, summarize_error

TIMEOUT_S: Final = 300.0
"""How long an answer is waited for, before the call is left pending."""
_VERDICTS: Final = (Verdict.APPROVE, Verdict.EDIT, Verdict.REJECT, Verdict.EXIT_EARLY)


class CallGates:
    """The gates of the calls of reviewed tools of one run.

    Args:
        services: of the run.
        review_queue: where people are asked.
    """

    def __init__(self, services: RunServices, review_queue: ReviewQueue) -> None:
        self._services = services
        self._review_queue = review_queue
        self._always: dict[tuple[str, str, str], ReviewAnswer] = {}  # by the tool as somebody was shown it
        self._has_left = False

    def make_gate(self, node: TaskNode, agent: Agent) -> CallGate:
        """What looks at the calls of reviewed tools of one agent at work on a task."""

        async def review(asked: CallToReview, run: ReviewedRun, span: SpanEmitter) -> ToolCall | ToolAnswer | None:
            return await self._review(asked, run, node, agent, span)

        return review

    async def _review(
        self, asked: CallToReview, run: ReviewedRun, node: TaskNode, agent: Agent, span: SpanEmitter
    ) -> ToolCall | ToolAnswer | None:
        answers, waiting = self._services.find_answers(), run.waiting
        is_used = waiting is not None and answers is not None and answers.is_used(waiting.id)
        is_unknown = run.begun_in is not None or is_used
        if not is_unknown and waiting is None and not await self._is_wanted(asked, node, agent, span):
            return None
        if waiting is None or is_used or (is_unknown and not waiting.is_unknown):  # a question that nobody has seen yet
            waiting = None
            pending = PendingCall(
                id=span.span_id,
                task=span.task or node.name,
                tool=asked.call.name,
                arguments=asked.call.arguments,
                since=span.stream.now(),
                agent=agent.role,
                row=self._review_queue.row,
                is_unknown=is_unknown,
            )
        else:
            pending = waiting
        given = None if answers is None else answers.find(pending.id)
        answer, call = await self._ask(asked, pending, given, span)
        decision = answer.decision
        if decision.verdict is Verdict.EXIT_EARLY:
            raise TaskAbandoned(f"not done: {self._review_queue.left}")
        if waiting is not None and answers is not None:  # others may have heard of it
            await self._services.caller.call("noting an answer", answers.use, pending.id, answer)
        if decision.verdict in (Verdict.REJECT, Verdict.RETRY):
            reason = decision.text or "no reason given"
            return ToolAnswer(f"Error: a person did not allow this call: {reason}", ToolOutcome.DECLINED)
        return call

    async def _ask(
        self, asked: CallToReview, pending: PendingCall, given: ReviewAnswer | None, span: SpanEmitter
    ) -> tuple[ReviewAnswer, ToolCall]:
        """The answer about a call, and the call as it leaves it. A person whose arguments don't fit is asked again.

        Raises:
            CallLeftPending: there is none, or arguments that were given with the run are not what the tool takes.
            EnsembleError: that of a function has.
        """
        text = json.dumps(asked.call.arguments, ensure_ascii=False, default=str)
        if pending.is_unknown:
            text += "\n\nThis call was begun before, and it is not known whether it was done. Make it again?"
        request = ReviewRequest(
            subject="tool",
            text=text,
            task=pending.task,
            phase=span.phase,
            agent=pending.agent,
            tool=pending.tool,
            verdicts=_VERDICTS,
            timeout=TIMEOUT_S,
            call_id=pending.id,
            arguments=asked.call.arguments,
            parameters=asked.spec.parameters,
            is_unknown=pending.is_unknown,
        )

        tool = pending.tool, asked.spec.description, json.dumps(asked.spec.parameters, default=str)

        def find_given() -> ReviewAnswer | None:
            return given or (None if pending.is_unknown else self._always.get(tool))

        while True:
            try:
                answer = await self._review_queue.ask(request, span, find_given=find_given)
            except CallLeftPending as left:
                self._leave(pending)
                raise CallLeftPending(left.by, pending) from None
            if answer.decision.always:
                self._always[tool] = answer
            if answer.decision.verdict is not Verdict.EDIT:
                return answer, asked.call
            arguments, fault = read_edited_arguments(answer.decision.text, asked.spec)
            if not fault:
                return answer, dataclasses.replace(asked.call, arguments=arguments)
            wrong = (
                f"The answer to call {pending.id} edits its arguments to what tool {pending.tool!r} does not take: "
                f"{fault} The call was not made, and waits."
            )
            if given is not None:  # no answer, then, and nothing beside it is lost
                self._services.warn(wrong)
                self._leave(pending)
                raise CallLeftPending(answer.by or A_PERSON, pending)
            if answer.by != A_PERSON:
                raise EnsembleError(wrong)
            request = dataclasses.replace(request, text=f"{text}\n\nThe edited arguments don't fit: {fault}")

    async def _is_wanted(self, asked: CallToReview, node: TaskNode, agent: Agent, span: SpanEmitter) -> bool:
        """Whether somebody is to be asked about a call. Whatever a rule does wrong, somebody is."""
        rule, tool = asked.review, asked.call.name
        if rule == BEFORE:
            return True
        seen = ReviewedCall(
            tool=tool,
            arguments=copy.deepcopy(asked.call.arguments),
            agent=agent.role,
            task=node.name,
            inputs=self._services.inputs,
            deps=self._services.spec.deps,
        )
        try:
            with CallingSpan(span):
                said = to_plain(await self._services.caller.call(f"review rule of {tool}", rule, seen))
            fault = f"it must return True or False, and returned {type(said).__name__}"
        except Exception as error:  # noqa: BLE001 - whatever it raises, somebody is asked
            said, fault = None, summarize_error(error)
        if not isinstance(said, bool):
            message = f"The review rule of tool {tool!r} is broken: {fault}. So its calls are asked about."
            span.emit_once(("review rule", tool), Warned, message=message)
        return said is not False

    def _leave(self, pending: PendingCall) -> None:
        """The run ends early with a call that waits: what runs finishes, nothing new starts."""
        if not self._has_left:
            self._has_left = True
            resume = f"run(resume=output, answers={{{pending.id!r}: 'approve'}})"
            how = f"Resume the run where somebody can be asked, or with {resume}."
            if self._services.spec.text_filter is not None:
                how = "No later run can answer it, since this one keeps no text (capture_mode metadata)."
            elif not self._services.spec.keeps_tasks:
                how = f"No store keeps the run, so only this process can answer it, while it has its output: {resume}."
            self._services.warn(
                f"A call of {pending.tool} in task {pending.task!r} was not made, since nobody has answered: it waits, "
                f"see output.pending. {how}"
            )
        self._services.exit_early(ExitReason.NOBODY_TO_ASK, "a call of a tool waits for an answer")


def read_edited_arguments(text: str, spec: ToolSpec) -> tuple[dict[str, Any], str]:
    """Read the arguments that somebody has given in place of others; the fault as a sentence, empty where they fit."""
    try:
        given = read_json(text)
    except ValueError as error:
        return {}, f"they are no JSON ({error})."
    if not isinstance(given, dict):
        return {}, f"they must be an object of names and values, and are {text[:80]}."
    arguments, faults = check_given_arguments(given, spec.parameters)
    told = (f"{'.'.join(map(str, path))}: {fault}" if path else fault for path, fault in faults)
    return arguments, " ".join(f"{each.removesuffix('.')}." for each in told)
