"""Which texts of an ensemble change, who rewrites them, and which rows the search never sees (V68)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ensemble_notebook.domain.definitions.agent import find_llm_fault
from ensemble_notebook.domain.planning.graph import Graph, build_graph
from ensemble_notebook.domain.planning.map_design import write_value
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.improving.improve_settings import EXAMPLES, ImproveSettings
from ensemble_notebook.ensemble.many_runs.rows import Row, Rows, find_id_column, read_rows, to_kept_value
from ensemble_notebook.ensemble.run_preparation import make_source
from ensemble_notebook.ensemble.run_settings import RunSettings
from ensemble_notebook.errors import ValidationError, did_you_mean

Texts = dict[str, str]
"""The texts of a candidate, by their places."""

FEWEST_ROWS: Final = 9
FEWEST_HELD_OUT: Final = 3
FEWEST_SEARCHED: Final = 6
WEAK_BELOW: Final = 30
"""With fewer held-out rows the verdict is weak, and says so."""
MOST_ROWS: Final = 10_000
_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "task": ("description", "expected_output", "prompt"),
    "agent": ("goal", "background", "system_prompt"),
}


# --- The texts --------------------------------------------------------------------------------------------------------


def find_texts(ensemble: RunnableEnsemble, places: Iterable[str]) -> Texts:
    """The texts at these places, as they are.

    Raises:
        ValidationError: there is no such place, it has no text, or several tasks or agents are called so.
    """
    graph = build_graph(ensemble)
    return {place: _find_text(ensemble, graph, place) for place in places}


def _find_text(ensemble: RunnableEnsemble, graph: Graph, place: str) -> str:
    kind, _, rest = place.partition(".")
    name, _, field_name = rest.rpartition(".")
    if kind not in _TEXTS or not name:
        raise ValidationError(f"change names places of texts, {EXAMPLES}, got {place!r}.")
    nodes = [*graph.all_tasks, *graph.managed]
    if kind == "task":
        named: list[tuple[str, Any]] = [(each.name, each.task) for each in nodes]
    else:
        of_tasks = (agent for each in nodes for agent in (each.task.agent, each.task.fallback))
        agents = {id(each): each for each in (*ensemble.agents, *of_tasks) if each is not None}
        named = [(each.role, each) for each in agents.values()]
    parts: list[Any] = [part for own, part in named if own == name]
    if len(parts) > 1:
        raise ValidationError(
            f"{len(parts)} {kind}s are called {name!r}, so {place!r} is no single place: give one another name."
        )
    if not parts:
        raise ValidationError(f"No {kind} is called {name!r}.{did_you_mean(name, [own for own, _ in named])}")
    known = _TEXTS[kind]
    if field_name not in known:
        hint = did_you_mean(field_name, known)
        raise ValidationError(
            f"{place!r} is no text that a model is told: of {'a task' if kind == 'task' else 'an agent'} these are "
            f"{', '.join(known[:-1])} and {known[-1]}.{hint}"
        )
    text = getattr(parts[0], field_name)
    if kind == "task" and field_name != "prompt" and parts[0].prompt is not None:
        raise ValidationError(
            f"Task {name!r} has a prompt of its own, which is what its model is told: name 'task.{name}.prompt'."
        )
    if not isinstance(text, str) or not text.strip():
        raise ValidationError(f"{place!r} has no text yet, so there is nothing to improve: write a first one.")
    return text


def find_rewriter(ensemble: RunnableEnsemble, settings: ImproveSettings) -> Any:
    """The model that rewrites.

    Raises:
        ValidationError: none is known, or it is no model that can be asked here.
    """
    llm = settings.llm
    if llm is None:
        llm = ensemble.llm
    if llm is None:
        nodes = [each for each in build_graph(ensemble).all_tasks if each.llm is not None]
        first = settings.change[0].split(".", 1)[1].rpartition(".")[0]
        llm = next((each.llm for each in nodes if first in (each.name, each.role)), nodes[0].llm if nodes else None)
    if llm is None:
        raise ValidationError("Name the model that rewrites the texts: llm='openai:NAME'.")
    if isinstance(llm, RunnableEnsemble):
        raise ValidationError(
            "llm= is the model that rewrites the texts, and an ensemble is none, such as a judge: give its model."
        )
    if fault := find_llm_fault(llm):
        raise ValidationError(f"llm {fault}.")
    make_source(RunSettings()).check(llm)
    return llm


# --- The rows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SplitRows:
    """The rows, and which of them the search sees.

    Attributes:
        rows: all of them.
        searched: places of those that the search sees, in order.
        held_out: places of those that it never sees.
    """

    rows: Rows
    searched: Sequence[int]
    held_out: Sequence[int]

    def pick(self, places: Iterable[int]) -> Rows:
        """Some of the rows, as rows of a map."""
        return replace(self.rows, rows=[self.rows.rows[each] for each in places], index=None)


def split_rows(given: Any, settings: ImproveSettings) -> SplitRows:
    """Draw which rows are held out. Rows that are alike are on one side, so that none is seen by its double.

    Raises:
        ValidationError: they are no rows, too few or too many, or one side would have too few.
    """
    if hasattr(given, "__len__") and len(given) > MOST_ROWS:
        raise _refuse_many(len(given))
    rows = read_rows(given)
    count = len(rows.rows)
    if count > MOST_ROWS:
        raise _refuse_many(count)
    if count < FEWEST_ROWS:
        raise ValidationError(
            f"improve needs {FEWEST_ROWS} rows at the least, better 90: {pluralize(count, 'row')} can't tell better "
            "words from luck."
        )
    find_id_column(rows, settings.of_map.id)
    held_out = settings.held_out
    wanted = count // 3 if held_out is None else round(held_out * count) if held_out < 1 else int(held_out)
    if wanted < FEWEST_HELD_OUT or count - wanted < FEWEST_SEARCHED:
        raise ValidationError(
            f"held_out={held_out!r} holds {wanted} of {count} rows out: at least {FEWEST_HELD_OUT} are held out, and "
            f"{FEWEST_SEARCHED} are left for the search."
        )
    alike: dict[tuple[Any, ...], list[int]] = {}
    own = settings.of_map.id or "id"
    for place, row in enumerate(rows.rows):
        alike.setdefault(_identify(row, own), []).append(place)
    groups = [*alike.values()]
    random.Random(settings.seed).shuffle(groups)
    chosen: list[int] = []
    for group in groups:
        if len(chosen) + len(group) <= wanted:
            chosen += group
    if len(chosen) < FEWEST_HELD_OUT:
        raise ValidationError(
            f"Only {pluralize(len(groups), 'row')} of {count} are different, and rows that are alike can't be held out "
            "from each other: give more different ones."
        )
    return SplitRows(rows, [each for each in range(count) if each not in set(chosen)], sorted(chosen))


def _identify(row: Row, own: str) -> tuple[Any, ...]:
    values = ((name, write_value(to_kept_value(each))) for name, each in row.values.items() if name != own)
    return tuple(sorted(values))


def _refuse_many(count: int) -> ValidationError:
    return ValidationError(
        f"improve runs all rows of the search for each candidate that it keeps, and {count:,} rows are more than "
        f"{MOST_ROWS:,}: give a sample, such as rows.sample(300, random_state=0)."
    )
