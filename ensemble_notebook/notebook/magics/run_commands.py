"""``%ensemble runs`` and ``%ensemble show``: what the store remembers."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.errors import ValidationError, did_you_mean, make_readable

if TYPE_CHECKING:
    import pandas as pd

    from ensemble_notebook.trace.comparison.run_history import RunHistory
    from ensemble_notebook.trace.execution_trace import ExecutionTrace

COMPARED: Final = 5
"""How many runs are compared where nobody says."""


def list_runs(words: Sequence[str], shell: Any) -> pd.DataFrame | RunHistory | None:
    """The remembered runs, newest first; with ``--clear`` all that are over are forgotten instead.

    With ``--compare``, the last ones of this notebook, each with what changed since the one before; ``-n`` says how
    many.

    Raises:
        ValidationError: another word follows, or no number.
        StoreError: runs are not remembered, or the store can't be read.
    """
    from ensemble_notebook.notebook.magics.compare_commands import compare_last_runs
    from ensemble_notebook.notebook.picture.runs_table import RunsTable
    from ensemble_notebook.trace.store.run_store import RunStore
    from ensemble_notebook.trace.store.run_table import make_run_table

    options = _read_options(words)
    store = RunStore.open()
    if options.compare:
        return compare_last_runs(store, options.n or COMPARED, shell.user_ns)
    if not options.clear:
        return RunsTable(make_run_table(store).iloc[: options.n])
    count = store.clear()
    sys.stdout.write(make_readable(f"{count} runs are forgotten.\n" if count != 1 else "1 run is forgotten.\n"))
    return None


def show_run(words: Sequence[str], shell: Any) -> ExecutionTrace:
    """The trace of one run, which shows itself as its timeline.

    Raises:
        ValidationError: no run is named, or more than one, or it goes on.
        StoreError: there is no such run.
    """
    from ensemble_notebook.notebook.magics.named_runs import WAYS, find_trace

    if len(words) != 1:
        raise ValidationError(f"%ensemble show takes one run {WAYS}.")
    return find_trace(words[0], shell)


@dataclass
class _Options:
    """What follows ``%ensemble runs``; `n` is how many runs are told of, None for all."""

    n: int | None = None
    compare: bool = False
    clear: bool = False


def _read_options(words: Sequence[str]) -> _Options:
    options, left = _Options(), list(words)
    while left:
        word = left.pop(0)
        if re.fullmatch(r"(-n)?[0-9]+", word):
            left[:0] = ["-n", word.removeprefix("-n")]
        elif word == "-n":
            number = left.pop(0) if left else ""
            if not number.isdecimal() or int(number) == 0:
                raise ValidationError(f"-n takes how many runs to tell of, such as -n 5, got {number!r}.")
            options.n = int(number)
        elif word in ("--compare", "--clear"):
            setattr(options, word[2:], True)
        else:
            raise ValidationError(
                f"%ensemble runs knows no {word!r}.{did_you_mean(word, ['-n', '--compare', '--clear'])}"
            )
    if options.clear and len(words) > 1:
        raise ValidationError("%ensemble runs --clear forgets all runs that are over, and takes nothing else.")
    return options
