"""E67: the regular expressions of conditions have a time limit, and what can't be read is refused."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from ensemble_notebook import (
    Condition,
    DeadlineExceededError,
    Ensemble,
    RunInterrupted,
    Task,
    TaskExecutionError,
    TaskInput,
)
from ensemble_notebook import ValidationError as DefinitionError
from tests.conformance.scene import done, run, run_cell, say
from tests.support.cell import mistakes_of

# Each takes `re` longer than the world has. What a search may take is counted in seconds of the processor.
EVIL = [(r"(a|a)*$", "a" * 60 + "b"), (r"(\w+\s?)+$", "word " * 3000 + "!"), (r"(?:ß|ss)+$", "ss" * 5000 + "x")]


@pytest.mark.parametrize("pattern, text", EVIL)
def test_e67_a_search_that_takes_too_long_is_an_error_that_names_the_pattern(pattern: str, text: str) -> None:
    source = done("source", handler=say(text))
    started = time.process_time()
    with pytest.raises(TaskExecutionError) as caught:
        run(source, done("next", when=Condition("source", matches=re.compile(pattern, re.IGNORECASE))))
    assert time.process_time() - started < 8
    assert repr(pattern) in str(caught.value)
    assert "longer than 1 s" in str(caught.value)
    assert "Write it without a repetition inside a repetition" in str(caught.value)
    chain = [caught.value.__cause__, caught.value.__cause__ and caught.value.__cause__.__cause__]
    assert any(isinstance(each, DeadlineExceededError) and each.scope == "condition" for each in chain)


def test_e67_the_classic_that_holds_re_for_good_is_told_at_once() -> None:
    given = say("a" * 60 + "b")
    text = "- {name: source, description: S, handler: given}\n- {description: N, when: {source: {matches: (a+)+$}}}"
    started = time.process_time()
    assert len(run_cell(text, given=given)) == 1
    assert time.process_time() - started < 8


def test_e67_a_run_is_stopped_during_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ensemble_notebook.domain.definitions.condition.SEARCH_LIMIT_S", 5.0)
    has_said = threading.Event()

    def source_text(given: TaskInput) -> str:
        has_said.set()
        return EVIL[0][1]

    source = done("source", handler=source_text)
    ensemble = Ensemble(tasks=[source, done("next", when=Condition("source", matches=EVIL[0][0]))])
    handle = ensemble.start()
    assert has_said.wait(60)
    time.sleep(0.2)
    handle.cancel()
    started = time.process_time()
    with pytest.raises(RunInterrupted):
        handle.result(60)
    assert time.process_time() - started < 4  # the search itself goes on for longer


def test_e67_an_expression_that_is_nested_too_deeply_is_refused() -> None:
    pattern = "(" * 990 + "a" + ")" * 990
    with pytest.raises(DefinitionError, match=r"is none: it is nested too deeply\.$") as caught:
        Condition("source", matches=pattern)
    assert len(str(caught.value)) < 300
    cell = f"- {{name: source, description: S}}\n- {{description: N, when: {{source: {{matches: '{pattern}'}}}}}}"
    (mistake,) = mistakes_of(cell)
    assert "nested too deeply" in mistake.message
    assert len(mistake.message) < 300


# Each takes `re` or `regex` seconds to read, and neither can be stopped.
LARGE = [
    (r"(?:a{1000}){1000}", "it stands for 1,000,000 characters, and may stand for 100,000"),
    (r"((?:[ab(]{100}\\){100}){100}b{2}", "it stands for 1,010,002 characters"),
    ("a{99999999999999999999}", "it stands for 999,999,999 characters"),
    ("|".join(f"word{number}" for number in range(100_000)), "it has 988,889 characters, and may have 2,000"),
    ("[a-z]" * 200_000, "it has 1,000,000 characters, and may have 2,000"),
]


@pytest.mark.parametrize("pattern, reason", LARGE)
def test_e67_an_expression_that_takes_long_to_read_is_refused_at_once(pattern: str, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(DefinitionError, match=re.escape(reason)) as caught:
        Condition("source", matches=pattern)
    assert "or use a predicate" in str(caught.value) or "; use a predicate" in str(caught.value)
    assert len(str(caught.value)) < 400
    cell = f"- {{name: source, description: S}}\n- {{description: N, when: {{source: {{matches: '{pattern}'}}}}}}"
    (mistake,) = mistakes_of(cell[:900_000] if len(cell) < 900_000 else cell.replace(pattern, pattern[:100_000]))
    assert "is too l" in mistake.message
    assert time.process_time() - started < 3


def test_e67_what_is_compiled_already_is_measured_too() -> None:
    with pytest.raises(DefinitionError, match="it stands for 1,000,000 characters"):
        Condition("source", matches=re.compile(r"(?:a{1000}){1000}"))
    with pytest.raises(DefinitionError, match="it is no text, but bytes"):
        Condition("source", matches=re.compile(rb"a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pattern, text, is_met",
    [
        (re.compile("^b$", re.MULTILINE), "a\nb", True),
        (re.compile(r"^\w$", re.ASCII), "é", False),
        (re.compile("a . c", re.VERBOSE | re.DOTALL), "a\nc", True),
        ("(?i)soup", "SOUP", True),
        (r"^\d{3}$", "call 112 now", False),
        (r"\d{3}", "call 112 now", True),
        (r"(\w)\1(?!b)", "aab", False),
    ],
)
def test_e33_flags_and_forms_of_re_mean_what_they_mean_there(pattern: Any, text: str, is_met: bool) -> None:
    output = run(
        done("source", handler=say(text)), Task.of("N", handler=say("n"), when=Condition("source", matches=pattern))
    )
    assert (len(output) == 2) is is_met
