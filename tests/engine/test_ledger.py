"""The ledger alone: claims in, decisions out. No loop, no thread, no clock."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from ensemble_notebook.domain.definitions.limits import Budget, Spending
from ensemble_notebook.engine.limits.budget_ledger import LEAST_OUTPUT, MOST_OUTPUT, Claim, Ledger, Stage


def ledger(**limits: Any) -> Ledger:
    return Ledger(Budget(**limits))


def asked(book: Ledger, *claims: Claim) -> list[Stage]:
    for claim in claims:
        book.ask(claim)
    return [claim.stage for claim in claims]


def took(tokens: int, cost: str = "0") -> Spending:
    return Spending(tokens=tokens, cost=Decimal(cost))


def test_what_fits_is_held_at_once_and_counted_as_spent_when_it_is_over_e36() -> None:
    book, claim = ledger(max_tokens=100), Claim(30, 20)
    assert asked(book, claim) == [Stage.HELD]
    assert book.held == Spending(tokens=50, llm_calls=1)
    book.send(claim)
    assert book.settle(claim, took(12)) == []
    assert (book.booked, book.held) == (Spending(tokens=12, llm_calls=1), Spending())


def test_calls_side_by_side_wait_where_their_worst_cases_do_not_fit_together_e36() -> None:
    book = ledger(max_tokens=100)
    first, second, third = Claim(20, 20), Claim(20, 20), Claim(20, 20)
    assert asked(book, first, second, third) == [Stage.HELD, Stage.HELD, Stage.WAITING]
    book.send(first)
    assert book.settle(first, took(10)) == [third]
    assert third.stage is Stage.HELD


def test_nobody_overtakes_who_waits_e36() -> None:
    book = ledger(max_tokens=100)
    running, large, small = Claim(60, 0), Claim(80, 0), Claim(1, 0)
    assert asked(book, running, large, small) == [Stage.HELD, Stage.WAITING, Stage.WAITING]
    book.send(running)
    assert book.settle(running, took(0)) == [large, small]


def test_what_can_never_fit_is_refused_at_once_even_while_others_wait_e36() -> None:
    book = ledger(max_tokens=100)
    running, waiting, huge = Claim(60, 0), Claim(60, 0), Claim(50, 51)
    assert asked(book, running, waiting, huge) == [Stage.HELD, Stage.WAITING, Stage.REFUSED]
    assert (huge.exceeded, huge.needed.tokens) == ("max_tokens", 101)


def test_what_waits_is_refused_as_soon_as_it_can_never_fit_any_more_e36() -> None:
    book = ledger(max_tokens=100)
    running, waiting, small = Claim(60, 0), Claim(60, 0), Claim(40, 0)
    asked(book, running, waiting, small)
    book.send(running)
    assert book.settle(running, took(60)) == [waiting, small]
    assert [waiting.stage, small.stage] == [Stage.REFUSED, Stage.HELD]


def test_the_worst_case_of_a_call_whose_usage_never_came_stays_booked_e36() -> None:
    book, claim = ledger(max_tokens=100), Claim(30, 20)
    book.ask(claim)
    book.send(claim)
    book.settle(claim, None)
    assert book.booked == Spending(tokens=50, llm_calls=1)


def test_a_refused_request_gives_its_tokens_back_and_has_still_been_a_request_e36() -> None:
    book, first, second = ledger(max_tokens=50, max_llm_calls=1), Claim(30, 20), Claim(30, 20)
    book.ask(first)
    book.send(first)
    book.settle(first, took(0))
    assert book.booked == Spending(llm_calls=1)
    assert asked(book, second) == [Stage.REFUSED]
    assert second.exceeded == "max_llm_calls"


def test_calls_that_were_sent_are_not_waited_for_by_those_that_only_lack_a_call_e36() -> None:
    book, first, second = ledger(max_llm_calls=1), Claim(1, 1), Claim(1, 1)
    book.ask(first)
    assert asked(book, second) == [Stage.WAITING]  # the first may yet be withdrawn
    book.send(first)
    third = Claim(1, 1)
    assert asked(book, third) == [Stage.REFUSED]
    assert book.settle(first, took(2)) == [second]
    assert second.stage is Stage.REFUSED


def test_who_withdraws_leaves_nothing_behind_e36() -> None:
    book = ledger(max_tokens=100)
    held, waiting, behind = Claim(60, 0), Claim(60, 0), Claim(40, 0)
    asked(book, held, waiting, behind)
    assert book.withdraw(waiting) == [behind]
    assert book.withdraw(held) == []
    assert book.withdraw(held) == []
    assert (book.booked, book.held.tokens) == (Spending(), 40)


def test_costs_are_limited_exactly_e36() -> None:
    book = ledger(max_cost="0.30")
    claims = [Claim(1, 1, Decimal("0.05"), Decimal("0.05")) for _ in range(4)]
    assert asked(book, *claims) == [Stage.HELD] * 3 + [Stage.WAITING]
    for claim in claims[:3]:
        book.send(claim)
        book.settle(claim, took(2, "0.10"))
    assert claims[3].stage is Stage.REFUSED
    assert book.booked.cost == Decimal("0.30")


def test_a_model_without_a_limit_gets_a_share_so_that_one_call_cannot_take_all_e36() -> None:
    book = ledger(max_tokens=8_100)
    claims = [Claim(100, None) for _ in range(3)]
    assert asked(book, *claims) == [Stage.HELD] * 3
    assert [claim.max_tokens for claim in claims] == [2000, 1475, 1081]
    assert sum(claim.held.tokens for claim in claims) == book.held.tokens == 4856


def test_a_share_is_no_more_than_models_take_and_no_less_than_an_answer_needs_e36() -> None:
    rich, poor = Claim(100, None), Claim(100, None)
    ledger(max_tokens=10**6).ask(rich)
    ledger(max_tokens=100 + LEAST_OUTPUT).ask(poor)
    assert (rich.max_tokens, poor.max_tokens) == (MOST_OUTPUT, LEAST_OUTPUT)
    broke = Claim(100, None)
    ledger(max_tokens=99 + LEAST_OUTPUT).ask(broke)
    assert broke.stage is Stage.REFUSED


def test_a_share_of_money_is_counted_in_output_tokens_e36() -> None:
    claim = Claim(100, None, Decimal("0.1"), Decimal("0.0001"))
    ledger(max_cost="0.5").ask(claim)
    assert claim.max_tokens == 1000
    assert claim.held.cost == Decimal("0.2")


@pytest.mark.parametrize("limits", [{"max_llm_calls": 3}, {"max_cost": 1}])
def test_output_that_no_limit_is_about_is_not_limited_e36(limits: dict[str, int]) -> None:
    claim = Claim(100, None)
    ledger(**limits).ask(claim)
    assert (claim.stage, claim.max_tokens) == (Stage.HELD, None)


def test_a_model_keeps_its_own_limit_e36() -> None:
    claim = Claim(100, 5000)
    ledger(max_tokens=10_000).ask(claim)
    assert (claim.max_tokens, claim.held.tokens) == (None, 5100)


def test_the_first_to_come_near_a_limit_warns_and_nobody_else_e36() -> None:
    book = ledger(max_tokens=100, warn_at=0.7)
    claims = [Claim(30, 0), Claim(40, 0), Claim(10, 0)]
    asked(book, *claims)
    assert [claim.warning for claim in claims] == [None, Spending(tokens=70, llm_calls=2), None]


amounts = st.integers(0, 60)


class LedgerMachine(RuleBasedStateMachine):
    """Any number of callers, in any order; a server that takes what it likes, up to what it was allowed."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.book = ledger(max_tokens=1000, max_cost="10", max_llm_calls=12)
        self.served = Spending()
        self.arrived: list[Claim] = []
        self.decided: list[Claim] = []

    def learn(self, claims: list[Claim]) -> None:
        self.decided += claims

    @rule(target=claims, inputs=amounts, output=st.none() | amounts, rate=st.sampled_from(["0", "0.01", "0.1"]))
    def ask(self, inputs: int, output: int | None, rate: str) -> Claim:
        claim = Claim(inputs, output, inputs * Decimal("0.01"), Decimal(rate))
        before = [each for each in self.arrived if each.stage is Stage.WAITING]
        self.book.ask(claim)
        self.arrived.append(claim)
        if before:
            assert claim.stage is not Stage.HELD, "overtook"
        return claim

    @rule(claim=claims)
    def send(self, claim: Claim) -> None:
        if claim.stage is Stage.HELD:
            self.book.send(claim)
            self.served += Spending(llm_calls=1)

    @rule(claim=consumes(claims), share=st.sampled_from([0, 1, 50, 100]), is_known=st.booleans())
    def settle(self, claim: Claim, share: int, is_known: bool) -> None:
        if claim.stage is not Stage.SENT:
            self.learn(self.book.withdraw(claim))
            return
        taken = Spending(tokens=claim.held.tokens * share // 100, cost=claim.held.cost * share / 100)
        self.served += taken
        self.learn(self.book.settle(claim, taken if is_known else None))

    @precondition(lambda self: any(each.stage is Stage.WAITING for each in self.arrived))
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
        places = [self.arrived.index(claim) for claim in self.decided]
        assert places == sorted(places)

    def teardown(self) -> None:
        """In the end everybody is decided."""
        for claim in self.arrived:
            if claim.stage is Stage.HELD:
                self.book.send(claim)
            if claim.stage is Stage.SENT:
                self.learn(self.book.settle(claim, Spending()))
        while any(each.stage is Stage.HELD for each in self.arrived):
            for claim in [each for each in self.arrived if each.stage is Stage.HELD]:
                self.book.send(claim)
                self.book.settle(claim, None)
        assert not [each for each in self.arrived if each.stage is Stage.WAITING]
        assert self.book.held == Spending()


TestLedger = LedgerMachine.TestCase


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(0, 100)), min_size=30, max_size=60))
def test_less_than_one_worst_case_is_left_after_the_last_refusal_e36(sizes: list[tuple[int, int, int]]) -> None:
    book, refused = ledger(max_tokens=600), []
    running: list[tuple[Claim, int]] = []
    for inputs, output, share in sizes:
        claim = Claim(inputs, output)
        book.ask(claim)
        running.append((claim, share))
        while len(running) > 5:
            each, part = running.pop(0)
            if each.stage is Stage.HELD:
                book.send(each)
                book.settle(each, took(each.held.tokens * part // 100))
            if each.stage is Stage.REFUSED:
                refused.append(each)
    if refused:
        assert book.left("max_tokens") < refused[-1].worst(refused[-1].output_tokens or 0).tokens
