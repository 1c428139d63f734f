"""Where the words of a prompt that were changed stand in the texts of a cell, which have variables (F5).

A prompt is a row of parts: pieces of texts of the cell, values of their variables, and what the engine puts around
them. The parts that a change touches are found, and written anew as text of the cell.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.cell.writing.text_edit import find_change
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.templates import escape_variables, render
from ensemble_notebook.engine.agent.prompts import write_system_prompt, write_task_sections
from ensemble_notebook.errors import ValidationError

_VARIABLE: Final = re.compile(
    r"\{\{(?P<literal>[A-Za-z0-9_]+)\}\}|\{(?P<name>[A-Za-z0-9_]+(?:\.[^{}\n]+)?)\}", re.ASCII
)
_CONTEXT: Final = "## Context from Previous Tasks\n"
_BEHIND_CONTEXT: Final = ("## Revision Instructions (", "## Another Round")
_MARK: Final = "\ue000"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a prompt.

    Attributes:
        source: as the cell has it; empty for what the engine writes.
        field: of the cell's text; None for what the engine writes.
        text: what it is filled in with; None: whatever stands there.
        is_variable: it is the value of a variable or a place.
    """

    source: str
    field: str | None = None
    text: str | None = None
    is_variable: bool = False


def split_text(field: str, text: str, values: Mapping[str, str], places: Collection[str]) -> list[Part]:
    """The parts of a text of the cell.

    Args:
        field: what it is.
        text: with its variables.
        values: of those that are known.
        places: the names that stand for what is known later.
    """
    parts, start, literal = [], 0, ""
    for match in _VARIABLE.finditer(text):
        name = match["name"]
        is_place = name is not None and name.partition(".")[0] in places
        if name is not None and not is_place and (name not in values):
            continue  # it stands as it is
        literal += text[start : match.start()]
        start = match.end()
        if name is None:
            literal += match[0]
            continue
        parts += [Part(literal, field, render(literal, {})), Part(match[0], field, values.get(name), is_variable=True)]
        literal = ""
    literal += text[start:]
    return [*parts, Part(literal, field, render(literal, {}))]


def frame_task(description: Sequence[Part], expected_output: Sequence[Part]) -> list[Part]:
    """The parts of a task's prompt, as the engine writes it around the two texts."""
    head, between = write_task_sections(_MARK, _MARK).split(_MARK)[:2]
    return [Part(""), Part("", text=head), *description, Part("", text=between), *expected_output, Part("")]


def frame_agent(agent: Agent, texts: Mapping[str, Sequence[Part]]) -> list[Part]:
    """The parts of an agent's system prompt, as the engine writes it around its texts."""
    marks = {name: f"{_MARK}{name}{_MARK}" for name in texts}
    written = write_system_prompt(agent.replace(system_prompt=None, **marks))
    parts: list[Part] = []
    for number, piece in enumerate(written.split(_MARK)):
        parts += [Part("", text=piece)] if number % 2 == 0 else texts[piece]
    return parts


def match_parts(parts: Sequence[Part], prompt: str) -> list[Part] | None:
    """The parts with all their texts, as they stand in a prompt; None where the prompt is another one."""
    pattern = "".join("(.*?)" if each.text is None else f"({re.escape(each.text)})" for each in parts)
    match = re.fullmatch(pattern, prompt, re.DOTALL)
    if match is None:
        return None
    return [
        Part(each.source, each.field, text, each.is_variable) for each, text in zip(parts, match.groups(), strict=True)
    ]


