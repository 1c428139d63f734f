"""What it takes to load a session of a coding agent, beside a run of ours with as many spans."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.row import Row
from ensemble_notebook import ExecutionTrace
from tests.support.session_files import ClaudeCodeSession, call, say

_MOST_RATIO = 1.5


def measure(*, quick: bool) -> list[Row]:
    turns, rounds = (20, 1) if quick else (5_000, 7)
    with tempfile.TemporaryDirectory() as folder:
        session = _make_session(turns).write(Path(folder) / "session.jsonl")
        run = ExecutionTrace.load(session).save(Path(folder) / "run.trace.json")
        ExecutionTrace.load(run)  # what the first of them imports is nobody's
        pairs = [(_time(session), _time(run)) for _ in range(rounds)]
    return [
        Row(
            what=f"load a session of {turns:,} turns, CPU",
            ours=min(ours for ours, _ in pairs),
            floor=min(floor for _, floor in pairs),
            beside="a run of ours with as many spans",
            unit="s",
            ratio=median(ours / floor for ours, floor in pairs),
            most_ratio=_MOST_RATIO,
        )
    ]


def _make_session(turns: int) -> ClaudeCodeSession:
    """A prompt, and a turn with a call of a tool over and over."""
    session = ClaudeCodeSession()
    session.ask(0, "Read all parts.")
    for number in range(turns):
        second = 4 * number
        session.reply(second + 1, f"m{number}", say(f"Looking at part {number}."))
        session.reply(second + 2, f"m{number}", call(f"t{number}", "Read", file_path=f"part_{number}.py"))
        session.result(second + 3, f"t{number}", f"Part {number}, all of it.")
    return session


def _time(path: Path) -> float:
    gc.collect()
    began = time.process_time()
    ExecutionTrace.load(path)
    return time.process_time() - began
