"""The texts that a model gets (docs/contract/engine.md#prompts). The headings are the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ensemble_notebook.domain.attachments import has_mark
from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.agent import Agent
from ensemble_notebook.domain.definitions.memory import MemoryEntry
from ensemble_notebook.domain.definitions.templates import CONTEXT, PlacedText
from ensemble_notebook.domain.outputs.conversation import ChatMessage
from ensemble_notebook.domain.outputs.task_output import TaskOutput
from ensemble_notebook.domain.value_text import (
    UnwritableValueError,
    ValueText,
    describe_limited_table,
    find_text_fault,
    is_table,
    mark_text,
    write_value,
)
from ensemble_notebook.engine.run_spec import FIRST_ATTEMPT, MissingOutput, Revision

MemoryEntries = Mapping[str, Sequence[MemoryEntry]]  # by scope, the best first
Texts = Mapping[str, PlacedText]  # of the ensemble in place of ours, by name (E77)

NO_MEMORY: Final[MemoryEntries] = MappingProxyType({})
NO_TEXTS: Final[Texts] = MappingProxyType({})
LONG_CONTEXT: Final = 10_000
LONG_HEADING: Final = 200

_CONDUCT: Final = (
    "Satisfy the expected output of your task completely.\n"
    "Put quality first: be accurate and to the point, without filler or padding."
)


def write_system_prompt(agent: Agent) -> str:
    """Who the agent is; its texts are resolved. Empty where its own prompt says so."""
    if agent.system_prompt is not None:
        return agent.system_prompt
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
    """What one task asks for, resolved; `around` is as of `PromptParts`."""
    return frame_prompt(write_task_sections(description, expected_output), PromptParts(context=context, **around))


def write_task_sections(description: str, expected_output: str) -> str:
    """What one task asks for, and nothing around it."""
    return f"## Task\n{description}\n\n## Expected Output\n{expected_output}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """What a prompt builds on, beside the task itself.

    Attributes:
        context: outputs, in the order of the task's `context`.
        missing: outputs that it reads and that are not there, each with its reason.
        is_judge: whether it judges these outputs, which then stand between marks.
        given: facts for delegated work, under their names.
        memory: scope -> entries, best first.
        revision: what is to be done better, where somebody said so, or until when it is done again.
        output_format: how the reply must be written, where the model is not held to it natively.
        texts: in place of ours.
    """

    context: Sequence[TaskOutput] = ()
    missing: Sequence[MissingOutput] = ()
    is_judge: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    memory: MemoryEntries = field(default_factory=dict)
    revision: Revision = FIRST_ATTEMPT
    output_format: str = ""
    texts: Texts = field(default_factory=dict)


def frame_prompt(body: str, parts: PromptParts) -> str:
    """The sections that say what is to be done, after all that it builds on; each only when it has content."""
    context, missing, is_judge, revision = parts.context, parts.missing, parts.is_judge, parts.revision
    sections = _write_memories(parts.memory)
    if context or missing:
        write = mark_text if is_judge else str
        blocks = [_write_block(role, about, write(text)) for each in context for role, about, text in _list_parts(each)]
        blocks += [_write_block(each.agent_role, each.description, _write_missing(each)) for each in missing]
        sections.append("\n".join(["## Context from Previous Tasks", *blocks]))
    if parts.given:
        sections.append("\n".join(["## Context", *(f"### {name}\n{text}" for name, text in parts.given.items())]))
    if revision.told:
        sections.append(_write_revision(revision, parts.texts))
    sections.append(body)
    if parts.output_format:
        sections.append(_write_format(parts.output_format))
    return "\n\n".join(sections)


def write_own_prompt(prompt: PlacedText, given: PromptParts) -> str:
    """A prompt of one's own, its places filled.

    What is there and has no place comes at its end, but for the outputs that are read: that is refused before the run.
    """
    revision, has_previous, output_format = given.revision, prompt.has("previous"), given.output_format
    # Another round of its phase has told it enough where it is given its last output (E81).
    is_told = bool(revision.feedback) or (bool(revision.told) and (prompt.has("revision") or not has_previous))
    revised = _write_revision(revision, given.texts, has_previous=not has_previous) if is_told else ""
    parts = {
        "memory": "\n\n".join(_write_memories(given.memory)),
        "revision": revised,
        "previous": revision.previous or "",
        "output_format": output_format,
    }

    def write(name: str, path: str) -> str:
        if name != CONTEXT:
            return parts[name]
        # A single text as it is, several under the names of their tasks; or one of them.
        mark = mark_text if given.is_judge else str
        read = [(each.name, mark(write_output(each).text)) for each in given.context]
        read += [(each.name, _write_missing(each)) for each in given.missing]
        if path:  # and items that failed
            read = [each for each in read if each[0] == path or each[0].startswith(f"{path}[")]
        return read[0][1] if len(read) == 1 else "\n\n".join(f"### {each}\n\n{text}" for each, text in read)

    text = prompt.write(write)
    sections = [parts[name] for name in ("memory", "revision") if parts[name] and not prompt.has(name)]
    if output_format and not prompt.has("output_format"):
        sections.append(_write_format(output_format))
    return "\n\n".join([text.rstrip(), *sections]) if sections else text


def _write_missing(missing: MissingOutput) -> str:
    return f"Not available: {missing.reason}. Work with what is there."


def _write_format(output_format: str) -> str:
    return f"## Output Format\n{output_format}"


ONLY_REASONING: Final = "it holds only reasoning, and no answer."
"""What is wrong with a reply in which nothing is behind its reasoning."""

MALFORMED_CALL: Final = "a call of a tool in it was malformed, and none was made. Make it again, or do without."
"""What is wrong with a reply that its server ended for such a call."""


def write_correction_prompt(error: str, output_format: str, texts: Texts = NO_TEXTS) -> str:
    """The second chance of a reply that is not of its output type, or no answer; the reply stands before it."""
    if (own := texts.get("correction")) is not None:
        return own.write(lambda name, _: error if name == "error" else output_format)
    fault = f"Your previous reply could not be read: {error}"
    if not output_format:
        return f"{fault}\n\nReply again, with the answer."
    return f"{fault}\n\n{_write_format(output_format)}\n\nReply again, with the corrected value and nothing else."


SUM_UP: Final = "Sum up what we have said so far."
"""The prompt of the turn that stands for those that are left out."""


def write_summary_prompt(left_out: Sequence[ChatMessage]) -> str:
    """What a model is asked that is to sum up the turns that are left out; with tools, whose results are texts here."""
    return (
        "Sum up this conversation for whoever goes on with it: what was asked, what was found and decided, with names "
        "and numbers. At most 200 words.\n\n## Conversation\n" + "\n\n".join(map(str, left_out))
    )


def write_exchange(output: TaskOutput) -> str:
    """What a task was asked, cut short, and what it answered, as a memory keeps it."""
    return f"Asked: {_cut_heading(output.task_description)}\nAnswered: {output.raw}"


def _cut_heading(description: str) -> str:
    line = " ".join(description.split())
    return line if len(line) <= LONG_HEADING else line[:LONG_HEADING] + "…"


def _list_parts(output: TaskOutput) -> list[tuple[str, str, str]]:
    """Whose an output is, what for, and its text; where that differs from item to item, this of each item."""
    role, description, items = output.agent_role, output.task_description, output.item_outputs
    if all(_cut_heading(each.task_description) == _cut_heading(description) for each in items):
        return [(role, description, write_output(output).text)]
    if output.parsed_output is not None:
        return [(each.agent_role, each.task_description, each.raw) for each in items]
    descriptions = dict.fromkeys(each.task_description for each in items)
    return [(role, "; ".join(descriptions), output.raw)]  # a person wrote it, about all of them


def _write_block(role: str, description: str, text: str) -> str:
    """One output under its heading, which says whose it is and what for; what a task was given is not sent again."""
    return f"---\n### {role}: {_cut_heading(description)}\n{text}\n---"


def _write_revision(revision: Revision, texts: Texts, *, has_previous: bool = True) -> str:
    """All that was asked for so far, since a correction must not undo an earlier one; then what is to be corrected."""
    previous = revision.previous if has_previous else None
    if (own := texts.get("guardrail" if revision.is_by_guardrail else "revision")) is not None:
        given = {"attempt": str(revision.attempt), "feedback": "\n".join(revision.told), "previous": previous or ""}
        return own.write(lambda name, _: given[name])
    heading = f"## Revision Instructions (Attempt {revision.attempt})" if revision.feedback else "## Another Round"
    text = "\n".join([heading, *revision.told])
    return text if previous is None else f"{text}\n\n### Previous Output\n{previous}"


def _write_memories(memory: MemoryEntries) -> list[str]:
    """A section for each scope in which something was found."""
    return [
        "\n".join([f"## Memory: {scope}", *(f"- {each.text}" for each in entries)])
        for scope, entries in memory.items()
        if entries
    ]


def write_output(output: TaskOutput) -> ValueText:
    """An output as the tasks see it that read it: its text; of a table that a handler gave, the rows that fit.

    Raises:
        UnwritableValueError: a handler gave what no prompt can hold (E47), and no text for it.
    """
    value = output.parsed_output
    if has_mark(output.raw) and not find_text_fault(value):
        return write_value(value)  # which holds it for this run, whichever one inside has made it
    if value is not None and output.raw == str(value) and (fault := find_text_fault(value)):
        raise UnwritableValueError(
            f"The output of task {output.name!r} {fault.removeprefix('it ')} Its handler can give both: "
            "ToolResult.ok(text, value)."
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
