"""Draws the pictures in the README and in docs/timeline.md, light and dark (``make pictures``).

A real run in a real JupyterLab; and for parts and states of the view made-up runs in a page of their own. Not a test:
it stands here because it opens notebooks the way the browser tests do.
"""

from __future__ import annotations

import json
import tempfile
import time
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Final

from PIL import Image, ImageOps
from playwright.sync_api import Browser, FloatRect, Locator, sync_playwright

from ensemble_notebook import ExecutionTrace
from ensemble_notebook.importers.foreign_run import import_runs
from ensemble_notebook.importers.foreign_span import ForeignSpan
from tests.browser.built_view import open_view, served_view, show_saved_view
from tests.browser.compared_runs import save_comparison
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.lab import ROOT, Lab, Notebook, jupyter_lab, wait_for, write_notebook
from tests.browser.scans import save_scans
from tests.browser.scenes import run_report, show_saved
from tests.browser.tables import cell_at, show_table
from tests.support.session_files import write_tide_session

PICTURES: Final = ROOT / "docs" / "pictures"

# The replies are scripted, so that the pictures show the same run each time; the timeline says so by itself.
TEAM: Final = '''
from ensemble_notebook import Fail, Reply, ScriptedChatModel, ToolUse

def search(query: str) -> str:
    """Search the archive."""
    import time; time.sleep(0.9)
    return f"three papers about {query}"

facts = "The mean tidal range at Annapolis is 6.9 m; the plant there ran from 1984 to 2019. " * 3
def ask(query, delay):
    return Reply(calls=[ToolUse("search", {"query": query})], delay=delay)

model = ScriptedChatModel.match({
    "## Task\\nGather": [ask("tidal range", 1.1), ask("turbines", 0.9), Reply(facts, delay=1.6)],
    "## Task\\nList": [Fail(429, delay=0.3), Reply("Silt. Storms. Fish. " * 9, delay=1.5)],
    "## Task\\nCompare": Reply("Wind is cheaper, tides are predictable. " * 6, delay=2.2),
    "## Task\\nWrite": Reply("# Tidal energy\\n\\nPredictable power from the moon. " * 12, delay=2.4),
    "## Task\\nCheck": Reply("Approved: every figure has a source.", delay=1.2),
})
'''
REPORT: Final = """
%%ensemble -o report -i topic="tidal energy" --name research-report
llm: model
cost: {input_rate: 0.0000025, output_rate: 0.00001}
budget: $0.05
agents:
  Researcher: {goal: Find facts that can be checked, tools: [search]}
  Analyst:    {goal: Weigh one thing against another}
  Writer:     {goal: Turn facts into clear prose}
phases:
  research:
    workflow: parallel
    tasks:
      facts:   {description: "Gather the key facts about {topic}", agent: Researcher}
      risks:   {description: "List the main risks of {topic}", agent: Analyst}
      compare: {description: "Compare {topic} with wind", agent: Analyst}
  writing:
    after: [research]
    tasks:
      - {name: brief, description: Write a one-page brief, agent: Writer, context: [facts, risks, compare]}
      - {name: check, description: Check every figure of the brief, agent: Analyst}
"""


TICKETS: Final = """
%load_ext ensemble_notebook
%config EnsembleMagics.store = "search-{theme}.sqlite"
import random, re
from ensemble_notebook import Reply, ScriptedChatModel

kinds = ["refund", "delivery", "login", "invoice"]
tickets = [{"ticket": f"{kinds[n % 4]} trouble no. {n}", "expected": kinds[n % 4]} for n in range(120)]
advice = ["Look at the first word.", "It is a refund, delivery, login or invoice."]
advice += ["Write only the label.", "Be brief."]

def label(messages):
    text = str(messages[-1].content)
    kind, number = re.search(r"Ticket: (\\w+) trouble no. (\\d+)", text).groups()
    luck = random.Random(number).random()
    return Reply(kind if luck < 0.5 + 0.15 * sum(each in text for each in advice[:3]) else "other", delay=0.1)

def rewrite(messages):
    asked = str(messages[-1].content)
    old = asked.split("```")[1].strip()
    new = [each for each in advice if each not in old]
    return Reply(f"```\\n{old}\\n{random.Random(asked).choice(new or advice)}\\n```", delay=1.2)

model, writer = ScriptedChatModel(default=label), ScriptedChatModel(default=rewrite)

def right(output, expected):
    return output.raw == expected
"""
LABELS: Final = """
%%ensemble --map tickets --score right -o labelled --name labels
llm: model
cost: {input_rate: 0.000001, output_rate: 0.000004}
tasks:
  - {name: label, description: "Label this. Ticket: {ticket}"}
"""
SEARCH: Final = "%ensemble improve labelled --change task.label.description --llm writer --budget '$0.25' -o better"

