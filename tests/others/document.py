"""``docs/others.md``: what each file of this folder tried, with which versions, when, and what held.

A run writes anew what is said of the files that it ran, and leaves the others as they are.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.others.venv import ROOT

DOCUMENT: Final = ROOT / "docs" / "others.md"

_HEAD: Final = """\
# Others

Programs and packages that others make, and that were really run with this package. Written by `make test-others`, which
installs the newest versions into `.venv-others`; with `FILES=tests/others/test_NAME.py` it tries one of them. It is no
part of `make test`, whose tests hold what can be held without them. Simulations stand here, too: they take longer than
tests may, and say what was measured.

| Tests | Of what | When, and with | Held |
|---|---|---|---|
"""


@dataclass
class Section:
    """What is said of one file of tests."""

    title: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[int, str], bool] = field(default_factory=dict)
    """(line, name of the test) -> whether it passed, with all its cases."""
    figures: list[dict[str, str | int]] = field(default_factory=list)
    """What was measured: rows of a table, by the heads of its columns."""

    def add_result(self, name: str, line: int, *, is_passed: bool) -> None:
        """Add what came of one step of one case."""
        self.results[line, name] = self.results.get((line, name), True) and is_passed

    def add_figures(self, row: dict[str, str | int]) -> None:
        """Add a row; where a row has the same texts, its whole numbers grow in place of that."""
        texts = {name: each for name, each in row.items() if isinstance(each, str)}
        for known in self.figures:
            if known.keys() == row.keys() and texts == {name: known[name] for name in texts}:
                known |= {name: known[name] + each for name, each in row.items() if name not in texts}  # type: ignore[operator]
                return
        self.figures.append(row)

    def write_row(self, file: str) -> str:
        """Write what came of it as a row of the table."""
        day = datetime.now(UTC).date().isoformat()
        tried = [f"Python {platform.python_version()}", *(f"{name} {each}" for name, each in self.versions.items())]
        failed = [name for (_, name), is_passed in sorted(self.results.items()) if not is_passed]
        told = "; ".join(name.removeprefix("test_").replace("_", " ") for name in failed)
        count = f"{len(self.results) - len(failed)} of {len(self.results)}"
        result = f"**{count}**, but not: {told}" if failed else count
        return f"| [{file}](../tests/others/{file}) | {self.title} | {day}: {', '.join(tried)} | {result} |\n"

    def write_figures(self, file: str) -> str:
        """Write what was measured as a section."""
        lines = [
            [*self.figures[0]],
            ["---"] * len(self.figures[0]),
            *([str(value) for value in each.values()] for each in self.figures),
        ]
        return f"## {file}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write_document(sections: Mapping[str, Section]) -> None:
    """Write `sections`, by their files' names, into the document."""
    table, *parts = re.split(r"^(?=## )", DOCUMENT.read_text() if DOCUMENT.exists() else "", flags=re.MULTILINE)
    rows = {row[1]: row[0] + "\n" for row in re.finditer(r"^\| \[(\w+\.py)\].*$", table, re.MULTILINE)}
    figures = {part.split()[1]: part.rstrip() + "\n" for part in parts}
    for file, section in sections.items():
        rows[file] = section.write_row(file)
        figures.pop(file, None)
        if section.figures:
            figures[file] = section.write_figures(file)
    here = Path(__file__).parent
    listed = "".join(rows[file] for file in sorted(rows) if (here / file).exists())
    DOCUMENT.write_text("\n".join([_HEAD + listed, *(figures[file] for file in sorted(figures) if file in rows)]))
