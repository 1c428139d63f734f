"""How much is recorded, whose word counts, and where traces go (T6)."""

import logging
import warnings

import pytest

import ensemble_notebook
from ensemble_notebook.domain.definitions.enums import CaptureMode
from ensemble_notebook.ensemble.run_settings import VARIABLES, config, resolve_capture_mode
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.exporters import JsonTraceExporter, export_trace, make_file_name
from tests.support.event_builder import EventBuilder


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config, "capture_mode", None)


def trace_of(capture_mode=CaptureMode.OFF, run_id="run"):
    build = EventBuilder({"a": ()}, capture_mode=capture_mode, run_id=run_id)
    with build.task("a"), build.turn():
        build.llm("x")
    return ExecutionTrace.from_events(build.finish())


def test_nothing_said_is_off():
    assert resolve_capture_mode() is CaptureMode.OFF


def test_argument_comes_before_config_and_config_before_the_environment(monkeypatch):
    monkeypatch.setenv(VARIABLES[1], "metadata")
    assert resolve_capture_mode() is CaptureMode.METADATA
    monkeypatch.setenv(VARIABLES[0], "standard")
    assert resolve_capture_mode() is CaptureMode.STANDARD
    monkeypatch.setattr(config, "capture_mode", CaptureMode.FULL)
    assert resolve_capture_mode() is CaptureMode.FULL
    assert resolve_capture_mode("off") is CaptureMode.OFF
    assert ensemble_notebook.config is config


@pytest.mark.parametrize("text", ["FULL", " Full ", CaptureMode.FULL])
def test_case_and_space_do_not_matter(text):
    assert resolve_capture_mode(text) is CaptureMode.FULL


def test_what_is_no_mode_is_told_once_and_the_next_source_is_used(monkeypatch):
    monkeypatch.setenv(VARIABLES[0], "Standard")
    monkeypatch.setattr(config, "capture_mode", "everything")
    with pytest.warns(UserWarning, match="No capture mode") as told:
        assert resolve_capture_mode("loud") is CaptureMode.STANDARD
    assert len(told) == 1
    assert "capture_mode='loud', ensemble_notebook.config.capture_mode='everything'" in str(told[0].message)
    assert "standard is used" in str(told[0].message)


def test_an_empty_variable_is_none(monkeypatch):
    monkeypatch.setenv(VARIABLES[0], " ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_capture_mode() is CaptureMode.OFF


def test_a_folder_gets_a_file_for_each_run(tmp_path):
    exporter = JsonTraceExporter(tmp_path / "traces")
    for run_id in ("one", "two"):
        exporter.export(trace_of(run_id=run_id))
    assert sorted(each.name for each in (tmp_path / "traces").iterdir()) == ["one.trace.json", "two.trace.json"]
    assert ExecutionTrace.load(tmp_path / "traces" / "two.trace.json").run_id == "two"


def test_a_fixed_file_holds_the_latest_run(tmp_path):
    exporter = JsonTraceExporter(str(tmp_path / "last.json"))
    for run_id in ("one", "two"):
        assert exporter.export(trace_of(run_id=run_id)) == tmp_path / "last.json"
    assert ExecutionTrace.load(tmp_path / "last.json").run_id == "two"
    assert repr(exporter) == f"JsonTraceExporter({str(tmp_path / 'last.json')!r})"


def test_ids_of_other_systems_make_names_of_files_in_the_folder():
    assert make_file_name("../../etc/passwd") == "_.._etc_passwd.trace.json"
    assert make_file_name("a b:c") == "a_b_c.trace.json"


def test_an_exporter_is_an_object_or_a_function(tmp_path):
    kept = []
    trace = trace_of()
    export_trace(trace, kept.append)
    export_trace(trace, JsonTraceExporter(tmp_path))
    assert kept == [trace]
    assert (tmp_path / "run.trace.json").exists()


def test_full_without_an_exporter_goes_to_traces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export_trace(trace_of(CaptureMode.OFF), None)
    export_trace(trace_of(CaptureMode.STANDARD), None)
    assert [*tmp_path.iterdir()] == []
    export_trace(trace_of(CaptureMode.FULL), None)
    assert (tmp_path / "traces" / "run.trace.json").exists()


def test_an_exporter_that_raises_is_logged_and_does_no_harm(caplog):
    key = "sk-" + "a1B2" * 8

    def broken(trace):
        raise OSError(f"disk full, {key}")

    with caplog.at_level(logging.WARNING, "ensemble_notebook.trace"):
        export_trace(trace_of(), broken)
    assert "OSError: disk full" in caplog.text
    assert key not in caplog.text
