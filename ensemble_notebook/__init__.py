"""Ensembles of LLM agents in a notebook: ``%load_ext ensemble_notebook``, then ``%%ensemble`` cells.

The same from Python::

    from ensemble_notebook import Ensemble, Task

    Ensemble(tasks=[Task.of("Write a haiku about tides")]).run()

The public names are listed in ``__init__.pyi``, for type checkers and for this module alike. Each is imported at its
first use, so that loading the extension is cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import lazy_loader

from ensemble_notebook.domain.seams.views import register_view
from ensemble_notebook.errors import register_cell_namer

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.2.0"


def _name_cell(file: str) -> str | None:
    """How the notebook calls a cell that is run as this file; None for other files."""
    if "IPython" not in sys.modules:
        return None
    name: str | None = import_module("ensemble_notebook.notebook.live.frontend").name_cell(file)
    return name


__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]

register_cell_namer(_name_cell)
register_view("timeline", "ensemble_notebook.notebook.live.timeline_widget:make_timeline")
register_view("run_timeline", "ensemble_notebook.notebook.live.followed_run:make_run_timeline")
register_view("watched_run", "ensemble_notebook.notebook.live.watched_run:show_watched_run")
register_view("cell_end", "ensemble_notebook.notebook.live.watched_run:call_at_cell_end")
register_view("diff_timeline", "ensemble_notebook.notebook.live.timeline_widget:make_diff_timeline")
register_view("output", "ensemble_notebook.notebook.live.run_display:make_shown_output")
register_view("trace", "ensemble_notebook.notebook.picture.static_picture:make_trace_bundle")
register_view("page", "ensemble_notebook.notebook.picture.run_page:make_page")
register_view("class_page", "ensemble_notebook.notebook.picture.class_page:make_class_page")
register_view("map_page", "ensemble_notebook.notebook.picture.run_page:make_map_page")
register_view("svg", "ensemble_notebook.notebook.picture.svg_picture:draw_svg")
register_view("row_selection", "ensemble_notebook.notebook.live.timeline_widget:make_row_selection")
register_view("map", "ensemble_notebook.notebook.picture.map_picture:make_map_bundle")
register_view("plan", "ensemble_notebook.notebook.picture.static_picture:make_plan_bundle")
register_view("comparison", "ensemble_notebook.notebook.picture.verdict_picture:make_comparison_bundle")
register_view("comparison_text", "ensemble_notebook.notebook.picture.verdict_picture:draw_text")
register_view("check", "ensemble_notebook.notebook.picture.check_picture:make_check_bundle")
register_view("show_check", "ensemble_notebook.notebook.live.frontend:show_picture")
register_view("score_history", "ensemble_notebook.notebook.picture.verdict_picture:make_history_bundle")
register_view("diff", "ensemble_notebook.notebook.picture.diff_picture:make_diff_bundle")
register_view("run_history", "ensemble_notebook.notebook.picture.diff_picture:make_history_bundle")
register_view("family", "ensemble_notebook.trace.store.families:sum_family")
register_view("loaded_output", "ensemble_notebook.ensemble.many_runs.loaded_map:make_loaded_output")
register_view("frames", "ensemble_notebook.notebook.picture.shown_table:make_frames_bundle")
register_view("standing", "ensemble_notebook.evaluation.standing:describe_standing")
register_view("fork_plan", "ensemble_notebook.notebook.picture.fork_picture:make_fork_plan_bundle")
register_view("rerun", "ensemble_notebook.notebook.picture.rerun_picture:make_rerun_bundle")
register_view("improvement", "ensemble_notebook.notebook.picture.improvement_picture:make_improvement_bundle")
register_view("text_changes", "ensemble_notebook.notebook.picture.diff_picture:make_changes_bundle")
register_view("transcript", "ensemble_notebook.notebook.picture.transcript_picture:make_transcript_bundle")
register_view("cell", "ensemble_notebook.cell.writing.cell_writer:write_cell")
register_view("changed_cell", "ensemble_notebook.cell.changed_cell:write_changed_cell")
register_view("from_cell", "ensemble_notebook.cell.cell_reader:load_ensemble")
register_view("fork", "ensemble_notebook.ensemble.stored_definition:fork_stored")
register_view("notebook_names", "ensemble_notebook.notebook.live.frontend:find_names_here")
register_view("reader", "ensemble_notebook.notebook.live.frontend:has_reader_here")
register_view("event", "ensemble_notebook.trace.codec.event_codec:event_to_dict")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext ensemble_notebook``: adds ``%%ensemble`` and ``%ensemble``."""
    from ensemble_notebook.notebook.magics.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext ensemble_notebook``: takes everything out again."""
    from ensemble_notebook.notebook.magics.extension import unload

    unload(shell)
