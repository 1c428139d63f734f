"""Prompts of one's own (E77): the places that they may have, and the texts of ours that an ensemble may replace.

What stands in the places is written by the engine, when the prompt is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from ensemble_notebook.domain.definitions.definition import Definition, definition
from ensemble_notebook.domain.definitions.templates import CONTEXT, ITEM, PlacedText, find_places, hide_places

SYSTEM_PLACES: Final = ("role", "goal", "background")
"""The places of an agent's `system_prompt`: its other texts."""
PROMPT_PLACES: Final = (CONTEXT, "memory", "revision", "previous", "output_format")
"""The places of a task's `prompt`, beside those for an item."""
ITEM_PROMPT_PLACES: Final = (*PROMPT_PLACES, ITEM)


def get_prompt_places(*, has_items: bool) -> Sequence[str]:
    """Get the places that a task's prompt may have: one that runs for each item has one for that, too."""
    return ITEM_PROMPT_PLACES if has_items else PROMPT_PLACES


def find_appended_parts(task: Any) -> list[str]:
    """Find what comes at the end of a task's prompt, in words, since that has no place for it.

    Its memory, and what it is told where it is sent back. An output format comes there, too, for models that have to be
    told.
    """
    places = {name for name, _ in find_places(task.prompt, PROMPT_PLACES)}
    parts = [("memory", "memory")] if task.memory else []
    return [words for name, words in (*parts, ("revision", "a revision")) if name not in places]


class TextOfPrompt(str):
    """The description of a task that has a prompt and none: the prompt, with its places as literals.

    It is known by its class, so that a copy of the task with another prompt has another description.
    """

    __slots__ = ()

    @classmethod
    def of(cls, prompt: str) -> Self:
        """The description of a task with this prompt; an item has its place in it."""
        return cls(hide_places(prompt, PROMPT_PLACES))


def fill_system_prompt(text: str, inputs: Mapping[str, Any], texts: Mapping[str, str | None]) -> str:
    """Fill an agent's system prompt: the variables with `inputs`, the places with the other `texts` of the agent."""
    return PlacedText(text, inputs, SYSTEM_PLACES).write(lambda name, _: texts[name] or "")


# --- The texts of ours that go to a model in the course of a task -----------------------------------------------------


TEXT_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "correction": ("error", "output_format"),
    "revision": ("attempt", "feedback", "previous"),
    "guardrail": ("attempt", "feedback", "previous"),
}
"""The places of each text; the one that says what is wrong must be there."""
_NEEDED: Final = {"correction": "error", "revision": "feedback", "guardrail": "feedback"}


@definition
class PromptTexts(Definition):
    """Texts in place of ours, for an ensemble: ``Ensemble(texts={"correction": "Again, please: {error}"}, ...)``.

    Variables are filled in as in all texts.

    Args:
        correction: sent where a reply is not of its output type; has ``{error}``, and may have ``{output_format}``.
        revision: stands in a prompt where a person or a review has sent the task back; has ``{feedback}``, and may have
            ``{attempt}`` and ``{previous}``, what the task put out last.
        guardrail: the same where a guardrail has; left out, it is the `revision`.

    Raises:
        ValidationError: a text is blank, or lacks the place that says what is wrong.
    """

    correction: str | None = None
    revision: str | None = None
    guardrail: str | None = None

    def __post_init__(self) -> None:
        """Check the places."""
        for name, places in TEXT_PLACES.items():
            text = getattr(self, name)
            if text is None:
                continue
            self._require_text(name)
            needed = _NEEDED[name]
            if not any(place == needed for place, _ in find_places(text, places)):
                shown = ", ".join(f"{{{each}}}" for each in places)
                message = f"The text of a {name} has no place for what is wrong: write {{{needed}}} in it."
                raise self._refuse(name, f"{message} Its places are {shown}.")


def list_told_texts(texts: PromptTexts | None) -> list[str]:
    """List the texts that may hold variables, with their places as literals."""
    given = {name: getattr(texts, name, None) for name in TEXT_PLACES}
    return [hide_places(text, TEXT_PLACES[name]) for name, text in given.items() if text is not None]


def place_texts(texts: PromptTexts | None, inputs: Mapping[str, Any]) -> dict[str, PlacedText]:
    """Make the texts of a run by name, with its variables filled in; one that is left out is ours."""
    if texts is None:
        return {}
    given = {name: getattr(texts, name) for name in TEXT_PLACES} | {"guardrail": texts.guardrail or texts.revision}
    return {name: PlacedText(text, inputs, TEXT_PLACES[name]) for name, text in given.items() if text is not None}
