"""``%ensemble rerun``: a model call of a run once more, with what is given in place of what it had (F1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.value_text import read_json
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
from ensemble_notebook.ensemble.many_runs.loaded_map import load_result
from ensemble_notebook.ensemble.many_runs.map_result import MapResult
from ensemble_notebook.ensemble.many_runs.rerun import Rerun
from ensemble_notebook.errors import ValidationError, did_you_mean
from ensemble_notebook.notebook.magics.fork_commands import DRY_RUN, find_span
from ensemble_notebook.notebook.magics.map_cell import confirm_estimate
from ensemble_notebook.notebook.magics.run_commands import (
    WAYS,
    find_remembered,
    read_variable,
    take_arguments,
    take_values,
)
from ensemble_notebook.trace.execution_trace import ExecutionTrace

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.cost_estimate import CostEstimate

_VALUES: Final = ("--system-prompt", "--user-prompt", "--llm", "--repeat", "--budget")
OPTIONS: Final = (*_VALUES, "-o", DRY_RUN)
_USAGE: Final = (
    f"%ensemble rerun takes one run {WAYS} and one model call of it: its id, the number at the end of that, or the "
    f"name of a task that has one. It may take what is different: --system-prompt, --user-prompt or --llm, each with a "
    f"text, and parameters of the model, such as temperature=0; --repeat N, --budget LIMIT, -o NAME, the variable for "
    f"the replies, and --dry-run, which says what they would cost."
)


def rerun_call(words: Sequence[str], shell: Any) -> Rerun | CostEstimate:
    """Make a call again, and give its replies, which ``-o`` also binds; with ``--dry-run`` the estimate.

    Raises:
        ValidationError: no run or no call is named, or it can't be made again; nothing was asked.
        StoreError: there is no such run.
        RunInterrupted: it was not to cost so much, or was stopped.
    """
    rest, is_dry_run = [each for each in words if each != DRY_RUN], DRY_RUN in words
    names = [name for _, name in take_values(rest, "-o", "--out")]
    given = dict(take_arguments("rerun", rest, _VALUES, shell))
    if (repeat := given.get("repeat")) is not None:
        given["repeat"] = int(repeat) if repeat.isdecimal() else repeat
    if wrong := next((each for each in rest if each.startswith("--")), None):
        raise ValidationError(f"%ensemble rerun knows no {wrong!r}.{did_you_mean(wrong, OPTIONS)}")
    run_and_span, parameters = rest[:2], rest[2:]
    if len(run_and_span) != 2 or len(names) > 1 or not all(map(str.isidentifier, names)):
        raise ValidationError(_USAGE)
    for each in parameters:
        name, sign, text = each.partition("=")
        if not (name.isidentifier() and sign):
            raise ValidationError(f"{each!r} is no parameter, such as temperature=0. {_USAGE}")
        given[name] = _read_value(text)
    run = _find_run(run_and_span[0], shell)
    span = find_span(run.trace, run_and_span[1])
    estimate: CostEstimate = run.rerun(span, **given, plan=True)
    made: Rerun | CostEstimate = estimate
    if not is_dry_run:
        most = shell.magics_manager.registry["EnsembleMagics"].confirm_cost
        if most is not None:
            what = pluralize(given.get("repeat", 1), "reply")
            has_budget = "budget" in given or run.ensemble.budget is not None
            confirm_estimate(shell, what, estimate, most, has_budget=has_budget)
        made = run.rerun(span, **given)
    for name in names:
        shell.user_ns[name] = made
    return made


def _find_run(word: str, shell: Any) -> EnsembleOutput:
    """The run that a word names: of a variable, or of the store."""
    held = read_variable(word, shell)
    if isinstance(held, Rerun):
        held = held.result
    if held is None or isinstance(held, ExecutionTrace):
        held = load_result(find_remembered(word, shell).run_id)
    output = held.output if isinstance(held, MapResult) else held
    if not isinstance(output, EnsembleOutput):
        raise ValidationError(f"{word} has no run whose calls could be made again. {_USAGE}")
    return output


def _read_value(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text
