"""When a failed model request is tried again (E30)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.seams.chat_port import Fault
from ensemble_notebook.engine.agent.retry_delay import compute_backoff, compute_retry_delay

BUSY = Fault(reason="503", is_transient=True)


def test_waits_double_up_to_ten_seconds_e30() -> None:
    assert [compute_retry_delay(BUSY, attempt, 7, 0.0) for attempt in range(1, 8)] == [1, 2, 4, 8, 10, 10, 10]


def test_the_last_attempt_is_the_last_e30() -> None:
    assert compute_retry_delay(BUSY, 2, 2, 0.0) is not None
    assert compute_retry_delay(BUSY, 3, 2, 0.0) is None
    assert compute_retry_delay(BUSY, 1, 0, 0.0) is None


def test_what_is_not_transient_is_never_tried_again_e30() -> None:
    assert compute_retry_delay(Fault(reason="401", is_transient=False, retry_after_s=1.0), 1, 5, 0.0) is None


def test_the_server_may_ask_for_a_longer_wait_but_not_for_a_shorter_one_e30() -> None:
    assert compute_retry_delay(Fault(reason="429", is_transient=True, retry_after_s=30.0), 1, 2, 0.0) == 30
    assert compute_retry_delay(Fault(reason="429", is_transient=True, retry_after_s=0.1), 3, 3, 0.0) == 4


def test_up_to_a_quarter_more_comes_after_the_cap_and_after_what_the_server_asks_for_e30() -> None:
    assert compute_retry_delay(BUSY, 9, 9, 1.0) == 12.5
    assert compute_retry_delay(Fault(reason="429", is_transient=True, retry_after_s=30.0), 1, 2, 0.5) == 33.75
    assert compute_backoff(1, 0.2) == 1.05


def test_no_wait_is_longer_than_it_may_be_and_one_that_would_be_is_not_begun_e30() -> None:
    asked = Fault(reason="429", is_transient=True, retry_after_s=5.0)
    assert compute_retry_delay(asked, 1, 2, 0.0, 5.0) == 5
    assert compute_retry_delay(asked, 1, 2, 1.0, 5.5) == 5.5
    assert compute_retry_delay(asked, 1, 2, 0.0, 4.9) is None
    assert compute_retry_delay(BUSY, 4, 4, 1.0, 3.0) == 3
    assert compute_retry_delay(Fault(reason="429", is_transient=True, retry_after_s=60.1), 1, 2, 0.0) is None


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_someone_who_never_gives_up_waits_ten_seconds_and_a_quarter_at_most(attempt: int, draw: float) -> None:
    delay = compute_retry_delay(BUSY, attempt, 10**6, draw)
    assert delay is not None
    assert 1 <= delay <= 12.5
