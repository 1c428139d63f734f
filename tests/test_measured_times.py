"""The list of tests that take long names tests that are there."""

import ast
from functools import cache
from pathlib import Path

from tests.support.measured_times import read_times

ROOT = Path(__file__).parent.parent


@cache
def read_names(file: str) -> set[str]:
    """The names of the functions and classes of a file; none where there is no such file."""
    path = ROOT / file
    tree = ast.parse(path.read_text() if path.exists() else "")
    return {
        each.name for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }


def test_every_slow_test_of_the_list_is_there() -> None:
    gone = [
        name for name in read_times() if not set(name.split("::")[1:]) - {"runTest"} <= read_names(name.split("::")[0])
    ]
    assert gone == [], "take these lines out of tests/measured_times.txt, or give them the new name"


def test_a_slow_test_takes_as_long_as_the_list_is_about() -> None:
    assert all(time.is_slow and time.longest_s <= time.all_s + 0.01 for time in read_times().values())
