"""The ledger alone: reservations in, decisions out. No loop, no thread, no clock."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.engine.budget_ledger import (
    MAX_OUTPUT_TOKENS,
    MIN_OUTPUT_TOKENS,
    BudgetLedger,
    Reservation,
    ReservationState,
)


def ledger(**limits: Any) -> BudgetLedger:
    return BudgetLedger(Budget(**limits))


def asked(book: BudgetLedger, *reservations: Reservation) -> list[ReservationState]:
    for reservation in reservations:
        book.reserve(reservation)
    return [reservation.state for reservation in reservations]


def took(tokens: int, cost: str = "0") -> Spending:
    return Spending(tokens=tokens, cost=Decimal(cost))


def test_what_fits_is_held_at_once_and_counted_as_spent_when_it_is_over_e36() -> None:
    book, reservation = ledger(max_tokens=100), Reservation(30, 20)
    assert asked(book, reservation) == [ReservationState.HELD]
    assert book.held == Spending(tokens=50, llm_calls=1)
    book.mark_sent(reservation)
    assert book.settle(reservation, took(12)) == []
    assert (book.booked, book.held) == (Spending(tokens=12, llm_calls=1), Spending())


def test_calls_side_by_side_wait_where_their_worst_cases_do_not_fit_together_e36() -> None:
    book = ledger(max_tokens=100)
    first, second, third = Reservation(20, 20), Reservation(20, 20), Reservation(20, 20)
    assert asked(book, first, second, third) == [ReservationState.HELD, ReservationState.HELD, ReservationState.WAITING]
    book.mark_sent(first)
    assert book.settle(first, took(10)) == [third]
    assert third.state is ReservationState.HELD


def test_nobody_overtakes_who_waits_e36() -> None:
    book = ledger(max_tokens=100)
    running, large, small = Reservation(60, 0), Reservation(80, 0), Reservation(1, 0)
    assert asked(book, running, large, small) == [
        ReservationState.HELD,
        ReservationState.WAITING,
        ReservationState.WAITING,
    ]
    book.mark_sent(running)
    assert book.settle(running, took(0)) == [large, small]


def test_what_can_never_fit_is_refused_at_once_even_while_others_wait_e36() -> None:
    book = ledger(max_tokens=100)
    running, waiting, huge = Reservation(60, 0), Reservation(60, 0), Reservation(50, 51)
    assert asked(book, running, waiting, huge) == [
        ReservationState.HELD,
        ReservationState.WAITING,
        ReservationState.REFUSED,
    ]
    assert (huge.exceeded, huge.needed.tokens) == ("max_tokens", 101)


def test_what_waits_is_refused_as_soon_as_it_can_never_fit_any_more_e36() -> None:
    book = ledger(max_tokens=100)
    running, waiting, small = Reservation(60, 0), Reservation(60, 0), Reservation(40, 0)
    asked(book, running, waiting, small)
    book.mark_sent(running)
    assert book.settle(running, took(60)) == [waiting, small]
    assert [waiting.state, small.state] == [ReservationState.REFUSED, ReservationState.HELD]


def test_the_worst_case_of_a_call_whose_usage_never_came_stays_booked_e36() -> None:
    book, reservation = ledger(max_tokens=100), Reservation(30, 20)
    book.reserve(reservation)
    book.mark_sent(reservation)
    book.settle(reservation, None)
    assert book.booked == Spending(tokens=50, llm_calls=1)


def test_a_refused_request_gives_its_tokens_back_and_has_still_been_a_request_e36() -> None:
    book, first, second = ledger(max_tokens=50, max_llm_calls=1), Reservation(30, 20), Reservation(30, 20)
    book.reserve(first)
    book.mark_sent(first)
    book.settle(first, took(0))
    assert book.booked == Spending(llm_calls=1)
    assert asked(book, second) == [ReservationState.REFUSED]
    assert second.exceeded == "max_llm_calls"


def test_calls_that_were_sent_are_not_waited_for_by_those_that_only_lack_a_call_e36() -> None:
    book, first, second = ledger(max_llm_calls=1), Reservation(1, 1), Reservation(1, 1)
    book.reserve(first)
    assert asked(book, second) == [ReservationState.WAITING]  # the first may yet be withdrawn
    book.mark_sent(first)
    third = Reservation(1, 1)
    assert asked(book, third) == [ReservationState.REFUSED]
    assert book.settle(first, took(2)) == [second]
    assert second.state is ReservationState.REFUSED


def test_who_withdraws_leaves_nothing_behind_e36() -> None:
    book = ledger(max_tokens=100)
    held, waiting, behind = Reservation(60, 0), Reservation(60, 0), Reservation(40, 0)
    asked(book, held, waiting, behind)
    assert book.withdraw(waiting) == [behind]
    assert book.withdraw(held) == []
    assert book.withdraw(held) == []
    assert (book.booked, book.held.tokens) == (Spending(), 40)


def test_costs_are_limited_exactly_e36() -> None:
    book = ledger(max_cost="0.30")
    reservations = [Reservation(1, 1, Decimal("0.05"), Decimal("0.05")) for _ in range(4)]
    assert asked(book, *reservations) == [ReservationState.HELD] * 3 + [ReservationState.WAITING]
    for reservation in reservations[:3]:
        book.mark_sent(reservation)
        book.settle(reservation, took(2, "0.10"))
    assert reservations[3].state is ReservationState.REFUSED
    assert book.booked.cost == Decimal("0.30")


def test_a_model_without_a_limit_gets_a_share_so_that_one_call_cannot_take_all_e36() -> None:
    book = ledger(max_tokens=8_100)
    reservations = [Reservation(100, None) for _ in range(3)]
    assert asked(book, *reservations) == [ReservationState.HELD] * 3
    assert [reservation.max_tokens for reservation in reservations] == [2000, 1475, 1081]
    assert sum(reservation.held.tokens for reservation in reservations) == book.held.tokens == 4856


def test_a_share_is_no_more_than_models_take_and_no_less_than_an_answer_needs_e36() -> None:
    rich, poor = Reservation(100, None), Reservation(100, None)
    ledger(max_tokens=10**6).reserve(rich)
    ledger(max_tokens=100 + MIN_OUTPUT_TOKENS).reserve(poor)
    assert (rich.max_tokens, poor.max_tokens) == (MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS)
    broke = Reservation(100, None)
    ledger(max_tokens=99 + MIN_OUTPUT_TOKENS).reserve(broke)
    assert broke.state is ReservationState.REFUSED


def test_a_share_of_money_is_counted_in_output_tokens_e36() -> None:
    reservation = Reservation(100, None, Decimal("0.1"), Decimal("0.0001"))
    ledger(max_cost="0.5").reserve(reservation)
    assert reservation.max_tokens == 1000
    assert reservation.held.cost == Decimal("0.2")


@pytest.mark.parametrize("limits", [{"max_llm_calls": 3}, {"max_cost": 1}])
def test_output_that_no_limit_is_about_is_not_limited_e36(limits: dict[str, int]) -> None:
    reservation = Reservation(100, None)
    ledger(**limits).reserve(reservation)
    assert (reservation.state, reservation.max_tokens) == (ReservationState.HELD, None)


def test_a_model_keeps_its_own_limit_e36() -> None:
    reservation = Reservation(100, 5000)
    ledger(max_tokens=10_000).reserve(reservation)
    assert (reservation.max_tokens, reservation.held.tokens) == (None, 5100)


def test_the_first_to_come_near_a_limit_warns_and_nobody_else_e36() -> None:
    book = ledger(max_tokens=100, warn_at=0.7)
    reservations = [Reservation(30, 0), Reservation(40, 0), Reservation(10, 0)]
    asked(book, *reservations)
    assert [reservation.warning for reservation in reservations] == [None, Spending(tokens=70, llm_calls=2), None]


amounts = st.integers(0, 60)


class LedgerMachine(RuleBasedStateMachine):
    """Any number of callers, in any order; a server that takes what it likes, up to what it was allowed."""

    reservations = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.book = ledger(max_tokens=1000, max_cost="10", max_llm_calls=12)
        self.served = Spending()
        self.arrived: list[Reservation] = []
        self.decided: list[Reservation] = []

    def learn(self, reservations: list[Reservation]) -> None:
        self.decided += reservations

    @rule(target=reservations, inputs=amounts, output=st.none() | amounts, rate=st.sampled_from(["0", "0.01", "0.1"]))
    def ask(self, inputs: int, output: int | None, rate: str) -> Reservation:
        reservation = Reservation(inputs, output, inputs * Decimal("0.01"), Decimal(rate))
        before = [each for each in self.arrived if each.state is ReservationState.WAITING]
        self.book.reserve(reservation)
        self.arrived.append(reservation)
        if before:
            assert reservation.state is not ReservationState.HELD, "overtook"
        return reservation

    @rule(reservation=reservations)
    def send(self, reservation: Reservation) -> None:
        if reservation.state is ReservationState.HELD:
            self.book.mark_sent(reservation)
            self.served += Spending(llm_calls=1)

    @rule(reservation=consumes(reservations), share=st.sampled_from([0, 1, 50, 100]), is_known=st.booleans())
    def settle(self, reservation: Reservation, share: int, is_known: bool) -> None:
        if reservation.state is not ReservationState.SENT:
            self.learn(self.book.withdraw(reservation))
            return
        taken = Spending(tokens=reservation.held.tokens * share // 100, cost=reservation.held.cost * share / 100)
        self.served += taken
        self.learn(self.book.settle(reservation, taken if is_known else None))

    @precondition(lambda self: any(each.state is ReservationState.WAITING for each in self.arrived))
    @rule()
    def who_waits_has_a_reason(self) -> None:
        assert self.book.held != Spending(), "waits though nothing is held"

    @invariant()
    def the_server_never_counts_more_than_the_budget(self) -> None:
        for used in (self.served, self.book.booked + self.book.held):
            assert used.tokens <= 1000
            assert used.cost <= 10
            assert used.llm_calls <= 12

    @invariant()
    def what_is_held_is_the_sum_of_the_claims(self) -> None:
        assert self.book.held == sum((each.held for each in self.arrived), Spending())

    @invariant()
    def those_who_waited_are_decided_in_order(self) -> None:
        places = [self.arrived.index(reservation) for reservation in self.decided]
        assert places == sorted(places)

    def teardown(self) -> None:
        """In the end everybody is decided."""
        for reservation in self.arrived:
            if reservation.state is ReservationState.HELD:
                self.book.mark_sent(reservation)
            if reservation.state is ReservationState.SENT:
                self.learn(self.book.settle(reservation, Spending()))
        while any(each.state is ReservationState.HELD for each in self.arrived):
            for reservation in [each for each in self.arrived if each.state is ReservationState.HELD]:
                self.book.mark_sent(reservation)
                self.book.settle(reservation, None)
        assert not [each for each in self.arrived if each.state is ReservationState.WAITING]
        assert self.book.held == Spending()


TestLedger = LedgerMachine.TestCase


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(0, 100)), min_size=30, max_size=60))
def test_less_than_one_worst_case_is_left_after_the_last_refusal_e36(sizes: list[tuple[int, int, int]]) -> None:
    book, refused = ledger(max_tokens=600), []
    running: list[tuple[Reservation, int]] = []
    for inputs, output, share in sizes:
        reservation = Reservation(inputs, output)
        book.reserve(reservation)
        running.append((reservation, share))
        while len(running) > 5:
            each, part = running.pop(0)
            if each.state is ReservationState.HELD:
                book.mark_sent(each)
                book.settle(each, took(each.held.tokens * part // 100))
            if each.state is ReservationState.REFUSED:
                refused.append(each)
    if refused:
        assert book.get_remaining("max_tokens") < refused[-1].worst_case(refused[-1].output_tokens or 0).tokens
