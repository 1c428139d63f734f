"""A path is of a file or folder of this machine, wherever one is given (T13)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    ExecutionTrace,
    JsonTraceExporter,
    SqliteMemory,
    Task,
    ValidationError,
    config,
    load_class,
    load_traces,
)
from ensemble_notebook.cli.main import MISTAKE, main

TEAM = Ensemble(tasks=[Task.of("Say {word}", name="say", handler=lambda task: "tea")])
DOORS: dict[str, Callable[[Any], object]] = {
    "export": lambda path: TEAM.run(word="tea").export(path),
    "trace.export": lambda path: TEAM.run(word="tea").trace.export(path),
    "trace.save": lambda path: TEAM.run(word="tea").trace.save(path),
    "map.export": lambda path: TEAM.map([{"word": "tea"}]).export(path),
    "to_parquet": lambda path: TEAM.run(word="tea").frames.to_parquet(path),
    "JsonTraceExporter": JsonTraceExporter,
    "SqliteMemory": SqliteMemory,
    "record": lambda path: TEAM.run(word="tea", record=path),
    "record of a map": lambda path: TEAM.map([{"word": "tea"}], record=path),
    "replay": lambda path: TEAM.run(word="tea", replay=path),
    "load": ExecutionTrace.load,
    "load_traces": load_traces,
    "load_class": load_class,
}


@pytest.mark.parametrize("address", ["s3://bucket/run.trace.json", Path("gs://bucket/run.trace.json")])
@pytest.mark.parametrize("door", DOORS)
def test_t13_an_address_is_refused_and_a_file_named(
    door: str, address: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValidationError, match=r"is an address, .* Name one, such as 'run\.trace\.json', and copy it"):
        DOORS[door](address)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("given", [5, True, b"run.trace.json", [5], {"path": 5}.values()], ids=str)
@pytest.mark.parametrize("door", DOORS)
def test_t13_what_is_no_path_is_refused_with_what_is_taken(door: str, given: object) -> None:
    with pytest.raises(ValidationError, match=r"(must be|takes) (a|the) (path|folder).*, got .*"):
        DOORS[door](given)


def test_t13_several_places_may_come_one_by_one(tmp_path: Path) -> None:
    files = [TEAM.run(word=word).trace.save(tmp_path / f"{word}.trace.json") for word in ("tea", "oil")]
    assert len(load_traces(iter(files)).runs) == 2  # type: ignore[arg-type]  # whatever can be gone through is taken


@pytest.mark.parametrize("given", [5, None, ["a"], {"a": 1}], ids=str)
def test_t13_a_run_is_asked_for_by_its_id(given: Any, tmp_path: Path) -> None:
    loaded = load_traces(TEAM.run(word="tea").trace.save(tmp_path / "a.trace.json"))
    for load in (loaded.load_output, loaded.load_map):
        with pytest.raises(ValidationError, match=r"is( not)? among these"):
            load(given)


def test_t13_the_store_is_at_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match=r"config\.store: 's3://bucket/runs\.db' is an address"):
        config.store = "s3://bucket/runs.db"
    monkeypatch.setattr(config, "store", None)
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "s3://bucket/runs.db")
    with pytest.raises(ValidationError, match=r"ENSEMBLE_NOTEBOOK_STORE: .* is an address"):
        TEAM.run(word="tea")


@pytest.mark.parametrize(
    "command",
    [
        ["run", "cell.yaml", "-i", "word=tea", "-o", "s3://bucket/a.json"],
        ["run", "cell.yaml", "-i", "word=tea", "--record", "s3://bucket/a.yaml"],
        ["map", "cell.yaml", "rows.csv", "-o", "s3://bucket/a.csv"],
        ["map", "cell.yaml", "rows.csv", "--summary", "s3://bucket/a.md"],
        ["validate", "cell.yaml", "--record", "s3://bucket/a.yaml"],
    ],
)
def test_t13_no_command_writes_to_an_address(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cell.yaml").write_text("tasks: {say: {description: 'Say {word}', handler: textwrap.dedent}}")
    Path("rows.csv").write_text("word\ntea\n")
    assert main(command) == MISTAKE
    assert "is an address" in capsys.readouterr().err
    assert not Path("s3:").exists()


def test_t13_a_folder_may_have_a_colon_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert TEAM.run(word="tea").trace.save("12:30/a.trace.json").is_file()
    assert TEAM.run(word="tea").trace.save("./s3:/a.trace.json").is_file()
