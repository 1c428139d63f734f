"""What can't be written costs a warning and never a task whose model has answered (E70).

Files are limited by the kernel, as a full disk limits them: a write that passes the limit fails in the middle.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    JsonTraceExporter,
    ReplayError,
    RunStatus,
    ScriptedChatModel,
    SqliteMemory,
    Task,
)
from ensemble_notebook.cell.cell_reader import read_cell

LONG = "word " * 400


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process may grow past so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def six(**fields: Any) -> Ensemble:
    """Six tasks that a model answers, each with two kilobytes."""
    llm = ScriptedChatModel(default=LONG)
    tasks = [Task.of(f"Cook {number}", name=f"task {number}") for number in range(6)]
    return Ensemble(tasks=tasks, llm=llm, workflow="parallel", **fields)


def refuses(file: Path) -> str:
    with pytest.raises(ReplayError) as caught:
        six().run(replay=file)
    return str(caught.value)


def shown(output: EnsembleOutput) -> str:
    return str(output._repr_mimebundle_()["text/plain"])


@pytest.mark.parametrize("size", [5_000, 4_096, 1_000])
def test_a_full_disk_while_recording_costs_a_warning_and_no_task_e70(tmp_path: Path, size: int) -> None:
    file = tmp_path / "recording.yaml"
    with limited(size):
        output = six().run(record=file)
    assert (output.status, len(output)) == (RunStatus.COMPLETED, 6)
    (warning,) = output.warnings
    assert warning.startswith(f"The recording {file} is incomplete, since it could not be written: File too large.")
    assert f"! The recording {file} is incomplete" in " ".join(shown(output).split())
    assert refuses(file).startswith(f"The recording {file} is incomplete: not all of it could be written")
    assert file.read_text().count("---") == file.read_text().count("\n---\n")


def test_where_not_even_the_beginning_fits_no_recording_is_left_e70(tmp_path: Path) -> None:
    file = tmp_path / "recording.yaml"
    with limited(50):
        output = six().run(record=file)
    assert len(output) == 6
    assert "is incomplete" in output.warnings[0]
    assert refuses(file).startswith(f"There is no recording {file}.")


def test_a_device_that_takes_nothing_is_left_alone_e70() -> None:
    full = Path("/dev/full")
    output = six().run(record=full)
    assert "No space left on device" in output.warnings[0]
    assert full.is_char_device()


def test_a_whole_recording_says_so_and_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "recording.yaml"
    six().run(record=file)
    assert "\n# Complete: yes. " in file.read_text()
    assert six().run(replay=file).warnings == ()


def test_an_exporter_that_can_not_write_is_seen_on_the_output_and_in_the_cell_e70(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with limited(2_000):
        output = six(trace_exporter=JsonTraceExporter(tmp_path)).run()
    assert output.status is RunStatus.COMPLETED
    (warning,) = output.warnings
    assert warning == "The trace could not be exported by JsonTraceExporter: OSError: [Errno 27] File too large"
    assert f"! {warning}" in " ".join(shown(output).split())
    assert warning in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_function_as_exporter_that_raises_names_its_line_e70() -> None:
    def send(trace: object) -> None:
        raise ConnectionError("no network")

    output = six(trace_exporter=send).run()
    place = f"tests/ensemble/test_full_disk.py:{send.__code__.co_firstlineno + 1} in send"
    assert output.warnings == (f"The trace could not be exported by send: ConnectionError: no network (at {place})",)


def test_a_memory_that_can_not_be_written_costs_a_warning_e70(tmp_path: Path) -> None:
    memory = SqliteMemory(tmp_path / "memory.db")
    cell = "tasks:\n  - {description: Cook, name: soup, memory: [kitchen]}\nmemory: store\nllm: model\n"
    names = {"store": memory, "model": ScriptedChatModel(default=LONG * 20)}
    with limited(4_096):
        output = read_cell(cell, names).build(names).run()
    assert output.raw == LONG * 20
    assert "The memory 'kitchen' could not be" in output.warnings[0]
    assert "! The memory 'kitchen' could not be" in shown(output)
