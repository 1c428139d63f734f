"""Screenshots of the built view on the fake model: run it from anywhere, look at the pictures.

Usage: python js/dev/shots.py OUT_DIR [name-part ...]
Knows nothing of the package: it serves the repository on loopback and opens the dev page in the system's Chromium.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


STATES = [
    *("pending", "empty", "running", "waiting", "completed", "warned", "error", "timeout", "interrupted", "budget"),
    *("early", "gone", "restarted", "metadata", "saved", "large", "bad", "waiting-for-data"),
]


def find_view() -> str:
    """The address of the built module with the views of the JupyterLab extension."""
    (file,) = (ROOT / "ensemble_notebook" / "static" / "labextension" / "static").glob("view-*.js")
    return f"/{file.relative_to(ROOT)}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Serves the repository on loopback; gives the address of the dev page."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/js/dev/index.html"
    finally:
        server.shutdown()


def call_drawer(page: Page) -> None:
    """Opens a model call's messages with the keyboard alone."""
    page.focus(".et-gutter")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    page.get_by_role("tab", name="Messages").click()


def tab(name: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.locator("[role=row]").nth(3).click()
        page.wait_for_timeout(200)
        page.get_by_role("tab", name=name).click()

    return act


def closed_phases(page: Page) -> None:
    page.locator(".et-fold").nth(0).click()
    page.locator(".et-fold").nth(1).click()


def press(*names: str) -> Callable[[Page], None]:
    """Presses buttons by their words, one after the other."""

    def act(page: Page) -> None:
        page.wait_for_timeout(300)
        for name in names:
            page.get_by_role("button", name=name, exact=True).click()

    return act


def pick(title: str, *, tab: str | None = None) -> Callable[[Page], None]:
    """Selects the span under the words that the row of this title begins with, by the keyboard."""

    def act(page: Page) -> None:
        page.locator("[role=row]", has_text=title).first.click()
        for _ in range(4):
            page.locator(".et-gutter").press("ArrowRight")
        if tab:
            page.get_by_role("tab", name=tab).click()

    return act


def type_keys(*keys: str, row: str | None = None) -> Callable[[Page], None]:
    """Presses keys one after the other, in the row of this title or wherever the focus is then."""

    def act(page: Page) -> None:
        page.locator("[role=row]", has_text=row).first.click() if row else page.focus(".et-gutter")
        for key in keys:
            page.keyboard.press(key)

    return act


def search(words: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_label("Search the run").fill(words)
        page.keyboard.press("Enter")

    return act


def mark_range(page: Page) -> None:
    box = page.locator(".et-canvas").bounding_box()
    assert box
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 90, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")


def main(out: Path, wanted: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    shots = [
        (f"{moment}-{width}-{theme}", width, f"{query}&theme={theme}", None)
        for moment, query in (("running", "from=6900"), ("over", "at=15000"), ("start", "at=10"))
        for width in (320, 480, 900, 1400)
        for theme in ("light", "dark")
    ]
    for theme in ("light", "dark"):
        shots += [
            (f"drawer-{width}-{theme}", width, f"at=15000&theme={theme}", call_drawer)
            for width in (320, 480, 900, 1400)
        ]
        shots += [
            (f"tooltip-900-{theme}", 900, f"at=15000&theme={theme}", lambda page: page.mouse.move(400, 225)),
            (f"live-900-{theme}", 900, f"from=7300&theme={theme}", call_drawer),
            (f"silent-900-{theme}", 900, f"from=6500&silent&theme={theme}", lambda page: page.wait_for_timeout(1600)),
            *(
                (f"{name.split()[0].lower()}-1400-{theme}", 1400, f"at=15000&theme={theme}", tab(name))
                for name in ("Summary", "Attempts", "Tokens & cost")
            ),
            (f"closed-900-{theme}", 900, f"at=15000&theme={theme}", closed_phases),
            (f"interrupted-900-{theme}", 900, f"at=8000&status=interrupted&theme={theme}", None),
            (f"saved-900-{theme}", 900, f"saved&theme={theme}", None),
            (f"empty-480-{theme}", 480, f"empty&theme={theme}", None),
            (f"crowd-900-{theme}", 900, f"crowd=100x100&theme={theme}", None),
        ]
        shots += [
            *(
                (f"gates-{moment}-{width}-{theme}", width, f"scene=gates&at={at}&theme={theme}", None)
                for moment, at in (("wait", 3500), ("handed", 8000), ("asked", 28000), ("over", 31100))
                for width in (480, 1400)
            ),
            (f"gates-edit-900-{theme}", 900, f"scene=gates&at=28000&theme={theme}", press("Edit…")),
            (f"gates-retry-480-{theme}", 480, f"scene=gates&at=28000&theme={theme}", press("Retry…")),
            (f"gates-question-900-{theme}", 900, f"scene=gates&at=28000&subject=question&theme={theme}", None),
            (f"gates-tool-900-{theme}", 900, f"scene=gates&at=28000&subject=tool&theme={theme}", None),
            (
                f"gates-silent-900-{theme}",
                900,
                f"scene=gates&at=28000&silent&theme={theme}",
                lambda page: page.wait_for_timeout(1600),
            ),
            (
                f"gates-budget-900-{theme}",
                900,
                f"scene=gates&at=31100&status=budget_exceeded&limit=tokens&theme={theme}",
                None,
            ),
            (f"gates-early-900-{theme}", 900, f"scene=gates&at=31100&status=exited_early&theme={theme}", None),
            (f"gates-closed-900-{theme}", 900, f"scene=gates&at=31100&theme={theme}", closed_phases),
            (f"gates-drawer-1400-{theme}", 1400, f"scene=gates&at=31100&theme={theme}", pick("manager")),
        ]
    for theme in ("light", "dark"):
        for width in (320, 480, 900, 1400):
            shots += [
                (f"table-{width}-{theme}", width, f"at=15000&theme={theme}", type_keys("t", "ArrowDown", "ArrowDown")),
                (f"keys-{width}-{theme}", width, f"at=15000&theme={theme}", type_keys("?")),
                (f"search-{width}-{theme}", width, f"at=15000&theme={theme}", search("web")),
                (f"range-{width}-{theme}", width, f"at=15000&theme={theme}", mark_range),
                (
                    f"filters-{width}-{theme}",
                    width,
                    f"at=15000&theme={theme}",
                    lambda page: page.get_by_label("Search the run").focus(),
                ),
                (
                    f"hint-{width}-{theme}",
                    width,
                    f"crowd=40x60&theme={theme}",
                    type_keys("Home", "f", "f", "w", "w", "w", "w", "w", "w", "w", "w", "d", "d"),
                ),
                (f"critical-{width}-{theme}", width, f"at=15000&theme={theme}", type_keys("c")),
            ]
    shots += [
        (f"state-{state}-{width}-{theme}", width, f"state={state}&view={find_view()}&theme={theme}", None)
        for state in STATES
        for width in (320, 480, 900, 1400)
        for theme in ("light", "dark")
    ]
    with serve() as base, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=FLAGS)
        for name, width, query, act in shots:
            if wanted and not any(part in name for part in wanted):
                continue
            page = browser.new_page(viewport={"width": width, "height": 620}, device_scale_factor=2)
            page.on("console", lambda message, name=name: print(name, message.type, message.text))
            page.on("pageerror", lambda error, name=name: print(name, "error", error))
            page.goto(f"{base}?{query}")
            page.wait_for_selector("body[data-ready]")
            page.wait_for_timeout(400)
            if act:
                act(page)
                page.wait_for_timeout(250)
            page.screenshot(path=out / f"{name}.png", full_page=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
