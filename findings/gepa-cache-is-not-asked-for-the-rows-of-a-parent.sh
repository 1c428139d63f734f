#!/usr/bin/env bash
# gepa 0.1.4 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: `optimize(..., cache_evaluation=True)`, with `trainset` as `valset`, evaluates no example twice with the same texts.
# Its docstring: "If True and a cache entry exists, GEPA will skip the fitness evaluation and use the cached results."
# Seen: before each proposal the parent is evaluated on its minibatch again, although the cache has these very examples
# since the parent ran on the whole set. The cache is filled there, and asked only when a candidate runs on the whole set.
# Who counts on it pays for the parent's rows once more for each proposal.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet gepa==0.1.4
"$folder/env/bin/python" - <<'PY'
from collections import Counter

from gepa.api import optimize
from gepa.core.adapter import EvaluationBatch

ROWS, PROPOSALS, MINIBATCH = 12, 5, 3
evaluated = Counter()


class Adapter:
    propose_new_texts = None

    def evaluate(self, batch, candidate, capture_traces=False):
        evaluated.update((candidate["text"], each) for each in batch)
        scores = [0.0] * len(batch)
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=list(batch))

    def make_reflective_dataset(self, candidate, batch, names):
        return {each: [{"Inputs": "x"}] for each in names}


class Silent:
    def log(self, message):
        pass


texts = iter(f"text {number}" for number in range(100))
optimize(
    seed_candidate={"text": "first"},
    trainset=list(range(ROWS)),
    adapter=Adapter(),
    reflection_lm=lambda prompt: f"```\n{next(texts)}\n```",
    stop_callbacks=lambda state: state.i >= PROPOSALS - 1,
    cache_evaluation=True,
    logger=Silent(),
)
again = sum(count - 1 for (text, _), count in evaluated.items() if text == "first")
print(f"{ROWS} rows evaluated with the first text, and {again} of them again in {PROPOSALS} proposals")
assert again == PROPOSALS * MINIBATCH
PY
