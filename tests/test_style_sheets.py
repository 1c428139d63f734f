"""The style sheets of the view and of what is loaded late meet on one page, where a class is one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SHEETS = Path(__file__).parents[1] / "js" / "src" / "theme"
MOVED = {"et-chart", "et-corner"}
"""What columns and lane move aside once they are loaded."""


def test_a_class_looks_as_one_style_sheet_alone_says():
    places = defaultdict(set)
    for sheet in SHEETS.glob("*.css"):
        for name in re.findall(r"^\.(et-[a-z0-9-]+) \{", sheet.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].add(sheet.name)
    assert len(places) > 100
    assert {name for name, sheets in places.items() if len(sheets) > 1} == MOVED
