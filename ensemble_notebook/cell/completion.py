"""What may stand at the caret of a cell: keys, words, names of the cell and the notebook (C20); what keys mean (C21).

Text and names in, words out. Knows no IPython, evaluates nothing, and imports nothing that the cell names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ensemble_notebook.cell import vocabulary
from ensemble_notebook.cell.binding.inputs import is_output
from ensemble_notebook.cell.binding.name_resolver import OBJECT_KINDS, is_model, is_value, list_fitting
from ensemble_notebook.cell.outline import Outline, Path, Slot
from ensemble_notebook.cell.reading.options import list_options
from ensemble_notebook.cell.vocabulary import OTEL, Key, SectionSchema, ValueKind
from ensemble_notebook.domain.definitions.enums import CaptureMode, ReviewTiming, Workflow
from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.templates import find_variables
from ensemble_notebook.models.model_kinds import list_examples

_VARIABLE: Final = re.compile(r"(?<!\{)\{([A-Za-z0-9_]*)$")
MODELS: Final = list_examples()
_AGENT_KINDS: Final = (ValueKind.AGENT, ValueKind.WORKER, ValueKind.ROLES, ValueKind.STAGES, ValueKind.CAPS)
_NAMED_BY_KEYS: Final = (ValueKind.WHEN, ValueKind.CAPS)
_FLAGS: Final = ("true", "false")
_FIXED: Final[Mapping[ValueKind, tuple[str, ...]]] = {
    ValueKind.FLAG: _FLAGS,
    ValueKind.MODEL: MODELS,
    ValueKind.REVIEW: tuple(ReviewTiming),
    ValueKind.STORE: ("true",),
    ValueKind.EXPORTER: (OTEL,),
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
        known = [*inputs, *cell.list_keys(("inputs",)), *list_fitting(names, _is_input)]
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
    begun = re.split(r"\W", text[:caret])[-1]
    word = begun + re.split(r"\W", text[caret:], maxsplit=1)[0]
    here = Outline(text[: caret - len(begun)].split("\n")).caret
    section = find_section(find_place(here.path))
    if not word or section is None or here.slot in (Slot.TEXT, Slot.VALUE):
        return None
    if (group := section.key_groups.get(word)) is not None:
        return f"{word}: {group.meaning}\n\nTakes {', '.join(group.fields)}."
    key = find_key(section, word)
    if key is None:
        return None
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
    yield from (Proposal(str(word), "keyword") for word in key.word.choices or _FIXED.get(key.kind, ()))
    yield from (Proposal(name, "field") for name in _list_cell_names(key, path, cell))
    yield from (Proposal(name, "variable") for name in list_names(names, key.kind))


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


def list_names(names: Mapping[str, Any], kind: ValueKind) -> Iterator[str]:
    """List the names of what a key of this kind takes."""
    if kind is ValueKind.MODEL:
        return list_fitting(names, is_model)
    return list_fitting(names, OBJECT_KINDS[kind].fits) if kind in OBJECT_KINDS else iter(())


def _is_input(value: object) -> bool:
    return is_value(value) and not callable(value) and not is_ensemble(value)


# --- What a path in a cell leads to: a place where keys stand, or the value of one ------------------------------------


Place = SectionSchema | Key | None
"""A section, the value of a key, or nothing that is known."""

_MEMBERS: Final[Mapping[ValueKind, SectionSchema]] = {
    ValueKind.AGENTS: vocabulary.AGENT,
    ValueKind.TASKS: vocabulary.TASK,
    ValueKind.PHASES: vocabulary.PHASE,
    ValueKind.WHEN: vocabulary.CONDITION,
}
"""What each member of a mapping or list is."""


def find_place(path: Path) -> Place:
    """Find what a path leads to; None where nothing is known of it."""
    place: Place = vocabulary.CELL
    for part in path:
        place = _find_next(place, part)
    return place


def find_section(place: Place) -> SectionSchema | None:
    """Find the keys that may stand in a place, also where a mapping may be its value."""
    if isinstance(place, Key):
        return vocabulary.VALUE_SECTIONS.get(place.kind)
    return place


def find_key(section: SectionSchema, word: str) -> Key | None:
    """Find a key by what it is called, also in short."""
    return section.keys.get(section.short_words.get(word, word))


def _find_next(place: Place, part: str | int) -> Place:
    if place is vocabulary.CELL and isinstance(part, int):
        return vocabulary.TASK  # a cell that is a list of tasks
    if isinstance(place, Key):
        if (member := _MEMBERS.get(place.kind)) is not None:
            return place if place.kind is ValueKind.WHEN and isinstance(part, int) else member
        if isinstance(part, int):
            return place  # a list of what could stand there alone
        section = vocabulary.VALUE_SECTIONS.get(place.kind)
        return None if section is None else find_key(section, part)
    if place is None or isinstance(part, int):
        return vocabulary.TASK if place is vocabulary.PHASE else None  # a phase that is a list of tasks
    if (key_group := place.key_groups.get(part)) is not None:
        return key_group.schema
    key = find_key(place, part)
    return vocabulary.TASK if key is None and place is vocabulary.PHASE else key


# --- What may stand at the caret of a cell's first line, and which inputs it gives ------------------------------------


_GIVEN: Final = re.compile(r"(?:-i|--input|--vary)[ =]+([A-Za-z0-9_]+)(?:@[^=\s]*)?=")
_ROWS: Final = re.compile(r"--map[ =]+([A-Za-z0-9_]+)")
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "--llm": MODELS,
    "--workflow": tuple(Workflow),
    "--capture": tuple(CaptureMode),
    "--replay-tools": ("live",),
    "--pace": ("recorded",),
}
_OPTION_KINDS: Final = {"--llm": ValueKind.MODEL, "--map": ValueKind.ITEM_SOURCE}
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
        return choose(word, _list_option_values(before[-1], line, body, names))
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


def _list_option_values(option: str, line: str, body: str, names: Mapping[str, Any]) -> Iterator[Proposal]:
    yield from (Proposal(str(each), "keyword") for each in _WORDS.get(option, ()))
    if option in _OPTION_KINDS:
        yield from (Proposal(each, "variable") for each in list_names(names, _OPTION_KINDS[option]))
    elif option == "--only":
        yield from (Proposal(each, "field") for each in list_tasks(Outline(body.split("\n"))))
    elif option == "--score":
        from ensemble_notebook.cell.binding.scorer_binder import list_scorer_names  # not before it is asked for

        yield from (Proposal(each, "function") for each in list_scorer_names(names))
    elif option in ("--expected", "--id"):
        yield from (Proposal(each, "variable") for each in list_given(line, names))
    elif option == "--continue":
        yield from (Proposal(each, "variable") for each in list_fitting(names, is_output))
    elif option in ("-i", "--input", "--vary"):
        yield from (Proposal(f"{each}=", "variable") for each in dict.fromkeys(find_variables(body)))
