"""The model of the lesson on comparisons: a script that knows some capitals for sure, and some now and then.

What it draws depends on the prompt and on how often that was asked, so the lesson says the same each time. How often it
is right in the long run is known: it is a script.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import pandas as pd

from course import Expectation
from ensemble_notebook import (
    Ensemble,
    EnsembleError,
    EnsembleOutput,
    MapResult,
    Score,
    ScriptedChatModel,
    Task,
    TaskInput,
)
from ensemble_notebook.evaluation.confidence_sequences import measure_p

CAPITALS = """France Paris, Spain Madrid, Italy Rome, Poland Warsaw, Norway Oslo, Sweden Stockholm, Finland Helsinki,
Denmark Copenhagen, Portugal Lisbon, Greece Athens, Austria Vienna, Hungary Budapest, Ireland Dublin,
Iceland Reykjavik, Latvia Riga, Estonia Tallinn, Croatia Zagreb, Romania Bucharest, Bulgaria Sofia, Albania
Tirana, Egypt Cairo, Kenya Nairobi, Ghana Accra, Senegal Dakar, Morocco Rabat, Peru Lima, Chile Santiago,
Cuba Havana, Canada Ottawa, Ecuador Quito, Japan Tokyo, China Beijing, Nepal Kathmandu, Vietnam Hanoi,
Mongolia Ulaanbaatar, Turkey Ankara, Iran Tehran, Iraq Baghdad, Jordan Amman, Fiji Suva"""
rows = pd.DataFrame([pair.split() for pair in CAPITALS.split(",")], columns=["country", "expected"])
"""Forty countries, and their capitals."""


# --- The model that answers -------------------------------------------------------------------------------------------


def _get_chance(country: str, prompt: str) -> float:
    """How likely it names the capital: better where it is told to be careful, worse in a hurry."""
    change = 0.18 * ("carefully" in prompt) - 0.5 * ("Hurry" in prompt)
    return max(0.0, min(0.9, 1.05 - 0.9 * Random(country).random() + change))


def true_share(how: str) -> float:
    """The share of right answers in the long run, when it is told `how`."""
    return sum(_get_chance(country, how) for country in rows.country) / len(rows)


_asked: Counter[str] = Counter()


def _guess(messages: list[Any]) -> str:
    prompt = messages[-1].content
    found = [pair for pair in rows.itertuples(index=False) if f"of {pair.country}?" in prompt]
    if not found:
        return "I know capitals, and this asks for none."
    country, capital = found[0]
    _asked[prompt] += 1
    if Random(f"{prompt}, {_asked[prompt]}").random() < _get_chance(country, prompt):
        return str(capital)
    return "no idea" if "sure" in prompt else "Atlantis"


ask = Ensemble(
    tasks=[Task.of("{how} What is the capital of {country}?", name="guess")],
    llm=ScriptedChatModel(default=_guess),
    name="capitals",
)
"""Asks for one capital. `{how}` is how to answer."""


def is_answer(output: Any) -> str | None:
    """A guardrail: an answer, and no excuse."""
    return None if output.raw != "no idea" else "This is no answer."


# --- Models that judge ------------------------------------------------------------------------------------------------

_SCHEMA = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
_JUDGED = re.compile(r"<output(-*)>(.*?)</output\1>", re.DOTALL)


def _write_verdict(prompt: str, *, is_good: bool, reason: str) -> str:
    """A verdict in the form that was asked for; in words where none was."""
    schema = _SCHEMA.search(prompt)
    if schema is None:
        return f"{'Yes' if is_good else 'No'}: {reason}"

    def fill(kind: dict[str, Any]) -> Any:
        if words := kind.get("enum"):
            return words[0 if is_good else -1]
        return {"boolean": is_good, "integer": int(is_good), "number": float(is_good)}.get(kind.get("type", ""), reason)

    kind = json.loads(schema[1])
    fields = kind.get("properties")
    return json.dumps(fill(kind) if fields is None else {name: fill(each) for name, each in fields.items()})


def _toss(messages: list[Any]) -> str:
    prompt = messages[-1].content
    return _write_verdict(prompt, is_good=Random(prompt).random() < 0.5, reason="the coin says so")


def _examine(messages: list[Any]) -> str:
    """Compares with the capital that its prompt names; without one, whatever looks like an answer will do."""
    prompt = messages[-1].content
    told = _JUDGED.sub("", prompt)
    answer = " ".join(found[2] for found in _JUDGED.finditer(prompt))
    wanted = next((each for each in rows.expected if re.search(rf"\b{each}\b", told)), None)
    if wanted is None:
        return _write_verdict(prompt, is_good=True, reason="it sounds like an answer")
    is_good = re.search(rf"\b{wanted}\b", answer, re.IGNORECASE) is not None
    return _write_verdict(prompt, is_good=is_good, reason=f"it {'names' if is_good else 'does not name'} {wanted}")


coin = ScriptedChatModel(default=_toss, model_name="scripted coin")
"""Judges without looking."""
examiner = ScriptedChatModel(default=_examine, model_name="scripted examiner")
"""Knows what its prompt tells it, and is easily pleased otherwise."""


# --- How often one claims what is not there ---------------------------------------------------------------------------


def _get_p(better: int, worse: int) -> float:
    """McNemar's exact test, of rows that differ one way and the other."""
    count = better + worse
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(min(better, worse) + 1)) / 2**count)


