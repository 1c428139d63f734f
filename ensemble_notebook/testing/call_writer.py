"""The calls of a task in a stream written by hand: turns, model calls with their attempts, tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import SpanStatus, ToolOutcome
from ensemble_notebook.domain.outputs.metrics import NO_USAGE, TokenUsage
from ensemble_notebook.domain.seams.chat_port import ToolCall
from ensemble_notebook.testing.event_writer import EventWriter

_TOOL_STATUS: Final = {
    ToolOutcome.SUCCESS: SpanStatus.OK,
    ToolOutcome.FAILURE: SpanStatus.ERROR,
    ToolOutcome.SKIPPED_MAX_ITERATIONS: SpanStatus.SKIPPED,
}


class CallWriter(EventWriter):
    """Writes turns, model calls and tool calls.

    Args:
        run_id: of the run.
        model, provider: of every model call that names no other.
    """

    def __init__(self, run_id: str, model: str, provider: str | None) -> None:
        super().__init__(run_id)
        self._model = model
        self._provider = provider
        self._asked: list[ToolCall] = []
        self._call_count = 0

    @contextmanager
    def turn(self, iteration: int = 1, *, correction: str = "") -> Iterator[None]:
        """A round of the agent loop, perhaps to correct a structured output, by this prompt."""
        is_fallback = self._work.is_fallback
        with self._inside(self._child()) as scope:
            self._emit(
                ev.TurnStarted,
                agent=self._role,
                iteration=iteration,
                is_fallback=is_fallback,
                is_correction=bool(correction),
                prompt=correction,
            )
            scope.end = lambda status: self._emit(ev.TurnEnded, status=status)
            yield

    def llm(
        self,
        text: str = "",
        *,
        seconds: float = 1.0,
        input_tokens: int | None = 10,
        output_tokens: int | None = 5,
        cache_read_tokens: int | None = None,
        asks: Sequence[str] = (),
        retries: Sequence[tuple[str, float]] = (),
        waits: Sequence[tuple[str, float]] = (),
        error: BaseException | None = None,
        stream: Sequence[str] = (),
        hangs: bool = False,
        model: str | None = None,
        provider: str | None = None,
        served_as: str | None = None,
    ) -> None:
        """A model call.

        Args:
            text: of the reply.
            seconds: of each attempt.
            input_tokens: usage of the last attempt, as the other two; None is unknown.
            output_tokens: of the last attempt.
            cache_read_tokens: of the last attempt.
            asks: names of the tools that the reply asks for; `tool` answers them.
            retries: reason and delay in seconds of each failed attempt before the last one.
            waits: cause (``"rate_limit"``, ``"budget"``) and length in seconds of each wait before the first attempt.
            error: the last attempt fails with it.
            stream: pieces that make up the text; they come evenly within the last attempt.
            hangs: no answer comes; everything around stays open.
            model: asked for, instead of the builder's.
            provider: instead of the builder's.
            served_as: name of the model in the reply, where it differs.
        """
        model, provider = model or self._model, provider or self._provider
        usage = TokenUsage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read_tokens=cache_read_tokens,
            source="scripted" if provider == "scripted" else "provider",
        )
        text = "".join(stream) or text
        asked_at_s = self.now_s
        with self._inside(self._child()) as call:
            self._emit(
                ev.LlmCallStarted,
                agent=self._role,
                model=model,
                provider=provider,
                max_attempts=len(retries) + 1,
                is_scripted=provider == "scripted",
            )
            for cause, waited_s in waits:
                self._wait_for(cause, waited_s)
            for attempt, (reason, delay_s) in enumerate(retries, start=1):
                failure = ConnectionError(reason)
                self._attempt(attempt, seconds, NO_USAGE, failure)
                self._emit(ev.LlmCallRetried, attempt=attempt, delay_s=delay_s, reason=reason, error=failure)
                self.wait(delay_s)
            first_s = self.now_s + seconds / len(stream) - asked_at_s if stream else None

            def end(status: SpanStatus) -> None:
                if status is not SpanStatus.OK:
                    self._emit(ev.LlmCallFailed, error=call.error or KeyboardInterrupt(), status=status)
                    return
                self._emit(
                    ev.LlmCallCompleted,
                    text=text,
                    tool_calls=tuple(map(self._ask, asks)),
                    usage=usage,
                    model=served_as or model,
                    finish_reason="tool_calls" if asks else "stop",
                    time_to_first_token_s=first_s,
                )

            call.end = end
            self._attempt(len(retries) + 1, seconds, usage, error, stream, hangs=hangs)
            if error is not None:
                self.fail(error)
        for scope in self._scope.outwards():
            scope.reply = text

    def _wait_for(self, cause: str, seconds: float) -> None:
        kind = ev.RateLimitWaited if cause == "rate_limit" else ev.WaitEnded
        with self._inside(self._child()) as scope:
            self._emit(ev.WaitStarted, cause=cause)
            scope.end = lambda status: self._emit(kind, cause=cause, waited_s=seconds, status=status)
            self.wait(seconds)

    def _attempt(
        self,
        number: int,
        seconds: float,
        usage: TokenUsage,
        error: BaseException | None,
        stream: Sequence[str] = (),
        *,
        hangs: bool = False,
    ) -> None:
        call = self._scope

        def end(status: SpanStatus) -> None:
            spent = {SpanStatus.OK: usage, SpanStatus.ERROR: NO_USAGE}.get(status, TokenUsage())
            self._emit(ev.LlmAttemptEnded, attempt=number, status=status, usage=spent, error=scope.error)

        with self._inside(self._child()) as scope:
            scope.end, scope.error = end, error
            self._emit(ev.LlmAttemptStarted, attempt=number)
            for piece in stream:
                self.wait(seconds / len(stream))
                self._emit_in(call, ev.LlmToken, text=piece)
            self.wait(0.0 if stream else seconds)
            if hangs:
                self._hang()

    def tool(self, name: str, *args: Any, seconds: float = 1.0, hangs: bool = False, **facts: Any) -> None:
        """A tool call that takes so many seconds; for the rest, see `tool_call`."""
        with self.tool_call(name, *args, **facts):
            self.wait(seconds)
            if hangs:
                self._hang()

    @contextmanager
    def tool_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result: str = "ok",
        error: BaseException | None = None,
        outcome: ToolOutcome = ToolOutcome.SUCCESS,
    ) -> Iterator[None]:
        """A tool call; answers the oldest open request for this tool. The failure of a tool stops nothing (E13)."""
        asked = next((call for call in self._asked if call.name == name), None) or self._ask(name)
        self._asked.remove(asked)
        outcome = outcome if error is None else ToolOutcome.FAILURE

        def end(status: SpanStatus) -> None:
            is_over = status is not SpanStatus.CANCELLED
            self._emit(
                ev.ToolCallCompleted,
                tool=name,
                tool_call_id=asked.id,
                status=_TOOL_STATUS[outcome] if is_over else status,
                outcome=outcome if is_over else None,
                result="" if not is_over else result if error is None else f"Tool error: {error}",
                error=error,
            )

        with self._inside(self._child()) as scope:
            scope.end, scope.contains_failure = end, True
            text = json.dumps(arguments or {})
            self._emit(ev.ToolCallStarted, agent=self._role, tool=name, tool_call_id=asked.id, arguments=text)
            yield
        self._work.tool_calls += outcome is not ToolOutcome.SKIPPED_MAX_ITERATIONS

    def _ask(self, tool: str) -> ToolCall:
        self._call_count += 1
        call = ToolCall(id=f"call-{self._call_count}", name=tool, arguments={})
        self._asked.append(call)
        return call
