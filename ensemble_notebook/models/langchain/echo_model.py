"""What the spec ``scripted`` stands for: an answer to everything, which says that nobody thought about it (E41).

It repeats what it was asked. Where an output type is asked for, it gives a value of that type, so that a cell can be
tried out before there is a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.models.langchain.replies import extract_text
from ensemble_notebook.models.langchain.schema_example import make_example
from ensemble_notebook.models.langchain.scripted_model import ScriptedChatModel

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

LABEL: Final = "[scripted: no model was asked]"
_MAX_ECHOED_CHARACTERS: Final = 400
# The last section of a prompt that asks for a type; a correction has it, too (E16).
_SCHEMA: Final = re.compile(r"^## Output Format\n.*?^```json\n(\{.*?)\n```", re.MULTILINE | re.DOTALL)


def make_echo_model() -> ScriptedChatModel:
    """Make the model.

    Its requests raise a `LookupError` where it has no value of the output type that is asked for.
    """
    return ScriptedChatModel(default=_answer)


def _answer(messages: Sequence[BaseMessage]) -> str:
    text = extract_text(messages[-1].content).strip()
    if found := _SCHEMA.findall(text):
        return json.dumps(_find_value(json.loads(found[-1])), ensure_ascii=False)
    excerpt = text if len(text) <= _MAX_ECHOED_CHARACTERS else text[:_MAX_ECHOED_CHARACTERS] + " ..."
    return f"{LABEL} {excerpt}"


def _find_value(schema: dict[str, Any]) -> Any:
    from jsonschema_rs import validator_for

    value = make_example(schema, LABEL)
    if not validator_for(schema).is_valid(value):
        raise LookupError(
            "'scripted' has no value of this output type, which takes a model: name one, such as `local`, or write a "
            "ScriptedChatModel with replies of your own."
        )
    return value