def peek(maps: int, rows: Sequence[int]) -> pd.DataFrame:
    """How often a difference is claimed of sides that are alike, each right in 60 of 100 rows; a line for each size.

    Once, at the end, by p at most 0.05; by the same p after each row; and by the p that `until_clear=0.05` looks at.
    """
    draws, p = Random(0), cache(_get_p)
    claimed = {count: [_compare_alike(draws, count, p) for _ in range(maps)] for count in rows}
    columns = ["one look", "a look after each row", "until_clear"]
    shares = pd.DataFrame({count: pd.DataFrame(each, columns=columns).mean() for count, each in claimed.items()}).T
    return shares.rename_axis("rows").map("{:.1%}".format)


def _compare_alike(draws: Random, count: int, p: Callable[[int, int], float]) -> tuple[bool, bool, bool]:
    found: list[bool] = []
    differences = [float(draws.random() < 0.6) - float(draws.random() < 0.6) for _ in range(count)]
    better = worse = 0
    for each in differences:
        better, worse = better + (each > 0), worse + (each < 0)
        found.append(p(better, worse) <= 0.05)
    return found[-1], any(found), measure_p(differences, level=0.05, bounds=(-1.0, 1.0)) <= 0.05


# --- What the exercises look for --------------------------------------------------------------------------------------


def say(*answers: str, country: str = "France") -> MapResult:
    """A map in which these are the answers to what the capital is: one row each, called as its answer."""

    def repeat(task: TaskInput) -> str:
        return str(task.inputs["answer"])

    expected = rows.expected[rows.country == country].item()
    said = pd.DataFrame({"country": country, "answer": answers, "expected": expected}, index=[*answers])
    return Ensemble(
        tasks=[Task.of("What is the capital of {country}?", name="say", handler=repeat)], name="answers"
    ).map(said)


def rejects(scorer: Any) -> Expectation:
    """Whether a scorer or a judge does not pass an answer."""

    def reject(run: EnsembleOutput) -> Score:
        known = set(run.score_records)
        try:
            said = run.score({"tried": scorer}, replace=True).score_records
        except EnsembleError as error:
            return Score(value=False, reason=str(error))
        passed = [each.passed for each in said if each not in known and each.passed is not None]
        if not passed:
            return Score(value=None, reason="it neither passes nor fails")
        return Score(not all(passed), f"it {'passes' if all(passed) else 'does not pass'} {run.raw!r}")

    reject.__name__ = f"rejects({getattr(scorer, '__name__', None) or getattr(scorer, 'name', None) or 'scorer'})"
    return reject


def shows_the_better(result: MapResult) -> Expectation:
    """Whether a map shows a difference, by intervals that hold after each row at once."""

    def show(run: EnsembleOutput) -> Score:
        try:
            verdict = result.compare()
        except EnsembleError as error:
            return Score(value=False, reason=str(error))
        if "after each row at once" not in repr(verdict):
            return Score(value=False, reason=f"that holds for one look, at a number of rows set before: {verdict!r}")
        return Score(verdict.is_different, repr(verdict))

    show.__name__ = "shows_the_better"
    return show
