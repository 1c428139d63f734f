"""All tables of runs as Parquet (T123): types that no value changes, and a folder that is whole or as it was."""

import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pyarrow import parquet

from ensemble_notebook import Ensemble, ExecutionTrace, MissingPackageError, ValidationError, load_traces
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.loading import TABLES, JoinedFrames
from tests.support.event_builder import EventBuilder
from tests.support.hostile_texts import make_hostile_texts
from tests.trace.test_frames import everything

NAMES = {*TABLES, "timeseries"}
SPREAD = ("input", "output", "score")
"""How the columns of rows begin that there are by what a map has."""


def trace_of(events):
    return ExecutionTrace.from_events(events)


def read_types(folder):
    return {
        file.stem: dict(zip(schema.names, schema.types, strict=True))
        for file in folder.iterdir()
        for schema in [parquet.read_schema(file)]
    }


def write_cell(name="Ann"):
    return Ensemble.from_yaml(f"name: {name}\nllm: scripted\ntasks: ['Greet {{name}}']\n", {})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The types of a run in which everything happens."""
    return read_types(trace_of(everything()).frames.to_parquet(tmp_path_factory.mktemp("tables") / "run"))


def test_t123_there_is_a_file_for_each_table_and_it_has_the_columns_of_the_frame(whole):
    frames = trace_of(everything()).frames
    assert whole.keys() == NAMES
    for name in TABLES:
        frame = getattr(frames, name)
        index = [] if frame.index.name is None else [frame.index.name]
        assert [*whole[name]] == [*index, *frame.columns]


def test_t123_types_are_those_of_the_table_also_where_nothing_is_in_it(whole, tmp_path):
    for number, events in enumerate(((), EventBuilder({"plan": ()}).finish())):
        assert read_types(trace_of(events).frames.to_parquet(tmp_path / str(number))) == whole
    words, names = pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.field("element", pa.string()))
    assert whole["tasks"]["start_time"] == whole["timeseries"]["time"] == pa.timestamp("us", "UTC")
    assert (whole["tasks"]["agent"], whole["tasks"]["depends_on"]) == (words, names)
    assert (whole["tasks"]["input_tokens"], whole["tasks"]["cost"]) == (pa.int64(), pa.float64())
    assert (whole["runs"]["inputs"], whole["runs"]["changed"]) == (pa.string(), names)
    assert not [pa.null() for types in whole.values() for each in types.values() if each == pa.null()]


def test_t123_many_runs_have_the_same_types_and_run_id_in_each_table(whole, tmp_path):
    for name in ("a", "b"):
        write_cell(name).run(name="Bo").export(tmp_path / f"{name}.trace.json")
    many = read_types(load_traces(str(tmp_path / "*.trace.json")).to_parquet(tmp_path / "many"))
    assert read_types(JoinedFrames({}).to_parquet(tmp_path / "none")) == many
    assert all("run_id" in types for types in many.values())
    assert {name: {each: types[each] for each in types if each in whole[name]} for name, types in many.items()} == whole
    shares = pd.read_parquet(tmp_path / "many" / "timeseries.parquet").groupby("run_id", observed=True).tasks.max()
    assert len(shares) == 2
    assert shares.gt(0).all()


def test_t123_pandas_reads_the_frame_back(tmp_path):
    frames = trace_of(everything()).frames
    folder = frames.to_parquet(tmp_path / "run")
    for name in TABLES:
        frame, loaded = getattr(frames, name), pd.read_parquet(folder / f"{name}.parquet")
        records = [each for each in frame if frame[each].dtype == object]
        instants = dict.fromkeys(frame.select_dtypes("datetimetz"), "datetime64[us, UTC]")
        assert_frame_equal(
            loaded.drop(columns=records),
            frame.drop(columns=records).astype(instants),
            check_categorical=False,
            check_index_type=False,
        )
    told = pd.read_parquet(folder / "spans.parquet").attributes.dropna()
    assert [json.loads(each) for each in told] == [
        json.loads(json.dumps(each)) for each in frames.spans.attributes.dropna()
    ]


def test_t123_rows_of_a_map_have_their_values(tmp_path):
    result = write_cell().map([{"name": "Ann", "size": 1, "tags": ["a"]}, {"name": "Bo", "size": None, "tags": "b"}])
    folder = result.frames.to_parquet(tmp_path / "map")
    types = read_types(folder)["rows"]
    assert (types["input_name"], types["input_size"], types["input_tags"]) == (pa.string(), pa.int64(), pa.string())
    rows = pd.read_parquet(folder / "rows.parquet")
    assert rows.input_tags.tolist() == ['["a"]', "b"]
    assert rows.input_size.isna().tolist() == [False, True]
    alone = parquet.read_schema(result.export(tmp_path / "rows.parquet"))
    assert read_types(folder)["rows"] == dict(zip(alone.names, alone.types, strict=True))


@pytest.mark.parametrize("text", [*make_hostile_texts(8)])
def test_t123_texts_are_written_as_they_are(text, tmp_path):
    output = write_cell().run(name=text)
    folder = output.frames.to_parquet(tmp_path / "run")
    assert pd.read_parquet(folder / "messages.parquet").text.tolist() == output.frames.messages.text.tolist()
    assert json.loads(pd.read_parquet(folder / "runs.parquet").inputs.iloc[0]) == output.frames.runs.inputs.iloc[0]


def test_t123_a_folder_with_files_is_refused_and_stays_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValidationError, match=r"has files in it.*overwrite=True"):
        trace_of(()).frames.to_parquet(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_t123_overwriting_replaces_all_tables_and_leaves_other_files(tmp_path):
    first, second = (write_cell(name).run(name="Bo") for name in ("first", "second"))
    folder = first.frames.to_parquet(tmp_path / "run")
    (folder / "notes.txt").write_text("mine")
    assert second.frames.to_parquet(str(folder), overwrite=True) == folder
    assert {each.name for each in folder.iterdir()} == {"notes.txt", *(f"{name}.parquet" for name in NAMES)}
    assert pd.read_parquet(folder / "runs.parquet").name.tolist() == ["second"]
    assert pd.read_parquet(folder / "spans.parquet").run_id.unique().tolist() == [second.run_id]


def test_t123_an_empty_folder_is_filled_and_folders_around_a_new_one_are_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {each.stem for each in trace_of(()).frames.to_parquet(".").iterdir()} == NAMES
    assert {each.stem for each in trace_of(()).frames.to_parquet("a/b/c").iterdir()} == NAMES


class HalfFrames(Frames):
    """Whose last table can't be made."""

    def timeseries(self, dt=None):
        raise MemoryError("no more")


