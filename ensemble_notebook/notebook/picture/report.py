"""The parts of a report (T13): what was asked, the answer, who did it, with which models at what price, as declared.

They are static: read without scripts, on a phone and on paper. Every text is a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.attachments import name_marks
from ensemble_notebook.domain.definitions.enums import DONE, CaptureMode, RunKind, RunStatus
from ensemble_notebook.domain.outputs.secrets import mask, mask_start
from ensemble_notebook.domain.thumbnails import shrink_thumbnail
from ensemble_notebook.domain.wording import UNKNOWN, format_count, format_moment, format_money, format_zone
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.answer_picture import make_answer_bundle
from ensemble_notebook.notebook.picture.chart import MARKS, Chart
from ensemble_notebook.notebook.picture.plan_picture import draw_plan
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.timeline.pictures import pack_pictures

if TYPE_CHECKING:
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlannedTask
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

LONGEST_ANSWER: Final = 200_000
LONGEST_TEXT: Final = 20_000
"""Characters of an input or a prompt that are shown."""
MOST_ERRORS: Final = 3
NO_TEXTS: Final = "No texts of this run were kept."

_MILLION: Final = 1_000_000
_STILL: Final = (RunStatus.PENDING, RunStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A page, without what plays in it.

    Attributes:
        title: of the page and its first line.
        before: what stands above the timeline.
        after: what stands below it.
    """

    title: str
    before: html.Html
    after: html.Html


def write_report(trace: ExecutionTrace, output: EnsembleOutput | None, chart: Chart) -> Report:
    """The report of a run, over or not.

    Args:
        trace: of the run.
        output: of the same; None where nothing has begun.
        chart: of the same.
    """
    plan = trace.plan
    return Report(
        title=name_run(trace),
        before=html.join(write_head(trace, chart), write_question(trace), _write_answer(trace, output, chart)),
        after=html.join(*write_team(trace, plan), write_models(trace), write_definition(trace, plan)),
    )


def name_run(trace: ExecutionTrace) -> str:
    """What a report is called: as the ensemble is, else by the run's id."""
    return trace.name or f"Run {trace.run_id}"


def write_head(trace: ExecutionTrace, chart: Chart) -> html.Html:
    """The title, when it was, with the zone, and the status line."""
    started = trace.started_at
    when = []
    if started is not None:
        said = f"{format_moment(started)} {format_zone(started)}"
        when = [html.tag("p", html.tag("time", said, datetime=started.isoformat()))]
    facts = " · ".join([f"{MARKS[chart.status]} {chart.title}", *(each for each in chart.facts if each != trace.name)])
    notes = [html.tag("p", f"! {mask(note)}") for note in chart.notes]
    return html.tag("header", html.tag("h1", name_run(trace)), *when, html.tag("p", facts), *notes)


def section(title: str, *parts: str) -> html.Html:
    """A part of a report below its heading."""
    return html.tag("section", html.tag("h2", title), *parts)


def write_question(trace: ExecutionTrace) -> html.Html:
    """What the run was asked: its inputs; where it has none, its only task."""
    if trace.capture_mode is CaptureMode.METADATA:
        return section("Question", html.tag("p", NO_TEXTS))
    told = [*trace.inputs.items()]
    tasks = () if trace.plan is None or trace.kind is RunKind.MAP else trace.plan.tasks
    if not told and len(tasks) == 1:
        told = [(tasks[0].name, tasks[0].description)]
    return section("Question", _list_terms(told, trace)) if told else html.Html()


def write_attached(trace: ExecutionTrace, text: str, most_points: int = 240) -> html.Html:
    """The pictures and PDFs whose marks stand in a text, each so wide and high; nothing where there are none (W167)."""
    figures = []
    for words, thumbnail in pack_pictures(trace._fold, text).values():
        picture = shrink_thumbnail(thumbnail, 2 * most_points) if thumbnail else None
        style = f"display:block;max-width:{most_points}px;max-height:{most_points}px"
        shown = html.image(f"data:image/webp;base64,{picture}", words or "", style) if picture else html.Html()
        figures.append(html.tag("figure", shown, html.faint(words or ""), style="margin:0"))
    return html.join(*figures)


