"""A window in which JupyterLab stays loaded, with the notebooks of one test after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.browser.lab import START_LIMIT_S, Lab, Notebook, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

SIZE: Final[ViewportSize] = {"width": 1300, "height": 1200}
"""An ordinary width, high enough for a lesson's cell and its output."""

# As a person does who closes a notebook without saving it, and ends its kernel.
_CLEAR: Final = """async () => {
    const {shell, serviceManager} = jupyterapp;
    for (const widget of [...shell.widgets("main")]) {
        if (widget.context) widget.context.model.dirty = false;
        widget.close();
    }
    await serviceManager.sessions.shutdownAll();
    localStorage.clear();
    sessionStorage.clear();
    shell.expandLeft();
}"""
_IS_CLEAR: Final = """() => ![...jupyterapp.shell.widgets("main")].some(widget => widget.context)
    && document.querySelector(".jp-Dialog") === null && window.hacked === undefined"""
_IS_LOADED: Final = "() => window.jupyterapp?.shell?.currentWidget != null"
_OPEN: Final = (
    "async name => { await jupyterapp.commands.execute('docmanager:open', {path: name, factory: 'Notebook'}); }"
)


class Window:
    """A window with JupyterLab, which is loaded for the first notebook, and again where one left it untidy.

    Args:
        browser: has the window.
        lab: serves it.
    """

    def __init__(self, browser: Browser, lab: Lab) -> None:
        self._browser = browser
        self._lab = lab
        self._context: BrowserContext | None = None

    def open(self, path: Path, theme: str) -> Notebook:
        """Open a notebook, and wait until its kernel is ready."""
        page = self._load(theme) if self._context is None else self._context.pages[0]
        notebook = Notebook(page, self._lab.url(path), path)
        notebook.wear(theme)
        page.evaluate(_OPEN, path.name)
        notebook.wait_until_idle()
        return notebook

    def clear(self) -> None:
        """Close what is open in it, and end the kernels; the window itself where that leaves anything behind."""
        if self._context is not None:
            page = self._context.pages[0]
            page.evaluate(_CLEAR)
            page.set_viewport_size(SIZE)
            page.mouse.move(0, 0)
            if not page.evaluate(_IS_CLEAR):
                self.close()

    def close(self) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None

    def _load(self, theme: str) -> Page:
        self._lab.wear(theme)
        self._context = self._browser.new_context(viewport=SIZE)
        self._context.set_default_timeout(START_LIMIT_S * 1000)
        page = self._context.new_page()
        page.goto(self._lab.empty_url)
        wait_for(lambda: bool(page.evaluate(_IS_LOADED)), START_LIMIT_S)
        return page
