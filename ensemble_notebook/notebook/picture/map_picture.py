"""The result of a map as a notebook shows it: a sentence, and the first rows of its table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.secrets import mask, mask_start
from ensemble_notebook.domain.wording import format_duration, format_money, pluralize
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.output_variable import find_variable
from ensemble_notebook.notebook.picture.static_picture import escape_text

if TYPE_CHECKING:
    import pandas as pd

    from ensemble_notebook.ensemble.many_runs.map_result import MapResult

FIRST: Final = 12
_LONGEST: Final = 80
_LONGEST_ERROR: Final = 300
_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,_e+-]*")
_NUMBERS: Final = frozenset({"input_tokens", "output_tokens", "cost", "duration", "score"})
_LEFT_OUT: Final = ("run_id",)


def make_map_bundle(result: MapResult, expression: str | None = None) -> dict[str, Any]:
    """A result, complete or partial, as plain text and HTML.

    Args:
        result: of a map.
        expression: what gives it in the notebook; None: the variable that has it.
    """
    expression = expression or find_variable(result) or "result"
    frame, rest = _make_table(result), len(result) - FIRST
    said = result.describe()
    notes = [f"! {each}" for each in result.warnings]
    more = f"{pluralize(rest, 'more row')}; all of them: {expression}.frame" if rest > 0 else f"{expression}.frame"
    if frame is None:
        return {"text/plain": "\n".join([said, *notes])}
    plain = "\n".join([said, *notes, _align_texts(frame).to_string(), more])
    html = "".join(
        [
            f"<div><strong>{escape_text(said)}</strong></div>",
            *(f"<div>{escape_text(each)}</div>" for each in notes),
            f'<div style="overflow-x:auto">{_write_html(frame)}</div>',
            f'<div style="opacity:0.7">{escape_text(more)}</div>',
        ]
    )
    return {"text/plain": mask(remove_control_characters(plain)), "text/html": mask(html)}


def _list_texts(frame: pd.DataFrame) -> list[str]:
    """The columns that are read from the left: all but numbers."""
    return [
        name
        for name in frame.columns
        if name not in _NUMBERS and not all(_NUMBER.fullmatch(each) for each in frame[name] if each)
    ]


def _align_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with texts from the left, under their names: pandas sets all from the right."""
    widths = {name: max([len(str(name)), *map(len, frame[name])]) for name in _list_texts(frame)}
    filled = {name: frame[name].str.ljust(width) for name, width in widths.items()}
    return frame.assign(**filled).rename(columns={name: str(name).ljust(width) for name, width in widths.items()})


def _write_html(frame: pd.DataFrame) -> str:
    """The table for a page: numbers from the right, texts from the left and whole, in lines that wrap."""
    texts = frozenset(_list_texts(frame))
    aligned = {name: "left" if name in texts else "right" for name in frame.columns}
    names = "".join(f'<th style="text-align:{aligned[name]}">{escape_text(str(name))}</th>' for name in frame.columns)
    empty = "<th></th>" * frame.index.nlevels
    lines = [f"<thead><tr>{empty}{names}</tr></thead><tbody>"]
    for label, row in zip(frame.index, frame.itertuples(index=False, name=None), strict=True):
        levels = label if isinstance(label, tuple) else (label,)
        heads = "".join(
            f'<th style="text-align:left;vertical-align:top">{escape_text(str(each))}</th>' for each in levels
        )
        cells = "".join(
            f'<td style="text-align:{aligned[name]};vertical-align:top">{escape_text(each)}</td>'
            for name, each in zip(frame.columns, row, strict=True)
        )
        lines.append(f"<tr>{heads}{cells}</tr>")
    return f"<table>{''.join(lines)}</tbody></table>"


def _make_table(result: MapResult) -> pd.DataFrame | None:
    """The first rows, in words; None where there are none, or none may be shown."""
    if not len(result):
        return None
    frame = result.frame.head(FIRST)
    if not result.shows_texts:  # a page keeps what it shows (T6a)
        frame = frame.drop(columns=[each for each in frame.columns if each not in _TEXTLESS]).reset_index(drop=True)
    frame = frame.drop(columns=[each for each in _LEFT_OUT if each in frame.columns])
    if "error" in frame.columns and frame["error"].isna().all():
        frame = frame.drop(columns="error")
    if not result.frame["input_tokens"].sum():  # handlers take none
        frame = frame.drop(columns=["input_tokens", "output_tokens", "cost"])
    currency = result.metrics.currency
    shown = {name: [_write(name, each, currency) for each in frame[name]] for name in frame.columns}
    return frame.assign(**shown).astype("object").rename(columns={"duration_ms": "duration"})


_TEXTLESS: Final = frozenset({"status", "input_tokens", "output_tokens", "cost", "duration_ms"})


def _write(name: str, value: Any, currency: str) -> str:
    """A value of the table, as people read it; nothing for what is unknown."""
    if value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value):
        return ""
    if name == "cost":
        return format_money(value, currency)
    if name == "duration_ms":
        return format_duration(value)
    longest = _LONGEST_ERROR if name == "error" else _LONGEST
    text = " ".join(mask_start(str(value), 2 * longest).split())
    return remove_control_characters(text if len(text) <= longest else f"{text[:longest]}…")
