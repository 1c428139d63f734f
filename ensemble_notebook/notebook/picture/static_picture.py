"""Static pictures of runs and plans (W14): what stays in a notebook, on GitHub, in a mail, in a terminal.

The HTML is a table first: no script, no style sheet, no SVG, so that sanitisers leave it alone; the bars are
characters, and their colour, which may be taken away, says nothing that their shape does not. The saved trace in the
same bundle is for views that can explore it. Secrets are masked before they get here; whatever a model or
a person wrote is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture.bars import GAP, MARKS_OF_PARTS, WIDTH, BarPiece
from ensemble_notebook.notebook.picture.chart import MARKS, Chart, make_chart, make_plan_chart
from ensemble_notebook.notebook.picture.chart_lines import ChartLine
from ensemble_notebook.notebook.picture.output_variable import find_variable
from ensemble_notebook.trace.spans.tones import DONE_COLOR, ERROR_COLOR, IDLE_COLOR, TONE_COLORS
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

Bundle = dict[str, Any]

TRACE_MIME: Final = "application/vnd.ensemble.trace+json"
LONGEST_NAME: Final = 36
LONGEST_TEXT: Final = 2_000
LONGEST_TEXTS: Final = 20_000
WHOLE_TEXT: Final = "output[{}].raw"

_COLORS: Final = {
    **{name: TONE_COLORS[mark.tone] for name, mark in MARKS_OF_PARTS.items()},
    "handler": TONE_COLORS["tool"],
    "critical": TONE_COLORS["model"],
    **dict.fromkeys(("task", "pending", "cancelled", "skipped"), IDLE_COLOR),
    **dict.fromkeys(("waiting", "completed_with_warnings", "budget_exceeded", "exited_early"), TONE_COLORS["pause"]),
    "interrupted": TONE_COLORS["pause"],
    "running": TONE_COLORS["model"],
    **dict.fromkeys(("error", "failed"), ERROR_COLOR),
    **dict.fromkeys(("ok", "completed", "reused"), DONE_COLOR),
}
_CELL: Final = "text-align:left;padding:1px 14px 1px 0;white-space:nowrap;border:0"
_NUMBER: Final = _CELL.replace("left", "right", 1)
_MONO: Final = "background:none;padding:0;white-space:pre"
_FAINT: Final = "opacity:0.7"


def make_output_bundle(
    output: EnsembleOutput,
    expression: str | None = None,
    live: TimelineMessages | None = None,
    cell: str | None = None,
    variable: str | None = None,
) -> Bundle:
    """A finished run, complete or partial, in every form: plain text, HTML, saved trace (at most 200 kB).

    Args:
        output: of the run.
        expression: says where texts are whole, of which there is only a part; None: the variable that has the output.
        live: what views were told of the run; where that is all of it, its events need not be folded again.
        cell: what the notebook calls the cell that ran it.
        variable: will have the output, or the result of the map that it is of; None: the one that has the output.
    """
    expression = expression or find_variable(output) or "output"
    if live is not None and live.hand_fold(output.trace.take_fold):
        messages = live.with_warnings(output.late_warnings)
    else:
        messages = make_messages(output, cell, variable)
    return make_last_bundle(messages, f"{expression}[{{}}].raw")


def make_trace_bundle(trace: ExecutionTrace) -> Bundle:
    """The same for the trace of a run, which comes from the store or a file."""
    variable = find_variable(trace)
    messages = TimelineMessages(copy(trace.fold), variable=variable)
    return make_last_bundle(messages, f"{variable or 'trace'}.task({{}}).output")


def make_last_bundle(messages: TimelineMessages, whole_text: str = WHOLE_TEXT) -> Bundle:
    """A run that is over, in every form. Rows are made for the lines that are shown alone.

    Args:
        messages: about the run.
        whole_text: the expression for the text of a task, with ``{}`` for its name: told where a part of it is shown.
    """
    chart = make_chart(messages.make_outline(), messages.make_rows)
    bundle = _make_chart_bundle(chart, messages.get_task_outputs(), whole_text)
    return {**bundle, TRACE_MIME: messages.make_saved_view()}


def make_snapshot_bundle(snapshot: Mapping[str, Any]) -> Bundle:
    """A run as of a snapshot, as plain text and HTML, without the outputs of its tasks."""
    return _make_chart_bundle(make_chart(snapshot), {}, WHOLE_TEXT)


def _make_chart_bundle(chart: Chart, outputs: Mapping[str, str], whole_text: str) -> Bundle:
    return {"text/plain": render_chart_text(chart), "text/html": render_chart_html(chart, outputs, whole_text)}


def make_messages(output: EnsembleOutput, cell: str | None = None, variable: str | None = None) -> TimelineMessages:
    """The messages about a run that has ended, in the cell that the notebook calls `cell`."""
    fold = copy(output.trace.fold)  # to fold the events again takes a second for 20 MB of text
    late = output.late_warnings  # of what came after the last event, such as an export (E70)
    fold.warnings = [*fold.warnings, *late]
    return TimelineMessages(fold, variable=variable or find_variable(output), cell=cell)


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

    name, agent = chart.names
    lines = [_join_headline(chart), row(" ", name, agent if agents else "", _render_axis(chart), chart.heads)]
    for line in chart.lines:
        bar = "".join(piece.text for piece in line.bar)
        lines.append(row(MARKS[line.status], _render_label(line), _shorten(line.agent), bar, line.cells))
        lines += [f"    ↳ {remove_control_characters(note)}" for note in line.notes]
    if chart.sentence:
        lines.append(f"= {chart.sentence}")
    lines += [f"! {remove_control_characters(note)}" for note in chart.notes]
    if chart.legend:
        lines.append("  " + "   ".join(f"{piece.text} {word}" for piece, word in chart.legend))
    return remove_control_characters("\n".join(lines))


def render_chart_html(chart: Chart, outputs: Mapping[str, str] | None = None, whole_text: str = WHOLE_TEXT) -> str:
    """A chart as a table, and below it the tasks' outputs by their spans' ids, folded."""
    title = f"<strong>{_color(f'{MARKS[chart.status]} {chart.title}', chart.status)}</strong>"
    facts = "".join(f' <span style="{_FAINT}">·</span> {escape_text(fact)}' for fact in chart.facts)
    said = f"<div>{escape_text(chart.sentence)}</div>" if chart.sentence else ""
    rows = "".join(_render_rows(line, len(chart.heads)) for line in chart.lines)
    heads = "".join(f'<th style="{_NUMBER};font-weight:normal">{head}</th>' for head in chart.heads)
    names = "".join(f'<th style="{_CELL};font-weight:normal">{name}</th>' for name in chart.names)
    axis = _render_axis(chart).replace(" ", "\xa0")
    return (
        '<div style="font-size:13px;line-height:1.5;overflow-x:auto">'
        f"<div>{title}{facts}</div>{said}"
        '<table style="border-collapse:collapse;border:0;margin:4px 0;font-size:13px;color:inherit">'
        '<thead style="border:0">'
        f'<tr style="border:0;background:none;{_FAINT}">{names}'
        f'<th style="{_CELL};font-weight:normal"><code style="{_MONO}">{axis}</code></th>{heads}</tr>'
        f"</thead><tbody>{rows}</tbody></table>"
        f"{''.join(_render_notes(chart))}{_render_outputs(chart, outputs or {}, whole_text)}</div>"
    )


def _join_headline(chart: Chart) -> str:
    """The status line as plain text."""
    return remove_control_characters(" · ".join([f"{MARKS[chart.status]} {chart.title}", *chart.facts]))


def _render_rows(line: ChartLine, columns: int) -> str:
    name = ("↳ " if line.is_worker else "") + escape_text(_shorten(line.name))
    mark = _color(MARKS[line.status], line.status)
    label = f"{mark} <strong>{name}</strong>" if line.is_phase else f"{mark} {name}"
    bar = "".join(_render_piece(piece) for piece in line.bar)
    indent = f";padding-left:{1.4 * line.depth:g}em" if line.depth else ""
    cells = "".join(f'<td style="{_NUMBER}">{escape_text(cell)}</td>' for cell in line.cells)
    html = (
        f'<tr style="border:0;background:none"><td style="{_CELL}{indent}">{label}</td>'
        f'<td style="{_CELL};{_FAINT}">{escape_text(_shorten(line.agent))}</td>'
        f'<td style="{_CELL}"><code style="{_MONO}">{bar}</code></td>{cells}</tr>'
    )
    for note in line.notes:
        text = _color(escape_text(note), line.status) if line.status == "error" else escape_text(note)
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
        yield f"<div>{_color('!', 'backoff')} {escape_text(note)}</div>"
    if chart.legend:
        words = "&ensp;".join(f"{_color(piece.text, piece.kind)} {word}" for piece, word in chart.legend)
        yield f'<div style="font-size:12px"><span style="{_FAINT}">{words}</span></div>'


def _render_outputs(chart: Chart, outputs: Mapping[str, str], whole_text: str) -> str:
    """What the tasks wrote, folded; the first characters of each, up to a limit over all."""
    texts = []
    inner = 0
    room = LONGEST_TEXTS
    for line in chart.lines:
        text = None if line.is_phase else outputs.get(line.span_id)
        if text and room > 0:
            shown = text[: min(LONGEST_TEXT, room)]
            room -= len(shown)
            if left_out := len(text) - len(shown):
                all_of_it = whole_text.format(repr(line.name))
                shown += f"\n[{left_out:,} more characters are left out here. All of it: {all_of_it}]"
            texts.append(_render_output(line.name, shown))
            inner += line.is_worker
    if not texts:
        return ""
    said = f"outputs of {pluralize(len(texts) - inner, 'task')}"  # of the plan, as everywhere else (E52)
    said += f", and of {inner} inside them" if inner else ""
    title = f'<summary style="{_FAINT}">{said}</summary>'
    return f'<details style="margin:4px 0 0">{title}<div style="padding-left:1.2em">{"".join(texts)}</div></details>'


def _render_output(name: str, text: str) -> str:
    return (
        f'<details style="margin:2px 0"><summary>{escape_text(_shorten(name))}</summary>'
        f'<pre style="margin:4px 0 8px 1.2em;white-space:pre-wrap">{escape_text(text)}</pre></details>'
    )


def _render_axis(chart: Chart) -> str:
    start, end = chart.axis
    return start + end.rjust(WIDTH - len(start))


def _render_label(line: ChartLine) -> str:
    return "  " * line.depth + ("↳ " if line.is_worker else "") + _shorten(line.name)


def _shorten(name: str) -> str:
    text = " ".join(remove_control_characters(name).split())
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def escape_text(text: str) -> str:
    """A text for HTML, without characters that control a terminal or a page."""
    return escape(remove_control_characters(text))


def _color(html: str, kind: str) -> str:
    color = _COLORS.get(kind)
    return f'<span style="color:{color}">{html}</span>' if color else html
