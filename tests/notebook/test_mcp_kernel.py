"""With servers of MCP at work, a kernel is interrupted, restarted and shut down: nothing of them is left (E83)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from tests.support.busy_servers import check_end, wait_until_at_work
from tests.support.kernel import LIMIT_S, Kernel

pytestmark = pytest.mark.usefixtures("warm_kernels")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel that may be ended."""
    kernel = Kernel(*start_new_kernel(cwd=str(ROOT)))
    yield kernel
    kernel.client.stop_channels()
    if kernel.manager.is_alive():
        kernel.manager.shutdown_kernel(now=True)


def begin(kernel: Kernel, folder: Path, way: str) -> str:
    """Begin a run in a cell, which waits for it or does not, and wait until all servers are at work."""
    folder.mkdir()
    start = "from pathlib import Path; from tests.support.busy_servers import make_busy_ensemble"
    request = kernel.send(f"{start}\nrun = make_busy_ensemble(Path({str(folder)!r})).{way}()")
    wait_until_at_work(folder)
    return request


def test_e83_the_servers_end_with_the_cell_and_with_the_kernel(kernel: Kernel, tmp_path: Path) -> None:
    request = begin(kernel, tmp_path / "interrupted", "run")
    kernel.manager.interrupt_kernel()
    assert kernel.reply(request)["ename"] == "RunInterrupted"
    check_end(tmp_path / "interrupted")
    assert kernel.run("1 + 1")[1]["status"] == "ok"

    begin(kernel, tmp_path / "restarted", "run")
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=LIMIT_S)
    check_end(tmp_path / "restarted")

    begin(kernel, tmp_path / "shut down", "start")
    kernel.manager.shutdown_kernel()
    check_end(tmp_path / "shut down")