WIDTH: Final = 940
# Of made-up runs: the name of the picture, its height, which state it shows, and what a person did before.
PARTS: Final[tuple[tuple[str, int, str, tuple[str, ...]], ...]] = (
    ("drawer", 860, "error", ("search the web", *("ArrowRight",) * 6, "Enter")),
    ("table", 440, "error", ("search the web", "t")),
    ("waiting", 480, "waiting", ()),
    ("saved", 260, "large", ()),
    ("gone", 380, "gone", ()),
)

FILM_HEIGHT: Final = 720
FRAME_MS: Final = 250
FILM_SPEED: Final = 1.5
"""So much faster than the run, since nobody looks at a README for half a minute."""
LAST_FRAME_MS: Final = 4000

_LANE_AND_COLORS: Final = (("Lane", "Cost"), ("Bars by", "Agent"))


def main() -> None:
    """Write each picture once for each theme."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, jupyter_lab(Path(home)) as lab, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in ("light", "dark"):
            draw_parts(browser, theme)
            draw_call(browser, theme)
            draw_grid(browser, theme)
            draw_scans(browser, theme)
            draw_graph(browser, theme)
            draw_session(browser, theme)
            draw_frameworks(browser, theme)
            draw_agents(browser, theme)
            draw_comparison(browser, theme)
            draw_playhead(browser, theme)
            draw_columns(browser, theme)
            draw(lab, browser, theme)
            draw_search(lab, browser, theme)
            film(lab, browser, theme)
        browser.close()


def draw_parts(browser: Browser, theme: str) -> None:
    """Photograph parts and states of the view on made-up runs."""
    (file,) = (ROOT / "ensemble_notebook" / "static" / "labextension" / "static").glob("view-*.js")
    with served_view() as address:
        for name, height, state, keys in PARTS:
            page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=1.1)
            page.goto(f"{address}?state={state}&view=/{file.relative_to(ROOT)}&theme={theme}")
            view = page.locator(".ensemble-timeline")
            view.wait_for()
            for row in keys[:1]:
                view.locator("[role=row]", has_text=row).first.click()
            for key in keys[1:]:
                page.keyboard.press(key)
            page.mouse.move(2, 2)
            page.wait_for_timeout(700)
            page.screenshot(path=PICTURES / f"{name}-{theme}.png", full_page=True, clip=_crop(view, height))
            page.close()


def draw_call(browser: Browser, theme: str) -> None:
    """Photograph the form of a call of a reviewed tool, with a number that was refused."""
    (file,) = (ROOT / "ensemble_notebook" / "static" / "labextension" / "static").glob("view-*.js")
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=1.1)
        page.goto(f"{address}?state=call&view=/{file.relative_to(ROOT)}&theme={theme}")
        view = page.locator(".ensemble-timeline")
        view.get_by_role("button", name="Edit…").click()
        view.get_by_role("textbox", name="copies").fill("many")
        view.get_by_role("button", name="Call with these").click()
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"call-{theme}.png", full_page=True, clip=_crop(view, 520))
        page.close()


def draw_grid(browser: Browser, theme: str) -> None:
    """Photograph a made-up map as a table of answers under two variants, one of them selected."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=1.1)
        table = show_table(open_view(page, address, f"variants=300x2x190&theme={theme}", width=WIDTH))
        cell_at(table, 2, 0).locator("q").wait_for()
        page.wait_for_timeout(700)
        view = page.locator(".ensemble-timeline")
        page.screenshot(path=PICTURES / f"grid-{theme}.png", full_page=True, clip=_crop(view, 560))
        page.close()


def draw_scans(browser: Browser, theme: str) -> None:
    """Photograph a map over pictures as a table of answers."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}", width=WIDTH)
        view = show_saved_view(page, save_scans())
        show_table(view).locator("[data-line] img").first.wait_for()
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"scans-{theme}.png", full_page=True, clip=_crop(view, 560))
        page.close()


def draw_graph(browser: Browser, theme: str) -> None:
    """Photograph a run as a graph, one of its nodes selected."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": 1420, "height": 700}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}", width=1420)
        view = show_saved(page, run_report())
        view.get_by_role("radio", name="Graph", exact=True).click()
        view.locator(".et-node", has_text="check").last.click()
        for _ in range(10):  # until all of it is in sight
            view.get_by_role("separator", name="Height of the chart").press("ArrowDown")
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"graph-{theme}.png", full_page=True, clip=_crop(view, 900))
        page.close()


