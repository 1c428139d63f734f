"""What was in flight over time."""

from __future__ import annotations

import math
from typing import Final

import altair as alt

from ensemble_notebook.domain.wording import format_duration
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.plots.figure import (
    NUMBER,
    Figure,
    choose_unit,
    list_records,
    make_axis,
    make_data,
    make_figure,
)
from ensemble_notebook.trace.spans.tones import IDLE_COLOR, TONE_COLORS

HEIGHT: Final = 200
_MOST_TICKS: Final = 10

_AREAS: Final = {
    "llm_requests": ("model requests", TONE_COLORS["model"]),
    "tools": ("tools", TONE_COLORS["tool"]),
    "reviews": ("reviews", TONE_COLORS["person"]),
}
_TASKS: Final = "tasks"


def draw_concurrency(frames: Frames) -> Figure:
    """Requests, tools and reviews as areas, one on the other; tasks as a line; their limit, where there is one."""
    bins = list_records(frames.timeseries().reset_index(), "start_ms", _TASKS, *_AREAS)
    runs = frames.runs
    wall_ms = 0.0 if runs.empty else float(runs.wall_ms.iloc[0])
    unit, size = choose_unit(wall_ms)
    if bins:
        bins.append({**bins[-1], "start_ms": wall_ms})  # a step goes on to the next one
    shown = {name: facts for name, facts in _AREAS.items() if any(each[name] for each in bins)}
    areas, line = (
        [
            {"at": round(each["start_ms"] / size, 4), "number": round(each[name], 3), "what": word, "place": place}
            for place, (name, word) in enumerate(words.items())
            for each in bins
        ]
        for words in ({name: word for name, (word, _) in shown.items()}, {_TASKS: _TASKS})
    )
    words = [*(word for word, _ in shown.values()), _TASKS]
    colors = alt.Scale(domain=words, range=[*(color for _, color in shown.values()), IDLE_COLOR])
    color = alt.Color("what:N", scale=colors, title=None, legend=alt.Legend(orient="bottom", symbolType="square"))
    x = alt.X(
        "at:Q",
        title=f"{unit} since the start",
        scale=alt.Scale(domain=[0, (wall_ms / size) or 1], nice=False),
        axis=make_axis(format=NUMBER, tickCount=8, grid=False),
    )
    most = max((max(each[_TASKS], sum(each[name] for name in shown)) for each in bins), default=0.0)
    ticks = (
        make_axis(values=[*range(math.ceil(most) + 1)], format="d") if most <= _MOST_TICKS else make_axis(format=NUMBER)
    )
    y = alt.Y("number:Q", title="in flight", stack="zero", axis=ticks)
    tooltip = ["what:N", alt.Tooltip("number:Q", title="on average"), alt.Tooltip("at:Q", title=unit, format=NUMBER)]
    filled = (
        alt.Chart(make_data(areas))
        .mark_area(aria=False, interpolate="step-after", opacity=0.85)
        .encode(x=x, y=y, color=color, order=alt.Order("place:Q"), tooltip=tooltip)
    )
    tasks = (
        alt.Chart(make_data(line))
        .mark_line(aria=False, interpolate="step-after", strokeWidth=2)
        .encode(x=x, y=alt.Y("number:Q"), color=color, tooltip=tooltip)
    )
    layers = [filled, tasks]
    limit = None if runs.empty else next(iter(runs.max_concurrency.dropna()), None)
    if limit is not None and any(each[_TASKS] > limit / 2 for each in bins):
        layers += _draw_limit(int(limit))
    return make_figure(layers, "What ran side by side", _describe(frames), height=HEIGHT)


def _draw_limit(limit: int) -> list[alt.Chart]:
    data = make_data([{"number": limit, "label": f"max_concurrency {limit}"}])
    y = alt.Y("number:Q")
    line = alt.Chart(data).mark_rule(aria=False, strokeDash=[4, 4], color=TONE_COLORS["pause"]).encode(y=y)
    word = alt.Chart(data).mark_text(aria=False, align="right", dy=-7, color=TONE_COLORS["pause"], x="width")
    return [line, word.encode(y=y, text="label:N")]


def _describe(frames: Frames) -> str:
    if frames.runs.empty:
        return "nothing has run"
    run = frames.runs.iloc[0]
    said = f"{format_duration(float(run.work_ms))} of work in {format_duration(float(run.wall_ms))}"
    if run.active_ms:
        said += f"; {float(run.parallelism):.1f} at once while something was at work"
    return said
