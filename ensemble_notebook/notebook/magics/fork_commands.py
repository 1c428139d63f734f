"""``%ensemble fork``: a run from a span of an earlier one on, with a change there (F2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.reading.options import DEFAULT_OUT, Options, parse_options
from ensemble_notebook.ensemble.earlier_runs.fork_change import read_change
from ensemble_notebook.ensemble.earlier_runs.fork_origin import refuse_foreign, refuse_textless
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.notebook.live.frontend import stands_alone
from ensemble_notebook.notebook.magics.run_commands import (
    WAYS,
    describe_missing,
    find_remembered,
    read_variable,
    take_arguments,
    take_values,
    take_view,
)
from ensemble_notebook.trace.execution_trace import ExecutionTrace
from ensemble_notebook.trace.spans.span_kinds import SpanKind
from ensemble_notebook.trace.store.run_facts import RunOrigin
from ensemble_notebook.trace.store.run_store import RunStore

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.fork_plan import ForkPlan

DRY_RUN: Final = "--dry-run"

_TEXTS: Final = ("--reply", "--tool-result", "--output", "--system-prompt", "--user-prompt")
_VALUES: Final = (*_TEXTS, "--llm", "--until")
OPTIONS: Final = (*_VALUES, "-o", "--view", DRY_RUN)
_USAGE: Final = (
    f"%ensemble fork takes one run {WAYS} and one span of it: its id, the number at the end of that, or the name of a "
    f"task. It may take what is different there ({', '.join(_TEXTS)} or --llm, each with a text), --until TASK, -o "
    f"NAME, the variable for its output, --view VIEW, in which its timeline opens, and --dry-run, which says what "
    f"would be done."
)


def fork_run(words: Sequence[str], shell: Any) -> EnsembleOutput | ForkPlan | None:
    """Run again from a span of a run on; its definition is that of the variable, or of the cell with the names of now.

    Gives the output, which is also bound to ``_ensemble``, or the name after ``-o``; nothing where the line stands for
    itself, since all is shown by then. With ``--dry-run`` the plan, and nothing is done.

    Raises:
        ValidationError: no run or no span is named, a change does not fit it, or the cell needs names that are missing.
        StoreError: there is no such run.
        EnsembleError: what the run raises.
    """
    rest, is_dry_run = [each for each in words if each != DRY_RUN], DRY_RUN in words
    out = [name for _, name in take_values(rest, "-o", "--out")] or [DEFAULT_OUT]
    view = take_view(rest, "%ensemble fork")
    given = dict(take_arguments("fork", rest, _VALUES, shell))
    until = given.pop("until", None)
    if wrong := next((each for each in rest if each.startswith("--")), None):
        raise ValidationError(f"%ensemble fork knows no {wrong!r}.{did_you_mean(wrong, OPTIONS)}")
    if len(rest) != 2 or len(out) != 1 or not out[0].isidentifier():
        raise ValidationError(_USAGE)
    word, span_word = rest
    change = read_change(**given)
    magics = shell.magics_manager.registry["EnsembleMagics"]
    held = read_variable(word, shell)
    if isinstance(held, EnsembleOutput) and held._journal is not None:  # it has its definition, and its true texts
        span = find_span(held.trace, span_word)
        options, origin = Options(), _find_origin(held.run_id)
        options = replace(options, only=until, out=out[0], view=view)
        plan = magics.fork(held.ensemble, held, span, change, options, origin, is_dry_run=is_dry_run)
        return _give(plan, shell, out[0])
    run = find_remembered(word, shell)
    refuse_foreign(run)
    if not run.facts.keeps_texts:
        raise refuse_textless(run.run_id)
    span = find_span(RunStore.open().load_trace(run), span_word)
    kept = run.facts.origin
    if kept is None or not kept.text:
        raise ValidationError(
            f"Run {run.run_id} was begun in Python, so there is no cell that says what it runs. Fork it from Python: "
            f"ensemble.fork({run.run_id!r}, {span!r})."
        )
    options = _clear(parse_options(kept.options), until, out[0])
    options = replace(options, view=view or options.view)
    try:
        plan = magics.fork(None, run.run_id, span, change, options, kept, is_dry_run=is_dry_run)
    except CellError as error:
        again = f"%ensemble fork {word} {span_word}"
        raise ValidationError(describe_missing(run, kept, error, again)) from None
    return _give(plan, shell, out[0])


def _give(plan: ForkPlan | None, shell: Any, out: str) -> EnsembleOutput | ForkPlan | None:
    if plan is not None:
        if out != DEFAULT_OUT:
            shell.user_ns[out] = plan
        return plan
    output: EnsembleOutput = shell.user_ns[out]
    return None if stands_alone(shell) else output


def _clear(options: Options, until: str | None, out: str) -> Options:
    """The options of the cell, without what a fork does by itself."""
    if options.map is not None or options.vary or options.repeat is not None:
        raise ValidationError(
            "This cell runs for many rows, and a fork is of one of them: result.fork(ROW, SPAN, ...), where result is "
            "what its -o binds, or load_traces().load_map(ID)."
        )
    return replace(
        options,
        out=out,
        only=until,
        record=None,
        replay=None,
        replay_tools=None,
        pace=None,
        reuse=False,
        continue_from=None,
        is_background=False,
    )


def find_span(trace: ExecutionTrace, word: str) -> str:
    """The id of the span that a word names: its id, the number at the end of that, or the name of a task.

    Raises:
        ValidationError: there is none, or there are several tasks of this name.
    """
    spans = trace._fold.spans
    for span_id in (word, f"{trace.run_id}.{word}"):
        if span_id in spans:
            return span_id
    tasks = [each for each in spans.values() if each.kind is SpanKind.TASK]
    found = [each.span_id for each in tasks if each.name == word]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValidationError(
            f"Run {trace.run_id} has {len(found)} tasks {word!r}: {', '.join(found)}. Name one by its id."
        )
    hint = did_you_mean(word, [each.name for each in tasks])
    raise ValidationError(
        f"Run {trace.run_id} has no span {word!r}.{hint} output.frames.spans lists model calls, tool calls and tasks."
    )


def _find_origin(run_id: str) -> RunOrigin | None:
    store = RunStore.find()
    runs = () if store is None else store.list_runs()
    return next((each.facts.origin for each in runs if each.run_id == run_id), None)
