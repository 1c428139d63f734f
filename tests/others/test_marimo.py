"""Runs in marimo: live while they go on, served as an app, and exported as pages and as notebooks."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nbformat
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.others.venv import Venv

SHOWN: Final = {
    "ensemble.run()": "1/1 task",
    "ensemble.plan()": "likely cost",
    "ensemble.map([{}, {}])": "2 rows",
    "ensemble.run().diff(ensemble.run())": "the whole run",
}
"""What a cell of its own shows -> words of its picture."""

_HEAD: Final = """\
import marimo

app = marimo.App()


@app.cell
def _():
    from ensemble_notebook import Ensemble

    ensemble = Ensemble.from_yaml("llm: scripted\\ntasks: [hello]\\n", {})
    return (ensemble,)
"""
LIVE: Final = """\
# /// script
# [tool.marimo.display]
# theme = "dark"
# ///
import marimo

app = marimo.App()


@app.cell
def _():
    import time

    from ensemble_notebook import Ensemble, Task

    def wait(_task):
        time.sleep(SECONDS)
        return "done"

    tasks = [Task.of("Wait", name=f"wait {n}", handler=wait) for n in range(3)]
    handle = Ensemble(tasks=tasks, workflow="sequential", name="team").start()
    return (handle,)


@app.cell
def _(handle):
    handle.timeline
    return
"""
WAITING: Final = """

@app.cell
def _(handle):
    output = handle.result()
    return (output,)


@app.cell
def _(output):
    output.timeline
    return
"""
"""Cells below, of which one holds the kernel until the run is over."""
_CELL: Final = """

@app.cell
def _(ensemble):
    {}
    return
"""


@pytest.fixture(scope="module")
def marimo(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("marimo", "marimo", "nbformat")


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "shown.py"
    path.write_text(_HEAD + "".join(map(_CELL.format, SHOWN)))
    return path


@pytest.fixture
def page(browser: Browser, marimo: Venv) -> Iterator[Page]:
    """A page that finds marimo's frontend, which exported pages load from elsewhere, in its package."""
    (static,) = marimo.folder.glob("lib/*/site-packages/marimo/_static")

    def answer(route: Route) -> None:
        name = re.sub(r"^.*/dist/|\?.*$", "", route.request.url)
        route.fulfill(path=static / name, headers={"Access-Control-Allow-Origin": "*"})

    page = browser.new_page()
    page.route("https://cdn.jsdelivr.net/npm/@marimo-team/**", answer)
    yield page
    page.close()


@pytest.fixture
def live(tmp_path: Path) -> Callable[..., Path]:
    def write(seconds: float, more: str = "") -> Path:
        path = tmp_path / "live.py"
        path.write_text(LIVE.replace("SECONDS", str(seconds)) + more)
        return path

    return write


@contextmanager
def serve(marimo: Venv, notebook: Path) -> Iterator[str]:
    """The address of a notebook that is served as an app."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [marimo.bin / "marimo", "run", notebook, "--headless", "--no-token", "--host", "127.0.0.1"]
    server = subprocess.Popen(
        [*command, "--port", str(port)],
        env=marimo.make_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "URL:" in line:
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=30)


def check_pictures(page: Page) -> None:
    for words in SHOWN.values():
        expect(page.get_by_text(words).first).to_be_visible(timeout=20_000)


def test_app_shows_pictures(marimo: Venv, notebook: Path, page: Page) -> None:
    with serve(marimo, notebook) as address:
        page.goto(address)
        check_pictures(page)


def test_rows_appear_while_the_run_goes_on(marimo: Venv, live: Callable[..., Path], page: Page) -> None:
    with serve(marimo, live(4)) as address:
        page.goto(address)
        for done in range(3):
            expect(page.get_by_text(f"{done}/3 tasks")).to_be_visible(timeout=20_000)
        expect(page.get_by_text("Completed", exact=True)).to_be_visible(timeout=20_000)


def test_stop_stops_the_run(marimo: Venv, live: Callable[..., Path], page: Page) -> None:
    with serve(marimo, live(4)) as address:
        page.goto(address)
        page.get_by_role("button", name="Stop").click(timeout=20_000)
        expect(page.get_by_text("Interrupted", exact=True)).to_be_visible(timeout=20_000)


def test_view_has_the_theme_of_the_notebook(marimo: Venv, live: Callable[..., Path], page: Page) -> None:
    with serve(marimo, live(0)) as address:
        page.goto(address)
        expect(page.locator(".ensemble-timeline")).to_have_attribute("data-theme", "dark", timeout=20_000)


def test_rows_appear_while_a_cell_waits_for_the_run(marimo: Venv, live: Callable[..., Path], page: Page) -> None:
    """No click reaches marimo's kernel before that cell is over: the view says so, and how to stop."""
    with serve(marimo, live(4, WAITING)) as address:
        page.goto(address)
        expect(page.get_by_text("1/3 tasks")).to_be_visible(timeout=20_000)
        expect(page.get_by_title("press the notebook's ■ stop button")).to_be_visible(timeout=20_000)
        expect(page.get_by_text("Completed", exact=True)).to_have_count(2, timeout=20_000)


def test_exported_page_shows_pictures(marimo: Venv, notebook: Path, page: Page) -> None:
    marimo.run("marimo", "export", "html", notebook, "--output", notebook.with_suffix(".html"))
    page.goto(notebook.with_suffix(".html").as_uri())
    check_pictures(page)


def test_exported_notebook_has_pictures(marimo: Venv, notebook: Path) -> None:
    path = notebook.with_suffix(".ipynb")
    marimo.run("marimo", "export", "ipynb", notebook, "--include-outputs", "--output", path)
    cells = nbformat.read(path, as_version=4).cells[1:]
    assert len(cells) == len(SHOWN)
    for cell, words in zip(cells, SHOWN.values(), strict=True):
        (output,) = cell.outputs
        assert words in output.data["text/html"]
