"""What was in flight over time."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import altair as alt

from ensemble_notebook.domain.planning.graph import HANDLER_ROLE
from ensemble_notebook.domain.wording import format_count, format_duration, format_money, pluralize
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR, FAINT_COLORS, IDLE_COLOR, TONE_COLORS

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


def make_color(field: str, colors: Mapping[str, str]) -> alt.Color:
    """A colour for each word of a field, with a legend below."""
    scale = alt.Scale(domain=[*colors], range=[*colors.values()])
    return alt.Color(field, scale=scale, title=None, legend=alt.Legend(orient="bottom", symbolType="square"))


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


# --- What was in flight over time -------------------------------------------------------------------------------------


HEIGHT: Final = 200
_MOST_TICKS: Final = 10

_AREAS: Final = {
    "llm_requests": ("model requests", TONE_COLORS["model"]),
    "tools": ("tools", TONE_COLORS["tool"]),
    "reviews": ("reviews", TONE_COLORS["person"]),
}
_TASKS: Final = "tasks"


def draw_concurrency(frames: Frames) -> Figure:
    """Requests, tools and reviews as areas, one on the other; tasks as a line; their limit, where there is one.

    Nothing counts beside what it waits for: a tool that hands on work, or a task that runs for items.
    """
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
    color = make_color("what:N", {**dict(shown.values()), _TASKS: IDLE_COLOR})
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


# --- Tokens and cost as bars, one for each agent, task, phase or model ------------------------------------------------


MOST_GROUPS: Final = 30
GROUP_STEP: Final = 26

_NO_NAME: Final = "(none)"
# Each by itself, as it stands beside the bars: d3 would have all ticks in thousands where the last one is, also "0k".
_COUNTS: Final = {"labelExpr": "format(datum.value, '~s')"}
_MONEY: Final = {"format": ",.6~f"}
_PARTS: Final = ("input", "input, from cache", "output", "output, reasoning")
_PART_COLORS: Final = dict(
    zip(_PARTS, [tones[kind] for kind in ("model", "tool") for tones in (TONE_COLORS, FAINT_COLORS)], strict=True)
)

Parts = Mapping[str, float]


def draw_tokens(frames: Frames, by: str) -> Figure:
    """Bars of tokens: input and output, each with the part that was cached or spent on reasoning."""
    names = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
    records = _list_requests(frames, by, *names)
    bars = _sum_parts((each[by], _split_tokens(*(each[name] for name in names))) for each in records)
    run = frames.runs
    if not records:
        return _draw_bars(bars, f"Tokens by {by}", "no model was asked", by, "tokens")
    input_tokens, output_tokens = (
        _describe_sum(run[name].sum(min_count=1)) for name in ("input_tokens", "output_tokens")
    )
    said = f"{input_tokens} in, {output_tokens} out, in {pluralize(len(records), 'request')}"
    missing = sum(each["input_tokens"] is None or each["output_tokens"] is None for each in records)
    if missing:
        said += f"; the tokens of {pluralize(missing, 'request')} are unknown"
    return _draw_bars(bars, f"Tokens by {by}", said, by, "tokens")


def draw_cost(frames: Frames, by: str) -> Figure:
    """Bars of money: for input, and for output."""
    records = _list_requests(frames, by, "cost_input", "cost_output", "cost")
    bars = _sum_parts(
        (each[by], {"input": each["cost_input"] or 0.0, "output": each["cost_output"] or 0.0}) for each in records
    )
    currency = next(iter(frames.runs.currency), "")
    unpriced = sum(each["cost"] is None for each in records)
    total = sum(each["cost"] or 0.0 for each in records)
    said = f"{format_money(total, currency)} for {pluralize(len(records) - unpriced, 'request')}"
    if unpriced:
        said += f"; the price of {pluralize(unpriced, 'request')} is unknown"
    return _draw_bars(bars, f"Cost by {by}", said if records else "no model was asked", by, f"cost ({currency})")


def _list_requests(frames: Frames, by: str, *names: str) -> list[dict[str, Any]]:
    """All requests; those for the items of a task are of that task: three hundred slivers would hide the others."""
    records = list_records(frames.attempts, by, "task_id", *names)
    if by == "task":
        spans = list_records(frames.spans.reset_index(), "span_id", "parent_id", "kind", "name")
        tasks = {each["span_id"]: each for each in spans if each["kind"] == "task"}
        for each in records:
            task = tasks.get(each["task_id"])
            whole = None if task is None else tasks.get(task["parent_id"])
            each["task"] = each["task"] if whole is None else whole["name"]
    return records


def _split_tokens(
    input_tokens: int | None, cached: int | None, output_tokens: int | None, reasoning: int | None
) -> dict[str, float]:
    """Parts that add up to the tokens of a request; what is unknown adds nothing."""
    cached, reasoning = cached or 0, reasoning or 0
    inside = (max(0, (input_tokens or 0) - cached), cached, max(0, (output_tokens or 0) - reasoning), reasoning)
    return dict(zip(_PARTS, inside, strict=True))


def _sum_parts(requests: Iterable[tuple[str | None, Parts]]) -> list[tuple[str, Parts]]:
    """The parts of each group, the largest group first; those beyond `MOST_GROUPS` as one."""
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, parts in requests:
        for part, amount in parts.items():
            sums[name or _NO_NAME][part] += amount
    ranked = sorted(sums.items(), key=lambda item: -sum(item[1].values()))
    if len(ranked) <= MOST_GROUPS:
        return [*ranked]
    rest: defaultdict[str, float] = defaultdict(float)
    for _, parts in ranked[MOST_GROUPS - 1 :]:
        for part, amount in parts.items():
            rest[part] += amount
    return [*ranked[: MOST_GROUPS - 1], (f"{len(ranked) - MOST_GROUPS + 1} others", rest)]


def _draw_bars(bars: list[tuple[str, Parts]], title: str, subtitle: str, by: str, unit: str) -> Figure:
    is_money = not unit.startswith("tokens")
    shown = [part for part in _PARTS if any(parts.get(part) for _, parts in bars)] or list(_PARTS[::2])
    records = [
        {by: name, "part": part, "place": place, "amount": parts.get(part, 0.0)}
        for name, parts in bars
        for place, part in enumerate(_PARTS)
        if parts.get(part)
    ]
    names = [name for name, _ in bars]
    y = alt.Y(f"{by}:N", sort=names, title=None, axis=make_axis(), scale=alt.Scale(paddingInner=0.35))
    color = make_color("part:N", {part: _PART_COLORS[part] for part in shown})
    amount = alt.Tooltip("amount:Q", title=unit, format=",.6~f" if is_money else ",")
    drawn = (
        alt.Chart(make_data(records))
        .mark_bar(aria=False, cornerRadius=2)
        .encode(
            x=alt.X("amount:Q", title=unit, axis=make_axis(**(_MONEY if is_money else _COUNTS), tickCount=6)),
            y=y,
            color=color,
            order=alt.Order("place:Q"),
            tooltip=[f"{by}:N", "part:N", amount],
        )
    )
    currency = unit.removeprefix("cost (").removesuffix(")")
    totals = []
    for name, parts in bars:
        total = sum(parts.values())
        label = format_money(total, currency) if is_money else format_count(total)
        totals.append({by: name, "total": total, "label": label})
    labels = (
        alt.Chart(make_data(totals))
        .mark_text(aria=False, align="left", dx=5, color=IDLE_COLOR)
        .encode(x="total:Q", y=y, text="label:N")
    )
    return make_figure([drawn, labels], title, subtitle, height=alt.Step(GROUP_STEP))


def _describe_sum(value: Any) -> str:
    import pandas as pd

    return "an unknown number" if value is pd.NA else format_count(int(value))


# --- When each task ran, and what it did meanwhile --------------------------------------------------------------------


MOST_ROWS: Final = 60
MOST_BARS: Final = 1_500
MOST_NAMES: Final = 6
STEP: Final = 24

# What is drawn: word of the legend, colour, height as a part of the row. Lower ones are drawn over those before.
_LOOKS: Final = {
    "task": ("between calls", FAINT_COLORS["idle"], 0.3),
    "reused": ("reused", DONE_COLOR, 0.4),
    "handler": ("handler", TONE_COLORS["tool"], 0.66),
    "attempt": ("model", TONE_COLORS["model"], 0.66),
    "tool": ("tool", TONE_COLORS["tool"], 0.4),
    "wait": ("held back", FAINT_COLORS["pause"], 0.4),
    "review": ("review", TONE_COLORS["person"], 0.66),
    "failed": ("failed", ERROR_COLOR, 0.66),
}
_CRITICAL: Final = "longest chain"
_COLUMNS: Final = (
    *("span_id", "kind", "name", "phase", "task_id", "task", "agent", "start_ms", "duration_ms", "status", "model"),
    *("tool", "input_tokens", "output_tokens", "reused"),
)


def draw_waterfall(frames: Frames) -> Figure:
    """Tasks as rows in order of their start, delegated ones included; the longest of what they did, as bars."""
    now_ms = 0.0 if frames.runs.empty else float(frames.runs.wall_ms.iloc[0])
    spans = [each for each in list_records(frames.spans.reset_index(), *_COLUMNS) if each["start_ms"] is not None]
    tasks = [each for each in spans if each["kind"] == "task"]
    labels = _make_labels(tasks[:MOST_ROWS])
    bars = [each for each in spans if each["task_id"] in labels and _find_look(each)]
    bars.sort(key=lambda each: (each["kind"] != "task", -(each["duration_ms"] or now_ms)))
    unit, size = choose_unit(now_ms)
    records = [_make_record(each, labels, now_ms, size) for each in bars[:MOST_BARS]]
    left_out = [(len(tasks) - len(labels), "task"), (len(bars) - len(records), "shorter bar")]
    said = [format_duration(now_ms) if spans else "nothing has run", *_describe_chain(frames)]
    said += [f"{pluralize(number, noun)} left out" for number, noun in left_out if number > 0]
    layers = _draw_layers(records, [*labels.values()], unit, now_ms / size)
    layers.append(_draw_chain(frames, labels, size))
    return make_figure(layers, "When each task ran", "; ".join(said), height=alt.Step(STEP))


def _find_look(span: dict[str, Any]) -> str | None:
    kind = span["kind"]
    if kind == "task" and span["reused"]:
        kind = "reused"
    elif kind == "task" and span["agent"] == HANDLER_ROLE:
        kind = "handler"
    if span["status"] == "error" and kind in ("attempt", "handler", "tool"):
        return "failed"
    return kind if kind in _LOOKS else None


def _make_labels(tasks: list[dict[str, Any]]) -> dict[str, str]:
    """What to call each task, by its id: its name, with its phase where another one has the name, too."""
    names = Counter(each["name"] for each in tasks)
    labels: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for each in tasks:
        label = f"{each['phase']} / {each['name']}" if names[each["name"]] > 1 and each["phase"] else each["name"]
        taken[label] += 1
        labels[each["span_id"]] = label if taken[label] == 1 else f"{label} ({taken[label]})"
    return labels


def _make_record(span: dict[str, Any], labels: dict[str, str], now_ms: float, size: float) -> dict[str, Any]:
    duration_ms = now_ms - span["start_ms"] if span["duration_ms"] is None else span["duration_ms"]
    look = _find_look(span) or "task"
    tokens = "" if span["input_tokens"] is None else f"{format_count(span['input_tokens'])} in"
    if span["output_tokens"] is not None:
        tokens += f"{', ' if tokens else ''}{format_count(span['output_tokens'])} out"
    return {
        "task": labels[span["task_id"]],
        "from": round(span["start_ms"] / size, 4),
        "to": round((span["start_ms"] + duration_ms) / size, 4),
        "look": look,
        "what": _LOOKS[look][0],
        "name": span["tool"] or span["model"] or span["name"],
        "agent": span["agent"],
        "took": format_duration(duration_ms),
        "status": span["status"],
        "tokens": tokens or None,
    }


def _draw_layers(records: list[dict[str, Any]], rows: list[str], unit: str, end: float) -> list[alt.Chart]:
    """One layer for each look that occurs, so that short bars are over long ones, and each has its own height."""
    looks = [look for look in _LOOKS if any(each["look"] == look for each in records)]
    legend = {_LOOKS[look][0]: _LOOKS[look][1] for look in looks} | {_CRITICAL: IDLE_COLOR}
    color = make_color("what:N", legend)
    x = alt.X(
        "from:Q",
        title=f"{unit} since the start",
        scale=alt.Scale(domain=[0, end or 1], nice=False),
        axis=make_axis(format=NUMBER, tickCount=8),
    )
    return [
        alt.Chart(
            make_data([{key: each[key] for key in each if key != "look"} for each in records if each["look"] == look])
        )
        .mark_bar(aria=False, height={"band": _LOOKS[look][2]}, cornerRadius=2, minBandSize=1)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("task:N", sort=rows, title=None, axis=make_axis(), scale=alt.Scale(domain=rows)),
            color=color,
            tooltip=["task:N", "agent:N", "what:N", "name:N", "took:N", "status:N", "tokens:N"],
        )
        for look in looks
    ]


def _describe_chain(frames: Frames) -> list[str]:
    """The tasks that made the run as long as it was, in order; the first and last ones where there are many."""
    names = list(dict.fromkeys(each["task"] for each in list_records(frames.critical_path, "task") if each["task"]))
    if len(names) > MOST_NAMES:
        names = [*names[: MOST_NAMES // 2], "…", *names[-MOST_NAMES // 2 :]]
    return [f"longest chain: {' → '.join(names)}"] if len(names) > 1 else []


def _draw_chain(frames: Frames, labels: dict[str, str], size: float) -> alt.Chart:
    """A thin line beneath the parts of tasks that made the run as long as it was."""
    where = frames.spans.task_id.to_dict()
    records = [
        {
            "task": labels[where[each["span_id"]]],
            "from": round(each["start_ms"] / size, 4),
            "to": round((each["start_ms"] + each["duration_ms"]) / size, 4),
            "what": _CRITICAL,
        }
        for each in list_records(frames.critical_path, "span_id", "start_ms", "duration_ms")
        if where.get(each["span_id"]) in labels
    ]
    drawn: alt.Chart = (
        alt.Chart(make_data(records))
        .mark_bar(aria=False, height=2, yOffset=STEP * 0.42)
        .encode(x="from:Q", x2="to:Q", y=alt.Y("task:N"), color="what:N")
    )
    return drawn
