"""What may stand at the caret of a cell's first line (C20), and which inputs it gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ensemble_notebook.cell.completion.notebook_names import list_names
from ensemble_notebook.cell.completion.outline import Outline
from ensemble_notebook.cell.completion.proposals import MODELS, Proposal, Proposals, choose, list_tasks
from ensemble_notebook.cell.language.options import list_options
from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.domain.definitions.enums import CaptureMode, Workflow
from ensemble_notebook.domain.definitions.templates import find_variables

_GIVEN: Final = re.compile(r"(?:-i|--input|--vary)[ =]+([A-Za-z0-9_]+)=")
_ROWS: Final = re.compile(r"--map[ =]+([A-Za-z0-9_]+)")
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "--llm": MODELS,
    "--workflow": tuple(Workflow),
    "--capture": tuple(CaptureMode),
    "--replay-tools": ("live",),
    "--pace": ("recorded",),
}
_LAST_WORD: Final = re.compile(r"\S*$")


def propose_options(line: str, body: str, names: Mapping[str, Any]) -> Proposals:
    """Propose options and their values.

    Args:
        line: the first line, up to the caret.
        body: of the cell.
        names: the variables of the notebook.
    """
    match = _LAST_WORD.search(line)
    word = match[0] if match else ""
    before = line[: len(line) - len(word)].split()
    options = list_options()
    if len(before) > 1 and options.get(before[-1]):
        return choose(word, _list_values(before[-1], body, names))
    if not before:  # the name of the magic
        return Proposals(word)
    return choose(word, [Proposal(each, "keyword") for each in options])


def list_given(line: str, names: Mapping[str, Any]) -> list[str]:
    """List the names of the inputs that the first line gives: by themselves, and as columns of rows."""
    given = _GIVEN.findall(line)
    for variable in _ROWS.findall(line):
        rows = names.get(variable)
        first = rows[0] if isinstance(rows, list) and rows else None
        columns = getattr(rows, "columns", None)
        given += [str(each) for each in (first if isinstance(first, Mapping) else () if columns is None else columns)]
    return list(dict.fromkeys(given))


def _list_values(option: str, body: str, names: Mapping[str, Any]) -> Iterator[Proposal]:
    yield from (Proposal(str(each), "keyword") for each in _WORDS.get(option, ()))
    if option == "--llm":
        yield from (Proposal(each, "variable") for each in list_names(names, ValueKind.MODEL))
    elif option == "--map":
        yield from (Proposal(each, "variable") for each in list_names(names, ValueKind.ITEM_SOURCE))
    elif option == "--only":
        yield from (Proposal(each, "field") for each in list_tasks(Outline(body.split("\n"))))
    elif option == "--continue":
        outputs = (name for name, value in names.items() if hasattr(type(value), "get_conversations"))
        yield from (Proposal(each, "variable") for each in outputs if not each.startswith("_"))
    elif option in ("-i", "--input", "--vary"):
        yield from (Proposal(f"{each}=", "variable") for each in dict.fromkeys(find_variables(body)))
