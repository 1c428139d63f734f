"""Cells and outputs under xeus-python, a kernel of C++ around IPython's shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from tests.others.venv import Venv

# Run there: writes what each cell answered, line by line.
_CLIENT: Final = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="xpython")
for cell in json.loads(sys.argv[1]):
    told = []
    client.execute_interactive(cell, timeout=60, output_hook=lambda message: told.append(message["content"]))
    print("told", json.dumps([cell, str(told)]))
client.complete("%%ensemble\\nta", 13)
print("told", json.dumps(["complete", str(client.get_shell_msg(timeout=20)["content"])]))
client.stop_channels()
manager.shutdown_kernel(now=True)
"""
CELLS: Final = {
    "load": "%load_ext ensemble_notebook",
    "run": "%%ensemble -o out\nllm: scripted\ntasks: [hello]",
    "show": "out",
    "mistake": "%%ensemble\ntsks: [hello]",
    "reload": "%reload_ext ensemble_notebook",
    "widget": "%config EnsembleMagics.display = 'widget'",
    "watch": "%%ensemble -o watched\nllm: scripted\ntasks: [hello]",
    "unload": "%unload_ext ensemble_notebook",
    "after": "%%ensemble\nllm: scripted\ntasks: [hello]",
    "again": "%load_ext ensemble_notebook",
}


@pytest.fixture(scope="module")
def told(make_venv: Callable[..., Venv]) -> dict[str, str]:
    """What the kernel said of each of `CELLS`, in one session, and of a question for completions."""
    venv = make_venv("xeus", "xeus-python", "jupyter-client")
    written = venv.run("python", "-c", _CLIENT, json.dumps(list(CELLS.values())))
    lines = [json.loads(line.removeprefix("told ")) for line in written.splitlines() if line.startswith("told ")]
    return dict(zip([*CELLS, "complete"], (text for _, text in lines), strict=True))


@pytest.mark.parametrize("name", ["load", "reload", "unload", "again"])
def test_extension_is_loaded_reloaded_and_unloaded(told: dict[str, str], name: str) -> None:
    assert "Error" not in told[name]


def test_cell_runs_and_shows_its_picture(told: dict[str, str]) -> None:
    for name in ("run", "show"):
        assert "✓ completed" in told[name]
        assert "text/html" in told[name]


def test_timeline_can_be_watched(told: dict[str, str]) -> None:
    assert "✓ completed" in told["watch"]
    assert "application/vnd.jupyter.widget-view+json" in told["watch"]


def test_mistake_is_told_with_its_place(told: dict[str, str]) -> None:
    assert "line 1: unknown key 'tsks'" in told["mistake"]


def test_tab_completes_a_cell(told: dict[str, str]) -> None:
    assert "'matches': ['tasks']" in told["complete"]


def test_nothing_is_left_when_it_is_unloaded(told: dict[str, str]) -> None:
    assert "`%%ensemble` not found" in told["after"]
