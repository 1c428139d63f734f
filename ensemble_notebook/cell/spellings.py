"""Familiar spellings of keys and values (C3): what people bring along from other tools, and what it means here.

Knows words only, no nodes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ensemble_notebook.cell.vocabulary import SCHEMAS, SectionSchema
from ensemble_notebook.models.model_kinds import list_named_words

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_LOOP: Final = (
    "A phase is done again until a task in it says so: `until: {check: {field: ok, equals: true}}` and `max_rounds: 5` "
    "under the phase."
)
_FOREIGN: Final[Mapping[str, str]] = {
    "output_file": "The text of a task is report['task'].raw after the run; write it to a file there.",
    "create_directory": "The text of a task is report['task'].raw after the run; write it to a file there.",
    "callback": "Use `listeners:`, which hear every event.",
    "step_callback": "Use `listeners:`, which hear every event.",
    "task_callback": "Use `listeners:`, which hear every event.",
    "function_calling_llm": "An agent has one model, `llm`.",
    "manager_agent": "The manager is made for you: `workflow: hierarchical`, and `manager:` names its model.",
    "max_execution_time": "A task has a `timeout`, in seconds.",
    **dict.fromkeys(("cycle", "goto", "loop", "repeat", "while"), _LOOP),
}
ASYNC_EXECUTION: Final = "async_execution"


@dataclass(frozen=True, slots=True)
class Spelling:
    """A key as it is meant.

    Attributes:
        name: of the field.
        word: what was written, in snake case.
        shown: how messages call it: the shortest word of the language that was or could have been written.
        is_familiar: True where it was written in another tool's words or case.
    """

    name: str
    word: str
    shown: str
    is_familiar: bool = False


def read_spelling(schema: SectionSchema, key: str) -> Spelling:
    """Find the key of the language that is meant; an unknown one stays as it is."""
    if key in schema.known:
        return Spelling(schema.short_words.get(key, key), key, key)
    snake = _to_snake_case(key)
    for word in (key, snake):
        name = schema.familiar_words.get(word, word)
        if is_known(schema, name):
            return Spelling(schema.short_words.get(name, name), word, name, name != key)
    return Spelling(key, snake, key)


def is_known(schema: SectionSchema, name: str) -> bool:
    """True for what can be written at a place: a key there, or a task's `async_execution`, which is no field."""
    return name in schema.known or (name == ASYNC_EXECUTION and schema.name == "task")


def list_familiar_words(schema: SectionSchema) -> tuple[str, ...]:
    """List the familiar spellings valid at a place."""
    own = (ASYNC_EXECUTION,) if schema.name == "task" else ()
    return (*schema.familiar_words, *own)


def find_misnamed(schema: SectionSchema, word: str) -> str | None:
    """Find the key that a word of another place stands for here: an agent is called by its role."""
    return "role" if schema.name == "agent" and word == "name" else None


def find_foreign_hint(key: str) -> str | None:
    """Find what to do about a key of another tool that has no counterpart here."""
    return _FOREIGN.get(_to_snake_case(key))


def find_other_schema(schema: SectionSchema, key: str) -> SectionSchema | None:
    """Find the place where an unknown key would be valid."""
    return next((each for each in SCHEMAS if each is not schema and is_known(each, key)), None)


def read_model_spelling(text: str) -> str:
    """Read a model as it is spelled here: ``openai/gpt-4o`` is ``openai:gpt-4o``."""
    provider, slash, name = text.partition("/")
    return f"{provider}:{name}" if slash and name and provider in list_named_words() else text


def find_invisible_character(text: str) -> str | None:
    """Find the first invisible or odd blank character of a key, as `U+00A0 (NO-BREAK SPACE)`, or None."""
    for each in text:
        if each != " " and unicodedata.category(each) in ("Zs", "Cf"):
            return f"U+{ord(each):04X} ({unicodedata.name(each, 'unnamed')})"
    return None


def _to_snake_case(key: str) -> str:
    return _CAMEL.sub(lambda match: "_" + match[1].lower(), key)
