"""Two hundred random runs with a reviewed tool that counts: never paid without an answer, never twice for one (E127).

With batches, kills at any moment and inside the tool, stale runs that are resumed, and two processes that answer at
once. It takes minutes; the other tests live a few of these worlds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_no_run_pays_without_an_answer_or_twice_for_one(
    first: int, tmp_path: Path, add_figures: Callable[..., None]
) -> None:
    seeds = map(str, range(first, first + 20))
    command = [sys.executable, "-m", "tests.support.claims_world", str(tmp_path), *seeds]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    worlds = [json.loads(line) for line in done.stdout.splitlines()]
    facts = ("processes", "killed", "refused", "answers", "at_once", "payments")
    add_figures(
        runs=len(worlds),
        **{name: sum(each.get(name, 0) for each in worlds) for name in facts},
        not_done=sum(not each["done"] for each in worlds),
        payments_without_an_answer=sum(len(each["faults"]) for each in worlds),
    )
    assert [each for each in worlds if each["faults"]] == []
    assert [each["seed"] for each in worlds if not each["done"]] == []
