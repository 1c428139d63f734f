"""The person at a cell: asked in the timeline, else by input; stopped, too late, or not there at all (C35)."""

import asyncio
import signal
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace

import pytest

from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewRequest
from ensemble_notebook.ensemble import person as review
from ensemble_notebook.ensemble.person import InterruptGuard, Person, read_decision
from ensemble_notebook.notebook.live.run_feed import RunFeed
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages
from tests.support.event_builder import EventBuilder
from tests.support.limits import meet_limit

LIMIT_S = 60
REQUEST = ReviewRequest(subject="output", text="The draft. " * 4000, task="draft", agent="Ana")
APPROVED = ReviewDecision.approve()


class Run:
    """Asks on a loop of its own, as a run does."""

    def __init__(self, reviewer: Person, request: ReviewRequest = REQUEST, timeout: float | None = None) -> None:
        self.decision: Future[ReviewDecision] = Future()
        self.loop = asyncio.new_event_loop()
        self._is_asking = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(reviewer, request, timeout))
        self._thread.start()
        assert self._is_asking.wait(LIMIT_S)

    def _work(self, reviewer: Person, request: ReviewRequest, timeout: float | None) -> None:
        async def ask() -> ReviewDecision:
            asyncio.get_running_loop().call_soon(self._is_asking.set)
            async with asyncio.timeout(timeout):
                return await reviewer.ask(request)

        try:
            self.decision.set_result(self.loop.run_until_complete(ask()))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.decision.set_exception(error)
        self.loop.close()

    def close(self) -> None:
        self._thread.join(LIMIT_S)


