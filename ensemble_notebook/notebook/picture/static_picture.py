"""Static pictures of runs and plans (W14): what stays in a notebook, on GitHub, in a mail, in a terminal.

The HTML is a table first: no script, no style sheet, no SVG, so that sanitisers leave it alone; the bars are
characters, and their colour, which may be taken away, says nothing that their shape does not. The saved trace in the
same bundle is for views that can explore it. Secrets are masked before they get here; whatever a model or
a person wrote is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython

from ensemble_notebook.domain.planning.graph import ENSEMBLE_ROLE, HANDLER_ROLE
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import StoreError, remove_control_characters
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.chart import MARKS, MOST_LINES, Chart, make_chart, make_plan_chart
from ensemble_notebook.notebook.picture.chart_lines import MARKS_OF_PARTS, ROUND, WIDTH, ChartLine
from ensemble_notebook.trace.spans.span_kinds import DONE_COLOR, ERROR_COLOR, IDLE_COLOR, TONE_COLORS
from ensemble_notebook.trace.store.store_file import find_store
from ensemble_notebook.trace.timeline.timeline_messages import TimelineMessages

if TYPE_CHECKING:
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.trace.execution_trace import ExecutionTrace


# --- Finds the variable that holds an output, for expressions that users copy (C31) -----------------------------------


def find_variable(output: object) -> str | None:
    """The name of a variable that has this very output, one that a person chose first; None where there is none.

    What IPython itself keeps results under (``_``, ``_3``, ``Out``) says nothing tomorrow, so it is no answer.
    """
    shell = get_ipython()
    names: dict[str, Any] = {} if shell is None else shell.user_ns
    found = [name for name, value in list(names.items()) if value is output]
    chosen = [name for name in found if not name.startswith("_")]
    return next(iter([*chosen, *(name for name in found if name == "_ensemble")]), None)


# --- Static pictures of runs and plans: what stays in a notebook, on GitHub, in a mail, in a terminal -----------


TRACE_MIME: Final = "application/vnd.ensemble.trace+json"
INTERIM_BYTES: Final = 20_000
INTERIM_WARNINGS: Final = 4
LONGEST_NAME: Final = 36
LONGEST_TEXT: Final = 2_000
LONGEST_TEXTS: Final = 20_000
WHOLE_TEXT: Final = "output[{}].raw"

_NUMBERS: Final = ("time", "tokens", "cost")
_NO_AGENTS: Final = (HANDLER_ROLE, ENSEMBLE_ROLE)
COLORS: Final = {
    **{name: TONE_COLORS[mark.tone] for name, mark in MARKS_OF_PARTS.items()},
    "handler": TONE_COLORS["tool"],
    "critical": TONE_COLORS["model"],
    ROUND: IDLE_COLOR,
    **dict.fromkeys(("task", "pending", "cancelled", "skipped"), IDLE_COLOR),
    **dict.fromkeys(("waiting", "completed_with_warnings", "budget_exceeded", "exited_early"), TONE_COLORS["pause"]),
    "interrupted": TONE_COLORS["pause"],
    "running": TONE_COLORS["model"],
    **dict.fromkeys(("error", "failed"), ERROR_COLOR),
    **dict.fromkeys(("ok", "completed", "reused"), DONE_COLOR),
}
_NAME: Final = f"{html.BREAKS};min-width:11em;max-width:22em"
_CHIP: Final = "border:1px solid rgba(128,128,128,0.35);border-radius:3px;padding:0 4px;font-size:11px"
_BAR: Final = "font-size:10px;vertical-align:middle"
_MONO: Final = "background:none;padding:0;white-space:pre;font-size:inherit"


def make_output_bundle(
    output: EnsembleOutput,
    expression: str | None = None,
    live: TimelineMessages | None = None,
    cell: str | None = None,
    variable: str | None = None,
) -> html.Bundle:
    """A finished run, complete or partial, in every form: plain text, HTML, saved trace (at most 200 kB).

    Args:
        output: of the run.
        expression: says where texts are whole, of which there is only a part; None: the variable that has the output.
        live: what views were told of the run; where that is all of it, its events need not be folded again.
        cell: what the notebook calls the cell that ran it.
        variable: will have the output, or the result of the map that it is of; None: the one that has the output.
    """
    expression = expression or find_variable(output) or "output"
    if live is not None and live.hand_fold(output.trace._take_fold):
        messages = live.with_warnings(output._late_warnings)
    else:
        messages = make_messages(output, cell, variable, None if live is None else live.view)
    return make_last_bundle(messages, f"{expression}[{{}}].raw")


def make_trace_bundle(trace: ExecutionTrace) -> html.Bundle:
    """The same for the trace of a run, which comes from the store or a file."""
    variable = find_variable(trace)
    messages = TimelineMessages(
        copy(trace._fold),
        variable=variable,
        is_resumable=is_of_remembered_cell(trace.run_id),
        view=find_view(),
    )
    return make_last_bundle(messages, f"{variable or 'trace'}.task({{}}).output")


def make_last_bundle(messages: TimelineMessages, whole_text: str = WHOLE_TEXT) -> html.Bundle:
    """A run that is over, in every form. Rows are made for the lines that are shown alone.

    Args:
        messages: about the run.
        whole_text: the expression for the text of a task, with ``{}`` for its name: told where a part of it is shown.
    """
    chart = make_chart(messages.make_outline(), messages.make_rows)
    bundle = _make_chart_bundle(chart, messages.get_task_outputs(), whole_text)
    return {**bundle, TRACE_MIME: messages.make_saved_view()}


def make_past_bundle(messages: TimelineMessages, ms: float) -> html.Bundle:
    """A run that is over as it was at a time in it (W35), as plain text and HTML.

    Args:
        messages: about the run.
        ms: since its start.
    """
    past = messages.make_past(ms)
    ended = {row["span_id"] for row in past["rows"] if row.get("end_ms") is not None}
    outputs = {span_id: text for span_id, text in messages.get_task_outputs().items() if span_id in ended}
    return _make_chart_bundle(make_chart(past), outputs, WHOLE_TEXT)


def make_interim_bundle(messages: TimelineMessages) -> html.Bundle:
    """A run that goes on, as it stands, for whatever saves the notebook meanwhile: plain text and HTML.

    At most `INTERIM_BYTES` of both, without outputs of tasks: it is made again and again.
    """
    outline = messages.make_outline()
    outline["run"]["warnings"] = outline["run"]["warnings"][-INTERIM_WARNINGS:]
    most_lines = MOST_LINES
    while True:
        bundle = _make_chart_bundle(make_chart(outline, messages.make_rows, most_lines), {}, WHOLE_TEXT)
        size = sum(len(each.encode()) for each in bundle.values())
        if size <= INTERIM_BYTES or not most_lines:
            return bundle
        most_lines = int(0.9 * most_lines * INTERIM_BYTES / size)


def _make_chart_bundle(chart: Chart, outputs: Mapping[str, str], whole_text: str) -> html.Bundle:
    return html.make_bundle(render_chart_text(chart), render_chart_html(chart, outputs, whole_text))


def make_messages(
    output: EnsembleOutput, cell: str | None = None, variable: str | None = None, view: str | None = None
) -> TimelineMessages:
    """The messages about a run that has ended, in the cell called `cell`; `view`: in which it opens."""
    fold = copy(output.trace._fold)  # to fold the events again takes a second for 20 MB of text
    late = output._late_warnings  # of what came after the last event, such as an export (E70)
    fold.warnings = [*fold.warnings, *late]
    return TimelineMessages(
        fold,
        variable=variable or find_variable(output),
        cell=cell,
        is_resumable=can_resume(cell),
        view=view or find_view(),
    )


def find_view() -> str | None:
    """The view in which timelines open by ``%config EnsembleMagics.view``; None: in the one that says most."""
    shell: Any = get_ipython()
    magics: Any = None if shell is None else shell.magics_manager.registry.get("EnsembleMagics")
    return None if magics is None or magics.view == "auto" else magics.view


def is_of_remembered_cell(run_id: str) -> bool:
    """Whether the store has this run, and the text of the cell that it is of."""
    from ensemble_notebook.trace.store.run_store import RunStore

    if find_store() is None:
        return False
    try:
        origin = RunStore.open().find_run(run_id).facts.origin
    except StoreError:
        return False
    return origin is not None and bool(origin.text)


def can_resume(cell: str | None) -> bool:
    """Whether ``%ensemble resume`` can go on with a run of this cell: with one that is remembered."""
    return cell is not None and find_store() is not None


def make_plan_bundle(plan: ExecutionPlan) -> html.Bundle:
    """What is going to happen, as plain text, and in HTML as a graph (W32) and a table."""
    from ensemble_notebook.notebook.picture.plan_picture import draw_plan

    chart = make_plan_chart(plan)
    return html.make_bundle(render_chart_text(chart), render_chart_html(chart, picture=draw_plan(plan)))


def make_first_bundle(plan: ExecutionPlan) -> html.Bundle:
    """A run that is starting: what it is going to do."""
    chart = make_plan_chart(plan, "starting")
    return html.make_bundle(render_chart_text(chart), render_chart_html(chart))


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
    headline = remove_control_characters(" · ".join([f"{MARKS[chart.status]} {chart.title}", *chart.facts]))
    lines = [headline, row(" ", name, agent if agents else "", _render_axis(chart), chart.heads)]
    for line in chart.lines:
        bar = "".join(piece.text for piece in line.bar)
        lines.append(row(MARKS[line.status], _render_label(line), _shorten(line.agent), bar, line.cells))
        lines += [f"    ↳ {remove_control_characters(note)}" for note in line.notes]
    if chart.sentence:
        lines.append(f"= {chart.sentence}")
    lines += [f"! {remove_control_characters(note)}" for note in chart.notes]
    for said, code in chart.pending:
        lines += [f"{MARKS['waiting']} {said}", *([f"    {code}"] if code else [])]
    if chart.legend:
        lines.append("  " + "   ".join(f"{piece.text} {word}" for piece, word in chart.legend))
    return remove_control_characters("\n".join(lines))


def render_chart_html(
    chart: Chart,
    outputs: Mapping[str, str] | None = None,
    whole_text: str = WHOLE_TEXT,
    picture: html.Html | None = None,
) -> html.Html:
    """A chart as a table, and below it the tasks' outputs by their spans' ids, folded.

    Where there is another picture of the same, that is seen first, and the table is folded.
    """
    title = html.tag("strong", _color(f"{MARKS[chart.status]} {chart.title}", chart.status))
    facts = [part for fact in chart.facts for part in (" ", html.faint("·"), f" {fact}")]
    said = [html.tag("div", chart.sentence)] if chart.sentence else []
    name, about = chart.names
    axis = html.tag("code", _render_axis(chart).replace(" ", "\xa0"), style=_MONO)
    # In a narrow window who did it, names, bars and notes are in sight, and the rest can be scrolled to.
    columns = [html.Column(name, style=_NAME), html.Column(axis, style=_BAR)]
    has_rows = any(line.is_row for line in chart.lines)
    columns += [html.Column(about, is_faint=True)] if has_rows else []
    columns += [html.Column(head, is_number=head in _NUMBERS) for head in chart.heads]
    lines = (_render_line(line, has_rows=has_rows) for line in chart.lines)
    table = html.write_table(columns, lines, noted=2)
    return html.wrap(
        html.tag("div", title, *facts),
        *said,
        *(
            [table]
            if picture is None
            else [picture, html.fold(html.faint("as a table"), table, *_render_legend(chart))]
        ),
        *(html.tag("div", _color("!", "backoff"), f" {note}") for note in chart.notes),
        *(
            html.tag("div", _color(MARKS["waiting"], "waiting"), f" {said} ", html.tag("code", code) if code else "")
            for said, code in chart.pending
        ),
        *(_render_legend(chart) if picture is None else ()),
        *_render_outputs(chart, outputs or {}, whole_text),
    )


def _render_line(line: ChartLine, *, has_rows: bool) -> html.Line:
    name, agent = _shorten(line.name), "" if line.is_row or line.agent in _NO_AGENTS else _shorten(line.agent)
    chip = [html.tag("small", agent, style=_CHIP), " "] if agent else []
    sign = html.join(_color(MARKS[line.status], line.status), " ↳ " if line.is_worker else " ")
    label = html.join(sign, *chip, html.tag("strong", name) if line.is_phase else name)
    bar = html.tag("code", *(_color(piece.text.replace(" ", "\xa0"), piece.kind) for piece in line.bar), style=_MONO)
    notes = [_color(note, line.status) if line.status == "error" else html.faint(note) for note in line.notes]
    return html.Line(
        cells=[label, bar, *([_shorten(line.agent) if line.is_row else ""] if has_rows else []), *line.cells],
        depth=line.depth,
        notes=[html.join("↳ ", note) for note in notes],
    )


def _render_legend(chart: Chart) -> Iterable[html.Html]:
    if chart.legend:
        words = [part for piece, word in chart.legend for part in (_color(piece.text, piece.kind), f" {word}\u2002")]
        yield html.tag("div", html.tag("span", *words, style=html.FAINT), style="font-size:12px")


def _render_outputs(chart: Chart, outputs: Mapping[str, str], whole_text: str) -> Iterable[html.Html]:
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
                all_of_it = whole_text.format(repr(line.code_name))
                shown += f"\n[{left_out:,} more characters are left out here. All of it: {all_of_it}]"
            texts.append(html.fold(_shorten(line.name), html.preformat(shown)))
            inner += line.is_worker or line.is_reviewer
    if texts:
        said = f"outputs of {pluralize(len(texts) - inner, 'task')}"  # of the plan, as everywhere else (E52)
        yield html.fold(html.faint(f"{said}, and of {inner} inside them" if inner else said), *texts)


def _render_axis(chart: Chart) -> str:
    start, end = chart.axis
    return start + end.rjust(WIDTH - len(start))


def _render_label(line: ChartLine) -> str:
    return "  " * line.depth + ("↳ " if line.is_worker else "") + _shorten(line.name)


def _shorten(name: str) -> str:
    text = " ".join(remove_control_characters(name).split())
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _color(text: str, kind: str) -> html.Html:
    shade = COLORS.get(kind)
    return html.color(text, shade) if shade else html.join(text)