def change_texts(parts: Sequence[Part], after: str) -> dict[str, str] | None:
    """The texts of the cell that become others, so that the prompt becomes this one.

    Args:
        parts: of the prompt as it was, as `match_parts` gives them.
        after: as it is wanted.

    Returns:
        By field; None where more has changed than the words of these texts.
    """
    before = "".join(each.text or "" for each in parts)
    start, end = find_change(before, after)
    touched: list[int] = []
    begin = stop = at = 0
    for number, each in enumerate(parts):
        size = len(each.text or "")
        if at <= end and start <= at + size and (size or each.field):
            begin = begin if touched else at
            touched.append(number)
            stop = at + size
        at += size
    region = after[begin : len(after) - (len(before) - stop)]
    pattern = ""
    for each in (parts[number] for number in touched):
        if each.field is not None and not each.is_variable:
            pattern += "(.*?)"
        elif region.count(each.text or "") == 1 or not each.text:
            pattern += f"({re.escape(each.text or '')})"
        else:
            return None
    match = re.fullmatch(pattern, region, re.DOTALL)
    if match is None:
        return None
    words = dict(zip(touched, match.groups(), strict=True))
    changed: dict[str, str] = {}
    for field in dict.fromkeys(parts[number].field for number in touched):
        own = [(number, each) for number, each in enumerate(parts) if each.field == field]
        sources = [
            each.source if words.get(number, each.text) == each.text else escape_variables(words[number])
            for number, each in own
        ]
        if field is not None and sources != [each.source for _, each in own]:
            changed[field] = "".join(sources)
    return changed


def write_own_prompt(parts: Sequence[Part], after: str, places: Collection[str]) -> str:
    """A whole prompt as a text of the cell: what it builds on has its places, and variables stand for their values.

    Args:
        parts: of the prompt as it was.
        after: as it is wanted.
        places: the names that stand for what is known when it is sent.

    Raises:
        ValidationError: a value does not stand in it as often as it stood in the texts of the cell; names it.
    """
    wanted: dict[str, tuple[str, int]] = {}
    for each in parts:
        if each.is_variable:
            wanted[each.source] = (each.text or "", wanted.get(each.source, ("", 0))[1] + 1)
    if parts and parts[0].field is None and parts[0].text and not parts[0].is_variable:
        wanted = {**dict(_list_sections(parts[0].text, after)), **wanted}
    tail = (parts[-1].text or "") if parts and parts[-1].field is None else ""
    after = after.removesuffix(tail)  # how a reply is to be written comes behind each prompt without a place for it
    pieces: list[str | Part] = [after]
    # What it reads comes first: a value of a variable may stand in there, too.
    for source, (value, uses) in sorted(wanted.items(), key=lambda each: -len(each[1][0])):
        count = sum(each.count(value) for each in pieces if isinstance(each, str)) if value else 0
        if count != uses:
            name = source.strip("{}").partition(".")[0]
            what = "what it reads" if name == "context" else "what stood there" if name in places else "its value"
            times = f"{_shorten(value)!r} stands {count} times" if count else f"{_shorten(value)!r} does not stand"
            fault = f"{times} in it" if value else "it is empty, so nobody can tell where it would stand"
            raise ValidationError(
                f"The new prompt has no place for {source}: {what}, {fault}. Leave it as it was, once, or change the "
                f"cell by hand."
            )
        pieces = [part for each in pieces for part in _split(each, value, source)]
    return "".join(escape_variables(each) if isinstance(each, str) else each.source for each in pieces).rstrip()


def _split(piece: str | Part, value: str, source: str) -> Iterator[str | Part]:
    if not isinstance(piece, str):
        yield piece
        return
    first, *others = piece.split(value)
    yield first
    for each in others:
        yield Part(source)
        yield each


def _list_sections(head: str, after: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """What the engine writes before a task's own words, each with the place that stands for it in a prompt."""
    before, found, rest = head.partition(_CONTEXT)
    if found:
        end = next((at for mark in _BEHIND_CONTEXT if (at := rest.find(f"---\n\n{mark}")) >= 0), None)
        blocks = rest.rstrip() if end is None else rest[: end + 3]
        rest = "" if end is None else rest[end + 3 :]
        # Of a single output its text alone may have been left.
        text = blocks.removeprefix("---\n").removesuffix("\n---").partition("\n")[2]
        is_alone = blocks not in after and "\n---\n---\n" not in blocks and text in after
        yield "{context}", (text if is_alone else blocks, 1)
    elif before.startswith(_BEHIND_CONTEXT):
        before, rest = "", before
    if before.strip():
        yield "{memory}", (before.strip(), 1)
    if rest.strip():
        yield "{revision}", (rest.strip(), 1)


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:59]}…"