def _write_answer(trace: ExecutionTrace, output: EnsembleOutput | None, chart: Chart) -> html.Html:
    final = None if output is None else output.get_final_output()
    author = "" if final is None else " · ".join(filter(None, [final.agent_role, final.name]))
    bundle = make_answer_bundle(output, None, "output", author=author, longest=LONGEST_ANSWER)
    if bundle is not None:
        attached = write_attached(trace, final.raw if final else "")
        why = html.tag("p", mask(chart.sentence)) if chart.sentence and trace.status not in DONE else html.Html()
        return section("Answer", why, html.Html(bundle["text/html"]), attached)
    if trace.capture_mode is CaptureMode.METADATA:
        return section("Answer", html.tag("p", NO_TEXTS))
    if trace.status in _STILL:
        return section("Answer", html.tag("p", "None yet: the run was not over when this was written."))
    # Of a run that did not fail, its errors were borne, and something else ended it.
    errors = trace.errors[:MOST_ERRORS] if trace.status is RunStatus.FAILED else ()
    reasons = [f"{each.error_type}: {each.error_message}" for each in errors if each.error_message]
    said = [html.tag("p", mask(each)) for each in reasons or filter(None, [chart.sentence])]
    return section("Answer", html.tag("p", f"None: the run is {chart.title}."), *said)


def write_team(trace: ExecutionTrace, plan: ExecutionPlan | None) -> Iterator[html.Html]:
    """The graph of a run, and what each agent did.

    Args:
        trace: of the run, or of the map that it is a row of.
        plan: that is drawn.
    """
    if plan is not None and plan.tasks:
        yield section("Team", scrolled("Graph of the team", draw_plan(plan), kind="graph"), _write_agents(trace))


def _write_agents(trace: ExecutionTrace) -> html.Html:
    models: dict[str, dict[str, None]] = {}
    for span in trace.spans:
        if span.kind is SpanKind.LLM and span.agent and (model := span.model or span.model_requested):
            models.setdefault(span.agent, {})[model] = None
    table = trace.frames.agents
    return cards(
        ("agent", "model", "tasks", "model calls", "tool calls", "tokens", "cost"),
        (
            (
                str(agent),
                ", ".join(models.get(str(agent), ())),
                *(f"{row[name]:,}" for name in ("task_count", "llm_count", "tool_count")),
                _write_tokens(row["total_tokens"]),
                _write_cost(row["cost"], row["currency"], is_whole=bool(row["cost_complete"])),
            )
            for agent, row in zip(table.index, table.to_dict("records"), strict=True)
        ),
    )


@dataclass(slots=True)
class _Used:
    """What all requests to a model took, as far as it is known."""

    currency: str | None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_input: Decimal = Decimal(0)
    cost_output: Decimal = Decimal(0)
    is_whole: bool = True


def write_models(trace: ExecutionTrace) -> html.Html:
    """The models of a run with their requests, and what a million tokens cost in these; empty without any."""
    models: dict[tuple[str, str], _Used] = {}
    for span in trace.spans:
        if span.kind is not SpanKind.ATTEMPT:
            continue
        model = span.model or span.model_requested or UNKNOWN
        used = models.setdefault((model, span.provider or ""), _Used(trace.metrics.currency))
        used.calls += 1
        used.is_whole &= span.cost is not None
        if span.cost is not None:
            used.input_tokens += span.input_tokens or 0
            used.output_tokens += span.output_tokens or 0
            used.cost_input += span.cost_input or 0
            used.cost_output += span.cost_output or 0
    lines = (
        (
            model,
            provider,
            f"{used.calls:,}",
            format_count(used.input_tokens),
            format_count(used.output_tokens),
            _write_rate(used.cost_input, used.input_tokens, used.currency),
            _write_rate(used.cost_output, used.output_tokens, used.currency),
            _write_cost(used.cost_input + used.cost_output, used.currency, is_whole=used.is_whole),
        )
        for (model, provider), used in models.items()
    )
    heads = ("model", "provider", "requests", "tokens in", "tokens out", "per million in", "per million out", "cost")
    return section("Models and prices", cards(heads, lines)) if models else html.Html()


