"""The site of the documentation: built without a network, light, searched from its files, with runs to explore."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.others.venv import ROOT, Venv

LONGEST_BUILD_S: Final = 120.0
HEAVIEST_FIRST_PAGE: Final = 300_000
LIMIT_MS: Final = 60_000


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def built(make_venv: Callable[..., Venv], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The site, of which every link and picture is there, or it is not built; and the seconds that took."""
    venv = make_venv("site", "sphinx", "myst-nb", "furo", "sphinx-copybutton")
    folder = tmp_path_factory.mktemp("site")
    began = time.monotonic()
    venv.run("python", ROOT / "docs/site/build.py", folder, limit_s=600, https_proxy="http://127.0.0.1:9")
    return folder / "html", time.monotonic() - began


@pytest.fixture(scope="module")
def site(built: tuple[Path, float]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=built[0])) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def test_site_is_built_without_a_network(built: tuple[Path, float], add_figures: Callable[..., None]) -> None:
    pages = list(built[0].rglob("*.html"))
    add_figures(what=f"seconds for {len(pages)} pages", measured=f"{built[1]:.0f}", limit=f"{LONGEST_BUILD_S:.0f}")
    assert built[1] <= LONGEST_BUILD_S


def test_first_page_is_light_and_asks_no_other_server(site: str, page: Page, add_figures: Callable[..., None]) -> None:
    sizes: dict[str, int] = {}
    page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    page.goto(site, wait_until="networkidle")
    whole = sum(sizes.values())
    add_figures(what="bytes of the first page", measured=f"{whole:,}", limit=f"{HEAVIEST_FIRST_PAGE:,}")
    assert whole <= HEAVIEST_FIRST_PAGE
    assert all(url.startswith((site, "data:")) for url in sizes)


def test_first_run_becomes_a_timeline_at_a_click(site: str, page: Page) -> None:
    page.goto(site)
    page.get_by_role("button", name="Explore this run").click()
    expect(page.locator(".run").get_by_text("Messages", exact=True)).to_be_visible(timeout=LIMIT_MS)


def test_run_of_a_lesson_is_explored(site: str, page: Page) -> None:
    page.goto(f"{site}/lessons/06-reading-traces.html")
    run = page.locator(".run").first
    run.scroll_into_view_if_needed()
    run.get_by_role("row").nth(2).click(timeout=LIMIT_MS)
    expect(page.locator(".et-drawer")).to_be_visible(timeout=LIMIT_MS)


def test_files_alone_are_searched(built: tuple[Path, float], page: Page) -> None:
    page.goto((built[0] / "search.html").as_uri() + "?q=fallback")
    expect(page.locator("#search-results li").first).to_be_visible(timeout=LIMIT_MS)


def test_pictures_and_scripts_are_there(built: tuple[Path, float]) -> None:
    asked = [
        (page, address.partition("?")[0])
        for page in built[0].rglob("*.html")
        for address in re.findall(
            r'<(?:img|script|source)\b[^>]*?\bsrc(?:set)?="(?!data:|http)([^"]+)"', page.read_text()
        )
    ]
    assert len(asked) > 100
    assert [(page.name, address) for page, address in asked if not (page.parent / address).exists()] == []


@pytest.mark.parametrize("place", ["index.html", "how.html", "lessons/05-when-things-fail.html"])
def test_page_is_no_wider_than_a_phone(site: str, page: Page, place: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/{place}", wait_until="networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
