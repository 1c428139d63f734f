"""``%ensemble demo``: runs of scripted teams, recorded and shipped; they need no model, key or network (C101)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ensemble_notebook.cell.reading.options import DEFAULT_OUT
from ensemble_notebook.domain import events as ev
from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.package_files import find_package_file
from ensemble_notebook.domain.seams.chat_port import make_task_path
from ensemble_notebook.domain.seams.views import render_view
from ensemble_notebook.ensemble.earlier_runs.run_journal import DoneWork, RunJournal
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import make_loaded_output, make_result
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.person import InterruptGuard
from ensemble_notebook.errors import RunInterrupted, ValidationError, did_you_mean
from ensemble_notebook.notebook.live.frontend import choose_display_mode, stands_alone
from ensemble_notebook.notebook.live.played_run import PlayedRun
from ensemble_notebook.notebook.live.run_display import ShownCell, make_run_display
from ensemble_notebook.notebook.magics.run_commands import take_values, take_view
from ensemble_notebook.notebook.picture.static_picture import find_view
from ensemble_notebook.trace.analysis.map_rows import get_design
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.timeline_wording import DEMO
from ensemble_notebook.trace.store.run_facts import RunOrigin

DEMOS: Final = {
    "report": "three look something up, one writes, one sends it back, and the budget refuses the rest",
    "manager": "a manager asks four workers, and is refused once",
    "map": "300 letters under two prompts, until it is clear which one is better",
}
"""The demos by their names, and what happens in them; the first is played where none is named."""

_PACES: Final = ("recorded", "now")
_USAGE: Final = (
    f"%ensemble demo takes one of {', '.join(DEMOS)}, and may take --pace now, which shows its end at once, "
    f"--view VIEW, in which it opens, and -o NAME, the variable for its output."
)


def play_demo(words: Sequence[str], shell: Any) -> EnsembleOutput | MapResult | None:
    """Play a demo as a run of a cell is shown, at its own pace where somebody watches.

    Gives the output, which is also bound to ``_ensemble``, or the name after ``-o``; nothing where the line stands for
    itself, since all is shown by then.

    Raises:
        ValidationError: there is no such demo, pace or name.
        RunInterrupted: it was stopped; has what was played as ``output``, which is bound, too.
    """
    name, pace, out, view = _read_words(words)
    magics = shell.magics_manager.registry["EnsembleMagics"]
    magics.stop_warm_up()
    played = PlayedRun(_find_file(f"{name}.trace.json.gz"), f"{DEMO}{name}")
    shown = ShownCell(variable=out, cell=None, has_timeline=True, is_background=False, view=view or find_view())
    run_display = make_run_display(choose_display_mode(shell, magics.display), played.cost, shown)
    with InterruptGuard() as guard:
        guard.call(played.stop)
        run_display.open(played.plan)
        run_display.follow(played.stop, None)
        trace = played.play(run_display.listeners, is_paced=pace != "now" and run_display.is_watched)
        is_map = bool(get_design(trace._fold).rows)
        made = shell.user_ns[out] = make_result(trace) if is_map else _make_output(trace, name)
        output = made.output if isinstance(made, MapResult) else made
        run_display.close(output, made if isinstance(made, MapResult) else None)
    if trace.status is RunStatus.INTERRUPTED and output is not None:
        done = f"{len(output)} of {output.plan.total_tasks} {trace._fold.task_noun}s"
        error = RunInterrupted(f"the demo was stopped; {done} are done and kept.")
        error.output = made
        raise error
    return None if stands_alone(shell) else made


def _read_words(words: Sequence[str]) -> tuple[str, str, str, str | None]:
    """The name of the demo, its pace, the variable for its output, and the view in which it opens."""
    rest = list(words)
    view = take_view(rest, "%ensemble demo")
    outs = [out for _, out in take_values(rest, "-o", "--out")]
    paces = [pace for _, pace in take_values(rest, "--pace")]
    name = rest[0] if rest else next(iter(DEMOS))
    if len(rest) > 1 or name.startswith("-"):
        raise ValidationError(f"%ensemble demo can't read {' '.join(rest)!r}. {_USAGE}")
    if name not in DEMOS:
        told = "; ".join(f"{each}: {meaning}" for each, meaning in DEMOS.items())
        raise ValidationError(f"There is no demo {name!r}.{did_you_mean(name, [*DEMOS])} There are: {told}.")
    pace, out = [*_PACES[:1], *paces][-1], [DEFAULT_OUT, *outs][-1]
    if pace not in _PACES:
        raise ValidationError(f"%ensemble demo: --pace can't be {pace!r}.{did_you_mean(pace, _PACES)}")
    if not out.isidentifier():
        raise ValidationError(f"%ensemble demo: -o wants the name of a variable, got {out!r}.")
    return name, pace, out, view


def _find_file(name: str) -> Path:
    return find_package_file("demos") / name


def _make_output(trace: ExecutionTrace, name: str) -> EnsembleOutput:
    """The output of what was played, which can be forked: what was said and done in it ships beside it."""
    cell = _find_file(f"{name}.yaml").read_text(encoding="utf-8")
    lines = _find_file(f"{name}.said.jsonl").read_text(encoding="utf-8").replace(RUN_ID, trace.run_id).splitlines()
    spans = trace._fold.spans
    documents = [each for each in map(json.loads, lines) if "span" not in each or each["span"] in spans]
    journal = RunJournal(
        inputs=trace.inputs,
        documents=[partial(_give, each) for each in documents],
        done=[*_list_done(trace._events)],
        cell=RunOrigin(text=cell),
    )
    return make_loaded_output(trace, render_view("from_cell", f"%%ensemble\n{cell}", {}), journal)


RUN_ID: Final = "RECORDED"
"""The run's id in what was said in it."""


def _give(document: Any, _: bool) -> Any:
    return document


def _list_done(events: Iterable[ev.Event]) -> Iterable[DoneWork]:
    """What the tasks of the plan have done, in order."""
    attempts = Counter[str]()
    planned: set[str] = set()
    for each in events:
        if isinstance(each, ev.PlanMade):
            planned.update(each.task_span_ids)
        elif isinstance(each, ev.TaskStarted):
            attempts[each.span_id] += 1
        elif isinstance(each, ev.TaskCompleted) and each.span_id in planned:
            path = make_task_path(each.output.name, each.phase)
            yield DoneWork(path, each.output, (), attempts[each.span_id], (), ())
