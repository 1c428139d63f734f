"""The schema for editors (C22), as the command prints it and the package carries it."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema_rs
import pytest

from ensemble_notebook import Ensemble, ValidationError
from ensemble_notebook.cli.main import DONE, main


def test_c22_command_prints_the_schema_that_the_package_carries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == DONE
    printed = capsys.readouterr().out
    assert printed == files("ensemble_notebook").joinpath("ensemble-cell.schema.json").read_text(encoding="utf-8")
    assert json.loads(printed)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_c22_schema_and_reader_refuse_the_same_forms(capsys: pytest.CaptureFixture[str]) -> None:
    main(["schema"])
    schema = jsonschema_rs.validator_for(json.loads(capsys.readouterr().out))
    cell = {"llm": "scripted", "tasks": {"plan": "Plan it", "cook": {"description": "Cook", "context": "plan"}}}
    assert schema.is_valid(cell)
    assert Ensemble.from_yaml(json.dumps(cell)).run().raw
    for wrong in ({"contxt": "plan"}, {"max_retries": "two"}, {"expected_output": 7}, {"reuse": "seldom"}):
        text = cell | {"tasks": {"plan": "Plan it", "cook": {"description": "Cook"} | wrong}}
        assert not schema.is_valid(text), wrong
        with pytest.raises(ValidationError):
            Ensemble.from_yaml(json.dumps(text))
