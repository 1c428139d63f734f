"""A cell that has been read without a mistake, ready to become an ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ensemble_notebook.cell.binding.ensemble_builder import EnsembleBuilder
from ensemble_notebook.cell.binding.name_resolver import NameResolver
from ensemble_notebook.cell.language.remedies import to_cell_words
from ensemble_notebook.cell.object_names import remember_names
from ensemble_notebook.cell.reading.sections import Section
from ensemble_notebook.cell.text.mistakes import MistakeReport, Notice
from ensemble_notebook.cell.text.source_text import SourceText
from ensemble_notebook.domain.definitions.definition import get_field_names
from ensemble_notebook.domain.definitions.ensemble_definition import EnsembleDefinition
from ensemble_notebook.domain.planning.ensemble_rules import list_known_items
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, PlanPreview, list_tools, make_plan
from ensemble_notebook.domain.planning.graph import Graph

if TYPE_CHECKING:
    from ensemble_notebook.cell.binding.scorer_binder import CellScorers
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
    from ensemble_notebook.ensemble.ensemble import Ensemble


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """What a cell says.

    Attributes:
        definition: everything but the objects behind dotted names, which are imported by `build` only.
        graph: of the definition.
        inputs: the values of its template variables, first found of options, ``inputs:`` and the notebook.
        variables: the names of its template variables, in order of appearance.
        missing: those without a value; empty unless it was read with ``needs_inputs=False``.
        notices: what a person should know before it runs.
        continued: the output of the run that this one goes on with; None where it begins afresh.
        scorers: what scores its runs; None where nothing does.
        warnings: what is odd about the ensemble as a whole; a run says it by itself.
    """

    definition: EnsembleDefinition
    graph: Graph
    inputs: Mapping[str, Any]
    variables: tuple[str, ...]
    missing: tuple[str, ...]
    notices: tuple[Notice, ...]
    warnings: tuple[str, ...]
    continued: Any
    scorers: CellScorers | None
    _source: SourceText
    _section: Section
    _namespace: Mapping[str, Any] | None
    _has_names: bool

    @property
    def plan(self) -> ExecutionPlan:
        """What a run would do. Imports and calls nothing."""
        plan = make_plan(self.graph, self.inputs, list_known_items(self.graph, self.inputs))
        from ensemble_notebook.ensemble.run_preparation import list_gate_warnings

        warnings = list_gate_warnings(self.definition, self.graph)
        return replace(plan, preview=PlanPreview(tools=list_tools(plan, self.graph), warnings=warnings))

    def estimate(self, name: str | None = None) -> CostEstimate | None:
        """What a run would take; None where nobody can tell without importing what the cell names.

        Args:
            name: of the variable that the output is bound to, which its earlier runs are remembered under.
        """
        from ensemble_notebook.ensemble.cost_estimation import estimate, find_usual_replies

        definition = self.definition
        try:
            items = list_known_items(self.graph, self.inputs)
            replies = find_usual_replies(definition.name or name, self.graph)
            found = estimate(definition, self.graph, self.inputs, datetime.now(UTC), items, replies)
            if self.scorers is None:
                return found
            from ensemble_notebook.ensemble.many_runs.map_estimate import add_judges

            return add_judges(found, self.scorers.score, self.scorers.expected, self.inputs)
        except Exception:  # noqa: BLE001 - what stands for an object that is not imported has no schema; or no key is set
            return None

    def list_refusals(self, *, is_map: bool = False) -> list[str]:
        """Why its budget would have a run refused: the models whose price nobody knows (E36).

        Args:
            is_map: whether it runs for rows, of which the judges are paid from the budget, too.
        """
        from ensemble_notebook.ensemble.run_checks import find_judge_price_problems, find_price_problems

        problems = [*find_price_problems(self.definition, self.graph)]
        if is_map and self.scorers is not None:
            from ensemble_notebook.ensemble.many_runs.map_settings import MapSettings

            scorers = MapSettings(score=self.scorers.score).scorers
            problems += find_judge_price_problems(self.definition, scorers)
        return [to_cell_words(each.message) for each in problems]

    def build(self, namespace: Mapping[str, Any] | None = None) -> Ensemble:
        """The ensemble that runs; the only place where a cell's dotted names are imported.

        Args:
            namespace: the notebook's variables; without it, those that the cell was read with.

        Raises:
            CellError: a name can't be imported, or names something that does not fit.
        """
        from ensemble_notebook.ensemble.ensemble import Ensemble

        if not self._has_names:  # the definition has no stand-ins, and a large one takes a while to make again
            fields = get_field_names(EnsembleDefinition)
            return Ensemble(**{name: getattr(self.definition, name) for name in fields})
        report = MistakeReport(self._source)
        names = self._namespace if namespace is None else namespace
        with report:
            resolver = NameResolver(names, imports=True)
            ensemble, _ = EnsembleBuilder(self._section, resolver, self.inputs, report).make(Ensemble)
        if names is not None:
            remember_names(ensemble, names)
        return ensemble
