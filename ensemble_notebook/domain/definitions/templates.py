"""Template variables in texts (E6): ``{name}`` is replaced once, ``{{name}}`` is a literal ``{name}``.

Some texts also have places, which are filled later than the variables: ``{item}`` and ``{item.field}`` in those of a
task that runs for each item (E53), ``{context}`` and others in a prompt of one's own (E77), and in the texts of ours
that an ensemble may replace. What stands in the places of a prompt is written by the engine, when it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Self

from ensemble_notebook.domain.config import config
from ensemble_notebook.domain.definitions.definition import Definition, definition
from ensemble_notebook.domain.definitions.output_type import find_part
from ensemble_notebook.domain.outputs.secrets import protect_named
from ensemble_notebook.domain.value_text import mend_text, write_value
from ensemble_notebook.errors import PromptTemplateError, find_nearest

ITEM: Final = "item"
CONTEXT: Final = "context"
"""The place for what a task reads."""

_NAME: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z0-9_]+)\}\}|\{([A-Za-z0-9_]+)\}", re.ASCII)
_PATHS: Final = {ITEM: r"\.[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*", CONTEXT: r"\.[^{}\n]+"}
"""What may stand behind the name of a place: the path of a field of the item, the name of a task."""

_BRACED: Final = re.compile(r"\{([A-Za-z0-9_]+)\}", re.ASCII)


def is_variable_name(value: object) -> bool:
    """True for what may stand between the braces."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def normalize_inputs(owner: Definition) -> None:
    """Make the `inputs` of a definition read-only, and mask those whose names say that they are secrets.

    Raises:
        ValidationError: they are no mapping, or texts can't name one of them.
    """
    inputs: Any = getattr(owner, "inputs")  # noqa: B009 - the base of all definitions has none
    if not isinstance(inputs, Mapping):
        raise owner._refuse("inputs", f"{owner._label} inputs must map names to values, got {type(inputs).__name__}.")
    for name in inputs:
        if not is_variable_name(name):
            message = f"Input {name!r} can't be a template variable: use ASCII letters, digits and underscores."
            raise owner._refuse("inputs", message, item=str(name))
    protect_named(inputs)
    owner._set("inputs", MappingProxyType(dict(inputs)))


def find_input_name(text: str) -> str | None:
    """Find the name of the one variable that a text is, as ``"{documents}"``; None where it is anything else."""
    match = _PLACEHOLDER.fullmatch(text.strip())
    return None if match is None else match[2]


def find_variables(text: str) -> Iterator[str]:
    """Find the names of the variables of a text, in order, with repetitions."""
    if "{" not in text:  # most texts of most runs
        return iter(())
    return (match[2] for match in _PLACEHOLDER.finditer(text) if match[2] is not None)


def find_first_texts(texts: Iterable[str]) -> dict[str, str]:
    """Find the variables of all these texts, in order, each with the first text that has it."""
    found: dict[str, str] = {}
    for text in texts:
        for name in find_variables(text):
            found.setdefault(name, text)
    return found


def escape_variables(text: str) -> str:
    """Write a text so that it is rendered as it is."""
    return _BRACED.sub(r"{{\1}}", text) if "{" in text else text


def escape_name(text: str, name: str) -> str:
    """Write a text so that every ``{name}`` of this one name is rendered as it is."""

    def escape(match: re.Match[str]) -> str:
        return "{" + match[0] + "}" if match[2] == name else match[0]

    return _PLACEHOLDER.sub(escape, text)


def check_variables(
    variables: Mapping[str, str], inputs: Mapping[str, Any], places: Sequence[str] = (), settings: Collection[str] = ()
) -> None:
    """Check that every variable has a value.

    Args:
        variables: as `find_first_texts` gives them.
        inputs: name -> value.
        places: that prompts of one's own may have, any of which may have been meant.
        settings: keywords that say something else to a run, so that a variable of that name can't be given by one.

    Raises:
        PromptTemplateError: names all missing ones, in order.
    """
    missing = {name: text for name, text in variables.items() if name not in inputs}
    if missing:
        near = {name: find_nearest(name, places) for name in missing}
        meant = [f"Did you mean {{{place}}} by {{{name}}}?" for name, place in near.items() if place is not None]
        else_pass = f"Else pass {', '.join(f'{name}=...' for name in missing)}."
        if taken := [name for name in missing if name in settings]:
            values = ", ".join(f"{name!r}: ..." for name in missing)
            words = "is a setting" if len(taken) == 1 else "are settings"
            else_pass = f"{' and '.join(taken)} {words} of a run, so pass the values as inputs: run({{{values}}})."
        advice = " ".join([*meant, else_pass]) if meant or taken else None
        raise PromptTemplateError(tuple(missing), next(iter(missing.values())), advice)


