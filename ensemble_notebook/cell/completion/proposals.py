"""What may stand at the caret of a cell: keys, words, names of the cell and the notebook (C20); what keys mean (C21).

Text and names in, words out. Knows no IPython, evaluates nothing, and imports nothing that the cell names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.cell.completion.notebook_names import list_names
from ensemble_notebook.cell.completion.outline import Outline, Path, Slot
from ensemble_notebook.cell.completion.places import find_key, find_place, find_section
from ensemble_notebook.cell.language.cell_schema import Key, SectionSchema
from ensemble_notebook.cell.language.vocabulary import ValueKind
from ensemble_notebook.domain.definitions.enums import ReviewTiming

_VARIABLE: Final = re.compile(r"(?<!\{)\{([A-Za-z0-9_]*)$")
MODELS: Final = ("local", "openai:gpt-4o-mini")
_AGENT_KINDS: Final = (ValueKind.AGENT, ValueKind.WORKER, ValueKind.ROLES, ValueKind.STAGES, ValueKind.CAPS)
_NAMED_BY_KEYS: Final = (ValueKind.WHEN, ValueKind.CAPS)
_FLAGS: Final = ("true", "false")
_FIXED: Final[Mapping[ValueKind, tuple[str, ...]]] = {
    ValueKind.FLAG: _FLAGS,
    ValueKind.MODEL: MODELS,
    ValueKind.REVIEW: tuple(ReviewTiming),
    ValueKind.STORE: ("true",),
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something that may stand at the caret.

    Attributes:
        text: in place of what is there of it.
        kind: what it is, in a word that frontends have a picture for.
    """

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """All that may stand at the caret.

    Attributes:
        word: what of it is there, and is replaced.
        found: in order of their use.
    """

    word: str
    found: tuple[Proposal, ...] = ()


def propose(text: str, caret: int, names: Mapping[str, Any], inputs: Iterable[str] = ()) -> Proposals:
    """Propose what may stand at the caret.

    Args:
        text: of the cell, without its first line; it may be half-written.
        caret: a position in it.
        names: the variables of the notebook.
        inputs: names of inputs that the first line gives.
    """
    before, line_end = text[:caret], text.find("\n", caret)
    lines = before.split("\n")
    after = [] if line_end < 0 else text[line_end + 1 :].split("\n")
    written = Outline(lines)
    here = written.caret
    cell = Outline([*lines[:-1], *after])
    if (variable := _VARIABLE.search(here.word)) and _takes_variables(here.path):
        known = [*inputs, *cell.list_keys(("inputs",)), *list_names(names, None)]
        return choose(variable[1], [Proposal(each, "variable") for each in known])
    if here.slot is Slot.TEXT:
        return Proposals("")
    found: list[Proposal] = []
    place = find_place(here.path)
    if here.slot is not Slot.VALUE:
        found += _list_keys(find_section(place), cell.list_keys(here.path) + written.list_keys(here.path))
    if isinstance(place, Key) and (here.slot is not Slot.KEY or place.kind in _NAMED_BY_KEYS):
        beside = {each.value for each in written.entries if each.path[:-1] == here.path[:-1]}
        found += [each for each in _list_values(place, here.path, cell, names) if each.text not in beside]
    return choose(here.word, found)


def explain(text: str, caret: int) -> str | None:
    """Explain the key around the caret: its meaning, what it takes, its default; None where there is no key."""
    start, end = text.rfind("\n", 0, caret) + 1, caret
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    while caret > start and (text[caret - 1].isalnum() or text[caret - 1] == "_"):
        caret -= 1
    word = text[caret:end]
    here = Outline(text[:caret].split("\n")).caret
    section = find_section(find_place(here.path))
    if not word or section is None or here.slot in (Slot.TEXT, Slot.VALUE):
        return None
    if (group := section.key_groups.get(word)) is not None:
        return f"{word}: {group.meaning}\n\nTakes {', '.join(group.fields)}."
    key = find_key(section, word)
    return None if key is None else _explain_key(word, section, key)


