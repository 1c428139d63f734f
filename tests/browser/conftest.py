"""One browser and one JupyterLab for all tests of this folder; a fresh kernel for each, and a fresh page if it counts.

To load JupyterLab takes several times longer than most tests. So there is a page in which it stays loaded,
`open_in_window`; a test that is about loading, that listens to its page, or that leaves something in it, has a page of
its own, `open_notebook`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.browser.built_view import served_view
from tests.browser.lab import ARTEFACTS, START_LIMIT_S, Lab, Notebook, jupyter_lab, write_notebook
from tests.browser.window import SIZE, Window
from tests.support.lessons import COURSE, FOLDER

CHROMIUM: Final = os.environ.get("ENSEMBLE_NOTEBOOK_CHROMIUM", "/usr/bin/chromium")
# No sandbox, since CI is root; nothing that would talk to the network by itself.
FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
# Extensions that show nothing on a page with a notebook: without them JupyterLab is loaded sooner.
LEFT_OUT: Final = (
    *("audio", "video", "console", "csvviewer", "debugger", "extensionmanager", "pluginmanager", "help", "htmlviewer"),
    *("hub", "imageviewer", "inspector", "logconsole", "lsp", "markdownviewer", "mermaid", "running", "settingeditor"),
    *("terminal", "theme-dark-high-contrast"),
)
BROWSER: Final = pytest.StashKey[Browser]()
# A state is waited for; how long it may take on a busy machine says nothing of the view.
expect.set_options(timeout=60_000)


class Opener(Protocol):
    """Opens a notebook made of these cells, or a lesson by its file name."""

    def __call__(self, *sources: str, lesson: str | None = None, theme: str = "light") -> Notebook: ...


@pytest.fixture(scope="package")
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium of the system, whose first profile is in a folder: there it keeps scripts as it compiled them.

    Playwright keeps a loop running on this thread as long as it lives, so it must not outlive these tests: in random
    order, others that run loops of their own come next.
    """
    if not Path(CHROMIUM).exists():
        pytest.fail(f"There is no browser at {CHROMIUM}. Install chromium, or name one in ENSEMBLE_NOTEBOOK_CHROMIUM.")
    with sync_playwright() as playwright:
        profile = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=CHROMIUM, args=FLAGS, viewport=SIZE
        )
        assert profile.browser is not None
        request.session.stash[BROWSER] = profile.browser
        yield profile.browser
        profile.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a picture of each page that a failed test leaves."""
    report = yield
    if report.when == "call" and report.failed and BROWSER in item.session.stash:
        pages = [page for context in item.session.stash[BROWSER].contexts for page in context.pages]
        ARTEFACTS.mkdir(exist_ok=True)
        for number, page in enumerate(pages):
            with suppress(Error):
                page.screenshot(
                    path=ARTEFACTS / f"failed-{item.name[:80].replace('/', '_')}-{number}.png", timeout=5000
                )
    return report


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory, kernels_home: Path) -> Iterator[Lab]:
    """A JupyterLab of our own."""
    with jupyter_lab(tmp_path_factory.mktemp("lab"), kernels_home, LEFT_OUT) as lab:
        yield lab


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    """Where the built view has a page of its own, for `open_view`; one for all tests, so that it is compiled once."""
    with served_view() as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page; that its profile is not means that JupyterLab is compiled once for all of them."""
    profile = browser.contexts[0]
    profile.set_default_timeout(START_LIMIT_S * 1000)
    page = profile.new_page()
    yield page
    profile.clear_cookies()
    for each in profile.pages[1:]:  # the browser may end with its last page
        if each.url.startswith("http"):
            each.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        each.close()


@pytest.fixture(scope="package")
def window(browser: Browser, lab: Lab) -> Iterator[Window]:
    """A window with a JupyterLab that stays loaded."""
    window = Window(browser, lab)
    yield window
    window.close()


@pytest.fixture
def open_in_window(window: Window, lab: Lab) -> Iterator[Opener]:
    """Open a notebook where JupyterLab is loaded already; it is closed, and its kernel ends, with the test."""

    def open_one(*sources: str, lesson: str | None = None, theme: str = "light") -> Notebook:
        return window.open(make_file(lab, *sources, lesson=lesson), theme)

    yield open_one
    window.clear()


@pytest.fixture
def open_notebook(page: Page, lab: Lab) -> Iterator[Opener]:
    """Open notebooks; their kernels end with the test."""
    yield from make_opener(page, lab, in_notebook_7=False)


@pytest.fixture
def open_in_notebook_7(page: Page, lab: Lab) -> Iterator[Opener]:
    """Open notebooks in Notebook 7."""
    yield from make_opener(page, lab, in_notebook_7=True)


def make_opener(page: Page, lab: Lab, *, in_notebook_7: bool) -> Iterator[Opener]:
    opened: list[Notebook] = []

    def open_one(*sources: str, lesson: str | None = None, theme: str = "light") -> Notebook:
        lab.wear(theme)
        path = make_file(lab, *sources, lesson=lesson)
        notebook = Notebook(page, lab.notebook_7_url(path) if in_notebook_7 else lab.url(path), path)
        opened.append(notebook)
        notebook.open()
        return notebook

    yield open_one
    for notebook in opened[-1:]:
        notebook.shut_down()


def make_file(lab: Lab, *sources: str, lesson: str | None) -> Path:
    """A notebook of these cells, or a copy of a lesson without outputs: its numbers tell which cells ran.

    What an earlier try of a test let go on has to wait again.
    """
    for wake in lab.work.glob("*.wake"):
        wake.unlink()
    if lesson is not None:
        notebook = json.loads((FOLDER / lesson).read_text())
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
        (lab.work / lesson).write_text(json.dumps(notebook))
        shutil.copytree(FOLDER / COURSE, lab.work / COURSE, dirs_exist_ok=True)
        return lab.work / lesson
    return write_notebook(lab.work / f"test-{len(list(lab.work.iterdir()))}.ipynb", *sources)
