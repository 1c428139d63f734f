"""Making a reply safe takes time in proportion to its length, whatever its shape (E67)."""

from __future__ import annotations

import random
import time

import pytest

from ensemble_notebook.notebook.picture.safe_markdown import neutralize_markdown

pytestmark = pytest.mark.slow  # waits, servers and long replies: not for `make quick`

SHAPES = [
    *(
        "a",
        "a.",
        "-",
        "http",
        "www.",
        "://",
        "a://",
        "@",
        "a@",
        "a@a",
        "a@b.",
        "a.b@",
        "`",
        "` ",
        "``` `",
        "`a``",
        "`|`",
    ),
    *(
        "[",
        "![",
        "](",
        "[](",
        "[a](",
        "[a](b ",
        "[a]( ",
        "[](a()",
        "[](a(b)",
        "(",
        "()",
        "\\",
        "\\`",
        "<",
        "~",
        " ",
        "\n",
    ),
]
PIECES = [
    "a",
    "A",
    ".",
    "@",
    "://",
    "www.",
    "`",
    "``",
    "|",
    "[",
    "]",
    "(",
    ")",
    "![",
    "\\",
    "<",
    " ",
    "-",
    "~",
    "é",
    ":",
    "/",
]
SMALL, FACTOR = 10_000, 8
NOISE_S = 0.05


def measure(text: str) -> float:
    """The least of three times, in seconds of the processor."""
    times = []
    for _ in range(3):
        started = time.process_time()
        neutralize_markdown(text)
        times.append(time.process_time() - started)
    return min(times)


def assert_linear(unit: str, tail: str = "") -> None:
    """Eight times the length may take three times eight as long; a quadratic search takes sixty-four times."""
    small = (unit * SMALL)[:SMALL] + tail
    large = (unit * SMALL * FACTOR)[: SMALL * FACTOR] + tail
    assert measure(large) < 3 * FACTOR * measure(small) + NOISE_S, (unit, tail)


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_length_for_hostile_shapes_e67(shape: str) -> None:
    assert_linear(shape)


@pytest.mark.parametrize("seed", range(12))
def test_time_grows_with_the_length_for_random_shapes_e67(seed: int) -> None:
    chance = random.Random(seed)
    unit = "".join(chance.choices(PIECES, k=chance.randint(1, 4)))
    assert_linear(unit, chance.choice(["", "`", ")", "]", "@a.b", "://x"]))


def test_a_long_word_is_neutral_at_once_e67() -> None:
    started = time.process_time()
    assert neutralize_markdown("a" * 400_000) == "a" * 400_000
    assert time.process_time() - started < 5
