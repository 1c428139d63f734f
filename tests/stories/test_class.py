"""A class as docs/teaching.md and docs/hubs.md have it: the files that set limits, and what the class has done.

Holds C122 and C124.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config, PyFileConfigLoader

import ensemble_notebook
from ensemble_notebook.domain.kernel_limits import kernel_limits
from tests.support.class_runs import fill_class

DOCS: Final = Path(__file__).parents[2] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    kernel_limits.clear()
    yield
    kernel_limits.clear()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    hook = sys.excepthook
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell.instance(config=config)
    yield made
    made.restore_sys_module_state()
    InteractiveShell.clear_instance()
    sys.excepthook = hook


def test_the_file_of_the_class_sets_what_the_page_says(shell: InteractiveShell, tmp_path: Path) -> None:
    (tmp_path / "ipython_config.py").write_text(blocks("teaching.md", "python")[0])
    shell.config.merge(PyFileConfigLoader("ipython_config.py", path=str(tmp_path)).load_config())
    ensemble_notebook.load_ipython_extension(shell)
    assert [each.describe() for each in (kernel_limits.class_rate_limit,)] == ["60 per 60 s"]
    assert len(kernel_limits.budgets) == 3
    assert kernel_limits.allowed_models is not None


def test_the_environment_of_the_hub_is_read(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"c": Config()}
    exec(blocks("hubs.md", "python")[0], names)
    variables = names["c"].Spawner.environment
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path) if name.endswith("RECORDINGS") else value)
    for text in re.findall(r"'(\{.*\})'", (DOCS / "hubs.md").read_text()):
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_KERNEL_BUDGET", text)
    ensemble_notebook.load_ipython_extension(shell)
    assert len(kernel_limits.budgets) == 3
    assert {each.set_by for each in kernel_limits.budgets} <= {*variables, "ENSEMBLE_NOTEBOOK_KERNEL_BUDGET"}


def test_the_page_and_the_frame_of_the_class_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_class(tmp_path / "RUNS")
    monkeypatch.chdir(tmp_path)
    (command,) = blocks("teaching.md", "bash")
    command = command.replace("jupyter ensemble", f"{sys.executable} -m ensemble_notebook.cli.main")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, timeout=120, capture_output=True)
    assert "<h2>lesson 1</h2>" in (tmp_path / "class.html").read_text()
    names: dict[str, Any] = {}
    exec(blocks("teaching.md", "python")[1], names)
    assert set(names["stuck"].student) == {"anna", "ben", "dora"}
