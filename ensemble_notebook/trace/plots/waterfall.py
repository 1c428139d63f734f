"""When each task ran, and what it did meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import altair as alt

from ensemble_notebook.domain.planning.agent_derivation import HANDLER_ROLE
from ensemble_notebook.domain.wording import format_count, format_duration, pluralize
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
from ensemble_notebook.trace.spans.tones import DONE_COLOR, ERROR_COLOR, FAINT_COLORS, IDLE_COLOR, TONE_COLORS

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
    *(
        "span_id",
        "kind",
        "name",
        "phase",
        "task_id",
        "task",
        "agent",
        "start_ms",
        "duration_ms",
        "status",
        "model",
        "tool",
    ),
    *("input_tokens", "output_tokens", "reused"),
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
    colors = alt.Scale(domain=[*legend], range=[*legend.values()])
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
            color=alt.Color(
                "what:N", scale=colors, title=None, legend=alt.Legend(orient="bottom", symbolType="square")
            ),
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
    names = {task_id: labels[task_id] for task_id in labels}
    where = frames.spans.task_id.to_dict()
    records = [
        {
            "task": names[where[each["span_id"]]],
            "from": round(each["start_ms"] / size, 4),
            "to": round((each["start_ms"] + each["duration_ms"]) / size, 4),
            "what": _CRITICAL,
        }
        for each in list_records(frames.critical_path, "span_id", "start_ms", "duration_ms")
        if where.get(each["span_id"]) in names
    ]
    drawn: alt.Chart = (
        alt.Chart(make_data(records))
        .mark_bar(aria=False, height=2, yOffset=STEP * 0.42)
        .encode(x="from:Q", x2="to:Q", y=alt.Y("task:N"), color="what:N")
    )
    return drawn
