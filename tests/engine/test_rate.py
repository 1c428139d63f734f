"""Rate limits alone, in virtual time; then on real threads, where only the order of time is looked at (E37)."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Awaitable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_notebook.domain.definitions.limits import RateLimit
from ensemble_notebook.engine.events.event_stream import SystemClock
from ensemble_notebook.engine.loop_thread import CrossThreadEvent
from ensemble_notebook.engine.rate_limiter import RateLimiter, RateLoan, RatePartsHere, TokenBucket, _buckets
from ensemble_notebook.errors import RateLimitTimeoutError
from ensemble_notebook.testing.virtual_clock import LoopClock, VirtualLoop, run_virtual

Passed = list[tuple[float, str]]


class Street:
    """Callers in virtual time, and when each went through."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop)
        self.passed: Passed = []
        self.late: dict[str, float] = {}

    async def request(self, name: str, *limits: RateLimit, at: float = 0.0) -> None:
        await asyncio.sleep(at)
        limiter = RateLimiter(limits, self.clock)
        try:
            if not limiter.try_pass():
                await limiter.wait()
        except RateLimitTimeoutError:
            self.late[name] = self.clock.monotonic()
        else:
            self.passed.append((self.clock.monotonic(), name))

    def run(self, *requests: Awaitable[None]) -> Passed:
        async def main() -> None:
            await asyncio.gather(*requests)

        run_virtual(main(), self.loop)
        return [(round(when, 6), name) for when, name in self.passed]


def test_the_first_request_goes_at_once_and_the_others_follow_evenly_in_order_of_arrival_e37() -> None:
    street, limit = Street(), RateLimit(2, 1.0)
    assert street.run(*[street.request(name, limit) for name in "abcd"]) == [
        (0.0, "a"),
        (0.5, "b"),
        (1.0, "c"),
        (1.5, "d"),
    ]


def test_a_quiet_time_saves_no_more_than_one_request_e37() -> None:
    street, limit = Street(), RateLimit(1, 1.0)
    requests = [
        street.request("a", limit),
        *[street.request(name, limit, at=100.0 + place / 100) for place, name in enumerate("bcd")],
    ]
    assert street.run(*requests) == [(0.0, "a"), (100.0, "b"), (101.0, "c"), (102.0, "d")]


def test_a_request_passes_all_limits_that_apply_at_the_same_moment_e37() -> None:
    street, slow, fast = Street(), RateLimit(1, 10.0), RateLimit(1, 1.0)
    requests = [
        *[street.request(f"slow-{number}", slow, fast) for number in range(3)],
        *[street.request(f"fast-{number}", fast, at=9.5 + number / 100) for number in range(3)],
    ]
    # The slow ones wait where only slow ones wait; what is really sent never breaks the fast limit.
    assert street.run(*requests) == [
        (0.0, "slow-0"),
        (9.5, "fast-0"),
        (10.5, "fast-1"),
        (11.5, "fast-2"),
        (12.5, "slow-1"),
        (22.5, "slow-2"),
    ]


def test_two_limits_in_opposite_order_never_wait_for_each_other_e37() -> None:
    street, first, second = Street(), RateLimit(1, 1.0), RateLimit(1, 1.0)
    requests = [
        street.request(str(number), *((first, second) if number % 2 else (second, first))) for number in range(6)
    ]
    assert [when for when, _ in street.run(*requests)] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_who_would_come_too_late_is_refused_at_once_and_holds_nobody_up_e37() -> None:
    street, limit = Street(), RateLimit(1, 1.0, wait_timeout=2.0)
    assert street.run(*[street.request(name, limit) for name in "abcde"]) == [(0.0, "a"), (1.0, "b"), (2.0, "c")]
    assert street.late == {"d": 0.0, "e": 0.0}


def test_who_is_held_up_by_others_waits_no_longer_than_the_timeout_e37() -> None:
    street, slow, fast = Street(), RateLimit(1, 2.0, wait_timeout=5.0), RateLimit(1, 1.0)
    crowd = [street.request(f"crowd-{number}", fast) for number in range(20)]
    both = [street.request(name, slow, fast, at=0.5) for name in "ab"]
    passed = street.run(*crowd, *both)
    assert passed[-1] == (20.0, "a")  # it came late to the fast limit, which lets it wait for thirty seconds
    assert street.late == {"b": 5.5}


