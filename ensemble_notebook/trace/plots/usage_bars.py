"""Tokens and cost as bars, one for each agent, task, phase or model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import altair as alt

from ensemble_notebook.domain.wording import format_count, format_money, pluralize
from ensemble_notebook.trace.frames import Frames
from ensemble_notebook.trace.plots.figure import Figure, list_records, make_axis, make_data, make_figure
from ensemble_notebook.trace.spans.tones import FAINT_COLORS, IDLE_COLOR, TONE_COLORS

MOST_BARS: Final = 30
STEP: Final = 26

_NO_NAME: Final = "(none)"
# Each by itself, as it stands beside the bars: d3 would have all ticks in thousands where the last one is, also "0k".
_COUNTS: Final = {"labelExpr": "format(datum.value, '~s')"}
_MONEY: Final = {"format": ",.6~f"}
_PARTS: Final = ("input", "input, from cache", "output", "output, reasoning")
_PART_COLORS: Final = (TONE_COLORS["model"], FAINT_COLORS["model"], TONE_COLORS["tool"], FAINT_COLORS["tool"])

Parts = Mapping[str, float]


def draw_tokens(frames: Frames, by: str) -> Figure:
    """Bars of tokens: input and output, each with the part that was cached or spent on reasoning."""
    names = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
    records = list_records(frames.attempts, by, *names)
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
    records = list_records(frames.attempts, by, "cost_input", "cost_output", "cost")
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


def _split_tokens(
    input_tokens: int | None, cached: int | None, output_tokens: int | None, reasoning: int | None
) -> dict[str, float]:
    """Parts that add up to the tokens of a request; what is unknown adds nothing."""
    cached, reasoning = cached or 0, reasoning or 0
    inside = (max(0, (input_tokens or 0) - cached), cached, max(0, (output_tokens or 0) - reasoning), reasoning)
    return dict(zip(_PARTS, inside, strict=True))


def _sum_parts(requests: Iterable[tuple[str | None, Parts]]) -> list[tuple[str, Parts]]:
    """The parts of each group, the largest group first; those beyond `MOST_BARS` as one."""
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, parts in requests:
        for part, amount in parts.items():
            sums[name or _NO_NAME][part] += amount
    ranked = sorted(sums.items(), key=lambda item: -sum(item[1].values()))
    if len(ranked) <= MOST_BARS:
        return [*ranked]
    rest: defaultdict[str, float] = defaultdict(float)
    for _, parts in ranked[MOST_BARS - 1 :]:
        for part, amount in parts.items():
            rest[part] += amount
    return [*ranked[: MOST_BARS - 1], (f"{len(ranked) - MOST_BARS + 1} others", rest)]


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
    colors = alt.Scale(domain=shown, range=[_PART_COLORS[_PARTS.index(part)] for part in shown])
    amount = alt.Tooltip("amount:Q", title=unit, format=",.6~f" if is_money else ",")
    drawn = (
        alt.Chart(make_data(records))
        .mark_bar(aria=False, cornerRadius=2)
        .encode(
            x=alt.X("amount:Q", title=unit, axis=make_axis(**(_MONEY if is_money else _COUNTS), tickCount=6)),
            y=y,
            color=alt.Color(
                "part:N", scale=colors, title=None, legend=alt.Legend(orient="bottom", symbolType="square")
            ),
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
    return make_figure([drawn, labels], title, subtitle, height=alt.Step(STEP))


def _describe_sum(value: Any) -> str:
    import pandas as pd

    return "an unknown number" if value is pd.NA else format_count(int(value))
