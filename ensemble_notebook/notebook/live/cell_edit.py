"""A change of a fork or a rerun as pages show it before it is put into a cell: a diff of the cell's text (F5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.errors import EnsembleError

if TYPE_CHECKING:
    from ensemble_notebook.ensemble.earlier_runs.changed_call import ChangedSource
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput
    from ensemble_notebook.ensemble.many_runs.rerun import Rerun

_AROUND: Final = 2
"""How many lines that stay are shown before and after a change."""
_FILE: Final = re.compile(r"--file(?:=|\s+)(?:\"[^\"]*\"|'[^']*'|\S+)\s*")

Words = list[tuple[str, bool]]
Line = tuple[str, Words]


def describe_edit(made: Rerun | EnsembleOutput, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What a page shows of a change, and may write: `SourceEdit` of `js/src/details/source-diff`.

    Args:
        made: a rerun, or the output of a fork.
        namespace: the variables of the notebook.
    """
    from ensemble_notebook.cell.changed_cell import edit_cell

    try:
        source: ChangedSource = made._make_source()
        edit = edit_cell(source, namespace)
    except EnsembleError as error:
        return {"refusal": str(error)}
    cell, notes = source.cell, list(edit.notes)
    options = "" if cell is None else cell.options.strip()
    told: dict[str, Any] = {
        "where": ", ".join(edit.where),
        "change": None,
        "lines": list(diff_lines(edit.before, edit.after)),
    }
    if cell is None:
        notes.append("The run came from no cell, so this is its whole ensemble.")
    elif edit.is_new:
        options = _FILE.sub("", options).strip()
    elif cell.cell_id is None:
        notes.append("Which cell it was is not known here, so a new one is written.")
    else:
        told["change"] = {"cell_id": cell.cell_id, "options": options, "before": cell.text, "after": edit.after}
    body = edit.after.strip("\n")
    return {**told, "source": f"%%ensemble {options}".rstrip() + f"\n{body}", "notes": notes}


def diff_lines(before: str, after: str) -> Iterator[Line]:
    """The lines that change, with their words, and those around them.

    Yields:
        `` ``, ``-``, ``+`` or ``…`` for lines that are left out; and the words, each with whether it has changed.
    """
    from ensemble_notebook.trace.analysis.text_changes import diff_words

    first, second = before.splitlines(), after.splitlines()
    for number, group in enumerate(SequenceMatcher(None, first, second, autojunk=False).get_grouped_opcodes(_AROUND)):
        if number or group[0][1]:
            yield "…", [("", False)]
        for tag, start, end, other_start, other_end in group:
            old, new = first[start:end], second[other_start:other_end]
            if tag == "replace":
                pieces = diff_words("\n".join(old), "\n".join(new))
                yield from _split("-", [(text, mark == "removed") for mark, text in pieces if mark != "added"])
                yield from _split("+", [(text, mark == "added") for mark, text in pieces if mark != "removed"])
            elif tag == "equal":
                yield from ((" ", [(line, False)]) for line in old)
            else:
                yield from (("-", [(line, False)]) for line in old)
                yield from (("+", [(line, False)]) for line in new)
    if first and group[-1][2] < len(first):
        yield "…", [("", False)]


def _split(sign: str, words: Sequence[tuple[str, bool]]) -> Iterator[Line]:
    """Words over lines, line by line."""
    line: Words = []
    for text, is_changed in words:
        begun, *others = text.split("\n")
        line.append((begun, is_changed))
        for each in others:
            yield sign, [word for word in line if word[0]]
            line = [(each, is_changed)]
    yield sign, [word for word in line if word[0]]
