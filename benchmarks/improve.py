"""Paid calls of a search for better texts up to the same score, beside gepa with its own cache and the same replies.

120 rows, 40 of them held out, which are counted apart; the text of the last task changes. What both pay for are replies
of the team and of the model that rewrites.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch

from benchmarks.row import Row
from ensemble_notebook import Ensemble, ScriptedChatModel, Task, TaskOutput

_PLACE = "task.label.description"
_TEXT = "Say right or wrong. Row {row}"
_PRICES = {"input_rate": "0.000001", "output_rate": "0.000002"}


def measure(*, quick: bool) -> list[Row]:
    rows, seeds = (30, 1) if quick else (120, 3)
    return [_measure(rows, tasks, seeds, most) for tasks, most in ((4, 0.5), (1, 1.0))]


def _measure(rows: int, tasks: int, seeds: int, most: float) -> Row:
    found = [_search(rows, tasks, seed) for seed in range(seeds)]
    ours, theirs = (sum(each) for each in zip(*found, strict=True))
    held_out = rows // 3 * (tasks + 1)  # as they are, and with the best text, which only the last task reads
    return Row(
        what=f"paid calls to the same score, {tasks} task{'s' if tasks > 1 else ''}",
        ours=ours / seeds,
        floor=theirs / seeds,
        beside=f"gepa alone; {held_out} held out",
        unit="",
        ratio=ours / theirs,
        most_ratio=most,
    )


def _search(rows: int, tasks: int, seed: int) -> tuple[int, int]:
    """Calls up to the best score that both reach: ours, and gepa's."""
    found = _make_team(tasks).improve(
        [{"row": number} for number in range(rows)],
        score=_is_right,
        change=_PLACE,
        budget="$2",
        seed=seed,
        llm=ScriptedChatModel(default=lambda messages: _rewrite(str(messages[-1].content))),
    )
    ours = [(each.charged.llm_calls, each.score) for each in found.tried if each.score is not None]
    theirs = _Alone(rows - rows // 3, tasks).search(seed, 6 * ours[-1][0])
    score = min(max(score for _, score in side) for side in (ours, theirs))
    paid, floor = (next(calls for calls, reached in side if reached >= score) for side in (ours, theirs))
    return paid, floor


class _Alone:
    """gepa with an adapter of its own: each task of a row is a call, and so is a rewriting."""

    propose_new_texts = None

    def __init__(self, rows: int, tasks: int) -> None:
        self._rows, self._tasks = rows, tasks
        self._calls = 0
        self._reached: list[tuple[int, float]] = []

    def search(self, seed: int, most_calls: int) -> list[tuple[int, float]]:
        """The calls so far and the score, of each candidate that ran on all rows."""
        parts: dict[str, Any] = {"adapter": self, "callbacks": [self], "logger": self, "reflection_lm": self._rewrite}
        optimize(
            seed_candidate={_PLACE: _TEXT},
            trainset=[*range(self._rows)],
            stop_callbacks=lambda _: self._calls > most_calls,
            cache_evaluation=True,
            seed=seed,
            **parts,
        )
        return self._reached

    def evaluate(self, batch: Sequence[int], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:  # noqa: ARG002
        self._calls += self._tasks * len(batch)
        scores = [float(_answer(candidate[_PLACE].replace("{row}", f"{each}")) == "right") for each in batch]
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=[*batch])

    def make_reflective_dataset(self, candidate: Any, result: Any, places: Sequence[str]) -> Any:  # noqa: ARG002
        pairs = zip(result.trajectories, result.scores, strict=True)
        records = [{"Inputs": each, "Score": score} for each, score in pairs]
        return dict.fromkeys(places, records)

    def on_valset_evaluated(self, event: Any) -> None:
        self._reached.append((self._calls, event["average_score"]))

    def log(self, message: str) -> None:
        """Nothing is said."""

    def _rewrite(self, asked: Any) -> str:
        self._calls += 1
        return _rewrite(str(asked))


def _make_team(tasks: int) -> Ensemble:
    """A team whose last task says right the more often, the more rules its text has."""
    readers = [Task.of(f"Read {each}. Row {{row}}", name=f"read{each}") for each in range(1, tasks)]
    label = Task.of(_TEXT, name="label", context=readers)
    rules = {"Say right or wrong": lambda messages: _answer(str(messages[-1].content)), "Read": "It is read."}
    return Ensemble(tasks=[*readers, label], llm=ScriptedChatModel.match(rules), name="measured", cost=_PRICES)


def _answer(prompt: str) -> str:
    """Each rule helps; each row has a luck of its own."""
    row = re.search(r"wrong\. Row (\d+)", prompt)
    assert row is not None
    rules = len(set(re.findall(r"rule \d+", prompt)))
    return "right" if random.Random(f"row {row[1]}").random() < min(0.95, 0.5 + 0.08 * rules) else "wrong"


def _rewrite(asked: str) -> str:
    """One more rule; another one for another request."""
    old = asked.split("```")[1].strip()
    return f"```\n{old}\nrule {zlib.crc32(asked.encode()) % 9_999}\n```"


def _is_right(output: TaskOutput) -> bool:
    return output.raw == "right"
