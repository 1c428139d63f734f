#!/usr/bin/env bash
# gepa 0.1.4 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a minibatch of `optimize` has rows that differ. Where the number of rows is no multiple of the minibatch's size
# (3 unless told), the last minibatch of an epoch is filled up with rows of the other ones.
# Seen: it is filled up with the very row that ends it. With 10 rows every fourth minibatch is [a, a, b]: a is run twice and
# paid twice, stands twice among what the reflection model reads, and counts twice in the sum that decides whether the
# proposal is kept. With 11 rows it is [a, b, b].
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet gepa==0.1.4
"$folder/env/bin/python" - <<'PY'
from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch


class Adapter:
    propose_new_texts = None

    def __init__(self):
        self.minibatches = []

    def evaluate(self, batch, candidate, capture_traces=False):
        scores = [0.0] * len(batch)
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=list(batch))

    def make_reflective_dataset(self, candidate, batch, names):
        self.minibatches.append(list(batch.trajectories))
        return {each: [{"Inputs": row} for row in batch.trajectories] for each in names}


class Silent:
    def log(self, message):
        pass


def take_minibatches(rows):
    adapter = Adapter()
    texts = iter(f"text {number}" for number in range(100))
    optimize(
        seed_candidate={"text": "first"},
        trainset=[f"row {number}" for number in range(rows)],
        adapter=adapter,
        reflection_lm=lambda prompt: f"```\n{next(texts)}\n```",
        stop_callbacks=lambda state: state.i >= 7,
        logger=Silent(),
    )
    return adapter.minibatches


for rows in (9, 10, 11):
    minibatches = take_minibatches(rows)
    twice = [each for each in minibatches if len(set(each)) < 3]
    print(f"{rows} rows, {len(minibatches)} minibatches, with a row twice: {twice}")
    assert len(twice) == (0 if rows == 9 else 2)
PY
