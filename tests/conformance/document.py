"""Writes the tables of rules, source documents and tests from the contract and the tests themselves."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.conformance.contract import ROOT, Rule, files, is_test, numbers_in, read, rules
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


def shown(path: Path) -> str:
    """A file, as a link."""
    name = path.relative_to(ROOT).as_posix()
    return f"[{name}](../{name})"


def links(held: Iterable[Rule]) -> str:
    """Rules in one cell of a table, each by its number."""
    return ", ".join(f"[{rule.number}]({rule.link})" for rule in held)


def by_tests(held: Iterable[Rule]) -> Iterator[str]:
    """A row for all rules that the same files hold, in the order of the rules."""
    found, together = test_files_of(), defaultdict[str, list[Rule]](list)
    for rule in held:
        together["<br>".join(shown(path) for path in found.get(rule.number, ())) or "see the rule"].append(rule)
    for tests, same in together.items():
        yield f"| {'<br>'.join(f'[{rule.number} {rule.title}]({rule.link})' for rule in same)} | {tests} |"


def document() -> str:
    """The text of `DOCUMENT`."""
    found = held_by()
    public = [rule for rule in rules() if rule.number in found]
    sources = dict.fromkeys(source for rule in public for source in SOURCES[rule.number])
    lines = [
        "# Conformance",
        "",
        "Every rule of the [contract](contract/README.md) and what holds it. Written by `make conformance`; a test",
        "keeps it current.",
        "",
        "## Rules that are held through the public interface alone",
        "",
        "The tests of a rule are named by it: `pytest tests/conformance -k e12_` runs those of E12, and",
        "`grep -rl test_e12_ tests/conformance` lists their files.",
        "",
        "| Source | Rules |",
        "|---|---|",
        *(f"| {source} | {links(rule for rule in public if source in SOURCES[rule.number])} |" for source in sources),
        "",
        "## Other rules",
        "",
        "Their tests look inside, or at a real kernel, browser or terminal. Each file says which rules it holds.",
        "",
        "| Rules | Held by |",
        "|---|---|",
        *by_tests(rule for rule in rules() if rule.number not in found),
    ]
    return "\n".join(lines) + "\n"
