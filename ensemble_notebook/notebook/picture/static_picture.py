"""Static pictures of runs and plans (W14): what stays in a notebook, on GitHub, in a mail, in a terminal.

The HTML is a table first: no script, no style sheet, no SVG, so that sanitisers leave it alone; the bars are
characters, and their colour, which may be taken away, says nothing that their shape does not. The saved trace in the
same bundle is for views that can explore it. Secrets are masked before they get here; whatever a model or
a person wrote is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.bars import GAP, MARKS_OF_PARTS, WIDTH, BarPiece
from ensemble_notebook.notebook.picture.chart import MARKS, Chart, make_chart, make_plan_chart
from ensemble_notebook.notebook.picture.chart_lines import ChartLine
from ensemble_notebook.trace.folding.trace_fold import TraceFold
from ensemble_notebook.trace.spans.span_kinds import Tone
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

Bundle = dict[str, Any]

TRACE_MIME: Final = "application/vnd.ensemble.trace+json"
LONGEST_NAME: Final = 36
LONGEST_TEXT: Final = 2_000
LONGEST_TEXTS: Final = 20_000

# Readable on white and on near-black (contrast of 3 and more on both): a saved picture can't follow a theme.
_TONES: Final[Mapping[Tone, str]] = {"model": "#6c6ce6", "tool": "#0f97a0", "person": "#b9801a", "pause": "#b9801a"}
_COLORS: Final = {
    **{name: _TONES[mark.tone] for name, mark in MARKS_OF_PARTS.items()},
    "handler": "#0f97a0",
    "critical": "#6c6ce6",
    "task": "#7b8088",
    "pending": "#7b8088",
    "waiting": "#b9801a",
    "completed_with_warnings": "#b9801a",
    "budget_exceeded": "#b9801a",
    "exited_early": "#b9801a",
    "running": "#6c6ce6",
    "error": "#e0364a",
    "cancelled": "#7b8088",
    "ok": "#2f9e57",
    "completed": "#2f9e57",
    "failed": "#e0364a",
    "interrupted": "#b9801a",
    "skipped": "#7b8088",
}
_CELL: Final = "text-align:left;padding:1px 14px 1px 0;white-space:nowrap;border:0"
_NUMBER: Final = _CELL.replace("left", "right", 1)
_MONO: Final = "background:none;padding:0;white-space:pre"
_FAINT: Final = "opacity:0.7"


def make_output_bundle(output: EnsembleOutput) -> Bundle:
    """A finished run, complete or partial, in every form: plain text, HTML, saved trace (at most 200 kB)."""
    messages = make_messages(output)
    saved = messages.make_saved_view()
    return {**make_snapshot_bundle(messages.make_snapshot(), saved["details"]), TRACE_MIME: saved}


def make_snapshot_bundle(snapshot: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> Bundle:
    """A run as of a snapshot, as plain text and HTML."""
    chart = make_chart(snapshot)
    return {"text/plain": render_chart_text(chart), "text/html": render_chart_html(chart, details)}


def make_messages(output: EnsembleOutput) -> TimelineMessages:
    """The messages about a run that has ended."""
    fold = TraceFold.from_events(output.events, output.ensemble.cost)
    fold.warnings += output.late_warnings  # those of what came after the last event, such as an export (E70)
    return TimelineMessages(fold)


def make_plan_bundle(plan: ExecutionPlan, title: str = "plan") -> Bundle:
    """What is going to happen, as plain text and HTML."""
    chart = make_plan_chart(plan, title)
    return {"text/plain": render_chart_text(chart), "text/html": render_chart_html(chart)}


def render_chart_text(chart: Chart) -> str:
    """A chart as aligned lines."""
    names = max([4, *(len(_render_label(line)) for line in chart.lines)])
    agents = max([0, *(len(_shorten(line.agent)) for line in chart.lines)])
    widths = [
        max(len(head), *(len(line.cells[index]) for line in chart.lines)) for index, head in enumerate(chart.heads)
    ]

    def row(mark: str, name: str, agent: str, bar: str, cells: Iterable[str]) -> str:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return f"{mark} {name:<{names}}  {agent:<{agents}}  {bar:<{WIDTH + 1}} {numbers}".rstrip()

    lines = [_join_headline(chart), row(" ", "task", "agent" if agents else "", _render_axis(chart), chart.heads)]
    for line in chart.lines:
        bar = "".join(piece.text for piece in line.bar)
        lines.append(row(MARKS[line.status], _render_label(line), _shorten(line.agent), bar, line.cells))
        lines += [f"    ↳ {remove_control_characters(note)}" for note in line.notes]
    lines += [f"! {remove_control_characters(note)}" for note in chart.notes]
    if chart.legend:
        lines.append("  " + "   ".join(f"{piece.text} {word}" for piece, word in chart.legend))
    return remove_control_characters("\n".join(lines))


def render_chart_html(chart: Chart, details: Mapping[str, Any] | None = None) -> str:
    """A chart as a table, and below it the tasks' outputs, folded."""
    title = f"<strong>{_color(f'{MARKS[chart.status]} {chart.title}', chart.status)}</strong>"
    facts = "".join(f' <span style="{_FAINT}">·</span> {_escape(fact)}' for fact in chart.facts)
    rows = "".join(_render_rows(line, len(chart.heads)) for line in chart.lines)
    heads = "".join(f'<th style="{_NUMBER};font-weight:normal">{head}</th>' for head in chart.heads)
    axis = _render_axis(chart).replace(" ", "\xa0")
    return (
        '<div style="font-size:13px;line-height:1.5;overflow-x:auto">'
        f"<div>{title}{facts}</div>"
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit">'
        '<thead style="border:0">'
        f'<tr style="border:0;background:none;{_FAINT}">'
        f'<th style="{_CELL};font-weight:normal">task</th><th style="{_CELL};font-weight:normal">agent</th>'
        f'<th style="{_CELL};font-weight:normal"><code style="{_MONO}">{axis}</code></th>{heads}</tr>'
        f"</thead><tbody>{rows}</tbody></table>"
        f"{''.join(_render_notes(chart))}{_render_outputs(chart, details or {})}</div>"
    )


