"""Inputs that are behind a connection, as resources and prompts of MCP servers are: read when a run starts (E134)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ensemble_notebook.domain.attachments import Attachment
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.tool import ReadInput, SourcedInput
from ensemble_notebook.domain.outputs.conversation import Messages, read_messages, split_prompt
from ensemble_notebook.domain.outputs.secrets import mask, protect_named
from ensemble_notebook.domain.value_text import write_value
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.engine.agent.preparation import PreparedTools
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.errors import EnsembleError, Problem, ValidationError, did_you_mean


def has_sourced(values: Mapping[str, Any]) -> bool:
    """Whether one of these values is to be read."""
    return any(isinstance(each, SourcedInput) for each in values.values())


def list_taken(sources: Iterable[Any]) -> set[str] | None:
    """The inputs that others take a part from, as a template of a URI does; None where any may be one of them."""
    taken: set[str] = set()
    for each in sources:
        if isinstance(each, SourcedInput):
            if each.variables is None:
                return None
            taken.update(each.variables)
    return taken


def check_sourced(values: Mapping[str, Any]) -> None:
    """Check the values that are to be read, of which nothing is read yet.

    Raises:
        ValidationError: one lacks what fills it, or stands inside another value.
    """
    if problems := [*_find_problems(values)]:
        raise ValidationError(problems)


def _find_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    known = [name for name, each in values.items() if not isinstance(each, SourcedInput)]
    for name, value in values.items():
        if isinstance(value, SourcedInput):
            for lacking in value.list_lacking(known):
                near = did_you_mean(lacking, known)
                yield Problem(f"The input {name!r} is {value}, and there is no input {lacking!r} that is known.{near}")
            continue
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
        for part in parts:
            if isinstance(part, SourcedInput):
                yield Problem(f"The input {name!r} holds {part}, which is read as an input of its own: give it a name.")


def describe_reading(values: Iterable[Any]) -> str | None:
    """Describe what is being read, for whoever waits; None where nothing is."""
    told = [each.told for each in values if isinstance(each, SourcedInput)]
    more = f" and {pluralize(len(told) - 1, 'more input')}" if len(told) > 1 else ""
    return f"Reading {mask(told[0])}{more} ..." if told else None


@dataclass(frozen=True, slots=True)
class ReadInputs:
    """What was read for a run.

    Attributes:
        values: of all variables.
        messages: that it goes on with; None where these are known.
        attachments: pictures and PDFs of which marks stand in them.
        warnings: one for each value that was cut.
    """

    values: dict[str, Any]
    messages: Messages | None
    attachments: list[Attachment]
    warnings: list[str]


async def read_inputs(
    values: Mapping[str, Any], prompt: SourcedInput | None, tools: PreparedTools, task: SpanEmitter | None
) -> ReadInputs:
    """Read the inputs of a run that starts.

    Args:
        values: of all variables.
        prompt: whose messages it goes on with; None: none.
        tools: where sessions are kept.
        task: in which the run begins; None where it begins in none.

    Raises:
        ValidationError, EnsembleError: as `SourcedInput.read`, with the name of the input.
    """
    texts = {}
    for name, value in values.items():
        if isinstance(value, SourcedInput):
            continue
        try:
            texts[name] = write_value(value, config.max_table_chars).text
        except Exception:  # noqa: BLE001 - an object of anybody, which may be for handlers alone
            continue

    async def read(what: str, source: SourcedInput) -> ReadInput:
        try:
            return await tools.read(source, texts, task)
        except ValidationError as error:
            raise ValidationError(f"{what} can't be read. {error}") from error
        except EnsembleError as error:
            raise EnsembleError(f"{what} can't be read. {error}") from error

    sources = {f"The input {name!r}": (name, each) for name, each in values.items() if isinstance(each, SourcedInput)}
    if prompt is not None:
        sources["What continue_from goes on with"] = ("", prompt)
    found = await asyncio.gather(*(read(what, each) for what, (_, each) in sources.items()))
    read_values = {name: each.value for (name, _), each in zip(sources.values(), found, strict=True) if name}
    protect_named(read_values)
    return ReadInputs(
        values={**values, **read_values},
        messages=None if prompt is None else _read_prompt(prompt, found[-1]),
        attachments=[each for one in found for each in one.attachments],
        warnings=[
            f"{what} is cut, since {each.told} has {each.size}: prompts have the beginning alone."
            for what, each in zip(sources, found, strict=True)
            if each.is_cut
        ],
    )


def _read_prompt(prompt: SourcedInput, found: ReadInput) -> Messages:
    """The messages of a prompt, which may end with what is asked.

    Raises:
        ValidationError: they begin with no message of the user.
    """
    earlier, _ = split_prompt(found.messages)
    try:
        if earlier:
            read_messages(earlier)
    except ValueError as error:
        raise ValidationError(f"continue_from can't go on with {prompt.told}: {error}") from None
    return found.messages
