"""The contract is whole and true to the names in the code: numbers lead to rules, rules to tests, links to places."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import ensemble_notebook
from ensemble_notebook import (
    Agent,
    Budget,
    Ensemble,
    Event,
    ExecutionTrace,
    Phase,
    PhaseReview,
    RateLimit,
    Review,
    SpanStatus,
    Task,
)
from ensemble_notebook.trace.tables.table import list_frames
from tests.conformance.contract import CONTRACT, ROOT, anchors, files, numbers_in, read, rules
from tests.conformance.document import test_files_of as files_by_rule

RULES: Final = {rule.number: rule for rule in rules()}
FOREIGN: Final = {"CancelledError", "TracerProvider", "TypedDict"}
LETTERS: Final = {"engine.md": "E", "cell.md": "C", "trace.md": "T", "timeline.md": "W", "evaluation.md": "V"}
DOCUMENTS: Final = tuple(path for path in files() if path.suffix == ".md")

_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_DEFAULT: Final = re.compile(r"(\w+)=([^\s,()`=]+)")
_ROW: Final = re.compile(r"^\| `(\w+)` \| `(.+?)` \|", re.MULTILINE)
_PLACE_IN_CODE: Final = re.compile(r"docs/[\w./-]+\.md(?:#[\w-]+)?")
_SECTION: Final = re.compile(
    r"\b(?:ENGINE|CELL|TRACE|TIMELINE|ARCHITECTURE|FINDINGS)\b(?:\.md)?,? section|\(section \d"
)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def section(document: str, heading: str) -> str:
    """What stands below a heading of the contract, up to the next one of its level or above."""
    _, _, rest = read(CONTRACT / document).partition(f"\n{heading}\n")
    level = len(heading.split()[0])
    return re.split(rf"^#{{1,{level}}} ", rest, flags=re.MULTILINE)[0]


def named_in(text: str) -> set[str]:
    """The words between back quotes, without arguments and defaults."""
    return {re.split(r"[=(:]", quoted)[0] for quoted in re.findall(r"`([^`\n]+)`", text)}


def broken(source: Path, target: str) -> str | None:
    """What is wrong with a relative link; None where it leads somewhere."""
    address, _, anchor = target.partition("#")
    path = (source.parent / address).resolve() if address else source
    if not path.exists():
        return f"{shown(source)} links to {target}, which is not there"
    if anchor and anchor not in anchors(path):
        return f"{shown(source)} links to {target}, where there is no such heading"
    return None


def test_every_rule_that_is_named_anywhere_is_in_the_contract() -> None:
    unknown = [f"{shown(path)}: {number}" for path in files() for number in sorted(numbers_in(path) - RULES.keys())]
    assert unknown == []


def test_every_rule_stands_once_in_the_file_of_its_letter() -> None:
    assert [number for number, count in Counter(rule.number for rule in rules()).items() if count > 1] == []
    assert [rule.number for rule in rules() if rule.number[0] != LETTERS[rule.file.name]] == []


@pytest.mark.parametrize("document", ["README.md", *LETTERS])
def test_every_heading_is_unique_in_its_file(document: str) -> None:
    assert [anchor for anchor, count in Counter(anchors(CONTRACT / document)).items() if count > 1] == []


def test_every_rule_is_held_by_a_test_or_says_what_else_holds_it() -> None:
    held = files_by_rule()
    assert [number for number, rule in RULES.items() if number not in held and not rule.is_held_otherwise] == []


def test_every_rule_says_something() -> None:
    assert [number for number, rule in RULES.items() if len(rule.text.split()) < 10] == []


def test_relative_links_of_the_documents_lead_to_files_and_headings() -> None:
    links = [(path, target) for path in DOCUMENTS for target in _LINK.findall(read(path))]
    relative = [(path, target) for path, target in links if "://" not in target and not target.startswith("mailto:")]
    assert len(relative) > 100
    assert [fault for path, target in relative if (fault := broken(path, target))] == []


def test_documents_that_code_names_are_there() -> None:
    code = [path for path in files() if path.suffix != ".md" and path.name != "test_contract.py"]
    named = [(path, place) for path in code for place in _PLACE_IN_CODE.findall(read(path))]
    assert [f"{shown(path)}: {place}" for path, place in named if broken(ROOT / "README.md", place)] == []


def test_nothing_refers_to_a_section_by_its_number() -> None:
    others = [path for path in files() if path.name != "test_contract.py"]
    assert [shown(path) for path in others if _SECTION.search(read(path))] == []


@pytest.mark.parametrize(
    "kind, heading",
    [(Agent, "### E1 Agent"), (Task, "### E2 Task"), (Phase, "### E3 Phase"), (Ensemble, "### E4 Ensemble")],
)
def test_every_field_of_a_definition_is_named_in_its_rule(kind: type, heading: str) -> None:
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    assert fields - named_in(section("engine.md", heading)) == set()


@pytest.mark.parametrize(
    "kind, heading, count",
    [
        (Agent, "### E1 Agent", 7),
        (Task, "### E2 Task", 1),
        (Ensemble, "### E4 Ensemble", 2),
        (PhaseReview, "### E28 Review of phases", 1),
        (Budget, "### E36 Budget", 5),
        (RateLimit, "### E37 Rate limit", 1),
        (Review, "### E45 Review of tasks", 3),
    ],
)
def test_the_defaults_in_a_rule_are_those_of_the_code(kind: type, heading: str, count: int) -> None:
    written = {
        **dict(_DEFAULT.findall(section("engine.md", heading))),
        **dict(_ROW.findall(section("engine.md", heading))),
    }
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    given = {name: ast.literal_eval(value) for name, value in written.items() if name in defaults and name != "llm"}
    assert len(given) >= count
    assert given == {name: defaults[name] for name in given}


@pytest.mark.parametrize("document", LETTERS)
def test_the_classes_that_the_contract_names_are_public(document: str) -> None:
    named = {name.partition(".")[0] for name in named_in(read(CONTRACT / document))}
    classes = {name for name in named if re.fullmatch(r"([A-Z][a-z]+){2,}", name)}
    assert {
        name for name in classes if name not in ensemble_notebook.__all__ and not hasattr(builtins, name)
    } <= FOREIGN


def test_the_events_are_all_listed_and_no_others() -> None:
    public = {name: getattr(ensemble_notebook, name) for name in ensemble_notebook.__all__}
    events = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, Event)}
    listed = {name for name in named_in(section("engine.md", "## Events")) if name[0].isupper()}
    assert listed == events - {"Event"}


def test_the_tables_and_the_statuses_of_spans_are_all_listed() -> None:
    trace = ExecutionTrace.from_events(())
    tables = {*list_frames(type(trace.frames)), "timeseries"}
    assert tables - named_in(section("trace.md", "### T21 Derived tables")) == {"spans"}
    words = set(re.findall(r"[a-z]+", section("trace.md", "### T20 The span table")))
    assert {status.value for status in SpanStatus} - words == set()
