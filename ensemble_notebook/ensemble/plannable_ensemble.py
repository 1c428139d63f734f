"""What an ensemble can tell before it runs: its mistakes, its plan, and an estimate of its cost (E5, E6)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate
from ensemble_notebook.domain.planning.ensemble_texts import list_texts
from ensemble_notebook.domain.planning.execution_plan import ExecutionPlan, make_plan
from ensemble_notebook.domain.planning.known_items import list_known_items
from ensemble_notebook.domain.rules.ensemble_rules import check_ensemble
from ensemble_notebook.ensemble.convertible_ensemble import ConvertibleEnsemble
from ensemble_notebook.ensemble.cost_estimation import estimate
from ensemble_notebook.ensemble.run_checks import check_runnable, make_pricing
from ensemble_notebook.ensemble.run_inputs import merge_inputs, write_inputs
from ensemble_notebook.ensemble.run_preparation import make_source
from ensemble_notebook.ensemble.run_settings import Inputs, RunSettings


class PlannableEnsemble(ConvertibleEnsemble, ABC):
    """The part of `Ensemble` that runs nothing."""

    __slots__ = ()

    def validate(self) -> tuple[str, ...]:
        """Check the rules between the objects, and that every model is available here (E5).

        Returns:
            Warnings about what is unusual but can run.

        Raises:
            ValidationError: with all problems that were found.
        """
        return check_runnable(self, make_source(RunSettings()))[1]

    def plan(self, inputs: Inputs = None, /, **variables: Any) -> ExecutionPlan:
        """Plan a run without running it. Variables without a value stay as they are.

        Args:
            inputs: values of template variables.
            **variables: more values, as keywords.

        Raises:
            ValidationError: the ensemble can't run.
        """
        graph, values = check_ensemble(self)[0], merge_inputs(self, inputs, variables)
        return make_plan(graph, self._write_inputs(values), list_known_items(graph, values))

    def estimate(self, inputs: Inputs = None, /, **variables: Any) -> CostEstimate:
        """Estimate the model calls, tokens and cost of a run, each as a range. No model is started.

        Args:
            inputs: values of template variables.
            **variables: more values, as keywords.

        Raises:
            ValidationError: the ensemble can't run.
        """
        graph, _ = check_runnable(self, make_source(RunSettings()))
        values = merge_inputs(self, inputs, variables)
        items = list_known_items(graph, values)
        return estimate(self, graph, self._write_inputs(values), make_pricing(self), datetime.now(UTC), items)

    def _write_inputs(self, values: Mapping[str, Any]) -> Mapping[str, str]:
        return write_inputs(list_texts(self), values)[0]
