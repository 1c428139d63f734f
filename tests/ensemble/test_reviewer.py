"""Ready-made review handlers, and the conversation behind them."""

import pytest

from ensemble_notebook import Ensemble, ReviewDecision, ReviewRequest, Task, auto_review, console_review
from ensemble_notebook.domain.definitions.enums import OnTimeout
from ensemble_notebook.domain.definitions.review import Verdict
from ensemble_notebook.ensemble.review_handlers import ask_in_text

SECRET = "sk-" + "a1B2" * 8


def request(**facts) -> ReviewRequest:
    return ReviewRequest(
        **{"subject": "output", "text": "Two lines\nof text", "task": "draft", "agent": "Ana", **facts}
    )


def question(**facts) -> ReviewRequest:
    verdicts = (Verdict.EDIT, Verdict.EXIT_EARLY)
    return request(subject="question", text="Which one?", verdicts=verdicts, **facts)


class Person:
    """Types these lines, and remembers what was shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []
        self.shown: list[str] = []

    def decide(self, asked: ReviewRequest) -> ReviewDecision:
        decision = ask_in_text(asked, self._read, self.shown.append)
        assert self._lines == []
        return decision

    def _read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self._lines.pop(0)


@pytest.mark.parametrize(
    "lines, decision",
    [
        (["a"], ReviewDecision.approve()),
        ([" Approve "], ReviewDecision.approve()),
        (["r shorter, please"], ReviewDecision.retry("shorter, please")),
        (["r", "shorter"], ReviewDecision.retry("shorter")),
        (["j", ""], ReviewDecision.reject("")),
        (["reject no source"], ReviewDecision.reject("no source")),
        (["x"], ReviewDecision.exit_early()),
        (["stop"], ReviewDecision.exit_early()),
        (["e My text"], ReviewDecision.edit("My text")),
        (["e", "One", "", "Two", "."], ReviewDecision.edit("One\n\nTwo")),
    ],
)
def test_a_line_is_a_decision(lines, decision):
    assert Person(*lines).decide(request()) == decision


def test_it_asks_until_the_answer_is_one():
    person = Person("", "perhaps", "r", "", "e", ".", "a")
    assert person.decide(request()) == ReviewDecision.approve()
    assert len(person.shown) == 1


def test_what_makes_no_sense_here_is_no_answer():
    assert Person("r", "a").decide(request(verdicts=(Verdict.APPROVE, Verdict.REJECT))) == ReviewDecision.approve()


def test_a_question_is_answered_in_words_and_can_be_left():
    assert Person("", "the first").decide(question()) == ReviewDecision.edit("the first")
    assert Person("a").decide(question()) == ReviewDecision.edit("a")
    assert Person("/exit").decide(question()) == ReviewDecision.exit_early()


def test_it_says_what_is_asked_and_what_happens_without_an_answer():
    person = Person("a")
    person.decide(request(timeout=60, on_timeout=OnTimeout.CONTINUE))
    assert person.shown == ["‖ Is the output of 'draft' good?\n  Two lines\n  of text"]
    assert person.prompts == ["[a]pprove [e]dit [r]etry re[j]ect e[x]it the run  (60 s, then it goes on as it is): "]
    person = Person("a")
    person.decide(request(timeout=None))
    assert "(" not in person.prompts[0]


def test_it_shows_neither_secrets_nor_control_characters():
    person = Person("a")
    person.decide(request(text=f"\x1b]0;title\x07 {SECRET}"))
    assert SECRET not in person.shown[0]
    assert "\x1b" not in person.shown[0]


def test_an_automatic_reviewer_decides_alike():
    assert auto_review()(request()) == ReviewDecision.approve()
    assert auto_review(ReviewDecision.reject("never"))(question()) == ReviewDecision.reject("never")


def test_the_console_reviewer_reads_and_prints(monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda _prompt: "r shorter")
    assert console_review(request()) == ReviewDecision.retry("shorter")
    assert "Is the output of 'draft' good?" in capsys.readouterr().out


@pytest.mark.parametrize("error", [EOFError(), OSError("captured"), NotImplementedError("no input here")])
def test_the_console_reviewer_says_that_nobody_is_there(monkeypatch, capsys, error):
    def read(_prompt: str) -> str:
        raise error

    monkeypatch.setattr("builtins.input", read)
    with pytest.raises(TimeoutError, match="Nobody can be asked here"):
        console_review(request())
    assert capsys.readouterr().out


def test_what_turns_or_hides_text_is_made_visible() -> None:
    person = Person("a")
    person.decide(request(text="rm \u202e/pmt\u202c \u200bx\U000e0041 a\u200db"))
    assert "rm [U+202E]/pmt[U+202C] [U+200B]x[U+E0041] a" in person.shown[0]
    seen = []
    ensemble = Ensemble(
        tasks=[Task.of("Say", name="say", handler=lambda _: "rm \u202e/pmt", review="after")],
        review_handler=lambda each: seen.append(each.text) or ReviewDecision.approve(),
    )
    output = ensemble.run()
    assert (output.raw, seen) == ("rm \u202e/pmt", ["rm \u202e/pmt"])
    assert list(output.frames.reviews["text"]) == ["rm [U+202E]/pmt"]
