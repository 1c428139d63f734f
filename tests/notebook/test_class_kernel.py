"""Kernels that read a real `ipython_config.py`, that of the system too, and the environment of a hub's spawner.

Holds C122, C123 and E142 in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from tests.support.kernel import Kernel

CELL = "%%ensemble -o report\nllm: scripted\ntasks: [Say a, Say b]\n"
START = "c = get_config()\nc.InteractiveShellApp.extensions = ['ensemble_notebook']\n"
Start = Callable[..., Kernel]


@contextmanager
def started(**environment: str) -> Iterator[Kernel]:
    """A kernel of its own, started as a spawner does it."""
    import os

    manager, client = start_new_kernel(
        kernel_name="python3", extra_arguments=["--HistoryManager.enabled=False"], env={**os.environ, **environment}
    )
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a profile of IPython."""
    (tmp_path / "home" / "profile_default").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(started(IPYTHONDIR=str(home), **more))


def write(home: Path, *lines: str) -> Path:
    file = home / "profile_default" / "ipython_config.py"
    file.write_text(START + "".join(f"c.EnsembleMagics.{line}\n" for line in lines))
    return file


def shown(kernel: Kernel, request: str) -> str:
    """What a cell has written, and its error."""
    errors = [line for each in kernel.of(request, "error") for line in each["content"]["traceback"]]
    return "".join([*(each["content"]["text"] for each in kernel.of(request, "stream")), *errors])


def test_c122_a_file_of_configuration_sets_what_cells_may_spend_and_is_named(home: Path, start: Start) -> None:
    file = write(home, "kernel_budget = '3 calls'", "allowed_models = ['local']")
    kernel = start()
    assert kernel.run(CELL)[1]["status"] == "ok"
    assert kernel.value("report.status.value") == "completed"
    kernel.run(CELL)
    assert kernel.value("report.status.value") == "budget_exceeded"
    assert f"kernel_budget in {file}" in kernel.value("' '.join(each.reason for each in report.skipped)")
    request, reply = kernel.run("%%ensemble\nllm: openai:gpt-5\ntasks: [Say a]\n")
    assert reply["status"] == "error"
    assert f"allowed_models in {file} allows local" in shown(kernel, request)


def test_c122_what_python_begins_in_the_kernel_spends_from_the_same_budget(home: Path, start: Start) -> None:
    write(home, "kernel_budget = '3 calls'")
    kernel = start()
    kernel.run(CELL)
    kernel.run(
        "from ensemble_notebook import Ensemble, Task\n"
        "runs = Ensemble(tasks=[Task.of('a')], llm='scripted').map([{'x': 1}, {'x': 2}], concurrency=1)"
    )
    assert kernel.value("' '.join(row.status for row in runs)") == "completed budget_exceeded"


def test_c122_the_environment_of_a_spawner_goes_before_a_file_at_home(home: Path, start: Start) -> None:
    write(home, "cell_budget = '9 calls'", "llm = 'local'")
    kernel = start(ENSEMBLE_NOTEBOOK_CELL_BUDGET="1 call", ENSEMBLE_NOTEBOOK_LLM="scripted")
    request, _ = kernel.run("%%ensemble -o report\nbudget: 5 calls\ntasks: [Say a, Say b]\n")
    assert kernel.value("report.status.value") == "budget_exceeded"
    assert "capped at 1 call, by ENSEMBLE_NOTEBOOK_CELL_BUDGET" in kernel.value("' '.join(report.warnings)")
    request, _ = kernel.run("%config EnsembleMagics.cell_budget = None")
    assert "is set by ENSEMBLE_NOTEBOOK_CELL_BUDGET, and can't be changed here" in shown(kernel, request)


def test_c122_the_budget_of_a_day_holds_over_kernels_that_have_one_store(
    home: Path, start: Start, tmp_path: Path
) -> None:
    write(home, "day_budget = '3 calls'", f"store = {str(tmp_path / 'runs.db')!r}")
    first = start()
    first.run(CELL)
    assert first.value("report.status.value") == "completed"
    second = start()
    second.run(CELL)
    assert second.value("report.status.value") == "budget_exceeded"
    assert second.value("len(report.task_outputs)") == "1"


def test_c122_a_file_of_the_whole_system_is_read_too(home: Path, start: Start, tmp_path: Path) -> None:
    """As `/etc/ipython` is: IPython looks in `etc/ipython` of the environment, and in what the variable names."""
    import sys

    file = Path(sys.prefix, "etc", "ipython", "ipython_config.py")
    assert not file.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        file.write_text(START + "c.EnsembleMagics.kernel_budget = '1 call'\n")
        kernel = start()
        kernel.run(CELL)
        told = kernel.value("' '.join(each.reason for each in report.skipped)")
    finally:
        file.unlink()
    assert f"kernel_budget in {file}" in told


def test_c123_a_value_that_can_not_be_read_is_told_with_its_file_and_no_cell_runs(home: Path, start: Start) -> None:
    file = write(home, "day_budget = 'ten cents'")
    kernel = start()
    request, reply = kernel.run("%load_ext ensemble_notebook")
    assert reply["status"] == "error"
    assert f"day_budget in {file}: 'ten cents' is no limit" in shown(kernel, request)
    assert kernel.run(CELL)[1]["status"] == "error"