def _write_rate(cost: Decimal, tokens: int, currency: str | None) -> str:
    return format_money(cost * _MILLION / tokens, currency) if tokens else UNKNOWN


def _write_tokens(count: object) -> str:
    return format_count(count) if isinstance(count, int) else UNKNOWN


def _write_cost(cost: object, currency: str | None, *, is_whole: bool) -> str:
    if not isinstance(cost, int | float | Decimal) or (not is_whole and not cost):
        return UNKNOWN
    return f"{'' if is_whole else 'at least '}{format_money(cost, currency)}"


def write_definition(trace: ExecutionTrace, plan: ExecutionPlan | None) -> html.Html:
    """The tasks and agents as they were declared, folded; empty where nothing of them is known."""
    if plan is None or not plan.tasks or trace.capture_mode is CaptureMode.METADATA:
        return html.Html()
    parts: list[html.Html] = []
    for task in plan.tasks:
        parts += [html.tag("h3", f"{task.name} {task.times}".strip()), _list_terms(_describe_task(task))]
    for agent in trace.agents:
        told = {
            "goal": agent.goal,
            "background": agent.background,
            "system prompt": agent.system_prompt,
            "tools": ", ".join(agent.tools),
        }
        parts += [html.tag("h3", agent.role), _list_terms((name, text) for name, text in told.items() if text)]
    return section("Definition", html.fold("Tasks and agents, as they were declared", *parts))


def _describe_task(task: PlannedTask) -> Iterator[tuple[str, str]]:
    told: Mapping[str, object] = {
        "agent": task.agent,
        "model": task.llm,
        "phase": task.phase,
        "description": task.prompt or task.description,
        "expected": task.expected_output,
        "for each of": task.for_each,
        "reads": ", ".join(task.context),
        "after": ", ".join(each for each in task.depends_on if each not in task.context),
        "when": " or ".join(task.when),
        **task.settings,
        "ensemble": None if task.nested is None else ", ".join(each.name for each in task.nested.tasks),
        "manages": ", ".join(each.name for each in task.managed),
    }
    yield from ((name.replace("_", " "), str(value)) for name, value in told.items() if value not in (None, ""))


def _list_terms(told: Iterable[tuple[str, str]], trace: ExecutionTrace | None = None) -> html.Html:
    """Names and texts; with the pictures of the texts, where the trace that has them is given."""
    parts = []
    for name, text in told:
        pictures = html.Html() if trace is None else write_attached(trace, text)
        is_picture = pictures and name_marks(text) in ("[picture]", "[PDF]")
        parts += [html.tag("dt", name), html.tag("dd", "" if is_picture else cut(text, LONGEST_TEXT), pictures)]
    return html.tag("dl", *parts)


def cut(text: str, longest: int) -> str:
    """A text as far as it is shown, masked, with a word on how much is left out."""
    shown = mask_start(text, longest)
    return shown if len(text) <= longest else f"{shown}\n[{len(text) - longest:,} more characters are left out here]"


def cards(heads: Sequence[str], lines: Iterable[Sequence[str]], *, is_short: bool = True) -> html.Html:
    """A table of the page's style; a narrow window makes a card of each line, `is_short` one of few lines."""
    body = (
        html.tag("tr", *(html.tag("td", cell, data_head=head) for head, cell in zip(heads, line, strict=True)))
        for line in lines
    )
    head = html.tag("thead", html.tag("tr", *(html.tag("th", each, scope="col") for each in heads)))
    return html.tag("table", head, html.tag("tbody", *body), **{"class": "cards short" if is_short else "cards"})


def scrolled(label: str, *parts: str, kind: str) -> html.Html:
    """What may be wider than the page, with its own bar, which keys reach."""
    return html.tag("div", *parts, tabindex="0", role="region", aria_label=label, **{"class": kind})
