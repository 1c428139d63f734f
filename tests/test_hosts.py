"""What docs/timeline.md says of the places where it works (W175)."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.conformance.contract import ROOT, read

PLACES: Final = (
    *("JupyterLab", "Notebook 7", "VS Code", "Colab", "marimo", "voila", "papermill", "nbconvert", "Jupyter Book"),
    *("GitHub", "terminal"),
)
PACKAGES: Final = {
    **{name: name for name in ("marimo", "voila", "papermill", "nbconvert", "xeus-python")},
    "Jupyter Book": "jupyter-book",
}
"""The places that `make test-others` tries, and what is installed for it."""

_TABLE: Final = read(ROOT / "docs" / "timeline.md").partition("## Where it works\n")[2].partition("\n## ")[0]
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split(" | ")] for line in _TABLE.splitlines() if line[:2] == "| "
]


def find_row(place: str) -> list[str]:
    (row,) = (row for row in ROWS if place in row[0])
    return row


@pytest.mark.parametrize("place", PLACES)
def test_w175_each_place_has_a_row_that_says_whether_it_was_tried(place):
    _, tried, seen = find_row(place)
    assert re.match(r"(tried: \D*\d+\.\d+.*, \d{4}-\d\d-\d\d|tried in parts: .+|not tried$)", tried), tried
    assert seen


@pytest.mark.parametrize("place, package", PACKAGES.items())
def test_w175_versions_and_dates_are_those_of_the_last_run(place, package):
    (run,) = re.findall(rf"(\d{{4}}-\d\d-\d\d): [^\n]*\b{package} (\d+\.\d+\.\d+)", read(ROOT / "docs" / "others.md"))
    day, version = run
    assert f"{version}, {day}" in find_row(place)[1]
