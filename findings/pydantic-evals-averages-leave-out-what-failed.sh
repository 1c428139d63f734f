#!/usr/bin/env bash
# pydantic-evals 2.62.0 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: in a report a case whose task raised, or whose evaluator raised, has not passed, so that the row "Averages" is
# below 100%.
# Seen: both are left out of it. Of four cases a task that answers one, rightly, and raises on three has "Averages 100.0% ✔"
# and a mean score of 1.0; so has a task that answers four, where the evaluator raises on three. A prompt that makes more
# cases fail can have the better average.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet pydantic-evals==2.62.0
"$folder/env/bin/python" - <<'PY'
from dataclasses import dataclass

from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, Evaluator


@dataclass
class Score(Evaluator):
    def evaluate(self, context):
        return float(context.output == context.expected_output)


@dataclass
class Raises(Evaluator):
    def evaluate(self, context):
        if context.inputs != "Paris":
            raise LookupError("no such city")
        return True


cities = ("Paris", "Rome", "Oslo", "Bern")
cases = [Case(name=city, inputs=city, expected_output=city) for city in cities]


def answer_one(city):
    if city != "Paris":
        raise LookupError("no answer")
    return city


report = Dataset(name="cities", cases=cases, evaluators=[EqualsExpected(), Score()]).evaluate_sync(
    answer_one, progress=False
)
averages = report.averages()
print(f"answers one of four: assertions {averages.assertions:.0%}, scores {averages.scores}, {len(report.failures)} failures")
assert (averages.assertions, averages.scores, len(report.failures)) == (1.0, {"Score": 1.0}, 3)
assert "100.0% ✔" in report.render(width=100)

report = Dataset(name="cities", cases=cases, evaluators=[Raises()]).evaluate_sync(lambda city: city, progress=False)
averages = report.averages()
failed = sum(len(case.evaluator_failures) for case in report.cases)
print(f"judged in one of four: assertions {averages.assertions:.0%}, {failed} failures of the evaluator")
assert (averages.assertions, failed) == (1.0, 3)
PY
