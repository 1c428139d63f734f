"""An interrupt while a run is going on: a call, not an exception in the middle of something."""

import signal
import threading

import pytest

from ensemble_notebook.ensemble.person import InterruptGuard


def test_interrupt_becomes_a_call():
    stopped = []
    with InterruptGuard() as guard:
        guard.call(lambda: stopped.append(True))
        signal.raise_signal(signal.SIGINT)
    assert stopped == [True]


def test_interrupt_that_comes_first_is_not_lost():
    stopped = []
    with InterruptGuard() as guard:
        signal.raise_signal(signal.SIGINT)
        guard.call(lambda: stopped.append(True))
    assert stopped == [True]


def test_interrupt_in_a_destructor_is_not_lost():
    """Python prints an exception that is raised there, and drops it."""

    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    stopped = []
    with InterruptGuard() as guard:
        guard.call(lambda: stopped.append(True))
        dying = Dying()
        del dying
    assert stopped == [True]


def test_second_interrupt_raises():
    with InterruptGuard() as guard:
        guard.call(lambda: None)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_handler_of_before_is_given_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyError), InterruptGuard():
        raise KeyError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with InterruptGuard():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
