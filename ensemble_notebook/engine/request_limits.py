"""What stands before each physical model request: its budget (E36), its rate limits (E37), a connection (E76).

The budget first: a place in a line is only for requests that are paid for, and when its turn comes, a request goes. The
connection last: nobody holds one while waiting for something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

from ensemble_notebook.domain.definitions.limits import CostConfiguration, Pricing, RateLimit
from ensemble_notebook.domain.events import BudgetWarning, RateLimitWaited, WaitEnded, WaitStarted
from ensemble_notebook.domain.seams.chat_port import ChatPort, Conversation
from ensemble_notebook.engine.budget_reservation import (
    Admission,
    BudgetAccount,
    BudgetAdmission,
    ConnectionAdmission,
    JointAdmission,
)
from ensemble_notebook.engine.events.event_stream import Clock, SpanEmitter, SystemClock, find_status
from ensemble_notebook.engine.rate_limiter import RateLimiter


class RequestLimits:
    """The limits of the requests of one agent on one task; without arguments, none.

    Args:
        accounts: what the run spends from; none where neither it nor a run around it has a budget.
        rate_limits: all that apply, None for one that there is not; a request passes each of them.
        pricing: what a request costs; nothing has a known price without it.
        clock: of the run.
        gate: closed once the run may send nothing more.
    """

    def __init__(
        self,
        accounts: Sequence[BudgetAccount] = (),
        rate_limits: Iterable[RateLimit | None] = (),
        pricing: Pricing | None = None,
        clock: Clock | None = None,
        gate: SendGate | None = None,
    ) -> None:
        self._accounts = tuple(accounts)
        self._rate_limits = tuple(limit for limit in rate_limits if limit is not None)
        self._pricing = pricing
        self._clock = clock or SystemClock()
        self._gate = gate or SendGate()
        self._rate_limiter = RateLimiter(self._rate_limits, self._clock)

    def with_rate_limits(self, *rate_limits: RateLimit | None) -> RequestLimits:
        """The same with further rate limits: those of a task or an agent."""
        if not any(rate_limits):
            return self
        return RequestLimits(self._accounts, (*self._rate_limits, *rate_limits), self._pricing, self._clock, self._gate)

    def check_sending(self) -> None:
        """Whether a request that was admitted may still be sent.

        Raises:
            CancelledError: the run was stopped meanwhile.
        """
        self._gate.check()

    async def admit(
        self,
        port: ChatPort,
        conversation: Conversation,
        call: SpanEmitter,
        rates: CostConfiguration | None = None,
    ) -> Admission:
        """Wait until the next request of a conversation may be sent.

        It must be sent at once then, and its admission be settled when it is over, whatever comes of it.

        Args:
            port: who is asked.
            conversation: with all that will be sent.
            call: the span of the model call; waits are spans in it.
            rates: what the model costs; None: by the public price list.

        Raises:
            BudgetExceededError: it can never fit into what the budget leaves, or has no price under `max_cost`.
            RateLimitTimeoutError: its turn would come too late.
            CancelledError: the run was stopped, before or meanwhile.
        """
        self._gate.check()
        admissions: list[Admission] = []
        try:
            for account in self._accounts:  # those of outer runs first, so that nobody waits in a ring
                admission = await self._reserve(account, port, conversation, call, rates)
                admissions.append(admission)  # one by one: what is reserved by now is given back
            if not self._rate_limiter.try_pass():
                with _span_of_wait(call, "rate_limit", RateLimitWaited):
                    await self._rate_limiter.wait()
            if port.places is not None:
                if not port.places.try_take():
                    with _span_of_wait(call, "connection", WaitEnded):
                        await port.places.take()
                admissions.append(ConnectionAdmission(port.places))
            self._gate.check()
        except BaseException:
            JointAdmission(admissions).withdraw()
            raise
        admission = admissions[0] if len(admissions) == 1 else JointAdmission(admissions)
        admission.mark_sent()
        return admission

    async def _reserve(
        self,
        account: BudgetAccount,
        port: ChatPort,
        conversation: Conversation,
        call: SpanEmitter,
        rates: CostConfiguration | None,
    ) -> Admission:
        admission = BudgetAdmission(account, self._pricing, port, conversation, self._clock.now(), rates)
        decision = admission.reserve()
        if decision is None:
            admission.raise_if_refused()
        else:
            try:
                with _span_of_wait(call, "budget", WaitEnded):
                    await decision
                    admission.raise_if_refused()
            except BaseException:
                admission.withdraw()
                raise
        if admission.warning is not None:
            budget, spent = account.budget, admission.warning
            parts = [
                f"{spent.get_amount(each):,f} of {Decimal(most):,f} ({each})" for each, most in budget.limits.items()
            ]
            message = f"The budget is running low. Spent, or held for requests under way: {', '.join(parts)}."
            message += f" It is set by {budget.set_by}." if budget.set_by else ""
            call.emit(BudgetWarning, message=message, spent=spent, budget=budget)
        return admission


@contextmanager
def _span_of_wait(call: SpanEmitter, cause: str, ended: type[WaitEnded]) -> Iterator[None]:
    """The span of a wait."""
    span, began = call.child(), call.stream.offset_s()
    error: BaseException | None = None
    span.emit(WaitStarted, cause=cause)
    try:
        yield
    except (asyncio.CancelledError, Exception) as raised:
        error = raised
        raise
    finally:
        span.emit(ended, cause=cause, waited_s=call.stream.offset_s() - began, status=find_status(error), error=error)


class SendGate:
    """Open until the run is stopped or over; then for good closed. May be closed from any thread."""

    def __init__(self) -> None:
        self._is_closed = False

    def close(self) -> None:
        """Let no further request through."""
        self._is_closed = True

    def check(self) -> None:
        """Let a request through.

        Raises:
            CancelledError: the run was stopped, and a tool or a callback has kept that from whoever asks.
        """
        if self._is_closed:
            raise asyncio.CancelledError("the run was stopped")
