"""``python -m benchmarks.versions COMMIT [--pairs N]``: the transport's CPU of this checkout beside that of a commit.

Each measurement has a process of its own, all in turns, and the commit is measured beside itself, too, which tells what
the machine makes of nothing. The exit status is 1 where a median is above the limit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.server import serving
from benchmarks.transport_work import WORKS

MOST: Final = 1.05
_ROOT: Final = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--pairs", type=int, default=15, help="of measurements, for each work")
    options = parser.parse_args()
    is_ok = True
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        checkout = Path(folder) / "checkout"
        git = ["git", "-C", str(_ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(checkout), options.commit], check=True, capture_output=True)
        try:
            for work in WORKS:
                ratios, noise = _compare(work, url, checkout, options.pairs)
                median = statistics.median(ratios)
                is_ok = is_ok and median <= MOST
                print(
                    f"{work}: {median:.3f} of {options.commit} ({_spread(ratios)}); itself {_spread(noise)}", flush=True
                )
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True, capture_output=True)
    return 0 if is_ok else 1


def _compare(work: str, url: str, checkout: Path, pairs: int) -> tuple[list[float], list[float]]:
    """Ratios of this checkout to the commit, and of the commit to itself; who comes first changes from turn to turn."""
    ratios, noise = [], []
    for turn in range(pairs):
        order = [(0, checkout), (1, _ROOT), (2, checkout)]
        took = {which: _measure(work, url, where) for which, where in order[turn % 3 :] + order[: turn % 3]}
        ratios.append(took[1] / took[0])
        noise.append(took[2] / took[0])
    return ratios, noise


def _measure(work: str, url: str, checkout: Path) -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = os.environ | {"PYTHONPATH": str(checkout), "ENSEMBLE_NOTEBOOK_STORE": f"{folder}/runs.db"}
        command = [sys.executable, str(Path(__file__).with_name("transport_work.py")), work, url]
        return float(subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True).stdout)


def _spread(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"median {middle:.3f}, quartiles {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    sys.exit(main())
