"""What type checkers make of the public API (E62): right uses pass, wrong ones are refused, by mypy and by pyright.

The uses are in ``uses/``. A line with ``# error: WORD`` must be refused in a message that has the word in it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, get_args

import pytest

import ensemble_notebook
from ensemble_notebook import Ensemble, Phase, ScriptedChatModel, Task
from ensemble_notebook.domain.definitions import enums
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleFields
from ensemble_notebook.domain.definitions.phase import PhaseFields
from ensemble_notebook.domain.definitions.task import TaskFields

ROOT = Path(__file__).parents[2]
USES = sorted((Path(__file__).parent / "uses").glob("*.py"))
PYRIGHT = ("node", str(ROOT / "js" / "node_modules" / "pyright" / "index.js"), "--outputjson", "--pythonpath")
MARK = re.compile(r"# error: (\S+)$")

Messages = dict[tuple[str, int], str]


def output_of(*command: str) -> str:
    """What a checker writes; whether it found errors is read from that."""
    # Pyright verifies the package that Python would import, and does not look for it where it is run.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy_messages() -> Messages:
    found: defaultdict[tuple[str, int], str] = defaultdict(str)
    written = output_of(sys.executable, "-m", "mypy", "--strict", "--output=json", *map(str, USES))
    for line in written.splitlines():
        if line.startswith("{") and (each := json.loads(line))["severity"] == "error":
            found[Path(each["file"]).name, each["line"]] += each["message"] + "\n"
    return found


def pyright_messages() -> Messages:
    found: defaultdict[tuple[str, int], str] = defaultdict(str)
    written = output_of(*PYRIGHT, sys.executable, *map(str, USES))
    for each in json.loads(written)["generalDiagnostics"]:
        found[Path(each["file"]).name, each["range"]["start"]["line"] + 1] += each["message"] + "\n"
    return found


@pytest.mark.parametrize("messages", [mypy_messages, pyright_messages])
def test_marked_lines_are_refused_and_all_others_pass(messages):
    marked = {
        (use.name, number): mark[1]
        for use in USES
        for number, line in enumerate(use.read_text().splitlines(), start=1)
        if (mark := MARK.search(line))
    }
    found = messages()
    assert len(marked) > 75
    assert {place: found[place] for place in found.keys() - marked.keys()} == {}
    assert [place for place in marked if place not in found] == []
    assert {place: found[place] for place, word in marked.items() if word not in found[place]} == {}


def test_no_public_name_has_a_part_whose_type_checkers_must_guess():
    written = output_of(*PYRIGHT, sys.executable, "--verifytypes", "ensemble_notebook", "--ignoreexternal")
    symbols: list[dict[str, Any]] = json.loads(written)["typeCompleteness"]["symbols"]
    homes = {
        f"{value.__module__}.{name}"
        for name in ensemble_notebook.__all__
        if getattr(value := getattr(ensemble_notebook, name), "__module__", "").startswith("ensemble_notebook.")
    }
    homes.remove(f"{ScriptedChatModel.__module__}.ScriptedChatModel")  # its base class is LangChain's
    public = [each for each in symbols if is_part_of_one(each["name"], homes)]
    assert len(public) > 500
    assert [each["name"] for each in public if not each["isTypeKnown"] or each["isTypeAmbiguous"]] == []


def is_part_of_one(name: str, homes: set[str]) -> bool:
    """Whether a symbol is one of these, or a member of one that is not private."""
    return name in homes or (name.rpartition(".")[0] in homes and not name.rpartition(".")[2].startswith("_"))


@pytest.mark.parametrize(
    "fields, kind, others",
    [
        (TaskFields, Task, {"description", "expected_output"}),
        (PhaseFields, Phase, {"name", "tasks"}),
        (EnsembleFields, Ensemble, set()),
    ],
)
def test_short_forms_take_the_fields_of_their_class(fields, kind, others):
    assert set(fields.__annotations__) == set(get_field_names(kind)) - others


@pytest.mark.parametrize(
    "kind", ["Workflow", "ErrorStrategy", "CaptureMode", "ReviewPolicy", "ReviewTiming", "OnTimeout"]
)
def test_names_of_an_enum_are_its_values(kind):
    assert get_args(getattr(enums, f"{kind}Name")) == tuple(getattr(enums, kind))
