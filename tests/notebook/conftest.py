"""A real IPython shell for the magics, without history and without a terminal."""

import sys
import threading
from collections.abc import Iterator

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from jupyter_client.manager import start_new_kernel
from traitlets.config import Config


class Shell:
    """A shell with the extension loaded.

    Attributes:
        ip: the IPython shell.
        displayed: what was displayed, updates included, in order.
        names: the user's variables.
    """

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip
        self.names = ip.user_ns
        self.displayed: list[dict] = ip.display_pub.outputs

    def run(self, cell: str) -> ExecutionResult:
        """Run a cell as a frontend does."""
        return self.ip.run_cell(cell, store_history=False)

    def error(self, cell: str) -> BaseException:
        """The error that a cell fails with."""
        result = self.run(cell)
        error = result.error_before_exec or result.error_in_exec
        assert error is not None
        return error

    def seen(self) -> list[dict]:
        """The bundles that a page shows now: updated outputs in their last state."""
        places: dict[str, dict] = {}
        for number, output in enumerate(self.displayed):
            places[(output.get("transient") or {}).get("display_id", f"#{number}")] = output["data"]
        return list(places.values())


@pytest.fixture
def ip(monkeypatch, tmp_path) -> Iterator[InteractiveShell]:
    """A bare shell."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("ENSEMBLE_NOTEBOOK_DISPLAY", raising=False)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    hook = sys.excepthook
    shell = InteractiveShell.instance(config=config, display_pub_class=CapturingDisplayPublisher)
    yield shell
    for thread in threading.enumerate():
        if thread.name == "ensemble-background":
            thread.join(20)
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()
    sys.excepthook = hook


@pytest.fixture
def shell(ip) -> Shell:
    """A shell with the extension, where runs show as static pictures."""
    ip.run_line_magic("load_ext", "ensemble_notebook")
    ip.run_line_magic("config", "EnsembleMagics.display = 'static'")
    return Shell(ip)


@pytest.fixture(scope="module")
def process(warm_kernels):
    """A kernel of its own for each module: its manager and its client."""
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--HistoryManager.enabled=False"])
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()
