"""Writes the tables of rules, source documents and tests from the contract and the tests themselves."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.conformance.contract import ROOT, files, is_test, numbers_in, read, rules
from tests.conformance.rule import SOURCES

HERE: Final = Path(__file__).parent
DOCUMENT: Final = ROOT / "docs" / "conformance.md"
_NAME: Final = re.compile(r"test_([cet]\d+)_")


def held_by() -> dict[str, list[Path]]:
    """Rule -> the files of its tests through the public interface, which are named by it: ``test_e12_...``."""
    found: dict[str, dict[Path, None]] = defaultdict(dict)
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(read(path)).body:
            if match := _NAME.match(getattr(node, "name", "")):
                found[match[1].upper()][path] = None
    return {rule: list(paths) for rule, paths in found.items()}


def test_files_of() -> dict[str, list[Path]]:
    """Rule -> the files of tests that name it."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in files():
        if is_test(path):
            for number in numbers_in(path):
                found[number].append(path)
    return dict(found)


def links(paths: Iterable[Path]) -> str:
    """The files in one cell of a table, each a link."""
    shown = (path.relative_to(ROOT).as_posix() for path in paths)
    return "<br>".join(f"[{path}](../{path})" for path in shown)


def document() -> str:
    """The text of `DOCUMENT`."""
    found, named = held_by(), test_files_of()
    lines = [
        "# Conformance",
        "",
        "Every rule of the [contract](contract/README.md) and the files of the tests that hold it. Written by",
        "`make conformance`; a test keeps it current.",
        "",
        "## Rules that are held through the public interface alone",
        "",
        "The tests of a rule are named by it: `pytest tests/conformance -k e12_` runs those of E12.",
        "",
        "| Rule | What it is about | Source | Held by |",
        "|---|---|---|---|",
    ]
    for rule in rules():
        if rule.number in found:
            sources = "; ".join(SOURCES[rule.number])
            lines.append(f"| [{rule.number}]({rule.link}) | {rule.title} | {sources} | {links(found[rule.number])} |")
    lines += [
        "",
        "## Other rules",
        "",
        "Their tests look inside, or at a real kernel, browser or terminal. Each file says which rules it holds.",
        "",
        "| Rule | What it is about | Held by |",
        "|---|---|---|",
    ]
    for rule in rules():
        if rule.number not in found:
            tests = links(named.get(rule.number, ())) or "see the rule"
            lines.append(f"| [{rule.number}]({rule.link}) | {rule.title} | {tests} |")
    return "\n".join(lines) + "\n"
