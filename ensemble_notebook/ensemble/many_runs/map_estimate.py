"""The estimate of a map, before anything is called: the sum over its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate, Number, Range, TaskEstimate
from ensemble_notebook.domain.planning.ensemble_texts import list_texts
from ensemble_notebook.domain.planning.graph import Graph
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.many_runs.rows import Rows
from ensemble_notebook.ensemble.run_checks import make_pricing
from ensemble_notebook.ensemble.run_inputs import write_inputs

_MOST_EXACT: Final = 50


def estimate_map(ensemble: EnsembleDefinition, graph: Graph, rows: Rows, common: Mapping[str, Any]) -> CostEstimate:
    """Estimate all rows. Of more than 50, only the shortest and the longest row are estimated, as bounds for all.

    Args:
        ensemble: a valid one.
        graph: of the ensemble.
        rows: what it would run for.
        common: inputs of all rows; a row's own values override them.
    """
    texts, pricing, now = list_texts(ensemble), make_pricing(ensemble), datetime.now(UTC)
    written = [write_inputs(texts, {**common, **row.values})[0] for row in rows.rows]
    count = len(written)
    if count > _MOST_EXACT:
        written = [min(written, key=_measure), max(written, key=_measure)]
    estimates = [estimate(ensemble, graph, values, pricing, now) for values in written]
    if count > _MOST_EXACT:
        shortest, longest = estimates
        pairs = zip(shortest.tasks, longest.tasks, strict=True)
        return replace(longest, tasks=tuple(_spread(low, high, count) for low, high in pairs))
    if not estimates:
        return CostEstimate(tasks=())
    columns = zip(*(each.tasks for each in estimates), strict=True)
    return replace(estimates[0], tasks=tuple(_add(each) for each in columns))


def _measure(written: Mapping[str, str]) -> int:
    return sum(len(each) for each in written.values())


def _add(rows: Sequence[TaskEstimate]) -> TaskEstimate:
    """The sum of one task over all rows."""
    total = rows[0]
    for each in rows[1:]:
        total = replace(
            total,
            llm_calls=total.llm_calls + each.llm_calls,
            input_tokens=total.input_tokens + each.input_tokens,
            output_tokens=total.output_tokens + each.output_tokens,
            cost=None if total.cost is None or each.cost is None else total.cost + each.cost,
        )
    return total


def _spread(low: TaskEstimate, high: TaskEstimate, count: int) -> TaskEstimate:
    """The range of one task over `count` rows, each between these two."""

    def spread(first: Range[Number], last: Range[Number]) -> Range[Number]:
        return Range(first.low * count, last.high * count)

    return replace(
        high,
        llm_calls=spread(low.llm_calls, high.llm_calls),
        input_tokens=spread(low.input_tokens, high.input_tokens),
        output_tokens=spread(low.output_tokens, high.output_tokens),
        cost=None if low.cost is None or high.cost is None else spread(low.cost, high.cost),
    )
