"""The built view in a page of its own, on made-up runs: what needs no kernel is tested faster so."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.browser.lab import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# A canvas has the size of its place on the page once the view has looked at it.
_IS_MEASURED: Final = """() => {
    const canvas = document.querySelector(".et-canvas");
    return canvas !== null && canvas.width === Math.round(canvas.getBoundingClientRect().width * devicePixelRatio);
}"""


# Of each canvas in sight the page keeps what is in its newest picture: texts, and from where to where curved lines go.
_WATCH: Final = """() => {
    const page = window.CanvasRenderingContext2D.prototype;
    const { clearRect, fillText, moveTo, bezierCurveTo } = page;
    let from = 0;
    let picture = { texts: [], curves: [] };
    window.pictures = {};
    page.clearRect = function (...values) {
        picture = { texts: [], curves: [] };
        if (this.canvas.isConnected) window.pictures[this.canvas.className] = picture;
        return clearRect.apply(this, values);
    };
    page.fillText = function (...values) { picture.texts.push(values[0]); return fillText.apply(this, values); };
    page.moveTo = function (...values) { from = values[0]; return moveTo.apply(this, values); };
    page.bezierCurveTo = function (...values) {
        picture.curves.push([from, values[4]]);
        return bezierCurveTo.apply(this, values);
    };
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for many files

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that the base class gives it
        pass


@contextmanager
def served_view() -> Iterator[str]:
    """Serve the checkout on loopback; gives the address of the development page."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(ROOT)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/js/dev/index.html"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def open_view(page: Page, address: str, query: str, *, width: int = 900, height: int = 700) -> Locator:
    """Open a made-up run at this width, and wait until it is drawn."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{address}?{query}")
    page.wait_for_selector("body[data-ready]")
    timeline = page.locator(".ensemble-timeline")
    timeline.wait_for()
    wait_until_measured(page)
    wait_for_picture(page)
    return timeline


def wait_until_measured(page: Page) -> None:
    """Wait until there is a canvas, which knows how large it is."""
    page.wait_for_function(_IS_MEASURED)


def wait_for_picture(page: Page) -> None:
    """Wait until what was done shows: a view paints in the next frame, and scrolls before it."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def watch_canvas(page: Page) -> None:
    """Have the page keep what it paints from now on."""
    page.evaluate(_WATCH)


def read_picture(page: Page, *, has: str, curves: int = 0, of: str = "et-canvas") -> dict[str, Any]:
    """The first picture since `watch_canvas` with this text and so many curved lines: its texts, and ends of lines.

    `of` is the class of the canvas: that of the chart, or that of the lane under its axis.
    """
    wait_for_picture(page)
    page.wait_for_function(
        """([text, curves, of]) => {
            const picture = window.pictures?.[of];
            return picture !== undefined && picture.texts.includes(text) && picture.curves.length >= curves;
        }""",
        arg=[has, curves, of],
    )
    found: dict[str, Any] = page.evaluate("(of) => window.pictures[of]", of)
    return found


def read_texts(page: Page) -> list[str]:
    """What stands in the newest picture of the chart by now, for who looks again until it is right."""
    found: list[str] = page.evaluate("() => window.pictures?.['et-canvas']?.texts ?? []")
    return found


def show_saved_view(page: Page, saved: dict[str, Any]) -> Locator:
    """Show a saved view in the page that `open_view` has opened, in place of the run there, which ends."""
    page.evaluate("(saved) => { end.abort(); renderSaved(place, saved); }", saved)
    wait_until_measured(page)
    wait_for_picture(page)
    return page.locator(".ensemble-timeline")
