"""``%ensemble watch`` and ``%ensemble watch off``: runs of other frameworks in their cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.errors import ValidationError
from ensemble_notebook.notebook.live.frontend import write_text

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def watch_runs(words: Sequence[str], shell: InteractiveShell) -> None:
    """Begin to watch, or end it.

    Raises:
        ValidationError: it is not typed as it is meant.
        MissingPackageError: the SDK is not installed.
    """
    from ensemble_notebook.ensemble.watching import list_watches, watch

    match list(words):
        case []:
            watch()
        case ["-o", name] if name.isidentifier():
            shell.user_ns[name] = watch()
        case ["off"]:
            watches = list_watches()
            for each in watches:
                each.stop()
            ended = pluralize(sum(len(each.runs) for each in watches), "run")
            write_text(f"Watching ended, with {ended}.\n" if watches else "Nothing was watched.\n")
        case _:
            typed = " ".join(words)
            raise ValidationError(
                f"%ensemble watch can't read {typed!r}. It is %ensemble watch [-o NAME], or %ensemble watch off."
            )
