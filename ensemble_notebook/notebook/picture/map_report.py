"""The report of a map (T13): the verdict first, then its rows, the variants of each side by side.

A cell of a million characters or an object of anybody is a text that is cut; all of it is in the table that
`result.export` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.attachments import find_mark
from ensemble_notebook.domain.outputs.secrets import mask, mask_start
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import format_duration, format_money, pluralize
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.evaluation.scored_runs import LEAVE_OUT, list_scores
from ensemble_notebook.evaluation.verdicts import describe_scores, list_runs
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.chart import Chart
from ensemble_notebook.notebook.picture.report import (
    NO_TEXTS,
    Report,
    cards,
    name_run,
    scrolled,
    section,
    write_attached,
    write_definition,
    write_head,
    write_models,
    write_question,
    write_team,
)
from ensemble_notebook.notebook.picture.verdict_picture import make_comparison_bundle
from ensemble_notebook.trace.codec.event_codec import to_plain

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

MOST_ROWS: Final = 5_000
MOST_CHARACTERS: Final = 6_000_000
"""Of all cells together: so much the page of a phone bears."""
SHORTEST_CUT: Final = 120
LONGEST_CELL: Final = 4_000
LONGEST_OPEN: Final = 160
"""What is longer is folded, with its first words in the title."""


_PASSED, _FAILED = (partial(html.tag, "span", **{"class": name}) for name in ("passed", "failed"))


def write_map_report(result: MapResult, trace: ExecutionTrace, chart: Chart) -> Report:
    """The report of a map, over or not.

    Args:
        result: of the map, with the scores that it has.
        trace: of the same.
        chart: of the same.
    """
    plan = trace.plan
    row_plan = None if plan is None else plan.row_plan
    return Report(
        title=name_run(trace),
        before=html.join(
            write_head(trace, chart), *_write_verdict(result), write_question(trace), _write_rows(result, trace)
        ),
        after=html.join(*write_team(trace, row_plan), write_models(trace), write_definition(trace, row_plan)),
    )


def _write_verdict(result: MapResult) -> Iterator[html.Html]:
    """What the scores say: each variant beside the first, else each by itself."""
    said = [html.tag("p", mask(result.describe()))]
    said += [html.tag("p", f"! {mask(each)}") for each in result.warnings]
    if sameness := result._describe_sameness():
        said.append(html.tag("p", sameness))
    compared: list[html.Html] = []
    if result.variants and len(result.variants) > 1:
        for score in list_scores(list_runs(result)):
            try:
                compared.append(_compare(result, score))
            except ValidationError as error:  # labels, of which nobody has said which one counts
                compared.append(html.tag("p", html.faint(mask(str(error)))))
    single = [html.tag("p", mask(each)) for each in describe_scores(result)] if result.score_records else []
    yield section("Verdict" if result.score_records else "Result", *compared, *single, *said)


def _compare(result: MapResult, score: str) -> html.Html:
    drawn = make_comparison_bundle(result.compare(score=score, failed=LEAVE_OUT))["text/html"]
    return scrolled(f"Comparison by {score}", html.Html(drawn), kind="wide")


# --- The rows ---------------------------------------------------------------------------------------------------------


_THUMBNAIL_POINTS: Final = 96


def _write_rows(result: MapResult, trace: ExecutionTrace) -> html.Html:
    """A line for each row and repeat, with the inputs, and each variant's answer and scores."""
    if not result._shows_texts:
        return section("Rows", html.tag("p", NO_TEXTS))
    frame = result.frame
    values: Sequence[Mapping[Any, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    columns = [str(each) for each in frame.columns]
    inputs = columns[len(columns) - len(result.input_names) :]
    given = columns[1 : columns.index("error")]
    answers, scores = given[: max(1, len(result._fields))], given[max(1, len(result._fields)) :]
    groups: dict[tuple[str, int | None], dict[str | None, int]] = {}
    for place, row in enumerate(result.rows):
        groups.setdefault((row.row or row.name, row.repeat), {})[row.variant] = place
    shown = [*groups.values()][:MOST_ROWS]
    # What differs between the variants of a row is what they change: their names tell it.
    inputs = [
        each
        for each in inputs
        if all(len({_to_text(values[place][each]) for place in places.values()}) == 1 for places in shown)
    ]
    variants, repeats, currency = result.variants or (None,), result.repeats, result.metrics.currency
    room = MOST_CHARACTERS // max(1, len(shown) * (len(inputs) + len(variants)))
    longest = max(SHORTEST_CUT, min(LONGEST_CELL, room))
    heads = ["row", *(["repeat"] if repeats else []), *inputs]
    for variant in variants:
        of = f"{mask(variant)}: " if variant is not None else ""
        heads += [f"{of}answer", *(f"{of}{each}" for each in scores)]

    def write_line(places: Mapping[str | None, int]) -> Iterator[str]:
        first = next(iter(places.values()))
        row = result.rows[first]
        yield mask(" · ".join(map(str, row.index)) if isinstance(row.index, tuple) else str(row.index))
        if repeats:
            yield str(row.repeat)
        for each in inputs:
            value = values[first][each]
            text = value if isinstance(value, str) else find_mark(value) or ""
            yield write_attached(trace, text, _THUMBNAIL_POINTS) or _write_value(value, longest)
        for variant in variants:
            place = places.get(variant)
            if place is None:
                yield from [""] * (1 + len(scores))
                continue
            answer = _write_answer(result.rows[place], values[place], answers, longest, currency)
            shown = write_attached(trace, " ".join(str(values[place][each]) for each in answers), _THUMBNAIL_POINTS)
            yield html.join(answer, shown)
            yield from (_write_score(values[place][each], longest) for each in scores)

    table = cards(heads, (tuple(write_line(places)) for places in shown), is_short=False)
    left = [*groups.values()][MOST_ROWS:]
    notes = []
    if left:
        failed = sum(result.rows[place].error is not None for places in left for place in places.values())
        said = f"These are the first {len(shown):,} of {pluralize(len(groups), 'row')}. {len(left):,} are left out here"
        said += f", {failed:,} of their runs failed" if failed else ""
        notes.append(html.tag("p", f'{said}: result.export("rows.csv") writes all of them.'))
    return section("Rows", *notes, scrolled("Rows", table, kind="wide"))


def _write_answer(
    row: RowResult, values: Mapping[Any, Any], answers: Sequence[str], longest: int, currency: str | None
) -> html.Html:
    """What a run of a row gave, or why it gave nothing, and below it what that took."""
    if row.status == SETTLED:  # the verdict above says why
        return html.faint(SETTLED)
    told = {name: values[name] for name in answers if values[name] is not None}
    parts = []
    if len(answers) > 1:
        parts += [html.join(html.faint(f"{name}: "), _write_value(each, longest)) for name, each in told.items()]
    else:
        parts += [_write_value(each, longest) for each in told.values()]
    if not row.is_done:
        said = row.status.replace("_", " ")
        parts.append(_FAILED(f"✗ {said}") if row.error is not None else html.join(said))
        if values["error"]:
            parts.append(_write_value(values["error"], longest))
    spent = []
    if values["duration_ms"] is not None:
        spent.append(format_duration(values["duration_ms"]))
    if values["cost"]:
        spent.append(format_money(values["cost"], currency))
    if row.reused:
        spent.append("reused")
    return html.stack([*parts, html.faint(" · ".join(spent))])


def _write_score(value: Any, longest: int) -> html.Html:
    """A score by shape and colour; nothing where there is none."""
    if isinstance(value, bool):
        return _PASSED("✓ passed") if value else _FAILED("✗ failed")
    return _write_value(value, longest)


def _write_value(value: Any, longest: int) -> html.Html:
    """A value of anybody as a text: folded where it is long, cut where it is longer."""
    if value is None:
        return html.Html()
    if isinstance(value, float):
        return html.join(f"{value:.3g}")
    text = _to_text(value)
    shown = mask_start(text, longest)
    if left := max(0, len(text) - longest):
        shown += f" [{left:,} more characters]"
    if len(shown) <= LONGEST_OPEN:
        return html.tag("span", shown, **{"class": "text"})
    start = " ".join(shown[:LONGEST_OPEN].split())
    return html.fold(f"{start}…", html.tag("div", shown, **{"class": "text"}))


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(to_plain(value), ensure_ascii=False, default=str)
    except Exception:  # noqa: BLE001 - it is an object of anybody
        return f"<{type(value).__name__}>"