@pytest.mark.parametrize("is_there", [False, True])
def test_t123_what_fails_on_the_way_leaves_nothing(tmp_path, is_there):
    folder = tmp_path / "run"
    if is_there:
        folder.mkdir()
        (folder / "tasks.parquet").write_text("older")
    with pytest.raises(MemoryError):
        HalfFrames(trace_of(everything())._fold).to_parquet(folder, overwrite=True)
    assert [each.name for each in tmp_path.rglob("*")] == (["run", "tasks.parquet"] if is_there else [])


def test_t123_a_file_in_its_place_and_a_place_that_can_not_be_written_are_named(tmp_path):
    file = tmp_path / "run"
    file.write_text("mine")
    with pytest.raises(ValidationError, match=r"'.*run' is a file"):
        trace_of(()).frames.to_parquet(file, overwrite=True)
    with pytest.raises(ValidationError, match=r"'.*run' is a file"):
        trace_of(()).frames.to_parquet(file / "deep")
    assert file.read_text() == "mine"
    with pytest.raises(OSError, match=r"'/proc/run'"):
        trace_of(()).frames.to_parquet("/proc/run")
    for address in ("s3://runs/one", Path("s3://runs/one")):
        with pytest.raises(ValidationError, match="is an address"):
            trace_of(()).frames.to_parquet(address)


def test_t123_a_folder_may_be_below_home_and_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    trace = trace_of(everything())
    assert trace.frames.to_parquet("~/10:30") == tmp_path / "10:30"
    assert {each.stem for each in (tmp_path / "10:30").iterdir()} == NAMES
    assert ExecutionTrace.load(trace.export("~/one.json")).run_id == ExecutionTrace.load("~/one.json").run_id
    assert trace.save("~/two.json") == tmp_path / "two.json"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["10:30", "one.json", "two.json"]


def test_t123_without_pyarrow_the_line_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'pyarrow>="):
        trace_of(()).frames.to_parquet(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
