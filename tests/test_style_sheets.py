"""The style sheets of the view and of what is loaded late meet on one page, where a class is one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

SHEETS = Path(__file__).parents[1] / "js" / "src" / "theme"
MOVED = {"et-chart"}
"""What columns and lane move aside once they are loaded."""
LATE = ("explore-late.css", "late.css", "views-late.css")


def test_a_class_looks_as_one_style_sheet_alone_says():
    places = defaultdict(set)
    for sheet in SHEETS.glob("*.css"):
        for name in re.findall(r"^\.(et-[a-z0-9-]+) \{", sheet.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].add(sheet.name)
    assert len(places) > 100
    assert {name for name, sheets in places.items() if len(sheets) > 1} == MOVED


def test_what_is_loaded_late_holds_also_where_a_second_view_brings_the_first_sheet_again():
    """Of two rules for the same selector the one that came last would win, and which that is nobody knows."""
    first = read_rules("timeline.css")
    assert len(first) > 100
    for sheet in LATE:
        late = read_rules(sheet)
        assert len(late) > 30
        assert {name: names & first[name] for name, names in late.items() if names & first.get(name, set())} == {}


@pytest.mark.parametrize(
    "scheme, surfaces", [("light", ("#ffffff", "#f8f8f8")), ("dark", ("#111111", "#16181d", "#1f1f1f"))]
)
def test_w2_words_on_a_canvas_stand_out_from_what_is_behind_them(scheme, surfaces):
    """By the tokens of the theme, for no tool looks into a canvas; `painter.test.ts` has words use no others."""
    place = ("light", "dark").index(scheme)
    sheet, palette = (SHEETS / name for name in ("base.css", "palette.ts"))
    background, text, muted = (
        re.findall(rf"--plain-{name}: (#\w{{6}});", sheet.read_text(encoding="utf-8"))[place]
        for name in ("background", "text", "muted")
    )
    accent = re.findall(r'llm: "(#\w{6})"', palette.read_text(encoding="utf-8"))[place]
    pairs = [(word, behind) for word in (text, muted) for behind in (background, *surfaces)]
    pairs += [(background, accent), (background, muted)]  # the clock on its line
    assert {pair: contrast for pair in pairs if (contrast := measure_contrast(*pair)) < 4.5} == {}


def test_each_property_that_a_style_takes_is_set_somewhere():
    sources = [each for each in SHEETS.parent.rglob("*") if each.suffix in {".css", ".ts", ".tsx"}]
    text = "\n".join(each.read_text(encoding="utf-8") for each in sources if ".test." not in each.name)
    hues = re.findall(r'(\w+): "#\w{6}"', (SHEETS / "palette.ts").read_text(encoding="utf-8"))
    known = set(re.findall(r"(?<!var\()(--et-[a-z-]+)", text)) | {f"--et-{hue}" for hue in hues}
    taken = set(re.findall(r"var\((--et-[a-z-]+)", text))
    assert len(taken) > 20
    assert taken - known == set()


def measure_contrast(one: str, other: str) -> float:
    """Of two colours, from 1 to 21, as WCAG 2.2 defines it."""
    low, high = sorted(map(measure_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def measure_luminance(color: str) -> float:
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def read_rules(sheet: str) -> dict[str, set[str]]:
    """By selector the properties that a sheet and what it imports set, short for what they begin with."""
    names = re.findall(r'@import "\./([\w-]+\.css)"', (SHEETS / sheet).read_text(encoding="utf-8"))
    text = "".join((SHEETS / name).read_text(encoding="utf-8") for name in names)
    rules = defaultdict(set)
    for selectors, body in re.findall(r"([^{}@;]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        properties = {each.partition(":")[0].strip().partition("-")[0] for each in body.split(";")} - {""}
        for selector in re.split(r",(?![^(]*\))", selectors):
            rules[selector.strip()] |= properties
    return dict(rules)
