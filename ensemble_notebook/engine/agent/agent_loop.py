"""The agent loop: ask, run the tools that the reply asks for, feed back, until a whole text comes (E10-E14)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from ensemble_notebook.domain.attachments import find_attachments, find_lost_marks, list_marks
from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.run_context import use_agent
from ensemble_notebook.domain.events import ToolCallCompleted, ToolCallStarted, TurnEnded, TurnStarted, Warned
from ensemble_notebook.domain.outputs.conversation import (
    ChatMessage,
    Messages,
    ShortenedHistory,
    ToolCall,
    make_conversation,
    write_arguments,
)
from ensemble_notebook.domain.seams.chat_port import (
    CallLeftPending,
    ChatPort,
    Conversation,
    ModelReply,
    ReviewedRun,
    ToolAnswer,
    ToolLeftRunning,
    ToolNeverBegun,
    list_said,
    say_again,
    set_asking_span,
)
from ensemble_notebook.domain.value_text import mend_text
from ensemble_notebook.engine.agent.agent_request import AgentRequest
from ensemble_notebook.engine.agent.llm_call import LlmCaller
from ensemble_notebook.engine.agent.prompts import (
    MALFORMED_CALL,
    ONLY_REASONING,
    write_correction_prompt,
)
from ensemble_notebook.engine.agent.toolbox import CallToReview, Toolbox
from ensemble_notebook.engine.events.event_stream import SpanEmitter, find_status
from ensemble_notebook.engine.run_services import RunServices
from ensemble_notebook.engine.task_lifecycle import TaskAbandoned
from ensemble_notebook.errors import AgentExecutionError, MaxIterationsExceededError, summarize_error

WARNINGS_BEFORE_END: Final = 2


@contextmanager
def turn_span(task: SpanEmitter, **facts: Any) -> Iterator[SpanEmitter]:
    """The span of one turn: one reply of the model, and the tool calls that it asks for."""
    # The status is kept and not the error, which has this frame in its traceback: a ring.
    turn, status = task.child(), SpanStatus.OK
    turn.emit(TurnStarted, **facts)
    try:
        yield turn
    except BaseException as error:
        status = SpanStatus.SKIPPED if isinstance(error, TaskAbandoned) else find_status(error)
        raise
    finally:
        turn.emit(TurnEnded, status=status)


class AgentLoop:
    """One agent at work on one request.

    Args:
        request: what it is to do.
        history: what is sent of the conversation that it goes on with.
        port: the model.
        llm: asks the model.
        toolbox: the tools.
        services: of the run.
        schema: the JSON schema that the model is held to natively.

    Attributes:
        structured_results: the values that tools gave beside their texts, each with the name of the tool, in order.
        history: as above.
        exchanged: the replies by now that ask for tools, each with the results, as a later run goes on with them.
        cut: why the last reply was cut off, and what to do about it; None where it is whole.
        tool_call_count: of the calls that were executed by now, whatever came of them and comes of the request.
        is_only_reasoning: whether the last reply has reasoning, and neither text nor tool calls.
    """

    def __init__(
        self,
        request: AgentRequest,
        history: ShortenedHistory,
        port: ChatPort,
        llm: LlmCaller,
        toolbox: Toolbox,
        services: RunServices,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.history = history
        self.is_only_reasoning = False
        self._was_asked_for_answer = False
        self.cut: str | None = None
        self.exchanged: list[ChatMessage] = []
        # By a fork: all that is told, and how much was exchanged before.
        self._changed: tuple[Messages, int] | None = None
        self.structured_results: list[tuple[str, Any]] = []
        self._turn_count = 0
        self._conversation: Conversation | None = None
        self._request = request
        self._agent = request.agent
        self._port = port
        self._llm = llm
        self._toolbox = toolbox
        llm.tool_characters = toolbox.character_count if port.has_tool_support else 0
        self._services = services
        self._schema = schema
        self._running_tools = ""
        self._waiting: set[asyncio.Task[Any]] = set()
        self._allowed = 0
        self._refused = 0
        self.tool_call_count = 0
        self._calls: Counter[tuple[str, str]] = Counter()

    @property
    def activity(self) -> str:
        """What it is waiting for: tools, or the model."""
        return self._running_tools or self._llm.activity

    @property
    def has_calls_left(self) -> bool:
        """Whether there may be one more tool call."""
        return self._allowed < self._agent.max_iterations

    async def run(self, user_prompt: str, task: SpanEmitter) -> str:
        """Work until the model replies with a text, which is the result.

        Raises:
            AgentExecutionError: the model gave no reply, or does not take the tools.
            MaxIterationsExceededError: it went on asking for tools after two warnings.
        """
        self._conversation = self._open(user_prompt, task)
        return await self._work(self._conversation, task)

    async def go_on(self, prompt: str, task: SpanEmitter, *, is_correction: bool = False) -> str:
        """Go on with the conversation after its result: there is more to do, or the model is told what is wrong.

        Raises:
            AgentExecutionError, MaxIterationsExceededError: as `run`.
        """
        return await self.revise(prompt, task, prompt=prompt, is_correction=is_correction)

    async def revise(self, whole_prompt: str, task: SpanEmitter, **facts: Any) -> str:
        """Do it once more, with what its tools have told: `whole_prompt` is that of the next attempt.

        Raises:
            AgentExecutionError, MaxIterationsExceededError: as `run`.
        """
        assert self._conversation is not None, "there is nothing to go on with before `run`"
        self._conversation.add_user_message(mend_text(whole_prompt))
        return await self._work(self._conversation, task, **facts)

    def make_conversation(self, user_prompt: str, text: str) -> Messages:
        """The conversation after the result, with which a later run goes on; as a fork has it where it changed that."""
        if self._changed is None:
            return make_conversation(self._request.system_prompt, self.history.kept, user_prompt, text, self.exchanged)
        told, earlier = self._changed
        return (*told, *self.exchanged[earlier:], ChatMessage(role="assistant", text=text))

    async def _work(self, conversation: Conversation, task: SpanEmitter, **facts: Any) -> str:
        """Turns until a text comes; `facts` are of the first turn: what it is asked, whether it is a correction."""
        while True:
            self._turn_count += 1
            who, is_fallback = self._agent.role, self._request.is_fallback
            with turn_span(task, agent=who, iteration=self._turn_count, is_fallback=is_fallback, **facts) as turn:
                reply = await self._llm.ask(conversation, turn)
                if self._llm.changed is not None:
                    self._changed = (self._llm.changed, len(self.exchanged))
                before, self.cut = self.cut, explain_cut(reply, self._port, self._llm.output_limit)
                if self.cut is not None and self.cut != before:  # once for each reason (E58)
                    who = f"agent {self._agent.role!r} for task {task.task!r}"
                    task.emit(Warned, message=f"A reply of {who} was cut off: {self.cut}")
                results = await self._run_tools(reply, conversation, turn)
                for call, answer in results:
                    conversation.add_tool_result(call, answer.text)
                if results:
                    self.exchanged.append(ChatMessage(role="assistant", text=reply.text, tool_calls=reply.tool_calls))
                    self.exchanged += (
                        ChatMessage(role="tool", text=answer.text, tool_call_id=call.id, name=call.name)
                        for call, answer in results
                    )
            facts = self._show_attachments(results, conversation, task)
            if not reply.tool_calls:
                if (lack := self._find_lack(reply, task)) is None:
                    return self._read_final_text(reply, task)
                prompt = write_correction_prompt(lack, "", self._services.spec.texts)
                conversation.add_user_message(mend_text(prompt))
                facts = {"prompt": prompt, "is_correction": True}

    def _show_attachments(
        self, results: list[tuple[ToolCall, ToolAnswer]], conversation: Conversation, task: SpanEmitter
    ) -> dict[str, Any]:
        """Say as a user what tools gave that is a picture or PDF, since few providers take one in a tool's result.

        Returns:
            The facts of the turn that answers it.
        """
        shown = []
        for call, answer in results:
            taken = []
            for mark, kind in list_marks(answer.text).items():
                if kind in self._port.refused_kinds:
                    message = f"The tool {call.name!r} gave a {kind}, and {self._port.name} takes none."
                    task.emit_once(message, Warned, message=message)
                else:
                    taken.append(mark)
            if taken:
                self._warn_of_lost(answer.text, task)
                shown.append(f"From tool {call.name}:\n" + "\n".join(taken))
        if not shown:
            return {}
        prompt = "\n\n".join(shown)
        conversation.add_user_message(prompt)
        self.exchanged.append(ChatMessage(role="user", text=prompt))
        return {"prompt": prompt}

    def _warn_of_lost(self, text: str, task: SpanEmitter) -> None:
        if self._services.spec.replayed_from is not None:  # no model is asked
            return
        for mark in find_lost_marks(text):
            message = (
                f"A text for {self._port.name} has {mark}, and this run has no such file: the model reads these words. "
                f"Give the file as an input, or run again the task that gave it."
            )
            task.emit_once(message, Warned, message=message)

    def _check_attachments(self, messages: Messages, task: SpanEmitter) -> None:
        """Refuse what the model is known not to take, and a system prompt that has any.

        Raises:
            AgentExecutionError: there is one.
        """
        told = "".join(each.text for each in messages if each.role == "user")
        self._warn_of_lost(told, task)
        fault = None
        if refused := [each for each in find_attachments(told) if each.kind in self._port.refused_kinds]:
            name = f" {refused[0].name!r}" if refused[0].name else ""
            fault = (
                f"its prompt has a {refused[0].kind}{name}, and the model {self._port.name} takes none. Use a model "
                f"that does, or describe it in words."
            )
        elif find_attachments(self._request.system_prompt):
            fault = "its system prompt has a picture or PDF, which models take from users alone. Put it into the task."
        if fault is not None:
            raise AgentExecutionError(
                f"Agent {self._agent.role!r} was not asked: {fault}",
                agent_role=self._agent.role,
                task_description=self._request.description,
            )

    def _find_lack(self, reply: ModelReply, task: SpanEmitter) -> str | None:
        """What the model is told, once, of a reply that holds no answer; of one that was too long it would not help."""
        is_empty = not reply.text.strip()
        self.is_only_reasoning = is_empty and bool(reply.reasoning)
        is_malformed = is_empty and _read_reason(reply) in _MALFORMED_CALL
        if not self.is_only_reasoning and (not is_malformed or self._was_asked_for_answer):
            return None
        asks = (is_malformed or self.cut is None) and not self._was_asked_for_answer
        self._was_asked_for_answer = self._was_asked_for_answer or asks
        what = "made a malformed call of a tool" if is_malformed else "replied with nothing but reasoning"
        message = (
            f"Agent {self._agent.role!r} {what} for task {task.task!r}"
            f"{', and is asked once more' if asks else ': its reply is empty'}."
        )
        task.emit(Warned, message=message)
        if not asks:
            return None
        return MALFORMED_CALL if is_malformed else ONLY_REASONING

    def _open(self, user_prompt: str, task: SpanEmitter) -> Conversation:
        """Begin a conversation, or go on with an earlier one."""
        prompt = ChatMessage(role="user", text=user_prompt)
        first, *others = (*self.history.sent, prompt)
        self._check_attachments((first, *others), task)
        set_asking_span(None)  # what was said in an earlier run is of no call of this one
        try:
            system, text = map(mend_text, (self._request.system_prompt, first.text))
            conversation = self._port.open(system, text, self._toolbox.specs, self._schema)
            say_again(conversation, list_said(others))
            return conversation
        except Exception as error:
            raise AgentExecutionError(
                f"Agent {self._agent.role!r} can't begin to talk to {self._port.name}: {summarize_error(error)}",
                agent_role=self._agent.role,
                task_description=self._request.description,
            ) from error

    def _read_final_text(self, reply: ModelReply, task: SpanEmitter) -> str:
        if self.is_only_reasoning:
            return ""
        if reply.text.strip():
            names = {each.name for each in self._toolbox.specs}
            mark = _WRITTEN_CALL.search(reply.text) if names else None
            # What names another tool is an answer that looks like a call.
            if mark is not None and set(filter(None, mark.groups())) <= names:
                message = (
                    f"Agent {self._agent.role!r} wrote a call of a tool as text ({mark[0]}) for task {task.task!r}, "
                    f"and none was made: the server of {self._port.name} does not read calls. Start it with its "
                    f"parser for this model."
                )
                task.emit(Warned, message=message)
            return reply.text
        task.emit(Warned, message=f"Agent {self._agent.role!r} returned an empty reply for task {task.task!r}.")
        return ""

    async def _run_tools(
        self, reply: ModelReply, conversation: Conversation, turn: SpanEmitter
    ) -> list[tuple[ToolCall, ToolAnswer]]:
        """Run the requested calls side by side; answers come back in the order of the requests (E11)."""
        allowed = reply.tool_calls[: max(0, self._agent.max_iterations - self._allowed)]
        refused = reply.tool_calls[len(allowed) :]
        self._allowed += len(allowed)
        self._calls.update((call.name, write_arguments(call.arguments)) for call in allowed)
        self._running_tools = ", ".join(f"tool {call.name}" for call in allowed)
        answers = await self._gather([self._execute(call, conversation, turn) for call in allowed])
        self._running_tools = ""
        results = list(zip(allowed, answers, strict=True))
        if left := dict.fromkeys(call.name for call, each in results if each.outcome is ToolOutcome.PENDING):
            raise TaskAbandoned(f"not done: it waits for an answer about {', '.join(left)}")
        self.structured_results += [(call.name, each.value) for call, each in results if each.value is not None]
        limit = self._agent.max_iterations
        for call in refused:  # over the budget: the model is told to stop; after two such answers the task fails (E12)
            self._refused += 1
            text = (
                f"STOP: the limit of {limit} tool calls is reached; this call was not made. "
                f"Give your best final answer now, from what you have."
            )
            skipped = ToolOutcome.SKIPPED_MAX_ITERATIONS
            self._emit_completed(self._emit_started(call, turn), call, SpanStatus.SKIPPED, skipped, text)
            answers.append(ToolAnswer(text, skipped))
        if self._refused > WARNINGS_BEFORE_END:
            # The call that was made most often, where that is more than once.
            ((tool, arguments), count), *_ = self._calls.most_common(1) or [(("", ""), 0)]
            raise MaxIterationsExceededError(
                agent_role=self._agent.role,
                task_description=self._request.description,
                max_iterations=limit,
                tool_calls_made=self.tool_call_count,
                repeated=(tool, arguments, count) if count > 1 else None,
            )
        return list(zip(reply.tool_calls, answers, strict=True))

    async def _gather(self, calls: list[Coroutine[Any, Any, ToolAnswer]]) -> list[ToolAnswer]:
        """All answers in order; one call needs no task of its own.

        Where one raises, those that have begun come to their end, since what they do is done and paid for (E27).
        """
        if len(calls) == 1:
            return [await calls[0]]
        tasks = [asyncio.ensure_future(each) for each in calls]
        try:
            return list(await asyncio.gather(*tasks))
        except Exception:
            for task in self._waiting & set(tasks):
                task.cancel()
            await asyncio.wait(tasks)
            raise
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    @contextmanager
    def _not_begun(self) -> Iterator[None]:
        """While a person is asked whether a call is to be made. A review that fails ends it as a stop does."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        except (TaskAbandoned, CallLeftPending):
            raise
        except (asyncio.CancelledError, Exception) as stopped:
            raise ToolNeverBegun from stopped
        finally:
            self._waiting.discard(task)

    async def _execute(self, call: ToolCall, conversation: Conversation, turn: SpanEmitter) -> ToolAnswer:
        span = self._emit_started(call, turn)
        try:
            with span.timer.tool_call():
                answer = await self._get_answer(call, conversation, span)
        except ToolLeftRunning as left:
            if left.answer is None:
                self._emit_completed(span, call, SpanStatus.INTERRUPTED, ToolOutcome.UNKNOWN)
            else:
                self._emit_answer(span, call, left.answer)
            raise asyncio.CancelledError from left
        except ToolNeverBegun as stopped:
            fault = stopped.__cause__ if isinstance(stopped.__cause__, Exception) else None
            why = "the run ended before it began" if fault is None else "its review gave no answer"
            self._emit_completed(span, call, SpanStatus.SKIPPED, None, why, fault)
            if fault is not None:
                raise fault from fault.__cause__
            raise asyncio.CancelledError from stopped
        except asyncio.CancelledError as stopped:
            self._emit_completed(span, call, SpanStatus.CANCELLED, None, "", stopped)
            raise
        except CallLeftPending as left:  # the calls beside it come to their end
            self._emit_completed(span, call, SpanStatus.SKIPPED, ToolOutcome.PENDING, _LEFT_PENDING, pending=left.call)
            return ToolAnswer(_LEFT_PENDING, ToolOutcome.PENDING)
        except TaskAbandoned as abandoned:  # nothing broke: a person has left, and it is not to go on
            self._emit_completed(span, call, SpanStatus.SKIPPED, ToolOutcome.DECLINED, abandoned.reason)
            raise
        except Exception as error:
            self._emit_completed(span, call, SpanStatus.ERROR, ToolOutcome.FAILURE, "", error)
            raise
        self._emit_answer(span, call, answer)
        return answer

    def _emit_answer(self, span: SpanEmitter, call: ToolCall, answer: ToolAnswer) -> None:
        if answer.warning:
            span.emit(Warned, message=answer.warning)
        status = _STATUSES.get(answer.outcome, SpanStatus.ERROR)
        facts = {"structured_output": answer.value, "reused": answer.is_kept}
        self._emit_completed(span, call, status, answer.outcome, answer.text, answer.error, **facts)

    async def _get_answer(self, call: ToolCall, conversation: Conversation, span: SpanEmitter) -> ToolAnswer:
        if self.cut is not None:
            return ToolAnswer(_NOT_WHOLE, ToolOutcome.FAILURE)
        if (asked := self._toolbox.find_reviewed(call)) is not None:
            if isinstance(asked, ToolAnswer):
                return asked
            return await conversation.run_tool(call, ReviewedRun(partial(self._run_reviewed, asked, span)))
        approved: ToolCall | ToolAnswer = call
        if self._request.approve is not None:
            with self._not_begun():
                approved = await self._request.approve(call, span)
        if isinstance(approved, ToolAnswer):
            return approved

        async def run(begun_in: str | None = None, /) -> ToolAnswer:
            if begun_in is not None and self._request.ask_again is not None:
                with self._not_begun():
                    declined = await self._request.ask_again(approved, begun_in, span)
                if declined is not None:
                    return declined
            with use_agent(self._agent.role):
                return await self._toolbox.answer(
                    approved, self._services.caller, span, mends=self._request.mends_calls
                )

        # What agents and people do for the engine's own tools is recorded and replayed itself (E42).
        is_own = self._toolbox.has_engine_tool(approved.name)
        return await (run() if is_own else conversation.run_tool(approved, run))

    async def _run_reviewed(self, asked: CallToReview, span: SpanEmitter, run: ReviewedRun) -> ToolAnswer:
        """What a call of a reviewed tool comes to, once somebody has allowed it, or its rule asks nobody."""
        request = self._request
        assert request.review_call is not None, "whoever hands reviewed tools to an agent has their calls looked at"
        with self._not_begun():
            allowed = await request.review_call(asked, run, span)
            is_answered = allowed is not None
            if allowed is None:  # then the review of the task is asked, as about a call of any other tool
                allowed = asked.call if request.approve is None else await request.approve(asked.call, span)
        if isinstance(allowed, ToolAnswer):
            return allowed
        await run.begin(is_answered=is_answered)
        with use_agent(self._agent.role):
            is_fitted = allowed is asked.call
            return await self._toolbox.answer(allowed, self._services.caller, span, mends=False, is_fitted=is_fitted)

    def _emit_started(self, call: ToolCall, turn: SpanEmitter) -> SpanEmitter:
        span, arguments = turn.child(), write_arguments(call.arguments)
        span.emit(ToolCallStarted, agent=self._agent.role, tool=call.name, tool_call_id=call.id, arguments=arguments)
        return span

    def _emit_completed(
        self,
        span: SpanEmitter,
        call: ToolCall,
        status: SpanStatus,
        outcome: ToolOutcome | None,
        result: str = "",
        error: BaseException | None = None,
        **facts: Any,
    ) -> None:
        self.tool_call_count += status is not SpanStatus.SKIPPED
        facts |= {"tool": call.name, "tool_call_id": call.id, "status": status, "outcome": outcome}
        span.emit(ToolCallCompleted, result=result, error=error, **facts)


