"""SQL over the runs that are remembered (T121): ``store.sql("select name, sum(cost) from runs group by name")``."""

from __future__ import annotations

from ensemble_notebook.trace.queries.query import sql

__all__ = ["sql"]
