"""What a map would take: the estimates of its rows, under each variant, and of the judges that look at them (V14)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

from ensemble_notebook.domain.attachments import sketch_mark
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.definitions.limits import get_currency
from ensemble_notebook.domain.definitions.templates import find_first_texts
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate, Number, Range, TaskEstimate, combine
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.ensemble_texts import list_texts
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.ensemble.cost_estimation import BYTES_PER_TOKEN, USUAL_REPLY, estimate, find_usual_replies
from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings
from ensemble_notebook.ensemble.many_runs.rows import Rows, make_only_row
from ensemble_notebook.ensemble.run_settings import write_inputs
from ensemble_notebook.evaluation.scorer import EXPECTED, OUTPUT, PAIR, AnyScorers, find_expected_column
from ensemble_notebook.trace.analysis.row_table import NO_FIELDS

_MOST_EXACT: Final = 50


def estimate_runs(
    variants: Iterable[tuple[EnsembleDefinition, Rows, Mapping[str, Any]]], settings: MapSettings, name: str | None
) -> CostEstimate:
    """Estimate all rows under all variants, with the judges of what they come to.

    Args:
        variants: at least one: a valid ensemble, what it would run for, with repeats, and the inputs of all rows.
        settings: with what scores each row.
        name: that earlier runs are remembered under, where the ensemble has none; None: they have none.
    """
    made: list[CostEstimate] = []
    variants = [*variants]
    for ensemble, rows, common in variants:
        graph, _ = check_ensemble(ensemble)
        found = estimate_map(ensemble, graph, rows, common, find_usual_replies(ensemble.name or name, graph))
        judged = estimate_judges(settings, rows, common, found.currency, others=len(variants) - 1)
        made.append(replace(found, tasks=(*found.tasks, *judged)))
    columns: dict[tuple[str, str | None], list[TaskEstimate]] = {}
    for task in (task for each in made for task in each.tasks):
        columns.setdefault((task.name, task.model), []).append(task)
    return replace(made[0], tasks=tuple(map(_add, columns.values())))


def estimate_map(
    ensemble: EnsembleDefinition,
    graph: Graph,
    rows: Rows,
    common: Mapping[str, Any],
    replies: Mapping[str, int] = NO_FIELDS,
    currency: str | None = None,
) -> CostEstimate:
    """Estimate all rows. Of more than 50, only the shortest and the longest row are estimated, as bounds for all.

    Args:
        ensemble: a valid one.
        graph: of the ensemble.
        rows: what it would run for.
        common: inputs of all rows; a row's own values override them.
        replies: usual tokens of a reply, by the path of the task; see `find_usual_replies`.
        currency: of the map that they are a part of; None: the ensemble's own.
    """
    names, now = find_first_texts(list_texts(ensemble)), datetime.now(UTC)
    once = {id(row): row for row in rows.rows}  # repeats of a row are the same object
    inputs = {key: {**common, **row.values} for key, row in once.items()}
    texts = {
        key: write_inputs(names, {name: sketch_mark(each) for name, each in values.items()})[0]
        for key, values in inputs.items()
    }
    written = [texts[id(row)] for row in rows.rows]
    count = len(written)
    sizes = [_measure(each) for each in written]
    if count > _MOST_EXACT:
        written = [min(written, key=_measure), max(written, key=_measure)]
    estimates = [estimate(ensemble, graph, values, now, replies=replies, currency=currency) for values in written]
    if count > _MOST_EXACT:
        # Prompts are likely as long as they are on average.
        share = Fraction(sum(sizes) - count * min(sizes), count * max(1, max(sizes) - min(sizes)))
        shortest, longest = estimates
        pairs = zip(shortest.tasks, longest.tasks, strict=True)
        return replace(longest, tasks=tuple(_spread(low, high, count, share) for low, high in pairs))
    if not estimates:
        return CostEstimate(tasks=(), currency=currency or get_currency(ensemble.cost))
    columns = zip(*(each.tasks for each in estimates), strict=True)
    return replace(estimates[0], tasks=tuple(_add(each) for each in columns))


def estimate_judges(
    settings: MapSettings, rows: Rows, common: Mapping[str, Any], currency: str, *, others: int = 0
) -> tuple[TaskEstimate, ...]:
    """Estimate what the judges among the scorers take, a task each; the texts that they judge are as long as usual.

    Args:
        settings: with the scorers, and the column of what a row should come to.
        rows: what is judged.
        common: inputs of all rows.
        currency: of the map.
        others: how many variants there are beside: each of the two of a pair bears one of its two questions.
    """
    made: list[TaskEstimate] = []
    column = find_expected_column((*rows.columns, *common), settings.expected)
    for scorer in settings.scorers:
        if scorer.judge is None:
            continue
        text = "x" * USUAL_REPLY * BYTES_PER_TOKEN
        values = [{**common, **row.values} for row in rows.rows]
        texts = dict.fromkeys(PAIR if scorer.is_pair else (OUTPUT,), text)
        judged = [
            replace(row, values={**each, **texts, EXPECTED: each.get(column or "")})
            for row, each in zip(rows.rows, values, strict=True)
        ] * (others if scorer.is_pair else 1)
        graph, _ = check_ensemble(scorer.judge)
        replies = find_usual_replies(scorer.judge.name, graph)
        found = estimate_map(scorer.judge, graph, replace(rows, rows=judged), scorer.judge.inputs, replies, currency)
        made += [replace(each, name=f"{scorer.name}/{each.name}") for each in found.tasks]
    return tuple(made)


def add_judges(found: CostEstimate, score: AnyScorers, expected: str | None, inputs: Mapping[str, Any]) -> CostEstimate:
    """The estimate of a single run, with the judges of what it comes to.

    Args:
        found: of the run itself.
        score: what scores it, as for `MapSettings`.
        expected: likewise.
        inputs: of the run.
    """
    settings = MapSettings(score=score, expected=expected)
    judged = estimate_judges(settings, make_only_row({}), inputs, found.currency)
    return replace(found, tasks=(*found.tasks, *judged))


def _measure(written: Mapping[str, str]) -> int:
    return sum(len(each) for each in written.values())


def _add(rows: Sequence[TaskEstimate]) -> TaskEstimate:
    """The sum of one task over all rows, or variants."""
    total = rows[0]
    for each in rows[1:]:
        tasks = tuple(map(_add, zip(total.tasks, each.tasks, strict=True)))
        total = replace(total, **combine(operator.add, total, each), tasks=tasks)
    return total


def _spread(low: TaskEstimate, high: TaskEstimate, count: int, share: Fraction) -> TaskEstimate:
    """The range of one task over `count` rows, each between these two, and likely at this share of the way."""

    def spread(first: Range[Number], last: Range[Number]) -> Range[Number]:
        way = count * (last.likely - first.likely)
        likely = first.likely * count + type(way)(way * share.numerator / share.denominator)
        return Range(first.low * count, last.high * count, likely)

    return replace(
        high,
        **combine(spread, low, high),
        tasks=tuple(_spread(*pair, count, share) for pair in zip(low.tasks, high.tasks, strict=True)),
    )
