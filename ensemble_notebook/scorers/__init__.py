"""Ready-made scorers (V5): ``score=[scorers.equals(), scorers.calls_at_most(3)]``.

Each is a function that gives a scorer. Its scores are called as the function is, unless a name is given:
``score={"polite": scorers.contains("please")}``. A cell takes them as text: ``--score "contains('refund')"``.
"""

from __future__ import annotations

from ensemble_notebook.scorers.of_output import close_to, contains, equals, judged_by, matches
from ensemble_notebook.scorers.of_trace import (
    called,
    called_in_order,
    calls_at_most,
    cost_at_most,
    delegated_to,
    no_errors,
    seconds_at_most,
)

__all__ = [
    "called",
    "called_in_order",
    "calls_at_most",
    "close_to",
    "contains",
    "cost_at_most",
    "delegated_to",
    "equals",
    "judged_by",
    "matches",
    "no_errors",
    "seconds_at_most",
]
