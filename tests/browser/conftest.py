"""One browser and one JupyterLab for all tests of this folder; a fresh page and a fresh kernel for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.lab import ROOT, Lab, Notebook, jupyter_lab, write_notebook

CHROMIUM: Final = os.environ.get("ENSEMBLE_NOTEBOOK_CHROMIUM", "/usr/bin/chromium")
# No sandbox, since CI is root; nothing that would talk to the network by itself.
FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


class Opener(Protocol):
    """Opens a notebook made of these cells, or a lesson by its file name."""

    def __call__(self, *sources: str, lesson: str | None = None, theme: str = "light") -> Notebook: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium of the system.

    Playwright keeps a loop running on this thread as long as it lives, so it must not outlive these tests: in random
    order, others that run loops of their own come next.
    """
    if not Path(CHROMIUM).exists():
        pytest.fail(f"There is no browser at {CHROMIUM}. Install chromium, or name one in ENSEMBLE_NOTEBOOK_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab of our own."""
    with jupyter_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh profile with a window of ordinary width, high enough for a lesson's cell and its output."""
    context = browser.new_context(viewport={"width": 1300, "height": 1200})
    page = context.new_page()
    yield page
    context.close()


@pytest.fixture
def open_notebook(page: Page, lab: Lab) -> Iterator[Opener]:
    """Open notebooks; their kernels end with the test."""
    opened: list[Notebook] = []

    def open_one(*sources: str, lesson: str | None = None, theme: str = "light") -> Notebook:
        lab.wear(theme)
        if lesson is not None:
            path = Path(shutil.copy(ROOT / "notebooks" / lesson, lab.work))
        else:
            path = write_notebook(lab.work / f"test-{len(list(lab.work.iterdir()))}.ipynb", *sources)
        notebook = Notebook(page, lab, path)
        opened.append(notebook)
        notebook.open()
        return notebook

    yield open_one
    for notebook in opened[-1:]:
        notebook.shut_down()
