"""Lessons by a link, with no kernel on a server: JupyterLite shows what is saved, and Pyodide reads traces."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.others.venv import ROOT, Venv

LESSON: Final = "06-reading-traces.ipynb"
LIMIT_MS: Final = 60_000
PURE: Final = ("lazy-loader", "cloudpickle", "platformdirs", "typing-extensions")
"""What the package imports with `load_traces`."""

_IN_NODE: Final = """
import { loadPyodide } from "%s";
const python = await loadPyodide();
for (const [place, root] of [["/checkout", "%s"], ["/pure", "%s"]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, place);
}
console.log(python.runPython(`
import sys
sys.path[:0] = ["/checkout", "/pure"]
from ensemble_notebook import load_traces
f"{sys.platform}: {load_traces.__module__}"
`));
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def lite(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("lite", "jupyterlite-core", "jupyter-server")


@pytest.fixture
def site(lite: Venv, tmp_path: Path) -> Iterator[str]:
    """The address of a site with one lesson and our extension, as `jupyter lite build` makes it."""
    (tmp_path / "lessons").mkdir()
    shutil.copy(ROOT / "notebooks" / LESSON, tmp_path / "lessons")
    built = ROOT / "ensemble_notebook/static/labextension"
    shutil.copytree(built, lite.folder / "share/jupyter/labextensions/ensemble-notebook", dirs_exist_ok=True)
    lite.run(
        "jupyter", "lite", "build", "--contents", tmp_path / "lessons", "--output-dir", tmp_path / "site", cwd=tmp_path
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=tmp_path / "site")) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_lesson_is_explored_in_jupyterlite_and_asks_no_other_server(browser: Browser, site: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/notebooks/index.html?path={LESSON}")
    page.locator("dialog").get_by_role("button", name="No Kernel").click(timeout=LIMIT_MS)
    timeline = page.get_by_role("treegrid").first
    timeline.scroll_into_view_if_needed(timeout=LIMIT_MS)
    timeline.get_by_role("row").nth(2).click()
    expect(page.locator(".et-drawer")).to_be_visible(timeout=LIMIT_MS)
    page.close()
    assert asked
    assert not [url for url in asked if not url.startswith((site, "data:", "blob:"))]


def test_pyodide_imports_what_reads_traces(
    make_venv: Callable[..., Venv], install_node_modules: Callable[..., Path], tmp_path: Path
) -> None:
    pyodide = install_node_modules("pyodide", "pyodide").parent / "pyodide/pyodide.mjs"
    (pure,) = make_venv("pure", *PURE, ours=None).folder.glob("lib/*/site-packages")
    program = tmp_path / "read.mjs"
    program.write_text(_IN_NODE % (pyodide, ROOT, pure))
    told = subprocess.run(["node", program], capture_output=True, text=True, timeout=240, check=False)
    assert told.stdout.strip() == "emscripten: ensemble_notebook.ensemble.many_runs.loaded_map", told.stderr[-2000:]
