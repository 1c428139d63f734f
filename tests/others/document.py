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
"""


@dataclass
class Section:
    """What is said of one file of tests."""

    title: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    results: dict[tuple[int, str], bool] = field(default_factory=dict)
    """(line, name of the test) -> whether it passed, with all its cases."""
    figures: list[dict[str, str]] = field(default_factory=list)
    """What was measured: rows of a table, by the heads of its columns."""

    def add_result(self, name: str, line: int, *, is_passed: bool) -> None:
        """Add what came of one step of one case."""
        self.results[line, name] = self.results.get((line, name), True) and is_passed

    def write(self, file: str) -> str:
        """Write it as Markdown."""
        tried = [f"Python {platform.python_version()}", *(f"{name} {each}" for name, each in self.versions.items())]
        rows = [
            f"| {name.removeprefix('test_').replace('_', ' ')} | {'holds' if is_passed else '**does not hold**'} |"
            for (_, name), is_passed in sorted(self.results.items())
        ]
        day = datetime.now(UTC).date().isoformat()
        head = f"## {file}\n\n{self.title} [Tests](../tests/others/{file}), {day}: {', '.join(tried)}.\n\n"
        written = head + "\n".join(["| What | Result |", "|---|---|", *rows]) + "\n"
        if self.figures:
            lines = [
                [*self.figures[0]],
                ["---"] * len(self.figures[0]),
                *(list(each.values()) for each in self.figures),
            ]
            written += "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
        return written


def write_document(sections: Mapping[str, Section]) -> None:
    """Write `sections`, by their files' names, into the document."""
    parts = re.split(r"^(?=## )", DOCUMENT.read_text() if DOCUMENT.exists() else "", flags=re.MULTILINE)[1:]
    written = {part.split()[1]: part.rstrip() + "\n" for part in parts}
    written |= {file: section.write(file) for file, section in sections.items()}
    here = Path(__file__).parent
    DOCUMENT.write_text("\n".join([_HEAD, *(written[file] for file in sorted(written) if (here / file).exists())]))