# Calls as Hermes and Qwen, Llama, Mistral, DeepSeek, gpt-oss, and others after them write them.
_WRITTEN_CALL: Final = re.compile(
    r"<tool_calls?>|<function=\w+|<function_calls?>|<invoke name=|<\|python_tag\|>|\[TOOL_CALLS\]|<\|tool_calls?\w*\|>"
    r"|<\uff5ctool\u2581calls?\u2581begin\uff5c>|<\uff5cDSML\uff5c|<\|channel\|>\w++ to=functions\.\w++"
    r"|\A\s*+\[(\w++)\(\w++=|\A\s*+(?:```\w*+\s*+)?+(?:functools)?+(?:\[\s*+)?+"
    r'\{\s*+"name"\s*+:\s*+"([\w.-]++)"\s*+,\s*+"(?:arguments|parameters)"\s*+:'
)
_NOT_WHOLE: Final = (
    "Error: this call was not made: the reply that asks for it was cut off, so its arguments may not be all that was "
    "meant. Ask for it again, with shorter arguments or fewer calls at once."
)
_LEFT_PENDING: Final = "not made: it waits for an answer"
_STATUSES: Final = {ToolOutcome.SUCCESS: SpanStatus.OK, ToolOutcome.DECLINED: SpanStatus.SKIPPED}

