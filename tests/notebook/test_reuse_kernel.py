"""Edit, run, look, restart, run: `--reuse` in a real kernel (C34)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_client.manager import start_new_kernel

from tests.support.kernel import LIMIT_S, Kernel

pytestmark = pytest.mark.usefixtures("warm_kernels")

NAMES = """
%load_ext ensemble_notebook
def trim(text):
    return text.strip(){comment}
def gather(task):
    return trim(" tides ")
def count(task):
    return str(len(task.context[0].raw) {plus})
"""
CELL = """%%ensemble -o report {options}
- {{name: gather, description: {text}, handler: gather}}
- {{name: count, description: Count, handler: count}}
"""


@pytest.fixture
def kernel(store_path, monkeypatch) -> Iterator[Kernel]:
    """A kernel whose runs are remembered in a store of this test's own."""
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    kernel = Kernel(*start_new_kernel())
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


def run(kernel: Kernel, *, options: str = "--reuse", text: str = "Gather", comment: str = "", plus: str = "") -> str:
    """Run the cell in a kernel with these functions; gives the tasks that were reused, and then the picture."""
    assert kernel.run(NAMES.format(comment=comment, plus=plus))[1]["status"] == "ok"
    request, reply = kernel.run(CELL.format(options=options, text=text))
    assert reply["status"] == "ok", reply
    picture = "".join(each.get("text/plain", "") for each in kernel.bundles(request))
    return kernel.value("' '.join(each.name for each in report if each.reused)") + "\n" + picture


def test_a_cell_is_reused_after_an_edit_and_after_a_restart(kernel):
    assert run(kernel, options="").startswith("\n")
    reused, picture = run(kernel, comment="  # as it was").split("\n", 1)
    assert reused == "gather count"
    assert "2 of 2 tasks reused" in picture
    reused, picture = run(kernel, plus="+ 1").split("\n", 1)
    assert reused == "gather"
    assert "not reused: the handler changed" in picture

    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=LIMIT_S)
    assert run(kernel, plus="+ 1").split("\n", 1)[0] == "gather count"
    assert run(kernel).split("\n", 1)[0] == "gather count"
    assert run(kernel, text="Gather more").split("\n", 1)[0] == "count"