def draw_session(browser: Browser, theme: str) -> None:
    """Photograph a session of a coding agent."""
    with tempfile.TemporaryDirectory() as folder:
        trace = ExecutionTrace.load(write_tide_session(Path(folder)))
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}", width=WIDTH)
        view = show_saved(page, trace)
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"session-{theme}.png", full_page=True, clip=_crop(view, 400))
        page.close()


def draw_frameworks(browser: Browser, theme: str) -> None:
    """Photograph four runs of other frameworks: the bars of each, and the graph of each."""
    told = json.loads((ROOT / "tests" / "fixtures" / "framework_spans.json").read_text())
    shots: dict[str, list[Image.Image]] = {"Bars": [], "Graph": []}
    with served_view() as address:
        for spans in told.values():
            page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=1.1)
            open_view(page, address, f"theme={theme}", width=WIDTH)
            (events,) = import_runs(ForeignSpan(**each) for each in spans)
            view = show_saved(page, ExecutionTrace.from_events(events))
            for name, taken in shots.items():
                view.get_by_role("radio", name=name, exact=True).click()
                if name == "Graph":
                    for _ in range(10):  # until all of it is in sight
                        view.get_by_role("separator", name="Height of the chart").press("ArrowDown")
                page.mouse.move(2, 2)
                page.wait_for_timeout(700)
                taken.append(Image.open(BytesIO(page.screenshot(full_page=True, clip=_crop(view, 900)))))
            page.close()
    _stack(shots["Bars"], 1).save(PICTURES / f"frameworks-{theme}.png", optimize=True)
    _stack(shots["Graph"], 2).save(PICTURES / f"framework-graphs-{theme}.png", optimize=True)


def _stack(shots: list[Image.Image], columns: int) -> Image.Image:
    """Pictures of one width in so many columns, one row under the other."""
    rows = [shots[start : start + columns] for start in range(0, len(shots), columns)]
    heights = [max(each.height for each in row) for row in rows]
    whole = Image.new("RGB", (shots[0].width * columns, sum(heights)))
    for number, row in enumerate(rows):
        for column, each in enumerate(row):
            whole.paste(each, (each.width * column, sum(heights[:number])))
    return whole


def draw_agents(browser: Browser, theme: str) -> None:
    """Photograph a made-up run by agent, with the part of it that the chart shows."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=1.1)
        view = open_view(page, address, f"at=99999&theme={theme}", width=WIDTH)
        view.get_by_role("button", name="View", exact=True).click()
        view.get_by_role("group", name="Rows by").get_by_role("button", name="Agent").click()
        view.get_by_role("button", name="View", exact=True).click()
        view.locator(".et-gutter").press("w")
        view.locator(".et-minimap").wait_for()
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"agents-{theme}.png", full_page=True, clip=_crop(view, 560))
        page.close()


def draw_comparison(browser: Browser, theme: str) -> None:
    """Photograph two made-up runs in one timeline."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}", width=WIDTH)
        view = show_saved_view(page, save_comparison())
        view.locator(".et-delta").first.wait_for()
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"diff-{theme}.png", full_page=True, clip=_crop(view, 560))
        page.close()


