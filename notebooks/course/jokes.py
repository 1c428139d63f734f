"""The jokes of the lesson on many rows, a script that knows their languages, and what the exercises look for.

The jokes are those of pyjokes (BSD licence): ``pip install pyjokes``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pandas as pd
import pyjokes

from ensemble_notebook import EnsembleOutput, Reply, Score, ScriptedChatModel, TaskInput

LANGUAGES = {"en": "English", "fr": "French", "it": "Italian", "pl": "Polish"}
SCHEMA = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


def _find_jokes() -> pd.DataFrame:
    """Three short jokes about programming in each language, with its name."""
    told = [(code, joke) for code in LANGUAGES for joke in pyjokes.get_jokes(language=code, category="neutral")]
    found = pd.DataFrame(told, columns=["code", "joke"])
    is_short = found.joke.str.len().between(30, 90)
    is_ours = found.joke.str.contains("program|java|python|windows", case=False)
    found = found[is_short & is_ours].groupby("code").head(3)
    found.index = pd.Index(found.code + (found.groupby("code").cumcount() + 1).astype(str))
    return found.assign(language=found.code.map(LANGUAGES))[["joke", "language"]]


jokes = _find_jokes()
"""Twelve jokes, and in which language each of them is."""


def _find_languages(prompt: str) -> list[str]:
    """The languages of the jokes that a prompt has in it."""
    return [each.language for each in jokes.itertuples() if each.joke in prompt]


IMPRESSION = {"English": 6, "French": 3, "Italian": 2, "Polish": 1}
"""What it says of a whole table: it reads that as a model does, from its first lines, and counts nothing."""


def _fill(name: str, kind: dict[str, Any], languages: list[str]) -> Any:
    """A value for a field of a typed output."""
    if words := kind.get("enum"):
        return next((each for each in words if str(each).casefold() == languages[0].casefold()), words[-1])
    if kind.get("type") in ("integer", "number"):
        return IMPRESSION.get(name.capitalize(), len(languages))
    return {"boolean": True, "array": [], "object": {}}.get(str(kind.get("type")), languages[0])


def _name_language(messages: list[Any]) -> Reply:
    """Knows each joke by itself; of a whole table it has only an impression."""
    prompt = next(each.content for each in messages if "## Task" in str(each.content))
    languages = _find_languages(prompt) or ["none"]
    if schema := SCHEMA.search(prompt):
        kind = json.loads(schema[1])
        fields = kind.get("properties")
        value = _fill("", kind, languages) if fields is None else {n: _fill(n, k, languages) for n, k in fields.items()}
        return Reply(json.dumps(value), delay=0.05)
    if len(languages) > 1:
        told = ", ".join(f"{count} {name}" for name, count in IMPRESSION.items())
        return Reply(f"There are {told}.", delay=0.3)
    if languages == ["none"]:
        return Reply("I see no joke that I know.", delay=0.05)
    is_brief = re.search(r"\b((one|single|a) word|nothing (else|but)|only the)\b", prompt.casefold())
    return Reply(f"{languages[0]}." if is_brief else f"I would say that this joke is in {languages[0]}.", delay=0.05)


linguist = ScriptedChatModel(default=_name_language)


def count(task: TaskInput) -> str:
    """How many answers of the tasks before it name each language."""
    if not task.context:
        return "There is nothing to count: this task reads no other one."
    answers = [part.raw for each in task.context for part in each.item_outputs or (each,)]
    named = Counter(name for each in answers for name in LANGUAGES.values() if name in each)
    return ", ".join(f"{number} {name}" for name, number in sorted(named.items()))


def read_each_joke_by_itself(run: EnsembleOutput) -> Score:
    """Whether each joke was in a prompt of its own."""
    messages = run.frames.messages
    prompts = [_find_languages(text) for text in messages.text[messages.role == "user"]]
    alone = sum(len(each) == 1 for each in prompts)
    together = max(map(len, prompts), default=0)
    if together > 1:
        return Score(value=False, reason=f"one prompt has {together} jokes in it")
    return Score(alone == len(jokes), f"{alone} of {len(jokes)} jokes were read")
