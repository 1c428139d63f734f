"""What a person does with rows of a map that are selected in its views: they run again, are labelled, or judged (S5).

The doors are those of Python: `MapResult.fork`, `annotate` and `score`. The last two give a new result, which takes the
place of the old one in the variables of the notebook. What a page sends is not trusted.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.nested_ensemble import is_ensemble
from ensemble_notebook.domain.definitions.templates import find_first_texts
from ensemble_notebook.domain.outputs.task_output import TokenUsage
from ensemble_notebook.domain.planning.ensemble_texts import list_texts
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.many_runs.map_result import MapResult, RowResult
from ensemble_notebook.errors import RunInterrupted, ScoringError, ValidationError
from ensemble_notebook.evaluation.scorer import Judge

if TYPE_CHECKING:
    from ensemble_notebook.domain.outputs.score import ScoreRecord
    from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput

_MOST_NAMED: Final = 3


class SelectedRows:
    """The rows of a map, as a person has chosen some of them.

    Args:
        output: of the map, weakly.
        result: of the map, weakly.
        namespace: gives the variables of the notebook.
    """

    def __init__(
        self,
        output: Callable[[], EnsembleOutput | None],
        result: Callable[[], MapResult | None],
        namespace: Callable[[], dict[str, Any]],
    ) -> None:
        self._output = output
        self._find = result
        self._namespace = namespace
        self._lock = threading.Lock()

    @property
    def result(self) -> MapResult:
        """The result with all that was said of it here, or another one of the map that the notebook has.

        Raises:
            ValidationError: there is none any more.
        """
        if (result := self._find()) is not None:
            return result
        held = (each for each in [*self._namespace().values()] if isinstance(each, MapResult))
        if (result := next((each for each in held if each._last_output is self._output()), None)) is None:
            raise ValidationError("The result of this map is gone: run the cell again.")
        return result

    def pick(self, names: Sequence[str | None]) -> tuple[list[RowResult], str]:
        """The rows of these names that ran, and what to say of those that did not, with a space before it.

        Raises:
            ValidationError: none of them ran.
        """
        wanted = set(names)
        rows = [each for each in self.result if each.name in wanted]
        ran = [each for each in rows if each.output is not None]
        lacking = [each for each in rows if each.output is None]
        if not ran:
            why = f": {lacking[0].reason or lacking[0].status}" if lacking else ""
            raise ValidationError(f"None of what is selected is a row that ran{why}. Select rows with an answer.")
        told = f" {pluralize(len(lacking), 'row')} never ran, and {'is' if len(lacking) == 1 else 'are'} left out."
        return ran, told if lacking else ""

    def add(self, before: MapResult, after: MapResult) -> list[ScoreRecord]:
        """Take over the scores that a door has added; others may have come meanwhile.

        Args:
            before: the result whose door that was.
            after: what it gave.

        Returns:
            These scores.
        """
        scores = [*after._score_records[len(before._score_records) :]]
        with self._lock:
            old = self.result
            new = after if old is before else old._with_scores(scores)
            names = self._namespace()
            held = [name for name, value in names.items() if value is old]
            names.update(dict.fromkeys(held, new))
            if held:  # which keep it: whoever holds the feed of an output must not hold that
                self._find = weakref.ref(new)
        return scores

    @property
    def variable(self) -> str | None:
        """What the notebook calls the result; None where it has no name."""
        result = self.result
        return next((n for n, each in [*self._namespace().items()] if each is result and not n.startswith("_")), None)

    # --- What there is to choose from ---------------------------------------------------------------------------------

    def list_tasks(self, rows: Sequence[RowResult]) -> list[str]:
        """The tasks that all these rows have begun, in order: where they can be run again from."""
        begun: list[dict[str, None]] = []
        for row in rows:
            spans = row.output.trace._fold.spans.values() if row.output is not None else ()
            own = [each for each in spans if each.is_own_task and each.item_of is None and each.start_ms is not None]
            once = Counter(each.name for each in own)
            begun.append({each.name: None for each in own if once[each.name] == 1})
        return [name for name in begun[0] if all(name in each for each in begun)]

    def sum_usage(self, rows: Sequence[RowResult]) -> tuple[float | None, TokenUsage]:
        """What these rows cost, None where that is not known of all, and their tokens."""
        spent = [self.result._get_spending(each) for each in rows]
        costs = [each.cost for each in spent if each.cost is not None and each.cost_complete]
        usage = TokenUsage(
            input_tokens=sum(each.input_tokens or 0 for each in spent),
            output_tokens=sum(each.output_tokens or 0 for each in spent),
        )
        return float(sum(costs)) if len(costs) == len(rows) else None, usage

    def find_judges(self) -> dict[str, Any]:
        """The judges by their names: those that have judged the map, and those that variables of the notebook hold."""
        judges = (each for each in self.result._scorers if each.judge is not None)
        known = {each.name: {each.name: Judge(each.judge, is_pair=each.is_pair)} for each in judges}
        held = ((name, value) for name, value in [*self._namespace().items()] if not name.startswith("_"))
        can_compare = len(self.result.variants or ()) > 1
        found = {**{name: value for name, value in held if _is_judge(value)}, **known}
        return {name: e for name, e in found.items() if can_compare or not (isinstance(e, Judge) and e.is_pair)}

    # --- What is done -------------------------------------------------------------------------------------------------

    def label(self, rows: Sequence[RowResult], value: bool | str, note: str | None) -> list[ScoreRecord]:
        """Say of these rows that they are good or bad, or what they are; in the place of what was said before (V8)."""
        before = self.result
        name = "label" if isinstance(value, str) else "mark"
        return self.add(before, before.annotate(rows, value, name=name, reason=note, replace=True))

    def judge(
        self,
        rows: Sequence[RowResult],
        name: str,
        hear: Callable[[Sequence[ScoreRecord]], object],
        begin: Callable[[Callable[[], None]], object],
    ) -> list[ScoreRecord]:
        """Have a judge look at these rows, in the place of what it said before (V6).

        Args:
            rows: that are judged.
            name: of `find_judges`.
            hear: is told the scores of each row as they come.
            begin: is given what stops it.

        Raises:
            ValidationError: there is no such judge, or it can't judge these rows.
        """
        before = self.result
        if (judge := self.find_judges().get(name)) is None:
            raise ValidationError("There is no such judge any more: name one that a variable of the notebook holds.")
        scores = before._prepare_scores(judge, is_replacing=True, runs=map(before._make_scored, rows))
        scores.hear = hear
        begin(scores.stop)
        try:
            after = scores.score()
        except ScoringError as error:
            self.add(before, error.result)
            raise
        except RunInterrupted as stopped:
            after = stopped.output
        return self.add(before, after)


def describe_rows(rows: Sequence[RowResult]) -> str:
    """What became of rows: ``2 completed, 1 failed``."""
    counts = Counter(each.status.replace("_", " ") for each in rows)
    return ", ".join(f"{count:,} {status}" for status, count in counts.items())


def describe_new_scores(records: Sequence[ScoreRecord]) -> str:
    """What was given to rows, by name: ``right: 3 of 4 passed; tone: 0.5 in the mean``, and what failed."""
    told = []
    for name in dict.fromkeys(each.name for each in records):
        given = [each for each in records if each.name == name]
        failed = [each.error for each in given if each.error is not None]
        passed = [each.passed for each in given if each.passed is not None]
        values = [each.value for each in given if each.passed is None and each.value is not None]
        if given[0].pair_of is not None:  # each pair is among them twice, as 1 and 0
            won = [each.value for each in given if each.variant == given[0].variant and each.value is not None]
            told += [f"{name}: {given[0].variant} won {won.count(1):,} of {pluralize(len(won), 'pair')}"] if won else []
            values = []
        labels = Counter(each.label for each in given if each.label is not None)
        if passed:
            told.append(f"{name}: {sum(passed):,} of {len(passed):,} passed")
        if values:
            told.append(f"{name}: {sum(values) / len(values):.3g} in the mean")
        if labels:
            common = ", ".join(f"{count:,} {label}" for label, count in labels.most_common(_MOST_NAMED))
            told.append(f"{name}: {common}")
        if failed:
            told.append(f"{name}: no score of {pluralize(len(failed), 'row')}: {failed[0]}")
    return "; ".join(told) or "no score came"


def _is_judge(value: Any) -> bool:
    """Whether it is made to judge: an ensemble that is told the output of another one."""
    if isinstance(value, Judge):
        return True
    return is_ensemble(value) and "output" in find_first_texts(list_texts(value))
