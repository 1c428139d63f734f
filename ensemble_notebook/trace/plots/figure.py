"""A chart that shows itself without a network, and in the theme of the page (T26)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import altair as alt

if TYPE_CHECKING:
    import pandas as pd

WIDTH: Final = 640
_LABELS: Final = 60
"""Pixels that the axis takes beside that on a page, which is told the width of the whole."""
_NARROWEST: Final = 280
_BESIDE: Final = 160
"""Pixels of a window that JupyterLab takes beside an output, and the menu of a chart."""
NUMBER: Final = ",.3~f"
"""How axes and tooltips write a number, in words of d3: 1,400, 0.25."""

# JupyterLab and Notebook 7 draw this type themselves. Altair's own default is a page of HTML that fetches its scripts
# from a server of others, and newer types are unknown to them.
_MIME: Final = "application/vnd.vegalite.v5+json"
# Our extension of JupyterLab draws the same, as wide as its place is, and becomes.
_FIGURE: Final = "application/vnd.ensemble.figure+json"
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
_ON_THE_PAGE: Final = {"embed_options": {"config": {"background": "transparent"}, "actions": {"editor": False}}}

_UNITS: Final = ((3_000.0, "ms", 1.0), (180_000.0, "seconds", 1_000.0), (10_800_000.0, "minutes", 60_000.0))
_LONGEST_UNIT: Final = ("hours", 3_600_000.0)


class _Offline:
    """How a chart of ours shows itself: drawn by the page, without a script from anywhere."""

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        """The chart for pages that draw, a picture for those that don't; what the user chose, where that was done."""
        chart: Any = super()
        if alt.renderers.active != "default":
            return chart._repr_mimebundle_(*args, **options)
        spec = {**chart.to_dict(), "$schema": _SCHEMA}
        bundle: dict[str, Any] = {_MIME: spec, "text/plain": "<an Altair chart; .save(FILE) writes it>"}
        if spec.get("width") == WIDTH:  # neither joined, nor of a width that somebody chose
            bundle |= {_MIME: _fit(spec), _FIGURE: {"narrowest": _NARROWEST, "widest": WIDTH + _LABELS}}
        if find_spec("vl_convert") is not None:
            import vl_convert

            bundle["image/svg+xml"] = vl_convert.vegalite_to_svg(spec, vl_version="v5.20")
        return bundle, {_MIME: _ON_THE_PAGE}

    def __or__(self: Any, other: Any) -> Any:
        """This chart, and the other to the right of it."""
        return Row(hconcat=[self, other])

    def __and__(self: Any, other: Any) -> Any:
        """This chart, and the other below it."""
        return Column(vconcat=[self, other])


class Figure(_Offline, alt.LayerChart):
    """An Altair chart. No colour of text or background is set, so that pages use those of their theme."""


class Row(_Offline, alt.HConcatChart):
    """Figures side by side."""


class Column(_Offline, alt.VConcatChart):
    """Figures one above the other."""


def _fit(spec: dict[str, Any]) -> dict[str, Any]:
    """The same for a page without our extension: in a narrow window, it is drawn as narrow as that.

    Not by ``"width": "container"``: JupyterLab's container is as wide as what is in it, which has no end.
    """
    width = {"name": "width", "expr": f"clamp(windowSize()[0] - {_BESIDE}, {_NARROWEST}, {WIDTH + _LABELS})"}
    return {**spec, "params": [*spec.get("params", ()), width], "autosize": {"type": "fit-x", "contains": "padding"}}


def make_figure(layers: Sequence[alt.Chart], title: str, subtitle: str, *, height: int | alt.Step) -> Figure:
    """Layers in one frame, under a title that says what is seen and a line that says how much."""
    heading = alt.TitleParams(title, subtitle=[subtitle], anchor="start", frame="group", fontSize=15, offset=12)
    return Figure(
        layer=list(layers),
        title=heading,
        description=f"{title}: {subtitle}",  # for the whole: to tell each bar would make a picture three times as large
        width=WIDTH,
        height=height,
        view=alt.ViewBackground(strokeWidth=0),
    )


def make_axis(**options: Any) -> alt.Axis:
    """An axis without lines that say nothing. Not by a config, with which a chart can't be joined with others."""
    return alt.Axis(
        domain=False,
        ticks=False,
        labelPadding=6,
        titlePadding=10,
        gridOpacity=0.35,
        labelLimit=220,
        titleFontWeight="normal",
        **options,
    )


def make_data(records: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Records as a chart takes them: no frame, whose dtypes Altair would have to guess."""
    return alt.InlineData(values=[dict(each) for each in records])


def choose_unit(milliseconds: float) -> tuple[str, float]:
    """A unit in which this length reads well, and how many milliseconds it has."""
    for most, name, size in _UNITS:
        if milliseconds < most:
            return name, size
    return _LONGEST_UNIT


def list_records(frame: pd.DataFrame, *columns: str) -> list[dict[str, Any]]:
    """The rows of a frame, with these columns, as plain values; what is unknown is None."""
    chosen = frame[list(columns)].astype(object)
    return [dict(zip(columns, row, strict=True)) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]
