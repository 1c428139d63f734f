"""What came of improving texts: the verdict in a sentence, the texts that changed, every candidate (V70)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.outputs.task_output import Metrics
from ensemble_notebook.domain.seams.views import make_mime_bundle
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.ensemble_output import EnsembleOutput, RunnableEnsemble
from ensemble_notebook.ensemble.improving.improved_places import WEAK_BELOW
from ensemble_notebook.ensemble.improving.text_search import Candidate
from ensemble_notebook.errors import make_readable
from ensemble_notebook.evaluation.comparison import Comparison, Pair
from ensemble_notebook.trace.tables.table import Column, Table

if TYPE_CHECKING:
    from ensemble_notebook.trace.analysis.row_table import RowFrame

CANDIDATES: Final = Table(
    "texts that were tried, in order; the first is what was there",
    Column("candidate", "Int64", "number, from 0", "number", is_nullable=False),
    (
        Column("parent", "Int64", "number of the candidate that it rewrites"),
        Column("place", "string", "of the text that is another one than the parent's"),
        Column("status", "string", "as it is, kept, not better, refused or not finished", is_nullable=False),
        Column("score", "Float64", "mean over the rows of the search; NA where it did not run on all"),
        Column("first_rows", "Int64", "rows on which it was tried first", is_nullable=False),
        Column("first_score", "Float64", "mean over these"),
        Column("parent_score", "Float64", "the parent's mean over these"),
        Column("left_out", "Int64", "rows that say nothing of it, for no fault of the texts", is_nullable=False),
        Column("spent", "string", "of the budget when it was done, reused replies at the price that they had"),
        Column("reason", "string", "why it was not kept", lambda each: each.reason or None),
        Column("text", "string", "the new text"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnd:
    """How it went.

    Attributes:
        candidates: all that were tried.
        best: the best of them on the rows of the search.
        comparison: what the held-out rows say of that one; None where they were not asked.
        searched, held_out: how many rows each side has.
        left_out: held-out rows that are left out for both.
        end: why the search ended.
        verdict_end: why the held-out rows have no say; empty where they have.
        score: its name.
        paid, reused, limit: what was spent, what reused replies were worth (empty for nothing), the budget; in words.
        notes: what else is to be said.
    """

    candidates: Sequence[Candidate]
    best: Candidate
    comparison: Comparison | None
    searched: int
    held_out: int
    left_out: int
    end: str
    verdict_end: str
    score: str
    paid: str
    reused: str
    limit: str
    notes: Sequence[str] = field(default=())


class Improvement:
    """What `Ensemble.improve` gives. Its repr is the verdict.

    Attributes:
        output: of the run in which all was run: its trace, timeline, metrics and account; None where that has no end.
        comparison: the verdict of the held-out rows, as `MapResult.compare` gives it: what was there, and the best
            candidate; None where they were not asked.
        original: the ensemble as it was.
    """

    def __init__(
        self, original: RunnableEnsemble, improved: RunnableEnsemble, end: SearchEnd, output: EnsembleOutput | None
    ) -> None:
        self.original: RunnableEnsemble = original
        self.output: EnsembleOutput | None = output
        self.comparison: Comparison | None = end.comparison
        self._improved = improved
        self._end = end

    @property
    def is_confirmed(self) -> bool:
        """Whether the held-out rows show that the best candidate is better."""
        pair = self._pair
        return pair is not None and pair.better == pair.b.name

    @property
    def changes(self) -> Mapping[str, str]:
        """The better texts by their places; empty where nothing better is confirmed.

        Of a search that was stopped, or could not ask the held-out rows, the best so far, which nothing confirms yet.
        """
        if not (self.is_confirmed or self._end.verdict_end):
            return {}
        before = self._end.candidates[0].texts
        return {place: text for place, text in self._end.best.texts.items() if text != before[place]}

    @property
    def ensemble(self) -> Any:
        """The ensemble with `changes`; the original where there are none."""
        return self._improved if self.changes else self.original

    @property
    def candidates(self) -> RowFrame:
        """A row for each candidate: parent, place, status, score, its first rows, what was spent by then, its text."""
        return CANDIDATES.to_frame([*self._end.candidates])

    @property
    def tried(self) -> Sequence[Candidate]:
        """The candidates as objects."""
        return self._end.candidates

    @property
    def before(self) -> Mapping[str, str]:
        """The texts that could change, as they were, by their places."""
        return dict(self._end.candidates[0].texts)

    @property
    def metrics(self) -> Metrics | None:
        """Sums over all that was run."""
        return None if self.output is None else self.output.metrics

    @property
    def timeline(self) -> Any:
        """The timeline of all that was run."""
        return None if self.output is None else self.output.timeline

    @property
    def _pair(self) -> Pair | None:
        return None if self.comparison is None else self.comparison.pairs[0]

    def describe(self) -> str:
        """The verdict and what it rests on, in a sentence, secrets masked."""
        return make_readable(f"{'; '.join([describe_verdict(self._end), *_list_notes(self._end)])}.")

    def __repr__(self) -> str:
        """The sentence."""
        return self.describe()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return make_mime_bundle("improvement", self)


def describe_verdict(end: SearchEnd) -> str:
    """What the held-out rows say: ``0.71 -> 0.83 on 40 rows that it never saw (95%: +0.04 to +0.20)``."""
    base, best = end.candidates[0], end.best
    rows = pluralize(end.searched, "row")
    if base.score is None:
        return f"No verdict, {end.verdict_end}"
    if len(end.candidates) == 1 and not end.verdict_end:
        return f"Nothing was rewritten: {end.end}"
    if end.verdict_end:
        so_far = f"nothing better than {base.score:.2f} was found by then"
        if best.number:
            so_far = f"the best so far is {best.name}: {base.score:.2f} -> {best.score:.2f}"
        return f"No verdict, {end.verdict_end}; {so_far} on the {rows} of the search"
    if end.comparison is None or (pair := end.comparison.pairs[0]).difference is None:
        tried = pluralize(len(end.candidates) - 1, "candidate")
        return (
            f"No improvement that the held-out rows confirm: none of {tried} did better than "
            f"{base.score:.2f} on the {rows} of the search"
        )
    found = f"{pair.difference.a:.2f} -> {pair.difference.b:.2f} on {pluralize(pair.rows, 'row')} that it never saw"
    if pair.interval is not None:
        low, high = pair.interval
        found += f" (95%: {low:+.2f} to {high:+.2f})".replace("+-", "-")
    return found if pair.better == pair.b.name else f"No improvement that the held-out rows confirm: {found}"


def _list_notes(end: SearchEnd) -> list[str]:
    notes = list(end.notes)
    if end.comparison is not None and end.comparison.pairs[0].rows < WEAK_BELOW:
        notes.append(f"with fewer than {WEAK_BELOW} held-out rows the verdict is weak")
    if end.left_out:
        notes.append(f"{pluralize(end.left_out, 'held-out row')} left out, for no fault of the texts")
    lost = sum(each.left_out for each in end.candidates)
    if lost:
        notes.append(f"{pluralize(lost, 'run')} of the search left out, for no fault of the texts")
    tried = len(end.candidates) - 1
    if tried and end.end:
        notes.append(f"{pluralize(tried, 'candidate')}, then {end.end}")
    worth = f", and {end.reused} in replies that were reused" if end.reused else ""
    notes.append(f"{end.paid} of {end.limit} spent{worth}")
    return notes
