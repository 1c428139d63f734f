"""The texts that a model gets (docs/contract/engine.md#prompts). The headings are the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import (
    UnwritableValueError,
    ValueText,
    describe_limited_table,
    find_value_fault,
    is_table,
    write_value,
)
from ensemble_notebook.engine.specs.resolved_task import MissingOutput
from ensemble_notebook.engine.specs.revision import FIRST_ATTEMPT, Revision

LONG_CONTEXT: Final = 10_000
LONG_HEADING: Final = 200

_CONDUCT: Final = (
    "Satisfy the expected output of your task completely.\n"
    "Put quality first: be accurate and to the point, without filler or padding."
)


def write_system_prompt(agent: Agent) -> str:
    """Who the agent is; its texts are resolved (E6)."""
    head = f"You are {agent.role.strip()}."
    if agent.background and agent.background.strip():
        head += f"\n{agent.background.strip()}"
    text = f"{head}\n\nYour personal goal is: {agent.goal.strip()}\n\n{_CONDUCT}"
    if agent.response_format.strip():
        text += f"\nOutput format instructions: {agent.response_format.strip()}"
    return text


def write_user_prompt(
    description: str,
    expected_output: str,
    context: Sequence[TaskOutput] = (),
    **around: Any,
) -> str:
    """What one task asks for, resolved; `around` is as of `frame_prompt`."""
    return frame_prompt(write_task_sections(description, expected_output), context, **around)


def write_task_sections(description: str, expected_output: str) -> str:
    """What one task asks for, and nothing around it."""
    return f"## Task\n{description}\n\n## Expected Output\n{expected_output}"


def frame_prompt(
    body: str,
    context: Sequence[TaskOutput] = (),
    *,
    missing: Sequence[MissingOutput] = (),
    given: Mapping[str, str] = MappingProxyType({}),
    memory: Mapping[str, Sequence[MemoryEntry]] = MappingProxyType({}),
    revision: Revision = FIRST_ATTEMPT,
    output_format: str = "",
) -> str:
    """What is to be done, after all that it builds on; each section only when it has content.

    Args:
        body: the sections that say what is to be done.
        context: outputs, in the order of the task's `context`.
        missing: outputs that it reads and that are not there, each with its reason (E32).
        given: facts for delegated work, under their names (E24).
        memory: scope -> entries, best first.
        revision: what is to be done better, where somebody said so (E46).
        output_format: how the reply must be written, where the model is not held to it natively (E16).
    """
    sections = [_write_memory(scope, entries) for scope, entries in memory.items() if entries]
    if context or missing:
        blocks = [block for each in context for block in _write_blocks(each)]
        for each in missing:
            text = f"Not available: {each.reason}. Work with what is there."
            blocks.append(_write_block(each.agent_role, each.description, text))
        sections.append("\n".join(["## Context from Previous Tasks", *blocks]))
    if given:
        sections.append("\n".join(["## Context", *(f"### {name}\n{text}" for name, text in given.items())]))
    if revision.feedback:
        sections.append(_write_revision(revision))
    sections.append(body)
    if output_format:
        sections.append(f"## Output Format\n{output_format}")
    return "\n\n".join(sections)


def write_correction_prompt(error: str, output_format: str) -> str:
    """The second chance of a reply that is not of its output type; the reply stands before it (E16)."""
    return (
        f"Your previous reply could not be read: {error}\n\n"
        f"## Output Format\n{output_format}\n\nReply again, with the corrected value and nothing else."
    )


def write_exchange(output: TaskOutput) -> str:
    """What a task was asked, cut short, and what it answered, as a memory keeps it (E55)."""
    return f"Asked: {_cut_heading(output.task_description)}\nAnswered: {output.raw}"


def _cut_heading(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= LONG_HEADING else line[:LONG_HEADING] + "…"


def _write_blocks(output: TaskOutput) -> list[str]:
    """An output under its heading; where that differs from item to item, each item under its own (E53)."""
    role, description, items = output.agent_role, output.task_description, output.item_outputs
    if all(_cut_heading(each.task_description) == _cut_heading(description) for each in items):
        return [_write_block(role, description, write_output(output).text)]
    if output.parsed_output is not None:
        return [_write_block(each.agent_role, each.task_description, each.raw) for each in items]
    descriptions = dict.fromkeys(each.task_description for each in items)
    return [_write_block(role, "; ".join(descriptions), output.raw)]  # a person wrote it, about all of them


def _write_block(role: str, description: str, text: str) -> str:
    """One output under its heading, which says whose it is and what for; what a task was given is not sent again."""
    return f"---\n### {role}: {_cut_heading(description)}\n{text}\n---"


def _write_revision(revision: Revision) -> str:
    """All that was asked for so far, since a correction must not undo an earlier one; then what is to be corrected."""
    text = "\n".join([f"## Revision Instructions (Attempt {revision.attempt})", *revision.feedback])
    return text if revision.previous is None else f"{text}\n\n### Previous Output\n{revision.previous}"


def _write_memory(scope: str, entries: Sequence[MemoryEntry]) -> str:
    return "\n".join([f"## Memory: {scope}", *(f"- {each.text}" for each in entries)])


def write_output(output: TaskOutput) -> ValueText:
    """An output as the tasks see it that read it: its text; of a table that a handler gave, the rows that fit (E47).

    Raises:
        UnwritableValueError: a handler gave bytes or an image, and no text for them.
    """
    value = output.parsed_output
    if (fault := find_value_fault(value)) is not None and output.raw == str(value):
        raise UnwritableValueError(
            f"The output of task {output.name!r} {fault} Its handler can give both: ToolResult.ok(text, value)."
        )
    if len(output.raw) > config.max_table_chars and is_table(value):
        limited = write_value(value, config.max_table_chars)
        rows, _, _ = limited.text.rpartition("\n")
        if output.raw.startswith(rows):  # and is no text of its own that came with the table
            return limited
    return ValueText(output.raw)


def warn_of_long_context(context: Sequence[TaskOutput]) -> list[str]:
    """One sentence for each context output that is unusually long; only tables are limited."""
    warnings = []
    for each in context:
        written = write_output(each)
        if written.shown:
            warnings.append(describe_limited_table(f"The output of task {each.name!r}", written))
        elif len(written.text) > LONG_CONTEXT:
            size = f"{len(written.text):,} characters"
            warnings.append(f"The output of {each.name!r} is {size} long and goes into a prompt as a whole.")
    return warnings