# The letters of the words of OpenAI, Anthropic, Google, Mistral, Cohere, Amazon, Zhipu, and servers of open models.
_WHOLE: Final = {
    *("stop", "stopsequence", "endturn", "eos", "eostoken", "endoftext", "end", "complete", "completed", "finished"),
    *("toolcall", "toolcalls", "tooluse", "functioncall", "functioncalls", "done", "normal", "success", "load"),
}
_TOO_LONG: Final = {
    *("length", "maxtokens", "maxoutputtokens", "maxlength", "modellength", "errorlimit"),
    "modelcontextwindowexceeded",
}
_FILTERED: Final = {
    *("contentfilter", "contentfiltered", "refusal", "safety", "imagesafety", "sensitive", "recitation", "blocklist"),
    *("prohibitedcontent", "promptblocked", "spii", "errortoxic", "guardrailintervened"),
}
_MALFORMED_CALL: Final = {"malformedfunctioncall", "malformedtooluse"}
_NOT_LETTERS: Final = re.compile(r"[^a-z]")


def _read_reason(reply: ModelReply) -> str:
    """Read why a reply ended as a word of the tables; what stands behind a colon says more of it."""
    word = (reply.finish_reason or "").partition(":")[0].casefold()
    return _NOT_LETTERS.sub("", word).removeprefix("finishreason")