def _explain_key(word: str, section: SectionSchema, key: Key) -> str:
    lines = [f"{word} (of {section.label}): {key.meaning}", "", f"Takes {key.kind.value}."]
    if key.word.choices:
        lines.append(f"One of {', '.join(key.word.choices)}.")
    if key.is_required:
        lines.append("It can't be left out.")
    elif isinstance(key.default, str | int | float):
        default = str(key.default).lower() if isinstance(key.default, bool) else key.default
        lines.append(f"Default: {default}.")
    return "\n".join(lines)


def choose(word: str, found: Iterable[Proposal]) -> Proposals:
    """Choose what begins with a word; what is found twice stands where it is first."""
    folded = word.casefold()
    chosen = {each.text: each for each in reversed([*found]) if each.text.casefold().startswith(folded)}
    return Proposals(word, tuple(reversed(chosen.values())))


def _list_keys(section: SectionSchema | None, present: Iterable[str]) -> Iterator[Proposal]:
    if section is not None:
        taken = {section.short_words.get(each, each) for each in present}
        for word in dict.fromkeys((*section.words, *section.key_groups)):
            if section.short_words.get(word, word) not in taken:
                yield Proposal(word, "property")


def _takes_variables(path: Path) -> bool:
    """Whether ``{name}`` is filled in a text: of a task, an agent, or the inputs of an ensemble."""
    place = find_place(path)
    if isinstance(place, Key):
        return place.word.has_variables or place.kind is ValueKind.ITEM_SOURCE
    above = find_place(path[:-1])
    return place is not None or (isinstance(above, Key) and above.word.is_filled)


def _list_values(key: Key, path: Path, cell: Outline, names: Mapping[str, Any]) -> Iterator[Proposal]:
    kind = key.kind
    for word in key.word.choices or _FIXED.get(kind, ()):
        yield Proposal(str(word), "keyword")
    for name in _list_cell_names(key, path, cell):
        yield Proposal(name, "field")
    for name in list_names(names, kind):
        yield Proposal(name, "variable")


def _list_cell_names(key: Key, path: Path, cell: Outline) -> list[str]:
    """The names of the cell that a key takes."""
    if key.kind in _AGENT_KINDS:
        found = list_agents(cell)
    elif key.kind is ValueKind.NAMES and key.name == "after":
        found = [each for each in cell.list_keys(("phases",)) if ("phases", each) != path[:2]]
    elif key.kind in (ValueKind.NAMES, ValueKind.ITEM_SOURCE, ValueKind.WHEN):
        own = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in _list_task_paths(cell)), None)
        found = list_tasks(cell, without=own)
    elif key.kind in (ValueKind.REVIEWER, ValueKind.PHASE_REVIEW):
        found = list_tasks(cell, inside=path[:2])
    elif key.kind is ValueKind.MEMORIES:
        found = [each.value for each in cell.entries if "memory" in each.path[-2:] and each.value]
    else:
        return []
    return [*dict.fromkeys(found)]


def list_agents(cell: Outline) -> list[str]:
    """List the names of the agents: those that are declared, and those that tasks name."""
    declared = cell.list_keys(("agents",))
    roles = [each.value for each in cell.entries if each.path[:1] == ("agents",) and each.path[-1:] == ("role",)]
    used = [each.value for each in cell.entries if each.path[-1] == "agent" and each.value]
    return [*dict.fromkeys(declared + [each for each in roles if each and not declared] + used)]


def list_tasks(cell: Outline, *, without: Path | None = None, inside: Path = ()) -> list[str]:
    """List the names of the tasks.

    Args:
        cell: the cell.
        without: the path of a task that is left out.
        inside: the path of what they are in.
    """
    found = []
    for path in _list_task_paths(cell):
        if path != without and path[: len(inside)] == inside:
            name = path[-1] if isinstance(path[-1], str) else cell.find_value(*path, "name")
            found.append(name)
    return [*dict.fromkeys(filter(None, found))]


def _list_task_paths(cell: Outline) -> list[Path]:
    """The paths of the tasks: in the cell, in ``tasks``, in a phase, or in its ``tasks``."""
    found: dict[Path, None] = {}
    for entry in cell.entries:
        for end in range(1, len(entry.path) + 1):
            path = entry.path[:end]
            if getattr(find_place(path), "name", "") == "task" and path not in found:
                found[path] = None
                break
    return list(found)
