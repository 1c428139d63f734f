"""What a fork would do, for a page: what becomes of each task, what may have effects, and what it likely costs (F2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.notebook.picture import html_table as html

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan

MOST_LISTED: Final = 12
"""More tasks or effects than this are folded."""

_FAINT: Final = frozenset({"kept", "left out"})
_TASKS: Final = (html.Column("task", style=html.BREAKS), html.Column("becomes"), html.Column("why", style=html.BREAKS))
_EFFECTS: Final = (
    *(html.Column("may run", style=html.BREAKS), html.Column("kind")),
    html.Column("where", style=html.BREAKS),
)


def make_fork_plan_bundle(plan: ForkPlan) -> html.Bundle:
    """A plan as plain text and as HTML."""
    tasks = html.write_table(_TASKS, _list_tasks(plan))
    parts = [html.tag("strong", mask(plan.title)), _fold(f"{len(plan.tasks):,} tasks", len(plan.tasks), tasks)]
    if plan.effects:
        lines = [html.Line(cells=[mask(each.name), each.kind, mask(each.describe())]) for each in plan.effects]
        effects = html.write_table(_EFFECTS, lines)
        parts.append(_fold(f"{len(plan.effects):,} may run with effects", len(plan.effects), effects))
    else:
        parts.append(html.join("Nothing runs that has effects."))
    parts.append(html.join(plan.calls))
    if plan.estimate is not None:
        parts.append(html.join(mask(f"Estimate: {plan.estimate}")))
    parts += [html.join(mask(f"Warning: {each}")) for each in plan.warnings]
    return html.make_bundle(str(plan), html.wrap(html.stack(parts)))


def _list_tasks(plan: ForkPlan) -> Iterator[html.Line]:
    for each in plan.tasks:
        cells = [mask(each.name), each.fate, mask(each.reason)]
        yield html.Line(cells=[html.faint(cell) for cell in cells] if each.fate in _FAINT else cells)


def _fold(title: str, count: int, table: html.Html) -> html.Html:
    return html.fold(title, table) if count > MOST_LISTED else table
