"""The table of a map of 10,000 rows under three variants beside itables with all of its rows in one page (S5).

itables has `maxBytes=0, paging=False, scrollY`, since its pages show ten rows; its bundle is the one that it ships, and
no network is asked. It gets less to show: the row, three inputs and three answers as texts, no scores. A frame is CPU
time of the main thread, from one to the next, while the table is scrolled: a line at a time, and through all of it in
90 frames. Memory is that of the page's process that it shares with nobody, above the same page without a table, after a
collection of garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from benchmarks.timeline import record_costs
from tests.browser.built_view import served_view
from tests.others.venv import Venv

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROWS: Final = 10_000
FRAMES: Final = 90
HEIGHT: Final = 420
MAKE: Final = f"""
import sys, pandas as pd
from itables import options, to_html_datatable
from itables.javascript import generate_init_offline_itables_html
from pathlib import Path
answers = ["Paris, on the Seine", "It lies by the sea, and has a harbour.", "I don't know that city."]
table = pd.DataFrame({{
    "row": [f"row {{k}}" for k in range({ROWS})], "city": [f"City {{k}}" for k in range({ROWS})],
    "population": range(0, {ROWS}000, 1000), "expected": "a city by the sea",
    **{{name: [answers[(k + v) % 3] for k in range({ROWS})] for v, name in enumerate(("tersely", "sources", "guide"))}},
}})
made = to_html_datatable(table, maxBytes=0, paging=False, scrollY="{HEIGHT}px", connected=False, showIndex=False)
Path(sys.argv[1]).write_text(generate_init_offline_itables_html(options.dt_bundle))
Path(sys.argv[2]).write_text(made)
"""
# As `js/dev/measure.js` does with ours.
SCROLL: Final = """async ([selector, step, frames]) => {
    const field = document.querySelector(selector);
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const frameEnd = () => new Promise((done) => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => done();
        channel.port2.postMessage(0);
    });
    field.scrollTop = 0;
    await frame();
    for (let k = 0; k < frames; k += 1) {
        performance.mark("frame");
        field.scrollTop += step;
        await frame();
        await frameEnd();
    }
    performance.mark("frame");
    return field.scrollTop;
}"""
INSERT: Final = """(markup) => {
    const place = document.createElement("div");
    document.body.append(place);
    place.append(document.createRange().createContextualFragment(markup));
}"""
SHOW_OURS: Final = f"""async () => {{
    const {{ cellsOf, variantsOf }} = await import("/js/dev/many.js");
    const model = new FakeModel();
    model.snapshot = variantsOf({ROWS}, 3);
    model.scene = {{ ...model.scene, cellsOf }};
    await widget.render({{ model, el: place, signal: end.signal }});
    model.snapshot = null;
}}"""


def measure_memory(page: Page) -> tuple[int, float, float]:
    """Nodes of the page, megabytes of its scripts' heap, and of its process that it shares with nobody."""
    session = page.context.new_cdp_session(page)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    assert page.context.browser is not None
    processes = page.context.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    renderers = [each["id"] for each in processes if each["type"] == "renderer"]
    lines = [Path(f"/proc/{each}/smaps_rollup").read_text().splitlines() for each in renderers]
    private = max(sum(int(line.split()[1]) for line in each if line.startswith("Private_Dirty")) for each in lines)
    nodes = page.evaluate("() => document.querySelectorAll('*').length")
    return nodes, metrics["JSHeapUsedSize"] / 1e6, private / 1e3


def scroll(page: Page, selector: str, step: int) -> tuple[float, float]:
    """The median and the 95th percentile of a frame, in ms."""
    reached: list[Any] = []
    costs = sorted(record_costs(page, lambda: reached.append(page.evaluate(SCROLL, [selector, step, FRAMES]))))
    assert reached[0] > step * FRAMES / 2
    return median(costs), costs[len(costs) * 95 // 100]


def take_figures(page: Page, selector: str, before: tuple[int, float, float]) -> dict[str, tuple[float, ...]]:
    """What is compared: of the page's size, and of a frame the median and the 95th percentile."""
    after = measure_memory(page)
    line, height = page.evaluate(
        "(selector) => { const it = document.querySelector(selector); return [42, it.scrollHeight]; }", selector
    )
    return {
        "nodes": (after[0] - before[0],),
        "heap": (after[1] - before[1],),
        "memory": (after[2] - before[2],),
        "near": scroll(page, selector, line),
        "far": scroll(page, selector, height // FRAMES - 1),
    }


@contextmanager
def opened(browser: Browser) -> Iterator[Page]:
    """The page of ``js/dev`` in a process of its own, at the size of a wide notebook, with two pixels to the point."""
    with served_view() as address:
        context = browser.new_context(viewport={"width": 1100, "height": 900}, device_scale_factor=2)
        page = context.new_page()
        page.goto(f"{address}?empty")
        page.wait_for_selector("body[data-ready]")
        yield page
        context.close()


def measure_itables(browser: Browser, init: str, table: str) -> dict[str, tuple[float, ...]]:
    with opened(browser) as page:
        page.evaluate("() => end.abort()")
        page.evaluate(INSERT, init)
        before = measure_memory(page)
        page.evaluate(INSERT, table)
        page.wait_for_function(
            f"document.querySelectorAll('.dt-scroll-body tbody tr').length >= {ROWS}", timeout=120_000
        )
        return take_figures(page, ".dt-scroll-body", before)


def measure_ours(browser: Browser) -> dict[str, tuple[float, ...]]:
    with opened(browser) as page:
        before = measure_memory(page)
        page.evaluate(SHOW_OURS)
        page.get_by_role("radio", name="Grid", exact=True).click()
        page.wait_for_selector("[data-line] [data-answer] q")
        return take_figures(page, ".et-answers-field", before)


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("itables", "itables>=2.9,<3", "pandas", ours=None)


NAMES: Final = {
    "nodes": ("elements in the page",),
    "heap": ("heap of scripts above the empty page, MB",),
    "memory": ("memory of the process above the empty page, MB",),
    "near": ("a frame, scrolled by a line, median, ms", "the same, p95, ms"),
    "far": ("a frame, scrolled by a ninetieth of all, median, ms", "the same, p95, ms"),
}


def test_a_table_of_10000_rows_has_at_most_half_of_the_elements_and_of_the_memory(
    venv: Venv, browser: Browser, tmp_path: Path, add_figures: Callable[..., None]
) -> None:
    venv.run("python", "-c", MAKE, tmp_path / "init.html", tmp_path / "table.html")
    theirs = measure_itables(browser, *((tmp_path / f"{name}.html").read_text() for name in ("init", "table")))
    ours = measure_ours(browser)
    for key, names in NAMES.items():
        for what, mine, other in zip(names, ours[key], theirs[key], strict=False):
            told = [f"{each:,.0f}" if each > 1_000 else f"{each:.3g}" for each in (mine, other)]
            add_figures(what=what, ours=told[0], itables=told[1], share=f"{mine / other:.2g}")
    assert all(ours[key][0] <= theirs[key][0] / 2 for key in ("nodes", "memory"))
