"""A real JupyterLab on loopback, and a notebook in it as a person uses it: by its cells, keys and buttons."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROOT: Final = Path(__file__).parents[2]
ARTEFACTS: Final = ROOT / "tests" / "artefacts"
START_LIMIT_S: Final = 90.0
RUN_LIMIT_S: Final = 120.0

# JupyterLab's indicators say "idle" before there is a kernel, so the application itself is asked.
_KERNEL_STATUS: Final = """name => {
    const panel = window.jupyterapp?.shell.currentWidget;
    if (panel?.context?.path !== name || !panel.context.isReady || panel.content.widgets.length === 0) return "opening";
    const kernel = panel.sessionContext.session?.kernel;
    return kernel?.connectionStatus === "connected" ? kernel.status : "connecting";
}"""


class Lab:
    """A running server: JupyterLab, and Notebook 7 beside it.

    Attributes:
        work: the folder that it serves; kernels run in it.
    """

    def __init__(self, home: Path, port: int) -> None:
        self.work = home / "work"
        self._settings = home / "settings"
        self._address = f"http://127.0.0.1:{port}"

    def url(self, path: Path) -> str:
        """Where JupyterLab shows a notebook, in a workspace of its own: nothing else is open there."""
        return f"{self._address}/lab/workspaces/{path.stem}/tree/{path.name}?token=t"

    def notebook_7_url(self, path: Path) -> str:
        """Where Notebook 7 shows it."""
        return f"{self._address}/notebooks/{path.name}?token=t"

    def wear(self, theme: str) -> None:
        """Have pages that are opened from now on be light or dark."""
        self.set_up("apputils-extension", "themes", {"theme": f"JupyterLab {theme.title()}"})

    def set_up(self, plugin: str, name: str, values: dict[str, object]) -> None:
        """Change a person's settings."""
        folder = self._settings / "@jupyterlab" / plugin
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jupyterlab-settings").write_text(json.dumps(values))


@contextmanager
def jupyter_lab(home: Path) -> Iterator[Lab]:
    """Serve a JupyterLab that knows this checkout and no settings, files or kernels of anybody else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lab = Lab(home, port)
    lab.work.mkdir()
    lab.set_up("apputils-extension", "notification", {"fetchNews": "false", "checkForUpdates": False})
    extensions = home / "path" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "ensemble-notebook").symlink_to(ROOT / "ensemble_notebook" / "static" / "labextension")
    environment = os.environ | {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_PATH": str(home / "path"),
        "JUPYTER_PREFER_ENV_PATH": "0",  # what JUPYTER_PATH names wins over what is installed
    }
    options = [
        *("--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        *("--IdentityProvider.token=t", f"--ServerApp.root_dir={lab.work}", "--LabApp.news_url=None"),
        "--LabApp.expose_app_in_browser=True",
    ]
    log = home / "lab.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: _answers(port), START_LIMIT_S, log.read_text)
        yield lab
    finally:
        server.terminate()  # which ends its kernels, too
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()


class Notebook:
    """A notebook, open in a page. Its code cells are counted from 0."""

    def __init__(self, page: Page, lab: Lab, path: Path) -> None:
        self.page = page
        self.path = path
        self._url = lab.url(path)

    def open(self) -> None:
        """Open it, and wait until its kernel is ready."""
        self.page.goto(self._url)
        self.wait_until_idle()

    def reload(self) -> None:
        """Reload the page, and wait until the cells are there; their kernel may be busy."""
        self.page.reload()
        wait_for(lambda: self.kernel_status not in {"opening", "connecting"}, START_LIMIT_S)

    @property
    def kernel_status(self) -> str:
        """What the kernel does: idle or busy; before that opening or connecting; unknown when too busy to say."""
        return str(self.page.evaluate(_KERNEL_STATUS, self.path.name))

    def cell(self, number: int) -> Locator:
        """A code cell."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)

    def timeline(self, number: int) -> Locator:
        """The timeline in the output of a code cell, live or saved."""
        return self.cell(number).locator(".ensemble-timeline")

    def output(self, number: int) -> str:
        """All text below a code cell."""
        return self.cell(number).locator(".jp-Cell-outputWrapper").inner_text()

    def prompt(self, number: int) -> str:
        """``[*]:`` while a cell runs or waits to run, ``[ ]:`` before and when it was called off."""
        return self.cell(number).locator(".jp-InputPrompt").inner_text().strip()

    def run(self, number: int) -> Locator:
        """Run a code cell by Shift+Enter; does not wait for its end."""
        cell = self.cell(number)
        before = self.prompt(number)
        cell.locator(".cm-content").click(position={"x": 2, "y": 2})
        self.page.keyboard.press("Shift+Enter")
        wait_for(lambda: self.prompt(number) != before, RUN_LIMIT_S)
        return cell

    def run_to_end(self, *numbers: int) -> Locator:
        """Run code cells, each to its end; gives the last one."""
        for number in numbers:
            self.run(number)
            self.wait_until_done(number)
        return self.cell(numbers[-1])

    def wait_until_done(self, number: int) -> None:
        """Wait until the kernel has answered for a cell."""
        wait_for(lambda: "*" not in self.prompt(number), RUN_LIMIT_S, lambda: self.output(number))

    def wait_until_idle(self) -> None:
        """Wait until the kernel has nothing left to do, which no prompt tells after a reload."""
        wait_for(lambda: self.kernel_status == "idle", RUN_LIMIT_S, lambda: self.kernel_status)

    def save(self) -> None:
        """Save by the keyboard, as a person does, and wait until the server has written the file."""
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        is_saved = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
        wait_for(lambda: bool(self.page.evaluate(is_saved)), START_LIMIT_S)

    def shut_down(self) -> None:
        """End the kernel."""
        self.page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")


def photograph(name: str, part: Locator | Page) -> None:
    """Keep a picture as an artefact."""
    ARTEFACTS.mkdir(exist_ok=True)
    part.screenshot(path=ARTEFACTS / f"{name}.png")


def write_notebook(path: Path, *sources: str) -> Path:
    """A notebook of code cells that never ran."""
    fresh: dict[str, object] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [{**fresh, "id": f"cell-{number}", "source": source} for number, source in enumerate(sources)]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}
    path.write_text(json.dumps(notebook))
    return path


def wait_for_text(part: Locator, text: str, limit_s: float = 20.0) -> None:
    """Wait until a part of the page says it."""
    wait_for(lambda: text in part.inner_text(), limit_s, lambda: f"{text!r} in {part.inner_text()!r}")


def wait_for(holds: Callable[[], bool], limit_s: float, explain: Callable[[], str] = str) -> None:
    """Look every tenth of a second until it holds."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"not within {limit_s:g} s: {explain()}"
        time.sleep(0.1)


def _answers(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0
