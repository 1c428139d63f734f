"""The result of `load_traces` as a notebook shows it (T24): the number of runs, their times, and the frames."""

from __future__ import annotations

from typing import Final

from ensemble_notebook.notebook.picture.diff_picture import wrap_html
from ensemble_notebook.notebook.picture.static_picture import Bundle, escape_text
from ensemble_notebook.trace.analysis.timeseries import TIMESERIES
from ensemble_notebook.trace.joined_frames import TABLES, JoinedFrames

_CELL: Final = "text-align:left;padding:1px 14px 1px 0;border:0"
_NUMBER: Final = _CELL.replace("left", "right", 1)
_FAINT: Final = "opacity:0.7"
_ROW: Final = "border:0;background:none"


def make_frames_bundle(frames: JoinedFrames) -> Bundle:
    """The frames of many runs as plain text and as HTML."""
    return {"text/plain": repr(frames), "text/html": render_frames_html(frames)}


def render_frames_html(frames: JoinedFrames) -> str:
    """One row for each frame: its name, how many rows it has, and what a row is."""
    rows = [(name, TABLES[name].short_grain, count) for name, count in frames.count_rows().items()]
    rows.append(("timeseries(dt)", TIMESERIES.short_grain, None))
    heads = "".join(
        f'<th style="{style};font-weight:normal;{_FAINT}">{head}</th>'
        for head, style in (("frame", _CELL), ("rows", _NUMBER), ("one row per", _CELL))
    )
    body = "".join(_render_row(*row) for row in rows)
    table = (
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit">'
        f'<thead style="border:0"><tr style="{_ROW}">{heads}</tr></thead><tbody>{body}</tbody></table>'
    )
    return wrap_html(f"<div><strong>{escape_text(frames.describe())}</strong></div>{table}")


def _render_row(name: str, grain: str, count: int | None) -> str:
    cells = ((f"<code>{escape_text(name)}</code>", _CELL), ("" if count is None else f"{count:,}", _NUMBER))
    known = "".join(f'<td style="{style}">{html}</td>' for html, style in cells)
    return f'<tr style="{_ROW}">{known}<td style="{_CELL};{_FAINT}">{escape_text(grain)}</td></tr>'
