"""Making a reply safe takes time in proportion to its length, whatever its shape (E67)."""

from __future__ import annotations

import random
import time

import pytest

from ensemble_notebook.notebook.picture.answer_html import write_answer

SHAPES = [
    *("a", "a.", "-", "http", "www.", "://", "@", "a@b.", "`", "` ", "``` `", "`a``", "`|`", "[", "![", "](", "[a](b "),
    *("(", "\\", "\\`", "<", "~", " ", "\n", "$", "$a$", "$ ", "$$", "$$\n", "$$-\n", "\\begin{a}", "\\begin{a}\n"),
    *("\\begin{a}\nx\\end{a} y\n", "\\\\[", "\\\\[\n", "\\\\(", "> ", ">", "- ", "-\n", "1. ", "1.\n", "*a", "**"),
    *(
        "*a **b ",
        "_a",
        "~~",
        "a|b\n",
        "|",
        "| - |\n",
        "|a|\n|-|\n",
        "# ",
        "---\n",
        "a\n=\n",
        "```\n",
        "~~~\n",
        "&",
        "<a>",
    ),
    *(
        "[a]: b\n",
        "    a\n",
        "  - a\n",
        "> - ",
        "\t",
        "a  \n",
        "> $$\n",
        "- $$\n",
        "{",
        "$\\sqrt{",
        "> a\n- b\n",
        "1) a\n\n",
    ),
]
PIECES = [
    "a",
    ".",
    "@",
    "`",
    "``",
    "|",
    "[",
    "](",
    "\\",
    "<",
    " ",
    "- ",
    "~",
    "é",
    "$",
    "$$",
    "\n",
    "> ",
    "*",
    "_",
    "{",
]
SMALL, FACTOR = 10_000, 8
NOISE_S = 0.05


def measure(text: str) -> float:
    """Seconds of the processor."""
    started = time.process_time()
    write_answer(text)
    return time.process_time() - started


def assert_linear(unit: str, tail: str = "") -> None:
    """Eight times the length may take three times eight as long; a quadratic search takes sixty-four times.

    The least of three times counts, and one that is short enough need not be measured again.
    """
    small = (unit * SMALL)[:SMALL] + tail
    large = (unit * SMALL * FACTOR)[: SMALL * FACTOR] + tail
    limit = 3 * FACTOR * min(measure(small) for _ in range(3)) + NOISE_S
    assert any(measure(large) < limit for _ in range(3)), (unit, tail)


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_for_hostile_shapes_e67(shape: str) -> None:
    assert_linear(shape)


@pytest.mark.parametrize("seed", range(12))
def test_time_grows_with_the_length_for_random_shapes_e67(seed: int) -> None:
    chance = random.Random(seed)
    unit = "".join(chance.choices(PIECES, k=chance.randint(1, 4)))
    assert_linear(unit, chance.choice(["", "`", ")", "]", "@a.b", "://x"]))


def test_a_long_word_is_written_at_once_e67() -> None:
    started = time.process_time()
    assert "a" * 400_000 in write_answer("a" * 400_000)
    assert time.process_time() - started < 5
