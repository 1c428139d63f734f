"""Searches for better texts by gepa, of which 45 rows are shown to it and 100 are held out: what these confirm.

A row passes or not by a luck of its own; every text draws the luck of a fifth of the rows anew. What is confirmed where
no text is better, and where one rewriting in four gives a text that passes 0.15 more often.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import pytest

from ensemble_notebook import Ensemble, ScriptedChatModel, Task, TaskInput

SHOWN: Final = 45
HELD_OUT: Final = 100
PASSES: Final = 0.6
REDRAWN: Final = 0.2
GOOD: Final = "Think twice."


def draw(*words: object) -> float:
    """A number from 0 to 1 that these words decide."""
    return random.Random(repr(words)).random()


def make_team(seed: int, gain: float) -> Ensemble:
    """A team of one task, whose text decides which rows pass."""

    def answer(given: TaskInput) -> str:
        text, row = given.description, given.inputs["row"]
        is_redrawn = draw("whether", seed, text, row) < REDRAWN
        luck = draw("luck", seed, text if is_redrawn else "", row)
        return "yes" if luck < PASSES + gain * (GOOD in text) else "no"

    task = Task.of("Answer.", name="answer", handler=answer)
    return Ensemble(tasks=[task], name="simulated")


def make_rewriter(seed: int) -> ScriptedChatModel:
    """A model that rewrites at random; one text in four is a good one."""

    def rewrite(messages: Sequence[Any]) -> str:
        asked = str(messages[-1].content)
        number = int(1_000_000 * draw("text", seed, asked))
        return f"```\nAnswer well {number}.{f' {GOOD}' if number % 4 == 0 else ''}\n```"

    return ScriptedChatModel(default=rewrite)


def search(seed: int, gain: float) -> tuple[bool, int]:
    """Whether one search is confirmed, and how many candidates it tried."""
    found = make_team(seed, gain).improve(
        [{"row": number} for number in range(SHOWN + HELD_OUT)],
        score=lambda output: output.raw == "yes",
        change="task.answer.description",
        budget="12 calls",
        held_out=HELD_OUT,
        seed=seed,
        llm=make_rewriter(seed),
        concurrency=50,
    )
    return found.is_confirmed, len(found.candidates) - 1


@pytest.mark.parametrize(
    "gain, searches, least, most", [(0.0, 200, 0.0, 0.05), (0.15, 100, 0.5, 1.0)], ids=["none", "better"]
)
def test_held_out_rows_confirm_what_is_better_and_hardly_anything_else(
    gain: float, searches: int, least: float, most: float, add_figures: Callable[..., None]
) -> None:
    found = [search(seed, gain) for seed in range(searches)]
    confirmed = sum(each for each, _ in found) / searches
    add_figures(
        a_better_text=f"+{gain:.2f}" if gain else "none",
        searches=f"{searches}",
        candidates_of_a_search=f"{sum(tried for _, tried in found) / searches:.0f}",
        confirmed=f"{confirmed:.1%}",
        gepa=version("gepa"),
    )
    assert least <= confirmed <= most