@pytest.fixture
def ask():
    runs = []

    def start(*args, **options) -> Run:
        runs.append(Run(*args, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def requested():
    """The event of a request."""
    build = EventBuilder({"draft": ()})
    with build.task("draft"):
        build.review(hangs=True, text="The draft.")
    (event,) = [each for each in build.events if type(each).__name__ == "ReviewRequested"]
    return event


def in_sight(requested):
    reviewer = Person(has_timeline=True, has_console=False)
    reviewer.on_event(requested)
    return reviewer


def attend(reviewer, guard=None):
    reviewer.attend(guard or InterruptGuard(), nullcontext)


def type_in(monkeypatch, act) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: act(prompt))


def no_input(_prompt: str) -> str:
    raise AssertionError("nobody should be asked by input")


def test_answer_in_the_timeline_is_the_decision(ask, requested):
    reviewer = in_sight(requested)
    run = ask(reviewer, requested.request)
    reviewer.answer(requested.span_id, ReviewDecision.retry("shorter"))
    assert run.decision.result(LIMIT_S) == ReviewDecision.retry("shorter")


def test_answer_that_comes_before_the_listener_knows_the_span_is_not_lost(ask, requested):
    reviewer = Person(has_timeline=True, has_console=False)
    run = ask(reviewer, requested.request)
    reviewer.answer(requested.span_id, APPROVED)
    reviewer.on_event(requested)
    assert run.decision.result(LIMIT_S) == APPROVED


def test_answer_to_another_question_or_with_another_verdict_changes_nothing(ask, requested):
    reviewer = in_sight(requested)
    other = ReviewRequest(subject="question", text="?", verdicts=(ReviewDecision.edit("").verdict,))
    run = ask(reviewer, other, timeout=0.05)
    reviewer.answer(requested.span_id, APPROVED)
    with pytest.raises(TimeoutError):
        run.decision.result(LIMIT_S)


def test_e122_of_a_call_that_may_have_been_made_the_arguments_alone_are_edited_and_always_comes_from_the_timeline(
    ask, requested
):
    call = replace(
        requested.request, subject="tool", text="{}\n\nMake it again?", tool="refund", call_id="r.1", arguments={"n": 5}
    )
    asked = replace(requested, request=call)
    reviewer = in_sight(asked)
    run = ask(reviewer, call)
    assert reviewer.call_of(asked.span_id) == {
        "fields": [{"name": "n", "kind": "number", "text": "5"}],
        "is_unknown": False,
    }
    decision = read_decision("approve", "", None, True)
    assert decision == ReviewDecision.approve(always=True)
    reviewer.answer(asked.span_id, decision)
    assert run.decision.result(LIMIT_S) == decision
    assert read_decision("edit", "{}", None, True) == ReviewDecision.edit("{}")


def test_edited_arguments_that_do_not_fit_are_told_to_the_view_that_sent_them_and_the_question_stays_w165(
    ask, requested
):
    schema = {"properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
    call = replace(
        requested.request, subject="tool", tool="refund", call_id="r.1", arguments={"n": 5}, parameters=schema
    )
    asked = replace(requested, request=call)
    reviewer = in_sight(asked)
    run = ask(reviewer, call)
    feed, told = RunFeed(TimelineMessages(TraceFold()), reviewer=reviewer), []
    view = type("View", (), {"send": lambda self, content, buffers=None: told.append(content)})()
    answer = {"kind": "review", "span_id": asked.span_id, "verdict": "edit", "text": ""}
    feed.receive(view, {**answer, "changes": {"n": "12"}})
    assert told[-1]["call"]["faults"] == {"n": "12 is greater than the maximum of 9"}
    assert not run.decision.done()
    feed.receive(view, {**answer, "changes": {"n": "7"}})
    assert run.decision.result(LIMIT_S) == ReviewDecision.edit({"n": 7})
    assert len(told) == 1


def test_nobody_in_sight_is_not_waited_for(ask):
    run = ask(Person(has_timeline=False, has_console=False))
    with pytest.raises(TimeoutError, match="nobody can be asked here"):
        run.decision.result(LIMIT_S)


@pytest.mark.parametrize("has_handler", [False, True])
def test_that_nobody_could_be_asked_is_said_once(requested, capsys, has_handler):
    build = EventBuilder({"draft": ()})
    with build.task("draft"):
        build.review(text="The draft.")
    answered = next(each for each in build.events if type(each).__name__ == "ReviewAnswered")
    answered = replace(answered, span_id=requested.span_id, by="nobody_to_ask")
    person = Person(has_timeline=False, has_console=False, is_asked=not has_handler)
    for event in (requested, answered, answered):
        person.on_event(event)
    told = capsys.readouterr().out
    nobody = "Nobody can be asked here: give review_handler=..., or resume where somebody can."
    assert told.count("The review_handler gave no answer." if has_handler else nobody) == 1
    assert "Is the output of 'draft' good?" in told


@pytest.mark.parametrize("error", [EOFError(), OSError("captured"), NotImplementedError("no input")])
def test_prompt_without_anybody_at_it_is_not_waited_for(ask, monkeypatch, error):
    def fail(_prompt):
        raise error

    reviewer = Person(has_timeline=False, has_console=True)
    run = ask(reviewer)
    type_in(monkeypatch, fail)
    attend(reviewer)
    with pytest.raises(TimeoutError, match="nobody can be asked here"):
        run.decision.result(LIMIT_S)


def test_without_a_timeline_the_prompt_asks(ask, monkeypatch, capsys):
    reviewer = Person(has_timeline=False, has_console=True)
    run = ask(reviewer)
    type_in(monkeypatch, lambda _: "r shorter")
    attend(reviewer)
    assert run.decision.result(LIMIT_S) == ReviewDecision.retry("shorter")
    assert "The draft." in capsys.readouterr().out


def test_prompt_waits_for_a_page_that_may_be_opening_and_then_asks(ask, monkeypatch):
    reviewer = Person(has_timeline=True, has_console=True)
    run = ask(reviewer)
    type_in(monkeypatch, no_input)
    attend(reviewer)
    monkeypatch.setattr(review, "PATIENCE_S", 0.0)
    type_in(monkeypatch, lambda _: "a")
    attend(reviewer)
    assert run.decision.result(LIMIT_S) == APPROVED


def test_prompt_leaves_the_question_to_a_page_that_answers(ask, monkeypatch, requested):
    monkeypatch.setattr(review, "PATIENCE_S", 0.0)
    reviewer = Person(has_timeline=True, has_console=True)
    reviewer.on_event(requested)
    run = ask(reviewer, requested.request)
    reviewer.hear()
    type_in(monkeypatch, no_input)
    attend(reviewer)
    reviewer.answer(requested.span_id, APPROVED)
    assert run.decision.result(LIMIT_S) == APPROVED


def test_nothing_is_asked_while_there_is_no_question(monkeypatch):
    type_in(monkeypatch, no_input)
    attend(Person(has_timeline=False, has_console=True))


def blocked(entered: threading.Event):
    """An input that nobody answers."""

    def read(_prompt: str) -> str:
        entered.set()
        # A signal that comes on the way into a wait does not end it: one time in four this took all of the limit.
        for _ in range(int(LIMIT_S * 20)):
            signal.sigtimedwait([signal.SIGUSR1], 0.05)
        raise AssertionError("nothing ended the prompt")

    return read


def test_prompt_is_left_when_the_question_is_answered_in_the_timeline(ask, monkeypatch, requested):
    monkeypatch.setattr(review, "PATIENCE_S", 0.0)
    reviewer = Person(has_timeline=True, has_console=True)
    reviewer.on_event(requested)
    run = ask(reviewer, requested.request)
    entered = threading.Event()
    type_in(monkeypatch, blocked(entered))
    stopped = []

    def click() -> None:
        entered.wait(LIMIT_S)
        reviewer.answer(requested.span_id, APPROVED)

    thread = threading.Thread(target=click)
    thread.start()
    with InterruptGuard() as guard:
        guard.call(lambda: stopped.append(True))
        attend(reviewer, guard)
    thread.join()
    assert run.decision.result(LIMIT_S) == APPROVED
    assert stopped == []


def test_prompt_is_left_when_it_is_too_late(ask, monkeypatch):
    reviewer = Person(has_timeline=False, has_console=True)
    run = ask(reviewer, timeout=0.1)
    type_in(monkeypatch, blocked(threading.Event()))
    with InterruptGuard() as guard:
        attend(reviewer, guard)
    with pytest.raises(TimeoutError):
        run.decision.result(LIMIT_S)


def test_interrupt_at_the_prompt_stops_the_run(ask, monkeypatch):
    def interrupt(_prompt: str) -> str:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("an interrupt leaves the prompt")

    type_in(monkeypatch, interrupt)

    def run_for(limit_s: float) -> list[bool]:
        reviewer, stopped = Person(has_timeline=False, has_console=True), []
        run = ask(reviewer, timeout=limit_s)
        with InterruptGuard() as guard:
            guard.call(lambda: stopped.append(True))
            attend(reviewer, guard)
        with pytest.raises(TimeoutError):  # what stops the run withdraws the question; here nobody does
            run.decision.result(LIMIT_S)
        return stopped

    assert meet_limit(run_for, bool, 0.5) == [True]


def test_what_moves_rests_while_the_prompt_is_there(ask, monkeypatch):
    reviewer = Person(has_timeline=False, has_console=True)
    run = ask(reviewer)
    order = []

    class Rest:
        def __enter__(self) -> None:
            order.append("rest")

        def __exit__(self, *_: object) -> None:
            order.append("go on")

    def read(_prompt: str) -> str:
        order.append("asked")
        return "a"

    type_in(monkeypatch, read)
    reviewer.attend(InterruptGuard(), Rest)
    assert order == ["rest", "asked", "go on"]
    assert run.decision.result(LIMIT_S) == APPROVED


@pytest.mark.parametrize("verdict, text", [("approved", ""), (None, ""), ("retry", None), (["approve"], "")])
def test_what_is_no_decision_is_none(verdict, text):
    assert read_decision(verdict, text) is None


def test_decision_comes_as_it_was_sent():
    assert read_decision("retry", "shorter") == ReviewDecision.retry("shorter")


class Line:
    """Carries messages between a page and a feed, and keeps those of the feed."""

    def __init__(self, requested, reviewer) -> None:
        self.sent = []
        self.feed = RunFeed(TimelineMessages(TraceFold.from_events([requested])), None, reviewer)

    def send(self, content, _buffers=None):
        self.sent.append(content)

    def ask(self, content):
        self.feed.receive(self, content)


class TestFeed:
    """The run's feed between page and reviewer."""

    @pytest.fixture
    def reviewer(self, requested):
        return in_sight(requested)

    @pytest.fixture
    def line(self, reviewer, requested):
        return Line(requested, reviewer)

    def test_asks_a_person_nothing_that_the_ensemble_asks_somebody_else(self, requested):
        others = Person(has_timeline=True, has_console=True, is_asked=False)
        asking = [Line(requested, reviewer) for reviewer in (in_sight(requested), others, None)]
        for line in asking:
            line.ask({"kind": "hello", "have": -1})
            line.ask({"kind": "hello", "have": 0})
            assert [message["kind"] for message in line.sent] == ["snapshot", "delta"]
        told = [[message["run"]["waiting"] for message in line.sent] for line in asking]
        assert told == [[[requested.span_id]] * 2, [[]] * 2, [[]] * 2]

    def test_hands_an_answer_on(self, ask, line, reviewer, requested):
        run = ask(reviewer, requested.request)
        message = {"kind": "review", "span_id": requested.span_id, "verdict": "edit", "text": "Mine."}
        line.ask(message)
        assert run.decision.result(LIMIT_S) == ReviewDecision.edit("Mine.")

    def test_ignores_what_is_none(self, ask, line, reviewer, requested):
        run = ask(reviewer, requested.request)
        for verdict, text in (("nonsense", ""), ("edit", None), (None, None)):
            message = {"kind": "review", "span_id": requested.span_id, "verdict": verdict, "text": text}
            line.ask(message)
        assert not run.decision.done()
        reviewer.answer(requested.span_id, APPROVED)

    def test_gives_all_of_the_text_to_edit_while_it_is_asked(self, ask, requested):
        reviewer = Person(has_timeline=True, has_console=False)
        long = replace(requested, request=REQUEST)
        reviewer.on_event(long)
        line = Line(long, reviewer)
        run = ask(reviewer, REQUEST)
        line.ask({"kind": "details", "span_id": long.span_id})
        assert line.sent[-1]["input"] == REQUEST.text
        reviewer.answer(long.span_id, APPROVED)
        assert run.decision.result(LIMIT_S) == APPROVED
        line.ask({"kind": "details", "span_id": long.span_id})
        assert len(line.sent[-1]["input"]) < len(REQUEST.text)