def draw_columns(browser: Browser, theme: str) -> None:
    """Photograph a run with columns beside the names, a lane under the axis, and bars in the colours of agents."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": 1240, "height": 700}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}", width=1240)
        view = show_saved(page, run_report())
        view.get_by_role("button", name="View", exact=True).click()
        for group, name in (*(("Columns", each) for each in ("In", "Out", "Cost", "Calls")), *_LANE_AND_COLORS):
            view.get_by_role("group", name=group).get_by_role("button", name=name, exact=True).click()
        view.locator(".et-lane").wait_for()
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"columns-{theme}.png", full_page=True, clip=_crop(view, 660))
        page.close()


def draw_playhead(browser: Browser, theme: str) -> None:
    """Photograph a run that is over as it was in its first third."""
    with served_view() as address:
        page = browser.new_page(viewport={"width": WIDTH, "height": 600}, device_scale_factor=1.1)
        open_view(page, address, f"theme={theme}&lab=1", width=WIDTH + 24)
        view = show_saved(page, run_report())
        view.get_by_role("button", name="Playhead", exact=True).click()
        track = view.locator(".et-playhead-track").bounding_box()
        assert track is not None
        page.mouse.click(track["x"] + 0.31 * track["width"], track["y"] + 10)
        page.mouse.move(2, 2)
        page.wait_for_timeout(700)
        page.screenshot(path=PICTURES / f"playhead-{theme}.png", full_page=True, clip=_crop(view, 560))
        page.close()


def _crop(view: Locator, height: int) -> FloatRect:
    """The box of a view, cut where a picture would get too high."""
    box = view.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": min(box["height"], height)}


def film(lab: Lab, browser: Browser, theme: str) -> None:
    """Play the first demo, and film its view as it goes."""
    lab.wear(theme)
    context = browser.new_context(viewport={"width": 1760, "height": 1100})
    source = ("%load_ext ensemble_notebook", "%ensemble demo report")
    path = write_notebook(lab.work / f"demo-{theme}.ipynb", *source)
    notebook = Notebook(context.new_page(), lab.url(path), path)
    notebook.open()
    notebook.run_to_end(0)
    notebook.run(1)
    view = notebook.timeline(1)
    view.locator(".et-graph").wait_for()
    notebook.page.mouse.move(5, 5)
    frames: list[tuple[float, bytes]] = []
    while not frames or "*" in notebook.prompt(1):
        frames.append((time.monotonic(), notebook.page.screenshot(clip=_crop(view, FILM_HEIGHT))))
        notebook.page.wait_for_timeout(FRAME_MS)
    notebook.page.wait_for_timeout(700)
    frames.append((time.monotonic(), notebook.page.screenshot(clip=_crop(view, FILM_HEIGHT))))
    seen = [Image.open(BytesIO(each)).convert("RGB") for _, each in frames]
    size = tuple(map(max, zip(*(each.size for each in seen), strict=True)))  # a view grows while its run goes on
    first, *others = [ImageOps.pad(each, size, color=each.getpixel((0, 0)), centering=(0, 0)) for each in seen]
    shown_ms = [round(1000 * (after - before) / FILM_SPEED) for (before, _), (after, _) in pairwise(frames)]
    options = {"save_all": True, "append_images": others, "loop": 0, "method": 4, "quality": 60, "allow_mixed": True}
    first.save(PICTURES / f"demo-{theme}.webp", duration=[*shown_ms, LAST_FRAME_MS], **options)
    notebook.shut_down()
    context.close()


def draw(lab: Lab, browser: Browser, theme: str) -> None:
    """Run the cell under one theme, photograph it while it runs and once it is over."""
    lab.wear(theme)
    context = browser.new_context(viewport={"width": 1240, "height": 1100}, device_scale_factor=1.5)
    path = write_notebook(lab.work / f"{theme}.ipynb", "%load_ext ensemble_notebook" + TEAM, REPORT.strip())
    notebook = Notebook(context.new_page(), lab.url(path), path)
    notebook.open()
    notebook.run_to_end(0)
    notebook.run(1)
    wait_for(lambda: "3/5" in notebook.output(1), 30.0, lambda: notebook.output(1))
    notebook.timeline(1).screenshot(path=PICTURES / f"running-{theme}.png")
    notebook.wait_until_done(1)
    notebook.page.mouse.move(5, 5)
    notebook.timeline(1).screenshot(path=PICTURES / f"timeline-{theme}.png")
    notebook.shut_down()
    context.close()


def draw_search(lab: Lab, browser: Browser, theme: str) -> None:
    """Photograph a search for better texts: what its candidates come to while it goes on, and its verdict."""
    lab.wear(theme)
    context = browser.new_context(viewport={"width": 1240, "height": 1400}, device_scale_factor=1.1)
    path = write_notebook(
        lab.work / f"search-{theme}.ipynb", TICKETS.strip().replace("{theme}", theme), LABELS.strip(), SEARCH
    )
    notebook = Notebook(context.new_page(), lab.url(path), path)
    notebook.open()
    notebook.run_to_end(0)
    notebook.run_to_end(1)
    notebook.run(2)
    wait_for(lambda: "candidate 3 " in notebook.output(2), 60.0, lambda: notebook.output(2))
    notebook.outputs(2).screenshot(path=PICTURES / f"search-{theme}.png")
    notebook.wait_until_done(2)
    notebook.page.mouse.move(5, 5)
    verdict = notebook.cell(2).locator(".jp-OutputArea-child").last
    verdict.screenshot(path=PICTURES / f"verdict-{theme}.png")
    notebook.shut_down()
    context.close()


if __name__ == "__main__":
    main()