def render(text: str, inputs: Mapping[str, Any]) -> str:
    """Render the text with its variables filled in: one pass, None becomes empty, other values are written as E47 says.

    Other braces stay as they are, and so do variables without a value (a run has none: `check_variables` came first).
    """

    def fill(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "{" + match[1] + "}"
        return _write_part(inputs.get(match[2], match[0]), "")

    return mend_text(_PLACEHOLDER.sub(fill, text) if "{" in text else text)


@lru_cache(maxsize=64)
def _compile_places(names: Sequence[str]) -> re.Pattern[str]:
    """Match the places of these names, and ``{{name}}`` and ``{{name.path}}``, which stand for themselves."""
    if not names:
        return re.compile("(?!)(?P<place>)")
    one = "|".join(f"{name}(?:{_PATHS[name]})?" if name in _PATHS else name for name in names)
    return re.compile(rf"\{{\{{(?:{one})\}}\}}|\{{(?P<place>{one})\}}", re.ASCII)


def hide_places(text: str, names: Sequence[str]) -> str:
    """The text with its places as literals, since they are no variables of the run; those with a path are none anyway.

    Args:
        text: as it was declared.
        names: of the places that it may have.
    """
    if "{" not in text:
        return text
    return _compile_places(tuple(names)).sub(
        lambda match: f"{{{match[0]}}}" if match["place"] in names else match[0], text
    )


def hide_item(text: str) -> str:
    """The text with ``{item}`` as a literal: what stands for the item of a task is no variable of the run."""
    return hide_places(text, (ITEM,))


def find_places(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Find the places of a text in order, each with its path, which is empty for most: ``("context", "draft")``."""
    if "{" not in text:
        return
    for match in _compile_places(tuple(names)).finditer(text):
        if match["place"] is not None:
            name, _, path = match["place"].partition(".")
            yield name, path


def find_item_paths(text: str) -> Iterator[str]:
    """Find the paths of the fields of an item that a text uses, in order; an empty one for the item itself."""
    return (path for _, path in find_places(text, (ITEM,)))


class PlacedText:
    """A text in which the variables are filled in, and places are left for what is known later.

    Args:
        text: as it was declared.
        inputs: of the run. What they hold is not looked at again.
        names: of the places.
    """

    __slots__ = ("_names", "_parts")

    def __init__(self, text: str, inputs: Mapping[str, Any], names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._parts: list[tuple[str, str | None]] = []  # a literal text, and the place behind it
        pattern, start = _compile_places(self._names), 0
        for match in pattern.finditer(text):
            if match["place"] is not None:
                self._parts.append((_render_literal(text[start : match.start()], inputs, pattern), match["place"]))
                start = match.end()
        self._parts.append((_render_literal(text[start:], inputs, pattern), None))

    @property
    def text(self) -> str:
        """The text with its places as they are written, so that the same can be made of it again."""
        pattern = _compile_places(self._names)
        return "".join(
            pattern.sub(lambda match: f"{{{match[0]}}}", literal) + ("" if place is None else f"{{{place}}}")
            for literal, place in self._parts
        )

    def with_text(self, text: str) -> PlacedText:
        """Another text with the same places, and no variables."""
        return PlacedText(text, {}, self._names)

    def has(self, name: str) -> bool:
        """Whether there is a place of this name, with a path or without."""
        return any(place is not None and place.partition(".")[0] == name for _, place in self._parts)

    def write(self, write: Callable[[str, str], str]) -> str:
        """The text with all its places filled: `write` gives what stands in one, by its name and path."""
        written = []
        for literal, place in self._parts:
            name, _, path = (place or "").partition(".")
            written.append(literal if place is None else literal + write(name, path))
        return "".join(written)

    def fill_item(self, item: Any) -> PlacedText:
        """The same, in which the places for an item are filled, and the others are left.

        Raises:
            LookupError, UnwritableValueError: as `ItemTemplate.fill`.
        """
        made = PlacedText("", {}, self._names)
        made._parts, before = [], ""
        for literal, place in self._parts:
            if place is not None and place.partition(".")[0] == ITEM:
                before += literal + _write_part(item, place.partition(".")[2])
            else:
                made._parts.append((before + literal, place))
                before = ""
        return made


class ItemTemplate(PlacedText):
    """A text of a task that runs for each item: all is filled in but the item.

    Args:
        text: as it was declared.
        inputs: of the run. What they hold is not looked at again.
    """

    __slots__ = ()

    def __init__(self, text: str, inputs: Mapping[str, Any]) -> None:
        super().__init__(text, inputs, (ITEM,))

    def fill(self, item: Any) -> str:
        """The text for one item.

        Raises:
            LookupError: the item has no such field; the message is a sentence.
            UnwritableValueError: no prompt can hold it.
        """
        return self.write(lambda _, path: _write_part(item, path))


def _render_literal(text: str, inputs: Mapping[str, Any], pattern: re.Pattern[str]) -> str:
    """A piece of a text in which no place stands for itself; ``{{item.field}}`` is a literal, too."""
    return render(pattern.sub(lambda match: match[0] if "." not in match[0] else match[0][1:-1], text), inputs)


def _write_part(item: Any, path: str) -> str:
    value = find_part(item, path) if path else item
    return value if type(value) is str else write_value(value, config.max_table_chars).text


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
