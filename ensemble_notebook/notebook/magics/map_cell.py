"""Cells with ``--map``, ``--vary`` or ``--repeat``: their runs, and the question before an expensive one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_notebook.cell.reading.options import DEFAULT_OUT
from ensemble_notebook.domain.planning.ensemble_rules import check_ensemble
from ensemble_notebook.domain.planning.graph import build_graph
from ensemble_notebook.domain.wording import format_money, pluralize
from ensemble_notebook.ensemble.many_runs.earlier_rows import list_remaining
from ensemble_notebook.ensemble.many_runs.map_estimate import estimate_runs
from ensemble_notebook.ensemble.many_runs.map_run import start_map
from ensemble_notebook.ensemble.many_runs.map_settings import MapArguments, MapSettings
from ensemble_notebook.ensemble.many_runs.rows import Rows, attach_files, find_id_column, make_only_row, read_rows
from ensemble_notebook.ensemble.many_runs.variants import combine, make_variants
from ensemble_notebook.errors import RunInterrupted, ValidationError, find_nearest
from ensemble_notebook.notebook.live.frontend import can_answer
from ensemble_notebook.trace.row_files import is_row_file, read_row_file

if TYPE_CHECKING:
    from ensemble_notebook.cell.binding.scorer_binder import CellScorers
    from ensemble_notebook.cell.cell_reader import Cell
    from ensemble_notebook.cell.reading.options import Options
    from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
    from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan
    from ensemble_notebook.ensemble.ensemble import Ensemble
    from ensemble_notebook.ensemble.many_runs.map_run import MapHandle
    from ensemble_notebook.ensemble.run_settings import RunSettings
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

_LLM = "llm"
_INPUTS = "inputs"
_DEAR = 3
_ALLOW = "%config EnsembleMagics.confirm_cost = None"


def find_rows(
    names: Mapping[str, Any], place: str, id_column: str | None, attach: Sequence[str] = ()
) -> tuple[Any, Rows]:
    """What a variable of the notebook, or a file, holds; as it is, and read as rows, with the files of columns.

    Raises:
        ValidationError: there is no such variable or file, or it holds no rows.
    """
    try:
        if is_row_file(place):
            given = read_row_file(Path(place).expanduser())
        elif place not in names:
            near = find_nearest(place, [name for name in names if not name.startswith("_")])
            hint = f" Did you mean {near!r}?" if near else " Set it in a cell above."
            raise ValidationError(f"the notebook has no variable of this name.{hint}")
        elif hasattr(given := names[place], "__next__"):  # it would be used up by the first look
            raise ValidationError(f"it can be read only once. Make a list of it: {place} = list(...).")
        rows = attach_files(read_rows(given), attach)
        find_id_column(rows, id_column)  # a dry run says it, too
    except ValidationError as error:
        raise ValidationError(f"--map {place}: {error}") from None
    return given, rows


class ManyRuns:
    """The runs of one cell: of each row of ``--map``, with each combination of ``--vary``, ``--repeat`` times.

    Args:
        options: of the cell, with one of the three.
        names: the notebook's variables.

    Attributes:
        given: the names of the inputs that rows and variants provide, columns first.

    Raises:
        ValidationError: the variable holds no rows.
    """

    def __init__(self, options: Options, names: Mapping[str, Any]) -> None:
        self._options = options
        if options.map is None:
            self._given = self._rows = make_only_row({})
        else:
            self._given, self._rows = find_rows(names, options.map, options.id, options.attach)
        self._changes = {name: _to_changes(values, names) for name, values in combine(options.vary).items() if values}
        all_rows = replace(self._rows, rows=[*self._rows.rows] * (options.repeat or 1))
        self._to_run = [all_rows] * max(1, len(self._changes))
        self.given = tuple(dict.fromkeys([*self._rows.columns, *(name for name in options.vary if name != _LLM)]))

    def leave_out_done(self, earlier: Iterable[ExecutionTrace]) -> None:
        """Ask only for what is left to do, where the cell goes on with an earlier run, and that perhaps with others."""
        remaining = list_remaining(
            list(self._changes) or [None], self._rows, self._options.repeat, self._options.id, earlier
        )
        self._to_run = [replace(self._rows, rows=rows) for rows in remaining]

    def describe(self) -> str:
        """How many runs there are, and of what: ``6 runs, one for each row of df under each of 2 variants``.

        Where some are done, ``2 of 6 runs, ...``.
        """
        variants = f"{pluralize(len(self._changes), 'variant')}"
        count = len(self._rows.rows) * max(1, len(self._changes)) * (self._options.repeat or 1)
        left = sum(len(rows.rows) for rows in self._to_run)
        runs = pluralize(count, "run") if left == count else f"{left:,} of {pluralize(count, 'run')}"
        each = "one" if self._options.repeat is None else f"{self._options.repeat:,}"
        if self._options.map is None:
            return f"{runs}, {each} for each of {variants}" if self._changes else f"{runs} of the cell"
        rows = f"{each} for each row of {self._options.map}"
        return f"{runs}, {rows}{f' under each of {variants}' if self._changes else ''}"

    def plan(self, read: Cell) -> ExecutionPlan:
        """What each of them would do; a task has the models of all variants. Imports and calls nothing."""
        changed = [_change_definition(read.definition, each) for each in self._changes.values() if _LLM in each]
        plans = [replace(read, definition=each, graph=build_graph(each)).plan for each in changed]
        return _join_models(plans) if plans else read.plan

    def list_refusals(self, read: Cell) -> list[str]:
        """Why the budget would have them refused, under any of the variants."""
        changed = [_change_definition(read.definition, each) for each in self._changes.values() or ({},)]
        cells = [replace(read, definition=each, graph=check_ensemble(each)[0]) for each in changed]
        return list(dict.fromkeys(refusal for cell in cells for refusal in cell.list_refusals(is_map=True)))

    def estimate(self, read: Cell) -> CostEstimate | None:
        """What the cell will take in all; None where nobody can tell without importing what it names."""
        variants = [
            (_change_definition(read.definition, changes), rows, {**read.inputs, **changes.get(_INPUTS, {})})
            for changes, rows in zip(self._changes.values() or ({},), self._to_run, strict=True)
        ]
        try:
            out = self._options.out
            return estimate_runs(variants, self._make_settings(read.scorers), None if out == DEFAULT_OUT else out)
        except Exception:  # noqa: BLE001 - what stands for an object that is not imported has no schema, or no key is set
            return None

    def confirm_cost(self, shell: Any, read: Cell, most: float) -> None:
        """Ask before runs of which three times the likely cost is more than `most` (V14).

        Where a price is unknown that is said, and nobody is asked about it: many models of one's own have none. What is
        known beside it counts.

        Raises:
            ValidationError: nobody can be asked; says how to allow it.
            RunInterrupted: the answer was no.
        """
        if not any(rows.rows for rows in self._to_run):
            return
        runs, estimate = self.describe(), self.estimate(read)
        if estimate is None:
            sys.stdout.write(f"What they may cost can't be told before they run: {runs}.\n")
            return
        confirm_estimate(shell, runs, estimate, most, has_budget=read.definition.budget is not None)

    def start(
        self, ensemble: Ensemble, inputs: Mapping[str, Any], settings: RunSettings, scorers: CellScorers | None
    ) -> MapHandle:
        """Begin them, with what scores them.

        Raises:
            ValidationError, PromptTemplateError: they can't run like this; nothing was called.
        """
        variants = make_variants(ensemble, self._changes) if self._changes else ()
        given = MapArguments(self._given, settings, self._make_settings(scorers))
        handle = start_map(ensemble, given, inputs, variants)
        handle._begin()
        return handle

    def _make_settings(self, scorers: CellScorers | None) -> MapSettings:
        scored: dict[str, Any] = {} if scorers is None else {"score": scorers.score, "expected": scorers.expected}
        options = self._options
        if scorers is not None:  # a plan of what is not bound yet has no scorers to end it
            scored |= {"until_clear": options.until_clear, "seed": options.seed or 0, "is_": options.is_}
        return MapSettings(repeat=options.repeat, id=options.id, attach=options.attach, **scored)


def confirm_estimate(shell: Any, runs: str, estimate: CostEstimate, most: float, *, has_budget: bool) -> None:
    """Ask before what may cost much.

    Args:
        shell: whoever is asked.
        runs: what is going to run, in words.
        estimate: of all of it.
        most: what nobody is asked about, where three times the likely cost is no more than that.
        has_budget: whether a budget limits it.

    Raises:
        ValidationError: nobody can be asked; says how to allow it.
        RunInterrupted: the answer was no.
    """
    cost = estimate.known_cost
    if estimate.cost is None:
        sys.stdout.write(_describe_unpriced(runs, estimate, has_budget=has_budget))
    dear = _DEAR * cost.likely
    if min(dear, estimate.limit or dear, cost.high) <= Decimal(str(most)):
        return
    what = f"{runs}, cost {estimate.describe_cost()}"
    if not can_answer(shell):
        allowed = format_money(most, estimate.currency)
        raise ValidationError(
            f"{what}. {_DEAR} times the likely cost is more than confirm_cost ({allowed}), and nobody is here to "
            f"be asked. Allow it in a cell above: {_ALLOW}. Or set a limit: --budget '{allowed}'."
        )
    sys.stdout.write(f"{what[0].upper()}{what[1:]}.\nEstimate: {estimate}.\n")
    answer = input("Run them? [y/N] ")
    if answer.strip().casefold() not in ("y", "yes"):
        raise RunInterrupted("nothing was run, as you wished.")


def _to_changes(values: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, Any]:
    """One combination of values as the changes of a variant. A model may be a variable of the notebook."""
    inputs = {name: value for name, value in values.items() if name != _LLM}
    changes: dict[str, Any] = {_INPUTS: inputs} if inputs else {}
    if _LLM in values:
        changes[_LLM] = names.get(values[_LLM], values[_LLM])
    return changes


def _change_definition(definition: EnsembleDefinition, changes: Mapping[str, Any]) -> EnsembleDefinition:
    """What a variant runs; the same object where its model is that of the cell."""
    return replace(definition, llm=changes[_LLM]) if _LLM in changes else definition


def _join_models(plans: Sequence[ExecutionPlan]) -> ExecutionPlan:
    """One plan for those of all variants, which differ in nothing but models."""
    tasks = []
    for same in zip(*(each.tasks for each in plans), strict=True):
        models = dict.fromkeys(each.llm for each in same if each.llm is not None)
        nested = [each.nested for each in same if each.nested is not None]
        joined = _join_models(nested) if nested else None
        tasks.append(replace(same[0], llm=" or ".join(models) or None, nested=joined))
    return replace(plans[0], tasks=tuple(tasks))


def _describe_unpriced(runs: str, estimate: CostEstimate, *, has_budget: bool) -> str:
    """What is known of runs whose price is not."""
    told = (
        f"What they may cost is unknown, since no price is known of {', '.join(estimate.unpriced)}: {runs}; "
        f"model calls: {estimate.llm_calls}; tokens: {estimate.total_tokens}.\n"
    )
    if has_budget:
        return told
    calls = max(1, int(estimate.llm_calls.low))
    return (
        f"{told}`cost: {{input_rate: ..., output_rate: ...}}` beside a model, or in its own ensemble, tells its price; "
        f"--budget '{calls} calls' limits them.\n"
    )