def test_a_cancelled_request_leaves_the_line_and_takes_no_turn_e37() -> None:
    street, limit = Street(), RateLimit(1, 1.0)

    async def main() -> None:
        tasks = [asyncio.ensure_future(street.request(name, limit)) for name in "abcde"]
        await asyncio.sleep(0.5)
        tasks[1].cancel()  # the first in queue
        tasks[3].cancel()  # in the middle
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main(), street.loop)
    assert street.passed == [(0.0, "a"), (1.0, "c"), (2.0, "e")]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 10, allow_nan=False),
            st.sets(st.integers(0, 2), min_size=1),
            st.none() | st.floats(0, 5, allow_nan=False),
        ),
        max_size=25,
    )
)
def test_no_limit_ever_lets_two_requests_through_within_its_interval_e37(
    arrivals: list[tuple[float, set[int], float | None]],
) -> None:
    street = Street()
    limits = [RateLimit(1, 0.7), RateLimit(3, 1.0, wait_timeout=2.0), RateLimit(1, 1.3, wait_timeout=4.0)]
    passed: list[list[float]] = [[], [], []]

    async def one(at: float, which: set[int], patience: float | None) -> None:
        await asyncio.sleep(at)
        limiter = RateLimiter([limits[each] for each in which], street.clock)
        try:
            async with asyncio.timeout(patience):
                if not limiter.try_pass():
                    await limiter.wait()
        except TimeoutError:
            return
        for each in which:
            passed[each].append(street.clock.monotonic())

    async def main() -> None:
        await asyncio.gather(*[one(*arrival) for arrival in arrivals])

    run_virtual(main(), street.loop)
    for limit, times in zip(limits, passed, strict=True):
        assert all(after - before > limit.interval_s - 1e-6 for before, after in pairwise(times))
        assert not any(bucket.queue for bucket in _buckets.values())


def test_one_limit_holds_for_several_threads_with_their_own_loops_e37() -> None:
    limit, interval, times = RateLimit(100, 1.0), 0.01, []

    async def several() -> None:
        limiter = RateLimiter([limit], SystemClock())
        for _ in range(5):
            if not limiter.try_pass():
                await limiter.wait()
            times.append(time.monotonic())

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(4)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(times) == 20
    assert time.monotonic() - began >= 19 * interval


def test_a_limit_and_its_turnstile_end_together() -> None:
    RateLimiter([limit := RateLimit(1, 1.0)], SystemClock())
    assert limit in _buckets
    count = len(_buckets)
    del limit
    gc.collect()
    assert len(_buckets) < count


def test_a_line_goes_on_without_those_whose_loop_is_closed_e37() -> None:
    async def make() -> CrossThreadEvent:
        return CrossThreadEvent()

    async def main() -> None:
        bucket = TokenBucket(1.0)
        first, last = await make(), await make()
        lost = await asyncio.to_thread(asyncio.run, make())
        bucket.queue.extend([first, lost, last])
        bucket.leave(first)
        await asyncio.wait_for(_wait(last), 10)
        bucket.leave(lost)
        assert list(bucket.queue) == [last]

    asyncio.run(main())


async def _wait(event: CrossThreadEvent) -> None:
    await event


def test_the_error_names_the_limit_and_what_to_do_e37() -> None:
    limit = RateLimit(1, 60, wait_timeout=0.5)

    async def main() -> None:
        limiter = RateLimiter([limit], SystemClock())
        assert limiter.try_pass()
        await limiter.wait()

    with pytest.raises(RateLimitTimeoutError, match=r"No place within 0\.5 s under RateLimit\(1, 60\)") as caught:
        asyncio.run(main())
    assert (caught.value.rate_limit, caught.value.wait_timeout) == (limit, 0.5)


# --- Parts of a limit, for rows elsewhere -----------------------------------------------------------------------------


class Workers:
    """Workers that others reach only by a way that takes time, and when their requests went through."""

    def __init__(self, limits: list[RateLimit], count: int, clock: LoopClock) -> None:
        self.limits, self.count, self.clock = limits, count, clock
        self.times: list[float] = []

    async def run_row(self, requests: int, *, way_there: float = 0.0, way_back: float = 0.0, work: float = 0.0) -> None:
        loan = RateLoan(self.limits, self, self.count, self.clock)
        await loan.take()
        parts = loan.send()
        await asyncio.sleep(way_there)
        here = RatePartsHere(self.limits, parts, self.clock)
        with here.hold():
            limiter = RateLimiter(self.limits, self.clock)
        for _ in range(requests):
            if not limiter.try_pass():
                await limiter.wait()
            self.times.append(self.clock.monotonic())
            await asyncio.sleep(work)
        left = here.leave()
        await asyncio.sleep(way_back)
        loan.settle(left)

    async def run_rows(self, rows: list[tuple[int, float, float, float]]) -> None:
        free = asyncio.Semaphore(2 * self.count)  # a map has more rows under way than its workers run

        async def run(requests: int, way_there: float, way_back: float, work: float) -> None:
            async with free:
                await self.run_row(requests, way_there=way_there, way_back=way_back, work=work)

        await asyncio.gather(*[run(*each) for each in rows])


