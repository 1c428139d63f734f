"""A real JupyterLab on loopback, and a notebook in it as a person uses it: by its cells, keys and buttons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ROOT: Final = Path(__file__).parents[2]
ARTEFACTS: Final = ROOT / "tests" / "artefacts"
START_LIMIT_S: Final = 150.0
RUN_LIMIT_S: Final = 120.0

# JupyterLab's indicators say "idle" before there is a kernel, so the application itself is asked.
_KERNEL_STATUS: Final = """name => {
    const panel = window.jupyterapp?.shell.currentWidget;
    if (panel?.context?.path !== name || !panel.context.isReady || panel.content.widgets.length === 0) return "opening";
    const kernel = panel.sessionContext.session?.kernel;
    return kernel?.connectionStatus === "connected" ? kernel.status : "connecting";
}"""

_EXECUTE: Final = """async code => {
    const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
    return (await kernel.requestExecute({code, store_history: false}).done).content.status;
}"""

# No result but faults is asked for, and no style sheets are fetched, which only rules need that are not on.
_FIND_FAULTS: Final = """async (root, evenMinor) =>
    (await axe.run(root, {resultTypes: ["violations"], preload: false})).violations
    .filter(({impact}) => evenMinor || impact === "serious" || impact === "critical")
    .map(({id, nodes}) => `${id}: ${nodes.map(({html, failureSummary}) => `${html} ${failureSummary}`).join(" ")}`)"""

_THEME: Final = "() => document.body.dataset.jpThemeName"

_MEASURE_LOOP: Final = """() => {
    const began = performance.now();
    let sum = 0;
    for (let k = 0; k < 2e7; k += 1) sum += k % 7;
    return sum ? performance.now() - began : 0;
}"""


class Lab:
    """A running server: JupyterLab, and Notebook 7 beside it.

    Attributes:
        work: the folder that it serves; kernels run in it.
    """

    def __init__(self, home: Path) -> None:
        self.work = home / "work"
        self._settings = home / "settings"
        self._address = ""  # of a server that runs

    def serve_at(self, port: int) -> None:
        """Say where the server listens."""
        self._address = f"http://127.0.0.1:{port}"

    def url(self, path: Path) -> str:
        """Where JupyterLab shows a notebook, in a workspace of its own: nothing else is open there."""
        return f"{self._address}/lab/workspaces/{path.stem}/tree/{path.name}?token=t"

    @property
    def empty_url(self) -> str:
        """Where JupyterLab has nothing open."""
        return f"{self._address}/lab/workspaces/empty?token=t"

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
def jupyter_lab(home: Path, kernels: Path | None = None, left_out: Sequence[str] = ()) -> Iterator[Lab]:
    """Serve a JupyterLab that knows this checkout and no settings or files of anybody else.

    `kernels` is a folder of Jupyter's path, whose kernels it has; else it has those that are installed. Of JupyterLab's
    own extensions, those that are `left_out` are not loaded.
    """
    lab = Lab(home)
    lab.work.mkdir()
    lab.set_up("apputils-extension", "notification", {"fetchNews": "false", "checkForUpdates": False})
    lab.set_up("docmanager-extension", "plugin", {"autosave": False})  # a test that takes long is as one that does not
    switches = home / "config" / "labconfig" / "page_config.json"
    switches.parent.mkdir(parents=True)
    disabled = {f"@jupyterlab/{name}-extension": True for name in left_out}
    # Else each page would have it looked for extensions to build in.
    switches.write_text(json.dumps({"buildCheck": False, "disabledExtensions": disabled}))
    extensions = home / "path" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "ensemble-notebook").symlink_to(ROOT / "ensemble_notebook" / "static" / "labextension")
    environment = os.environ | {
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_PATH": os.pathsep.join(map(str, filter(None, (home / "path", kernels)))),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_PREFER_ENV_PATH": "0",  # what JUPYTER_PATH names wins over what is installed
    }
    options = [
        *("--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0"),
        *("--IdentityProvider.token=t", f"--ServerApp.root_dir={lab.work}", "--LabApp.news_url=None"),
        "--LabApp.extension_manager=readonly",
        *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
    ]
    log = home / "lab.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: _says_its_port(lab, home / "runtime", server), START_LIMIT_S, log.read_text)
        yield lab
    finally:
        server.terminate()  # which ends its kernels, too
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()


class Notebook:
    """A notebook, open in a page. Its code cells are counted from 0."""

    def __init__(self, page: Page, url: str, path: Path) -> None:
        self.page = page
        self.path = path
        self._url = url

    def open(self) -> None:
        """Open it, and wait until its kernel is ready."""
        self.page.goto(self._url)
        self.wait_until_idle()

    def show(self) -> None:
        """Open it while its kernel may be busy, and wait until the cells are there."""
        self.page.goto(self._url)
        self.cell(0).wait_for(timeout=START_LIMIT_S * 1000)

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

    def outputs(self, number: int) -> Locator:
        """What is below a code cell."""
        return self.cell(number).locator(".jp-Cell-outputWrapper")

    def output(self, number: int) -> str:
        """All text below a code cell."""
        return self.outputs(number).inner_text()

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

    def execute(self, code: str) -> None:
        """Have the kernel do something that stands in no cell, and wait until it is done."""
        assert self.page.evaluate(_EXECUTE, code) == "ok"

    def wear(self, theme: str) -> None:
        """Have the page be light or dark from now on."""
        name = f"JupyterLab {theme.title()}"
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        wait_for(lambda: bool(self.page.evaluate(_THEME) == name), START_LIMIT_S)

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


def photograph(name: str, part: Locator | Page, *, after_s: float = 0) -> None:
    """Keep a picture as an artefact, for whoever asked for them in the environment; later, where things still move."""
    if os.environ.get("ENSEMBLE_NOTEBOOK_PHOTOGRAPHS"):
        time.sleep(after_s)
        ARTEFACTS.mkdir(exist_ok=True)
        part.screenshot(path=ARTEFACTS / f"{name}.png")


def find_axe_faults(view: Locator, *, even_minor: bool = False) -> list[str]:
    """What axe finds wrong in a part of the page, that is serious."""
    if not view.page.evaluate("() => 'axe' in window"):
        view.page.evaluate((ROOT / "js" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found: list[str] = view.evaluate(_FIND_FAULTS, even_minor)
    return found


def measure_slowness(page: Page) -> float:
    """How many times longer the page takes now for what takes 20 ms on a machine that does nothing else; at least 1."""
    return max(1.0, float(page.evaluate(_MEASURE_LOOP)) / 20)


def comes_back_soon(notebook: Notebook, number: int) -> bool:
    """Reload the page; whether the run of a cell can be stopped within a second of the cell being there.

    A second of a quiet machine: twice that where other tests run, times how slow the machine is. As any one reload may
    meet something else that the machine does, a test asks for the best of several.
    """
    notebook.page.reload()
    notebook.cell(number).wait_for()
    shown = time.monotonic()
    stop = notebook.timeline(number).get_by_role("button", name="Stop", exact=True)
    stop.and_(notebook.page.locator("[aria-disabled=false]")).wait_for(timeout=60_000)
    waited = time.monotonic() - shown
    return waited < 2 * measure_slowness(notebook.page)


def write_notebook(path: Path, *sources: str) -> Path:
    """A notebook of code cells that never ran."""
    fresh: dict[str, object] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [{**fresh, "id": f"cell-{number}", "source": source} for number, source in enumerate(sources)]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}
    path.write_text(json.dumps(notebook))
    return path


def wait_for_text(part: Locator, text: str, limit_s: float = 60.0) -> None:
    """Wait until a part of the page is there, and says it."""
    expect(part).to_contain_text(text, use_inner_text=True, timeout=limit_s * 1000)


def wait_for(holds: Callable[[], bool], limit_s: float, explain: Callable[[], str] = str) -> None:
    """Look until it holds: often at first, then every tenth of a second."""
    end, pause_s = time.monotonic() + limit_s, 0.01
    while not holds():
        assert time.monotonic() < end, f"not within {limit_s:g} s: {explain()}"
        time.sleep(pause_s)
        pause_s = min(0.1, pause_s * 1.5)


def _says_its_port(lab: Lab, runtime: Path, server: subprocess.Popen[bytes]) -> bool:
    """Whether the server has written down which port the system gave it, which it does once it listens."""
    assert server.poll() is None, f"JupyterLab ended: {(runtime.parent / 'lab.log').read_text()}"
    facts = runtime / f"jpserver-{server.pid}.json"
    with suppress(FileNotFoundError, json.JSONDecodeError):  # not there yet, or only in part
        lab.serve_at(json.loads(facts.read_text())["port"])
        return True
    return False
