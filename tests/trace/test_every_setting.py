"""Whatever is set in Python or in a cell, alone or beside anything else, its run is read back as it was (T12, T24).

`sample_settings` has a value for each field; a new one is refused there until it has its own.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pandas
import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    ExecutionTrace,
    RunInterrupted,
    Tool,
    ValidationError,
    load_traces,
)
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.ensemble_texts import list_tasks
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.run_files import FORMATS
from tests.support.openai_server import OpenAIServer
from tests.support.pairs import Choice, cover_pairs
from tests.support.same_tables import assert_same
from tests.support.sample_settings import (
    SAMPLES,
    SETTINGS,
    Setting,
    is_clash,
    list_missing,
    list_names,
    make_ensemble,
)
from tests.support.store import wait_for_store

PARTS = 3
"""Of the groups of settings, so that no test takes long."""
TABLES = (
    *("runs", "spans", "phases", "tasks", "agents", "llm_calls", "attempts", "tool_calls", "delegations", "reviews"),
    *("links", "critical_path", "events", "messages", "errors"),
)


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder where runs write, and the key of the server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMPLE_KEY", "no-secret")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """Serves models."""
    with OpenAIServer() as server:
        yield server


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Whatever fails, say where."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


@cache
def find_groups() -> list[list[Setting]]:
    """Groups in which every two settings meet that can stand together, which are nearly all."""
    fields: defaultdict[str, list[Setting | None]] = defaultdict(lambda: [None])  # not set, which goes with everything
    for each in SETTINGS:
        fields[f"{each.owner.__name__}.{each.field}"].append(each)
    clashes = {pair for pair in itertools.combinations(SETTINGS, 2) if is_clash(*pair) or not can_stand(pair)}
    assert len(clashes) < 0.05 * len(SETTINGS) ** 2

    def clash(a: Choice, b: Choice) -> bool:
        pair = fields[a[0]][a[1]], fields[b[0]][b[1]]
        return pair in clashes or pair[::-1] in clashes

    rows, _ = cover_pairs(fields, clash)
    return [[each for each in row.values() if each is not None] for row in rows]


def can_stand(settings: Sequence[Setting]) -> bool:
    """Whether these can be set together; without a plan, whose estimate would take three times as long."""
    try:
        check_ensemble(make_ensemble(settings))
    except ValidationError:
        return False
    return True


def run(ensemble: Ensemble) -> EnsembleOutput:
    """Its output; of a run that fails, what there is."""
    try:
        return ensemble.run()
    except (EnsembleError, RunInterrupted) as error:
        if error.output is None:
            raise
        return error.output


def assert_same_frames(frames: Frames, others: Frames) -> None:
    """Every table of both is the same."""
    for name in TABLES:
        assert_same(getattr(frames, name), getattr(others, name), name)
    assert_same(frames.timeseries(), others.timeseries(), "timeseries")


def assert_read_back(output: EnsembleOutput, *, is_exported: bool = False) -> Path:
    """A run is the same once it is saved and loaded: each table, each export, nothing to compare; gives its file."""
    path = output.trace.save(Path(f"{output.run_id}.trace.json"))
    loaded = ExecutionTrace.load(path)
    assert loaded.save(Path("again.trace.json")).read_bytes() == path.read_bytes()
    assert_same_frames(output.frames, loaded.frames)
    diff = output.diff(loaded)
    assert set(diff.frame["status"]) == {"same"}
    assert [*diff.definition, *diff.inputs, *diff.prompts, *diff.outputs] == []
    for ending in FORMATS if is_exported else ():
        before, after = (read_export(each.export(Path(f"run{ending}"))) for each in (output, loaded))
        assert before == after, ending
    return path


def read_export(path: Path) -> str:
    """What a run was written as, without the moment when that was."""
    if path.suffix == ".parquet":
        text: str = pandas.read_parquet(path).to_json(date_format="iso")
        return text
    data = path.read_bytes()
    written = gzip.decompress(data) if path.suffix == ".gz" else data
    return re.sub(r'"saved_at": "[^"]*"', "", written.decode())


def assert_stored(files: Sequence[Path]) -> None:
    """The store gives the runs in these files as they are there: at first, and from the tables that it then keeps."""
    wait_for_store()
    loaded = load_traces(files)
    assert_same_frames(load_traces(), loaded)
    assert_same_frames(load_traces(), loaded)


def test_every_field_and_key_has_a_sample() -> None:
    assert list_missing() == []


@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
def test_each_setting_can_stand_alone(setting: Setting) -> None:
    make_ensemble([setting]).plan()


@pytest.mark.parametrize("owner", SAMPLES, ids=lambda owner: owner.__name__)
def test_each_setting_alone(owner: type, store_path: Path, server: OpenAIServer) -> None:
    files = []
    for setting in (each for each in SETTINGS if each.owner is owner):
        with noted(repr(setting)):
            files.append(assert_read_back(run(make_ensemble([setting], server.url))))
    assert_stored(files)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_two_settings(part: int, store_path: Path, server: OpenAIServer) -> None:
    files = []
    for group in find_groups()[part::PARTS]:
        with noted(repr(group)):
            files.append(assert_read_back(run(make_ensemble(group, server.url)), is_exported=True))
    assert_stored(files)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_two_keys_of_a_cell(part: int, store_path: Path, server: OpenAIServer) -> None:
    files = []
    for group in find_groups()[part::PARTS]:
        ensemble = make_ensemble(group, server.url)
        tools = [tool for task in list_tasks(ensemble) for tool in task.tools if isinstance(tool, Tool)]
        # A cell has a word for what asks about each call, and none for a rule: that tool is a variable.
        names = {**list_names(), **{f"ruled_{at}": each for at, each in enumerate(tools) if callable(each.review)}}
        text = ensemble.to_yaml(names)
        with noted(text):
            files.append(assert_read_back(run(Ensemble.from_yaml(text, names))))
    assert_stored(files)