def most_in_a_second(times: list[float]) -> int:
    return max(sum(at <= other <= at + 1 - 1e-9 for other in times) for at in times)


def test_rows_on_two_workers_are_spaced_as_those_in_one_process_e137() -> None:
    street, limit = Street(), RateLimit(20, 1.0)
    workers = Workers([limit], 2, street.clock)
    run_virtual(workers.run_rows([(1, 0.0, 0.0, 0.0)] * 40), street.loop)
    assert [round(each, 6) for each in sorted(workers.times)] == [round(place / 20, 6) for place in range(40)]


def test_a_way_that_takes_time_does_not_slow_workers_down_e137() -> None:
    street, limit = Street(), RateLimit(20, 1.0)
    workers = Workers([limit], 2, street.clock)
    run_virtual(workers.run_rows([(1, 0.005, 0.01, 0.0)] * 200), street.loop)
    assert max(workers.times) <= 199 / 20 * 1.02


ways = st.floats(0, 0.5, allow_nan=False) | st.floats(0, 3, allow_nan=False)


@given(
    st.sampled_from([(20, 1.0), (3, 1.0), (29, 10.0), (1, 2.0), (90, 60.0), (200, 1.0)]),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 4), ways, ways, ways), min_size=1, max_size=40),
)
def test_no_second_has_more_than_the_limit_and_one_for_each_worker_e137(
    limit: tuple[int, float], count: int, rows: list[tuple[int, float, float, float]]
) -> None:
    street, rate = Street(), RateLimit(*limit)
    workers = Workers([rate], count, street.clock)
    run_virtual(workers.run_rows(rows), street.loop)
    if workers.times:
        assert most_in_a_second(workers.times) <= math.ceil(1 / rate.interval_s) + count
    assert _buckets[rate].lent == 0
    assert not _buckets[rate].borrowers
    assert not _buckets[rate].queue


def test_two_maps_and_what_is_sent_here_share_one_limit_e137() -> None:
    street, limit, other = Street(), RateLimit(10, 1.0), RateLimit(5, 1.0)
    first, second = Workers([limit], 2, street.clock), Workers([other, limit], 2, street.clock)
    here = [street.request(str(number), limit, at=0.5) for number in range(10)]

    async def main() -> None:
        rows = [(2, 0.0, 0.0, 0.01)] * 10
        await asyncio.gather(first.run_rows(rows), second.run_rows(rows), *here)

    run_virtual(main(), street.loop)
    assert most_in_a_second(second.times) <= 5 + 2
    everything = [*first.times, *second.times, *(when for when, _ in street.passed)]
    assert len(everything) == 50
    assert most_in_a_second(everything) <= 10 + 4
    assert max(everything) < 49 / 10 * 1.5
    assert not street.late


def test_a_part_that_does_not_come_home_may_have_been_used_just_now_e137() -> None:
    street, limit = Street(), RateLimit(1, 1.0)

    async def find_wait(*, is_lost: bool = False) -> float:
        loan = RateLoan([limit], street, 1, street.clock)
        await loan.take()
        (part,) = loan.send()
        await asyncio.sleep(5 if is_lost else 0)
        if is_lost:
            loan.settle(None)
        else:
            loan.withdraw()
        return part.wait_s

    async def main() -> None:
        assert [await find_wait(is_lost=True), await find_wait(), await find_wait()] == [0.0, 1.0, 1.0]

    run_virtual(main(), street.loop)


def test_rows_that_ask_for_nothing_use_up_nothing_e137() -> None:
    street, limit = Street(), RateLimit(1, 1.0, wait_timeout=3.0)

    async def main() -> None:
        for count in (1, 2):
            workers = Workers([limit], count, street.clock)
            await workers.run_rows([(0, 0.001, 0.001, 0.0)] * 100 + [(1, 0.001, 0.001, 0.0)])
            assert len(workers.times) == 1

    run_virtual(main(), street.loop)
    assert street.clock.monotonic() < 4
