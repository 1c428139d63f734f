"""Judges of pairs (V65): which of two variants' replies to one row is the better one, asked both ways round.

Who reads two texts likes the first one more, or the last. So each question is put twice, and a judge that chooses
otherwise when the two change places has found no difference: that is a tie, and is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Protocol

from ensemble_notebook.domain.definitions.json_schema import find_kind, follow_reference
from ensemble_notebook.domain.definitions.nested_ensemble import describe_ensemble
from ensemble_notebook.domain.definitions.output_type import get_parts
from ensemble_notebook.domain.outputs.score import Score, ScoreKind, ScoreRecord
from ensemble_notebook.domain.value_text import FirstText, SecondText
from ensemble_notebook.errors import BudgetExceededError, Problem, ValidationError, find_nearest
from ensemble_notebook.evaluation.scorer import (
    EXPECTED,
    FIRST,
    NOT_ASKED,
    REASONS,
    SECOND,
    Judgement,
    Scorer,
    Scoring,
    Subject,
    describe_fault,
    make_record,
)

WORDS: Final = (FIRST, SECOND, "tie")
"""What a judge of pairs may say."""
_POINTS: Final = {FIRST: 1.0, SECOND: 0.0, "tie": 0.5}
_EXAMPLE: Final = 'such as {"better": "first | second | tie", "reason": "str"}'

Sides = tuple[Subject, Subject]
"""The two that are compared: of the variant that stands before the other, and of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReader:
    """Reads the typed output of a judge of pairs.

    Attributes:
        field: with the word.
        reason: the field that says why; None where there is none.
    """

    field: str
    reason: str | None

    def read(self, value: Any) -> tuple[str | None, str | None]:
        """The word, and why; neither of what says nothing.

        Raises:
            ValidationError: it is another word.
        """
        parts = get_parts(value)
        word = parts.get(self.field)
        word = word.value if isinstance(word, Enum) else word
        if word is not None and word not in WORDS:
            raise ValidationError(f"it said {word!r}, and a judge of pairs says {_list_words()}")
        reason = None if self.reason is None else parts.get(self.reason)
        return word, None if reason is None else str(reason)


def make_pair_reader(ensemble: Any, schema: Mapping[str, Any] | None) -> PairReader | Problem:
    """How the typed output of a judge of pairs is read; what is wrong with it, where it can't be.

    Args:
        ensemble: the judge.
        schema: the JSON schema of its final output; None where that has no type.
    """
    shown = f"The judge {describe_ensemble(ensemble)}"
    if schema is None:
        return Problem(f"{shown} has no typed output: give its last task an output_type, {_EXAMPLE}.")
    fields: Mapping[str, Any] = schema.get("properties", {})
    words = {name: _list_members(each, schema) for name, each in fields.items()}
    found = [name for name, members in words.items() if set(members) == set(WORDS)]
    if len(found) == 1:
        kinds = {name: find_kind(each, schema) for name, each in fields.items() if name != found[0]}
        return PairReader(field=found[0], reason=next((each for each in REASONS if kinds.get(each) == "string"), None))
    if found:
        return Problem(
            f"{shown} says twice which one is better, in {' and '.join(found)}: one field alone says {_list_words()}."
        )
    near, members = max(words.items(), key=lambda item: len(set(item[1]) & set(WORDS)), default=("", []))
    if not members:
        return Problem(f"{shown} compares two replies, and no field of it has the words {_list_words()}: {_EXAMPLE}.")
    wrong = [each for each in members if each not in WORDS]
    lacking = [each for each in WORDS if each not in members]
    meant = "" if not wrong or (word := find_nearest(wrong[0], lacking)) is None else f" Did you mean {word!r}?"
    return Problem(
        f"{shown} compares two replies with the words {_list_words()}, and {near} has {', '.join(members)}.{meant} "
        f"Write it {_EXAMPLE}."
    )


def _list_members(schema: Any, root: Mapping[str, Any]) -> list[str]:
    """The words that a field may have; none where it may have any."""
    found = follow_reference(schema, root)
    if not isinstance(found, Mapping):
        return []
    own = [each for each in (*found.get("enum", ()), found.get("const")) if isinstance(each, str)]
    return [*own, *(word for each in found.get("anyOf", ()) for word in _list_members(each, root))]


def _list_words() -> str:
    return f"{', '.join(WORDS[:-1])} and {WORDS[-1]}"


