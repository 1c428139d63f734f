"""What holds at one door holds at all, and what was written is read: every key, door and aftermath, in pairs.

Each cell has some dozens of keys, so that all pairs stand in some two hundred cells.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import chdir
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ensemble_notebook import RunStatus
from ensemble_notebook.trace.store import run_store
from tests.notebook.conftest import Shell
from tests.seams.aftermath import AFTER
from tests.seams.cells import ABSENT, make_cell
from tests.seams.doors import DOORS, Done, Place
from tests.seams.pictures import list_spans
from tests.seams.rows import KEYS, make_rows
from tests.support import sample_names
from tests.support.openai_server import Answer, OpenAIServer, Request
from tests.support.pairs import cover_pairs
from tests.support.sample_values import SAMPLES, list_missing


def answer(request: Request) -> Answer:
    """What the server says is what the scripted models say."""
    return Answer(sample_names.answer([SimpleNamespace(content=each["content"]) for each in request.messages]))


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(choose=answer) as server:
        yield server


@pytest.fixture
def place(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SAMPLE_KEY", "k")
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command line adds to it
    monkeypatch.setattr(run_store, "QUIET_S", 3600.0)
    return Place(tmp_path, shell)


class Seam:
    """One row: its cell is run as a script does it, then at its door, and then what comes after is looked at."""

    def __init__(self, row: dict[str, Any], place: Place, url: str) -> None:
        self.row, self.place, self.text = row, place, make_cell(row, url)
        self._folders = 0

    def enter(self, door: str, settings: Any) -> Done:
        """Run the cell at a door, in a folder of its own."""
        self._folders += 1
        folder = self.place.folder / str(self._folders)
        folder.mkdir()
        with chdir(folder):
            return DOORS[door](self.text, Place(folder, self.place.shell), settings)

    def check(self) -> None:
        """Compare, and look at what comes after."""
        usual = self.enter("run", {})
        done = usual if self.row["door"] == "run" else self.enter(self.row["door"], {})
        assert usual.trace.status in (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_WARNINGS), usual.error
        is_inside = done.part is not None
        assert list_spans(done.trace, done.part, is_inside=is_inside) == list_spans(usual.trace, is_inside=is_inside)
        if done.row is not None:
            assert list_spans(done.row.trace) == list_spans(usual.trace)
            assert usual.row is not None
            assert (done.row.raw, done.row.warnings) == (usual.row.raw, usual.row.warnings)
        with chdir(self.place.folder):
            AFTER[self.row["after"]](done, lambda settings: self.enter(self.row["door"], settings))


@pytest.mark.parametrize("door", DOORS)
def test_a_cell_does_the_same_at_every_door_and_is_read_as_it_was_written(
    door: str, place: Place, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = []
    for number, row in enumerate(make_rows()[0]):
        if row["door"] != door:
            continue
        folder = place.folder / f"seam {number}"
        folder.mkdir()
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(folder / "runs.db"))
        seam = Seam(row, Place(folder, place.shell), server.url)
        try:
            seam.check()
        except Exception:  # noqa: BLE001 - all faults of a door are told together
            faults.append(f"Seam {number}, then {row['after']}:\n{seam.text}\n{traceback.format_exc(limit=-4)}")
    assert not faults, f"{len(faults)} faults at the door {door!r}\n" + "\n\n".join(faults[:3])


def test_every_key_of_the_language_has_a_sample() -> None:
    assert not list_missing(), "\n".join(list_missing())


def test_every_sample_stands_in_some_cell() -> None:
    rows, _ = make_rows()
    for place, key in SAMPLES:
        names = [name for name in KEYS if name.split(".")[0] == place and name.endswith(f".{key}")]
        assert any(row[name] is not ABSENT for row in rows for name in names), f"{key} of {place}"


def test_all_pairs_are_in_few_rows() -> None:
    factors = {name: range(count) for name, count in zip("abcdefgh", (2, 3, 4, 5, 4, 3, 2, 7), strict=True)}
    rows, count = cover_pairs(factors, lambda a, b: {a, b} == {("a", 1), ("h", 6)})
    found = {pair for row in rows for pair in combinations(row.items(), 2)}
    assert len(found) == count == sum(len(factors[a]) * len(factors[b]) for a, b in combinations(factors, 2)) - 1
    assert len(rows) <= 45  # 5 times 7 is the least
