"""How long tests took: the list by which `make quick` chooses, and long files come first.

`pytest --measure` writes it, on a machine that does nothing else, of as many tests as are run.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pytest

LIST: Final = Path(__file__).parents[1] / "measured_times.txt"
SLOW_S: Final = 0.1
"""From here on a test is slow, with all its cases."""

SAMPLE_S: Final = 0.03
"""Of a slow test with many cases, as many are quick ones as fit into this."""

HEAD: Final = f"""\
# Tests of which all cases together take {SLOW_S} s or more: seconds of the longest case, and of all.
# Written by `pytest --measure`; those that did not run then keep their line.
"""


class Time(NamedTuple):
    """Seconds of a test function, from the setup of its fixtures to their end: of its longest case, and of all."""

    longest_s: float
    all_s: float

    @property
    def is_slow(self) -> bool:
        """Whether `make quick` leaves it out, but for a sample of its cases."""
        return self.all_s >= SLOW_S

    def choose_slow(self, cases: int) -> set[int]:
        """Which of so many cases are left out: the sample is spread over them, since neighbours are alike."""
        fitting = min(cases, int(SAMPLE_S * cases / self.all_s))
        return set(range(cases)) - {place * cases // fitting for place in range(fitting)}


def read_times() -> dict[str, Time]:
    """The times of those that are slow, by file and name."""
    lines = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return {name: Time(float(longest), float(total)) for longest, total, name in lines}


def name_of(nodeid: str) -> str:
    """The file and the name of a test, whatever its case."""
    return nodeid.partition("[")[0]


class Watch:
    """A plugin that writes down how long tests took."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        cases: defaultdict[str, list[float]] = defaultdict(list)
        for nodeid, seconds in self._seconds.items():
            cases[name_of(nodeid)].append(seconds)
        times = {name: time for name, time in read_times().items() if name not in cases}
        measured = {name: Time(max(each), sum(each)) for name, each in cases.items()}
        times |= {name: time for name, time in measured.items() if time.is_slow}
        lines = [f"{time.longest_s:.2f} {time.all_s:.2f} {name}\n" for name, time in sorted(times.items())]
        LIST.write_text(HEAD + "".join(lines))