def name_pair(score: str, first: str, second: str) -> str:
    """What the score of a pair is called: ``better.kindly|tersely``."""
    return f"{score}.{first}|{second}"


def fill_pair(
    ensemble: Any, variables: Mapping[str, str], sides: Sides, apart: Collection[str], *, has_handlers: bool
) -> dict[str, Any]:
    """The inputs of a judge for two replies, as it is told them.

    Args:
        ensemble: the judge, whose own inputs give way.
        variables: of its texts.
        sides: the first and the second.
        apart: inputs that are not the same under all variants, which no judge hears.
        has_handlers: whether functions see its inputs.
    """
    first, second = sides
    shared = {name: value for name, value in first.inputs.items() if name not in apart}
    texts = {FIRST: FirstText(first.output.raw), SECOND: SecondText(second.output.raw)}
    known = {**ensemble.inputs, **shared, **texts, EXPECTED: first.expected}
    return known if has_handlers else {name: known[name] for name in variables}


class PairCalls(Protocol):
    """How a judge of pairs is asked."""

    async def ask_pair(self, scorer: Scorer, name: str, orders: Sequence[Sides]) -> Sequence[Judgement]:
        """What a judge says of each of these, one after the other.

        Raises:
            Exception: what ended its run.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PairQuestion:
    """Which of two runs is the better one.

    Attributes:
        scorer: the judge.
        reader: of its output.
        name: of the score, with the pair.
        sides: the two.
        places: of each, the fields of a record that say which run it is.
        is_turned_first: whether the second one is told first in the first question.
        keeps_texts: whether texts of errors may be kept.
    """

    scorer: Scorer
    reader: PairReader
    name: str
    sides: Sides
    places: tuple[Mapping[str, Any], Mapping[str, Any]]
    is_turned_first: bool
    keeps_texts: bool = True

    async def ask(self, calls: PairCalls, scoring: Scoring) -> None:
        """Ask both ways round. What the judge fails with is a record, and never ends anything.

        Args:
            calls: how the judge is asked.
            scoring: gets what came of it: a score for each of the two.

        Raises:
            CancelledError: it was stopped.
        """
        if scoring.is_unpaid:
            scoring.records += self._make_failed(NOT_ASKED)
            return
        straight, turned = self.sides, (self.sides[1], self.sides[0])
        orders = [turned, straight] if self.is_turned_first else [straight, turned]
        try:
            given = await calls.ask_pair(self.scorer, self.name, orders)
            said = given[::-1] if self.is_turned_first else given
            records = [*self._make(said)]
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - it is anybody's, and the runs are none the worse for it (E59)
            scoring.is_unpaid = isinstance(error, BudgetExceededError)
            scoring.faults[self.scorer.name] = error
            scoring.records += self._make_failed(describe_fault(error, keeps_texts=self.keeps_texts))
        else:
            scoring.records += records

    def _make(self, said: Sequence[Judgement]) -> Iterator[ScoreRecord]:
        """The scores of both, of what was said straight and turned; each has the cost of one of the questions."""
        (straight, why), (turned, why_turned) = (self.reader.read(each.value) for each in said)
        points: tuple[float | None, float | None] = (None, None)
        has_changed = None
        if straight is not None and turned is not None:
            first, again = _POINTS[straight], 1 - _POINTS[turned]
            has_changed = first != again
            first = 0.5 if has_changed else first
            points = first, 1 - first
        reasons = dict.fromkeys(each for each in (why, why_turned) if each is not None)
        reason = "; the other way round: ".join(reasons) if reasons else None
        model = ", ".join(dict.fromkeys(each.model for each in said if each.model)) or None
        for facts, judgement, value in zip(self._list_facts(), said, points, strict=True):
            facts |= {"model": model, "cost": judgement.cost, "scorer_version": judgement.version}
            score = Score(value, reason, low=0, high=1)
            yield make_record(self.name, score, {**facts, "has_changed_mind": has_changed}, datetime.now(UTC))

    def _make_failed(self, told: str) -> Iterator[ScoreRecord]:
        now = datetime.now(UTC)
        return (ScoreRecord(name=self.name, scored_at=now, error=told, **each) for each in self._list_facts())

    def _list_facts(self) -> Iterator[dict[str, Any]]:
        shown = self.scorer.shown if self.keeps_texts else self.scorer.name
        about = {"kind": ScoreKind.JUDGE, "scorer": shown, "pair_of": self.scorer.name}
        for place, other in zip(self.places, self.places[::-1], strict=True):
            yield {**place, **about, "against": other["variant"]}