def explain_cut(reply: ModelReply, port: ChatPort, budget_limit: int | None) -> str | None:
    """Say why a reply is not whole, and the remedy; None where it is whole.

    Args:
        reply: of the model.
        port: the model.
        budget_limit: the tokens that the budget allowed it; None where it did not limit it.
    """
    reason = _read_reason(reply)
    if reason in _FILTERED:
        return (
            f"the content filter of {port.name} stopped it ({reply.finish_reason}). Word the task or its inputs "
            f"differently, or use another model."
        )
    if reason in _WHOLE or not reply.finish_reason:
        return None
    if reason not in _TOO_LONG:
        return (
            f"{port.name} ended it for a reason that is no known good end ({reply.finish_reason}). Look up what the "
            f"provider says of it, and run the task again."
        )
    if budget_limit is not None:
        return (
            f"the budget left {budget_limit:,} tokens for it ({reply.finish_reason}). Raise the budget, or ask for a "
            f"shorter answer."
        )
    if port.max_tokens is not None:
        return (
            f"the max_tokens of {port.name} is {port.max_tokens:,} ({reply.finish_reason}). Give the model a higher "
            f"max_tokens, or ask for a shorter answer."
        )
    return (
        f"it reached the longest reply that {port.name} gives ({reply.finish_reason}). Ask for a shorter answer, make "
        f"the prompt shorter, or use a model with more room."
    )
