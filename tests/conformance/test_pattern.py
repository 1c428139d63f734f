"""E67: the regular expressions of conditions have a time limit, and what can't be read is refused."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from ensemble_notebook import Condition, DeadlineExceededError, Ensemble, RunInterrupted, Task, TaskExecutionError
from ensemble_notebook import ValidationError as DefinitionError
from tests.conformance.scene import done, run, run_cell, say
from tests.support.cell import mistakes_of

pytestmark = pytest.mark.slow  # waits, servers and long replies: not for `make quick`

# Each takes `re` longer than the world has.
EVIL = [(r"(a|a)*$", "a" * 60 + "b"), (r"(\w+\s?)+$", "word " * 3000 + "!"), (r"(?:ß|ss)+$", "ss" * 5000 + "x")]


@pytest.mark.parametrize("pattern, text", EVIL)
def test_e67_a_search_that_takes_too_long_is_an_error_that_names_the_pattern(pattern: str, text: str) -> None:
    source = done("source", handler=say(text))
    started = time.monotonic()
    with pytest.raises(TaskExecutionError) as caught:
        run(source, done("next", when=Condition("source", matches=re.compile(pattern, re.IGNORECASE))))
    assert time.monotonic() - started < 8
    assert repr(pattern) in str(caught.value)
    assert "longer than 1 s" in str(caught.value)
    assert "Write it without a repetition inside a repetition" in str(caught.value)
    chain = [caught.value.__cause__, caught.value.__cause__ and caught.value.__cause__.__cause__]
    assert any(isinstance(each, DeadlineExceededError) and each.scope == "condition" for each in chain)


def test_e67_the_classic_that_holds_re_for_good_is_told_at_once() -> None:
    given = say("a" * 60 + "b")
    text = "- {name: source, description: S, handler: given}\n- {description: N, when: {source: {matches: (a+)+$}}}"
    started = time.monotonic()
    assert len(run_cell(text, given=given)) == 1
    assert time.monotonic() - started < 5


def test_e67_a_run_is_stopped_during_a_search() -> None:
    source = done("source", handler=say(EVIL[0][1]))
    ensemble = Ensemble(tasks=[source, done("next", when=Condition("source", matches=EVIL[0][0]))])
    handle = ensemble.start()
    while not any(type(each).__name__ == "TaskStarted" for each in handle.events):
        time.sleep(0.01)
    time.sleep(0.2)
    handle.cancel()
    started = time.monotonic()
    with pytest.raises(RunInterrupted):
        handle.result(5)
    assert time.monotonic() - started < 2


def test_e67_an_expression_that_is_nested_too_deeply_is_refused() -> None:
    pattern = "(" * 5000 + "a" + ")" * 5000
    with pytest.raises(DefinitionError, match=r"is none: it is nested too deeply\.$") as caught:
        Condition("source", matches=pattern)
    assert len(str(caught.value)) < 300
    cell = f"- {{name: source, description: S}}\n- {{description: N, when: {{source: {{matches: '{pattern}'}}}}}}"
    (mistake,) = mistakes_of(cell)
    assert "nested too deeply" in mistake.message
    assert len(mistake.message) < 300


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