def _join_headline(chart: Chart) -> str:
    """The status line as plain text."""
    return remove_control_characters(" · ".join([f"{MARKS[chart.status]} {chart.title}", *chart.facts]))


def _render_rows(line: ChartLine, columns: int) -> str:
    name = ("↳ " if line.is_worker else "") + _escape(_shorten(line.name))
    mark = _color(MARKS[line.status], line.status)
    label = f"{mark} <strong>{name}</strong>" if line.is_phase else f"{mark} {name}"
    bar = "".join(_render_piece(piece) for piece in line.bar)
    indent = f";padding-left:{1.4 * line.depth:g}em" if line.depth else ""
    cells = "".join(f'<td style="{_NUMBER}">{_escape(cell)}</td>' for cell in line.cells)
    html = (
        f'<tr style="border:0;background:none"><td style="{_CELL}{indent}">{label}</td>'
        f'<td style="{_CELL};{_FAINT}">{_escape(_shorten(line.agent))}</td>'
        f'<td style="{_CELL}"><code style="{_MONO}">{bar}</code></td>{cells}</tr>'
    )
    for note in line.notes:
        text = _color(_escape(note), line.status) if line.status == "error" else _escape(note)
        style = _CELL if line.status == "error" else f"{_CELL};{_FAINT}"
        html += (
            f'<tr style="border:0;background:none"><td style="{_CELL}"></td>'
            f'<td style="{style};white-space:normal;max-width:70em" colspan="{columns + 2}">↳ {text}</td></tr>'
        )
    return html


def _render_piece(piece: BarPiece) -> str:
    text = piece.text.replace(" ", "\xa0")
    return text if piece.kind == GAP else _color(text, piece.kind)


def _render_notes(chart: Chart) -> Iterable[str]:
    for note in chart.notes:
        yield f"<div>{_color('!', 'backoff')} {_escape(note)}</div>"
    if chart.legend:
        words = "&ensp;".join(f"{_color(piece.text, piece.kind)} {word}" for piece, word in chart.legend)
        yield f'<div style="font-size:12px"><span style="{_FAINT}">{words}</span></div>'


def _render_outputs(chart: Chart, details: Mapping[str, Any]) -> str:
    """What the tasks wrote, folded; the first characters of each, up to a limit over all."""
    texts = []
    room = LONGEST_TEXTS
    for line in chart.lines:
        text = None if line.is_phase else (details.get(line.span_id) or {}).get("output")
        if text and room > 0:
            shown = text if len(text) <= min(LONGEST_TEXT, room) else text[: min(LONGEST_TEXT, room)] + " ..."
            room -= len(shown)
            texts.append(_render_output(line.name, shown))
    if not texts:
        return ""
    title = f'<summary style="{_FAINT}">outputs of {pluralize(len(texts), "task")}</summary>'
    return f'<details style="margin:4px 0 0">{title}<div style="padding-left:1.2em">{"".join(texts)}</div></details>'


def _render_output(name: str, text: str) -> str:
    return (
        f'<details style="margin:2px 0"><summary>{_escape(_shorten(name))}</summary>'
        f'<pre style="margin:4px 0 8px 1.2em;white-space:pre-wrap">{_escape(text)}</pre></details>'
    )


def _render_axis(chart: Chart) -> str:
    start, end = chart.axis
    return start + end.rjust(WIDTH - len(start))


def _render_label(line: ChartLine) -> str:
    return "  " * line.depth + ("↳ " if line.is_worker else "") + _shorten(line.name)


def _shorten(name: str) -> str:
    text = " ".join(remove_control_characters(name).split())
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _escape(text: str) -> str:
    return escape(remove_control_characters(text))


def _color(html: str, kind: str) -> str:
    color = _COLORS.get(kind)
    return f'<span style="color:{color}">{html}</span>' if color else html
