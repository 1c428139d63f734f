"""The rules of the contract (``docs/contract``), and the places that name them.

Knows texts only: headings, links and numbers of rules. Imports nothing of the package.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CONTRACT: Final = ROOT / "docs" / "contract"

_SOURCES: Final = (
    "ensemble_notebook/**/*.py",
    "ensemble_notebook/**/*.pyi",
    "tests/**/*.py",
    "benchmarks/**/*.py",
    "js/src/**/*.ts",
    "js/src/**/*.tsx",
    "js/src/**/*.css",
    "docs/**/*.md",
    "*.md",
)
_NUMBER: Final = re.compile(r"\b[ECTVW](?:1[0-9]{2}|[1-9][0-9]?)[a-z]?\b")
_RULE_HEADING: Final = re.compile(r"### ([ECTVW](?:1[0-9]{2}|[1-9][0-9]?)[a-z]?) (.+)")
_HEADING: Final = re.compile(r"#{1,6} (.+)")
_FENCE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINE_COMMENT: Final = re.compile(r"(?<!:)//[^\n]*")
_BLOCK_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_TEST_NAME: Final = re.compile(r"def test_(?:([ectvw]\d+)_\w+|\w+_([ectvw]\d+))\(")
_OF_DOCUMENTS: Final = ("test_contract.py", "test_document.py")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its number and title, the file of the contract that has it, and what stands below its heading."""

    number: str
    title: str
    file: Path
    text: str

    @property
    def link(self) -> str:
        """Where it stands, as a link from a document in ``docs``."""
        return f"contract/{self.file.name}#{slug(f'{self.number} {self.title}')}"

    @property
    def is_held_otherwise(self) -> bool:
        """Whether it says in words what holds it in place of a test."""
        return re.search(r"^Held by ", self.text, re.MULTILINE) is not None


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of their files and headings; a number that stands twice is there twice."""
    return tuple(
        rule
        for name in ("engine", "cell", "trace", "timeline", "evaluation")
        for rule in _rules_of(CONTRACT / f"{name}.md")
    )


def _rules_of(path: Path) -> Iterator[Rule]:
    """Each rule ends at the next heading."""
    for part in re.split(r"^(?=#{1,6} )", read(path), flags=re.MULTILINE):
        heading, _, text = part.partition("\n")
        if match := _RULE_HEADING.fullmatch(heading):
            yield Rule(match[1], match[2], path, text)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path: Path) -> list[str]:
    """The anchors of a Markdown file, in order."""
    lines = _FENCE.sub("", read(path)).splitlines()
    return [slug(match[1]) for line in lines if (match := _HEADING.fullmatch(line))]


def files() -> tuple[Path, ...]:
    """Everything that may name a rule: code, tests, TypeScript, documents."""
    return tuple(sorted({path for pattern in _SOURCES for path in ROOT.glob(pattern)}))


@functools.cache
def read(path: Path) -> str:
    """The text of a file."""
    return path.read_text(encoding="utf-8")


def numbers_in(path: Path) -> set[str]:
    """The rules that a file names; of TypeScript and style sheets in comments, where ``C1`` is no variable."""
    text = read(path)
    if path.suffix == ".py":
        named = {(match[1] or match[2]).upper() for match in _TEST_NAME.finditer(text)}
        return named | set(_NUMBER.findall(text))
    if path.suffix in (".ts", ".tsx", ".css"):
        text = "\n".join([*_LINE_COMMENT.findall(text), *_BLOCK_COMMENT.findall(text)])
    return set(_NUMBER.findall(text))


def is_test(path: Path) -> bool:
    """Whether a file holds tests of what the package does, not of its documents."""
    return path.name.endswith(".test.ts") or (path.name.startswith("test_") and path.name not in _OF_DOCUMENTS)
