"""Writes the table of rules, source documents and tests from the tests themselves."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.conformance.rule import RULES

HERE: Final = Path(__file__).parent
DOCUMENT: Final = HERE.parents[1] / "docs" / "conformance.md"
_NAME: Final = re.compile(r"test_([et]\d+)_(.+)")


def held_by() -> dict[str, list[tuple[str, str, str]]]:
    """Rule -> its tests, as file, name, and the name in words."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = getattr(node, "name", "")
            if match := _NAME.fullmatch(name):
                found[match[1].upper()].append((path.name, name, match[2].replace("_", " ")))
    return dict(found)


def document() -> str:
    """The text of `DOCUMENT`."""
    found = held_by()
    lines = [
        "# Conformance",
        "",
        "Every rule of the engine, the document that it comes from, and the tests that hold it, through the public",
        "interface alone. Written by `make conformance`; a test keeps it current.",
        "",
        "| Rule | What it is about | Source | Held by |",
        "|---|---|---|---|",
    ]
    for number, rule in RULES.items():
        tests = "<br>".join(f"[{words}](../tests/conformance/{file})" for file, _, words in found.get(number, ()))
        lines.append(f"| {number} | {rule.title} | {'; '.join(rule.sources)} | {tests} |")
    return "\n".join(lines) + "\n"
