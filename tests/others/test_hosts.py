"""Notebooks in voila, papermill, nbconvert and Jupyter Book, each as it shows or keeps a run."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.others.venv import Venv

LIMIT_MS: Final = 60_000
CELL: Final = """\
%%ensemble -o report --name night
tasks:
  begin: {description: Begin, handler: nap}
  end: {description: End, handler: nap, context: [begin]}
"""
STARTED: Final = """\
from ensemble_notebook import Ensemble, Task
tasks = [Task.of("Wait", name=f"wait {n}", handler=nap) for n in range(3)]
handle = Ensemble(tasks=tasks, workflow="sequential", name="team").start()
handle.timeline
"""
WIDGET_MIME: Final = "application/vnd.jupyter.widget-view+json"


def write_notebook(path: Path, nap_s: float, *cells: str) -> Path:
    nap = f"def nap(task):\n    import time; time.sleep({nap_s})\n    return f'{{task.name}} is done'"
    sources = ("%load_ext ensemble_notebook", nap, *cells)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(each) for each in sources], metadata={"kernelspec": kernel}
    )
    nbformat.write(made, path)
    return path


def read_bundles(path: Path) -> list[dict[str, Any]]:
    """What the cells of an executed notebook show."""
    cells = nbformat.read(path, as_version=4).cells
    return [output.data for cell in cells for output in cell.outputs if "data" in output]


def check_picture(page: str) -> None:
    """The picture of the run is in the page: rows, bars, and how it ended."""
    for words in ("night", "begin", "end is done", "2 tasks in"):
        assert words in page


@pytest.fixture(scope="module")
def hosts(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("hosts", "voila", "papermill", "nbconvert", "ipykernel", ours="[lab]")


@pytest.fixture(scope="module")
def book(make_venv: Callable[..., Venv]) -> Venv:
    """Version 2 fetches its theme, and Node, from elsewhere."""
    return make_venv("book", "jupyter-book<2", "ipykernel")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    yield page
    page.close()


@pytest.fixture
def serve(hosts: Venv, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Serves a notebook by voila; gives the address."""
    servers = []

    def serve(notebook: Path) -> str:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        command = [hosts.bin / "voila", notebook, "--no-browser", f"--port={port}"]
        servers.append(subprocess.Popen(command, env=hosts.make_environment(), stderr=subprocess.DEVNULL))
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                with urlopen(f"{address}/voila/static/voila.js"):
                    break
            except URLError as error:
                if "refused" not in str(error):  # it answers
                    break
                time.sleep(0.2)
        return address

    yield serve
    for server in servers:
        server.terminate()
        server.wait(30)


def views(page: Page) -> Locator:
    return page.locator(".ensemble-timeline")


def test_voila_shows_a_run_that_is_over_to_explore(serve: Callable[..., str], page: Page, tmp_path: Path) -> None:
    page.goto(serve(write_notebook(tmp_path / "over.ipynb", 0.1, CELL, "report.timeline")), timeout=LIMIT_MS)
    expect(views(page)).to_have_count(2, timeout=LIMIT_MS)
    views(page).first.get_by_role("radio", name="Table").click()
    expect(page.get_by_role("columnheader", name="Duration")).to_be_visible(timeout=LIMIT_MS)


def test_voila_shows_a_started_run_live_with_stop(serve: Callable[..., str], page: Page, tmp_path: Path) -> None:
    page.goto(serve(write_notebook(tmp_path / "live.ipynb", 8, STARTED)), timeout=LIMIT_MS)
    expect(views(page).get_by_text("1/3 tasks")).to_be_visible(timeout=LIMIT_MS)
    page.get_by_role("button", name="Stop").click()
    expect(views(page).get_by_text("Interrupted", exact=True)).to_be_visible(timeout=LIMIT_MS)


def test_papermill_keeps_pictures_and_no_widget(hosts: Venv, tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "in.ipynb", 0.1, CELL, "report.timeline", STARTED)
    hosts.run("papermill", "in.ipynb", "out.ipynb", cwd=tmp_path)
    assert notebook.exists()
    bundles = read_bundles(tmp_path / "out.ipynb")
    assert not any(WIDGET_MIME in each for each in bundles)
    texts = "".join(each["text/plain"] for each in bundles)
    check_picture(texts)
    assert "running when saved" in texts


@pytest.mark.parametrize("options", [("--to", "html"), ("--to", "html", "--HTMLExporter.sanitize_html=True")])
def test_nbconvert_has_the_picture_also_where_it_is_sanitised(
    hosts: Venv, page: Page, tmp_path: Path, options: tuple[str, ...]
) -> None:
    write_notebook(tmp_path / "run.ipynb", 0.1, CELL)
    hosts.run("jupyter", "nbconvert", "--execute", *options, "run.ipynb", cwd=tmp_path)
    page.route("http*://**", lambda route: route.abort())  # as from a folder without a network
    page.goto((tmp_path / "run.html").as_uri())
    check_picture(page.locator("body").inner_text())


def test_nbconvert_has_the_text_in_markdown(hosts: Venv, tmp_path: Path) -> None:
    write_notebook(tmp_path / "run.ipynb", 0.1, CELL)
    hosts.run("jupyter", "nbconvert", "--execute", "--to", "markdown", "run.ipynb", cwd=tmp_path)
    check_picture(re.sub(r"<[^>]+>", " ", (tmp_path / "run.md").read_text()))


def test_jupyter_book_has_the_picture(book: Venv, page: Page, tmp_path: Path) -> None:
    write_notebook(tmp_path / "run.ipynb", 0.1, "# A run", CELL)
    (tmp_path / "_config.yml").write_text("title: Runs\nexecute: {execute_notebooks: force}\n")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: run\n")
    book.run("jupyter-book", "build", ".", cwd=tmp_path)
    page.goto((tmp_path / "_build" / "html" / "run.html").as_uri())
    check_picture(page.locator("body").inner_text())
