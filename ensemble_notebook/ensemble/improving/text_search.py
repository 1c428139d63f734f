"""The search for better texts: gepa's engine over our maps (V69). gepa is imported when a search begins.

gepa decides which candidate is rewritten next, on which rows a child is tried first, and whether it is kept; here is
what a candidate is tried with, what the rewriting model is told, and what each came to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ensemble_notebook.domain.definitions.limits import Spending
from ensemble_notebook.domain.outputs.secrets import mask, mask_named
from ensemble_notebook.domain.value_text import write_value
from ensemble_notebook.domain.wording import pluralize
from ensemble_notebook.ensemble.ensemble_output import RunnableEnsemble
from ensemble_notebook.ensemble.improving.improve_settings import ImproveSettings
from ensemble_notebook.ensemble.improving.improved_places import SplitRows, Texts
from ensemble_notebook.ensemble.improving.rewriting import REQUEST, find_variables, rewrite
from ensemble_notebook.ensemble.improving.search_account import NOTHING, SearchAccount, SearchOver, scale
from ensemble_notebook.ensemble.improving.timeline_row import TimelineRow
from ensemble_notebook.ensemble.improving.tried_rows import TextsKey, TriedRow, TriedRows, make_key
from ensemble_notebook.errors import MissingPackageError, make_readable
from ensemble_notebook.evaluation.scored_runs import Question
from ensemble_notebook.evaluation.scorer import find_expected_column
from ensemble_notebook.trace.analysis.text_changes import diff_words

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

MINIBATCH: Final = 3
"""Rows on which a child is tried first."""
PATIENCE: Final = 20
"""Candidates in a row that are not better than the best, after which the search ends, whatever is left to spend."""
_MOST_FAILURES: Final = 3
_SHOWN_WORDS: Final = 60
_SLACK: Final = 1.5
"""How much more than likely has to be left before something is begun, so that it is not cut in the middle."""

AS_IT_IS: Final = "as it is"
KEPT, NOT_BETTER, REFUSED, UNFINISHED = "kept", "not better", "refused", "not finished"


@dataclass(slots=True)
class Candidate:
    """Texts that were tried.

    Attributes:
        number: from 0, which is what was there.
        parent: number of the one that it rewrites; None of the first.
        place: of the text that is another one than the parent's; None of the first.
        texts: all of them.
        status: ``as it is``, ``kept``, ``not better``, ``refused`` or ``not finished``.
        reason: why it was not kept; empty where it was.
        score: mean over the rows of the search; None where it did not run on all.
        first_rows, first_score, parent_score: how many rows it was tried on first, its mean there, and its parent's.
        left_out: rows that say nothing of it, for no fault of the texts.
        charged: all that was charged when it was done.
        spent: the same in words.
    """

    number: int
    parent: int | None
    place: str | None
    texts: Texts
    status: str = UNFINISHED
    reason: str = ""
    score: float | None = None
    first_rows: int = 0
    first_score: float | None = None
    parent_score: float | None = None
    left_out: int = 0
    charged: Spending = NOTHING
    spent: str = ""

    @property
    def name(self) -> str:
        """In sentences, and in the timeline."""
        return f"candidate {self.number}" if self.number else AS_IT_IS

    def describe(self, parent: Candidate | None) -> str:
        """A line: what changed, what it came to, and what was spent by then."""
        if parent is None:
            score = "no score" if self.score is None else f"{self.score:.2f} on all rows of the search"
            return f"{self.name}: {score}; {self.spent}"
        words = ""
        if self.place is not None and self.texts[self.place] != parent.texts[self.place]:
            pieces = diff_words(parent.texts[self.place], self.texts[self.place])
            added = " ".join(" ".join(each.text for each in pieces if each.mark == "added").split())
            words = f" +{added[:_SHOWN_WORDS]!r}" if added else ""
            words += "..." if len(added) > _SHOWN_WORDS else ""
        came = f"{self.status} {self.reason}" if self.status == NOT_BETTER else f"{self.status}: {self.reason}"
        if self.first_score is not None and self.score is None:
            came += f" ({self.first_score:.2f}, its parent {self.parent_score or 0.0:.2f})"
        if self.score is not None:
            came = f"{self.score:.2f} on all rows of the search, {parent.name} {parent.score or 0.0:.2f}"
        what = words.strip() if len(self.texts) == 1 and words else f"{self.place}{words}"
        return f"{self.name} ({what}): {came}; {self.spent}"

    @property
    def text(self) -> str | None:
        """The text that it has in place of its parent's."""
        return None if self.place is None else self.texts.get(self.place)


class TextSearch:
    """Tries candidates until the budget is used up, nothing can get better, or nothing new comes.

    Args:
        ensemble: as it is.
        texts: that change, as they are.
        settings: of the search.
        rows: of which it sees those that are not held out.
        tried: runs them.
        account: that pays.
        first_reserve: what the held-out rows take, before any row has run.
        llm: the model that rewrites.
        tell: is called with a line on each candidate that is done.

    Attributes:
        candidates: in order.
        question: what is asked of the score; None until the first rows ran.
        end: why the search ended.
    """

    def __init__(
        self,
        ensemble: RunnableEnsemble,
        texts: Texts,
        settings: ImproveSettings,
        rows: SplitRows,
        tried: TriedRows,
        account: SearchAccount,
        first_reserve: Spending,
        llm: Any,
        tell: Callable[[str], object],
    ) -> None:
        self._ensemble = ensemble
        self._settings = settings
        self._rows = rows
        self._tried = tried
        self._account = account
        self._first_reserve = first_reserve
        self._llm = llm
        self._tell = tell
        self.candidates: list[Candidate] = [Candidate(0, None, None, texts, status=AS_IT_IS)]
        self.question: Question | None = None
        self.end = ""
        self._by_key: dict[TextsKey, Candidate] = {make_key(texts): self.candidates[0]}
        self._given: dict[tuple[TextsKey, int], float] = {}
        self._request_charge = NOTHING
        self._requests = 0
        self._failures = 0
        self._idle: tuple[Any, int] = (None, 0)
        self._row: TimelineRow | None = None

    @property
    def base(self) -> Candidate:
        """What was there."""
        return self.candidates[0]

    @property
    def best(self) -> Candidate:
        """The candidate with the best score on the rows of the search; the first of several."""
        done = [each for each in self.candidates if each.score is not None]
        return max(done, key=lambda each: self._sign * (each.score or 0.0), default=self.base)

    @property
    def _sign(self) -> int:
        return -1 if self.question is not None and self.question.higher_is_better is False else 1

    @property
    def perfect(self) -> float | None:
        """The best that the score can be; None where nobody has said."""
        if self.question is None or self.question.bounds is None:
            return None
        return self.question.bounds[1 if self._sign > 0 else 0]

    def is_perfect(self, candidate: Candidate) -> bool:
        """Whether its score can't get better: each row has the best."""
        assert self.question is not None
        known = self._tried.get_known(candidate.texts, self._rows.searched).values()
        values = {value for each in known if (value := each.read(self.question)) is not None}
        # A score without bounds that is 1 everywhere is taken for a share, one of which less is better for a count.
        best = max(0, self._sign) if self.perfect is None else self.perfect
        return values == {best}

    def try_base(self, make_question: Callable[[Sequence[TriedRow]], Question]) -> None:
        """Try what is there, on the rows of the search.

        Args:
            make_question: reads what is asked of the score from what came of them.
        """
        places = self._rows.searched
        self._row = TimelineRow(self._ensemble, AS_IT_IS, f"{pluralize(len(places), 'row')} of the search")
        try:
            self.try_rows(self.base, places[:MINIBATCH], self.find_reserve())  # now it is known what a row takes
            self.question = make_question(self.try_rows(self.base, places, self.find_reserve()))
            self._score(self.base, places)
            self._finish(self.base, AS_IT_IS)
        finally:
            self._close_row("stopped")

    def find_reserve(self) -> Spending:
        """What the held-out rows take, with the first texts and with the best ones."""
        full = self._tried.find_row_charge(self.base.texts)
        if full is None:
            return self._first_reserve
        best = self._tried.find_row_charge(self.best.texts) or full
        # What the texts do not change is done, and paid, once for both.
        return scale(full + best, len(self._rows.held_out))

    def search(self) -> None:
        """Run gepa's engine. Errors of what is no fault of the search go through, and so does an interrupt."""
        optimize = import_optimizer()
        perfect = self.perfect
        given: dict[str, Any] = {  # what is no type of gepa's own, and has its methods
            "adapter": _Adapter(self),
            "reflection_strategy": _Reflection(self),
            "stop_callbacks": self._is_over,
            "callbacks": [_Rejections(self)],
            "logger": _Log(),
        }
        try:
            optimize(
                seed_candidate=dict(self.base.texts),
                trainset=[*self._rows.searched],
                reflection_minibatch_size=MINIBATCH,
                perfect_score=1.0 if perfect is None else self._sign * perfect,
                skip_perfect_score=perfect is not None,
                track_best_outputs=False,
                seed=self._settings.seed,
                **given,
            )
        except SearchOver as over:
            self.end = str(over)
        finally:
            self._close_row("stopped")
        for each in self.candidates:
            if each.status == UNFINISHED:
                self._finish(each, UNFINISHED, self.end)

    # --- what gepa asks

    def evaluate(self, places: Sequence[int], texts: Texts) -> tuple[list[float], list[TriedRow]]:
        """The scores of rows with these texts, higher is better; and what came of them."""
        candidate = self._by_key[make_key(texts)]
        missing, reserved = self._tried.count_missing(texts, places), self.find_reserve()
        if missing:
            charge = self._tried.find_row_charge(texts) or self._find_usual_charge()
            if not self._account.has_room(scale(charge, missing * _SLACK) + reserved):
                raise SearchOver("the budget is used up")
        found = self.try_rows(candidate, places, reserved)
        scores = [self._give(candidate, place, row_tried) for place, row_tried in zip(places, found, strict=True)]
        self._note_score(candidate, places)
        return scores, found

    def try_rows(
        self, candidate: Candidate, places: Sequence[int], reserved: Spending = NOTHING, name: str = ""
    ) -> list[TriedRow]:
        """Try rows in the candidate's row of the timeline, or in one of their own.

        Args:
            candidate: whose texts they are tried with.
            places: of the rows.
            reserved: of the budget, for later.
            name: of a row of their own; empty: the candidate's.
        """
        if not self._tried.count_missing(candidate.texts, places):
            known = self._tried.get_known(candidate.texts, places)  # gepa may want a row twice
            return [known[each] for each in places]

        def work() -> list[TriedRow]:
            return self._tried.try_rows(candidate.texts, places, pluralize(len(places), "row"), reserved)

        if self._row is not None and not name:
            return self._row.do(work)
        row = TimelineRow(self._ensemble, name or candidate.name, candidate.name)
        try:
            return row.do(work)
        finally:
            row.close(f"{candidate.name} on {pluralize(len(places), 'row')}")

    def _note_score(self, candidate: Candidate, places: Sequence[int]) -> None:
        if candidate.number == 0:
            return
        if len(places) == len(self._rows.searched):
            self._score(candidate, places)
            self._finish(candidate, KEPT)
        elif not candidate.first_rows:
            parent = self.candidates[candidate.parent or 0]
            candidate.first_rows = len(places)
            candidate.first_score = self._find_mean(candidate, places)
            candidate.parent_score = self._find_mean(parent, places)

    def _give(self, candidate: Candidate, place: int, row_tried: TriedRow) -> float:
        """The score of a row for gepa, which wants one of each: a row that is left out has the parent's, under both."""
        assert self.question is not None
        key = make_key(candidate.texts), place
        if key not in self._given:
            value = row_tried.read(self.question)
            parent = None if candidate.parent is None else self.candidates[candidate.parent]
            theirs = None if parent is None else self._tried.get_known(parent.texts, [place]).get(place)
            is_out = value is None or (theirs is not None and theirs.read(self.question) is None)
            if not is_out:
                assert value is not None
                self._given[key] = self._sign * value
            elif parent is not None and (make_key(parent.texts), place) in self._given:
                self._given[key] = self._given[make_key(parent.texts), place]
            else:
                self._given[key] = self._sign * (self.base.score or 0.0)
        return self._given[key]

    def _score(self, candidate: Candidate, places: Sequence[int]) -> None:
        assert self.question is not None
        known = self._tried.get_known(candidate.texts, places)
        candidate.left_out = sum(each.read(self.question) is None for each in known.values())
        candidate.score = self._find_mean(candidate, places)

    def _find_mean(self, candidate: Candidate, places: Iterable[int]) -> float | None:
        assert self.question is not None
        values = [each.read(self.question) for each in self._tried.get_known(candidate.texts, places).values()]
        known = [each for each in values if each is not None]
        return sum(known) / len(known) if known else None

    def propose(self, parent_texts: Texts, records: Mapping[str, Sequence[Any]], places: Sequence[str]) -> Texts:
        """A better text for one place; empty where there is none, which is told."""
        parent, place = self._by_key[make_key(parent_texts)], places[0]
        candidate = Candidate(len(self.candidates), parent.number, place, dict(parent_texts))
        self.candidates.append(candidate)
        old, reserved = parent_texts[place], self.find_reserve()
        rest = self._account.find_rest(reserved)
        if rest is None or not self._account.has_room(scale(self._find_request_charge(), _SLACK) + reserved):
            raise SearchOver("the budget is used up")
        known = [each for each in self._rows.rows.columns if each.isidentifier()]
        request = write_request(old, records[place])
        self._row = TimelineRow(self._ensemble, candidate.name, place)
        name = f"rewriting {candidate.number}"
        made = self._row.do(
            lambda: rewrite(self._ensemble, self._llm, request, old=old, known=known, budget=rest, name=name)
        )
        if made.output is not None:
            self._request_charge += self._account.book(made.output.metrics, made.output.events, self._tried.own_id)
            self._requests += 1
        twin = None
        if made.text is not None:
            candidate.texts[place] = made.text
            twin = self._by_key.get(make_key(candidate.texts))
        fault = made.fault if twin is None else f"it is the same as {twin.name}"
        self._failures = self._failures + 1 if made.text is None else 0
        if fault:
            self._finish(candidate, REFUSED, fault)
            if self._failures >= _MOST_FAILURES:
                raise SearchOver(f"{_MOST_FAILURES} candidates in a row were refused, the last one since {fault}")
            return {}
        self._by_key[make_key(candidate.texts)] = candidate
        return {place: candidate.texts[place]}

    def reject(self) -> None:
        """The last candidate was not better than its parent on its first rows."""
        last = self.candidates[-1]
        if last.status == UNFINISHED:
            self._finish(last, NOT_BETTER, f"on its first {last.first_rows} rows")

    def _is_over(self, _state: Any) -> bool:
        """Whether no further candidate is made."""
        if self.is_perfect(self.best):
            self.end = "no row can get better"
        best = self.best.number
        if len(self.candidates) - 1 - best >= PATIENCE:
            self.end = f"{PATIENCE} candidates in a row were not better than the best"
        now = self._account.charged, len(self.candidates)
        before, count = self._idle
        self._idle = now, count + 1 if now == before else 0
        if self._idle[1] > 2 * len(self._rows.searched):  # gepa draws only rows with which nothing is wrong
            self.end = "the rows that could get better say nothing new"
        if not self.end:
            need = scale(self._find_request_charge(), 1) + scale(self._find_usual_charge(), MINIBATCH)
            if not self._account.has_room(scale(need, _SLACK) + self.find_reserve()):
                self.end = "the budget is used up"
        return bool(self.end)

    def _find_request_charge(self) -> Spending:
        return scale(self._request_charge, 1 / self._requests) if self._requests else NOTHING

    def _find_usual_charge(self) -> Spending:
        """What a row of a new candidate takes: as with the last one; at first as with all tasks."""
        for each in reversed(self.candidates):
            if (charge := self._tried.find_row_charge(each.texts)) is not None:
                return charge
        return NOTHING

    def _close_row(self, said: str) -> None:
        """End the row of the timeline that is open, if one is."""
        row, self._row = self._row, None
        if row is not None:
            row.close(said)

    def _finish(self, candidate: Candidate, status: str, reason: str = "") -> None:
        candidate.status, candidate.reason = status, reason
        candidate.charged = self._account.charged
        candidate.spent = f"{self._account.describe(candidate.charged)} of {self._account.limit}"
        self._close_row(f"{status}: {reason}" if reason else status)
        parent = None if candidate.parent is None else self.candidates[candidate.parent]
        self._tell(make_readable(candidate.describe(parent)))

    def describe(self, row_tried: TriedRow, task: str | None) -> dict[str, Any]:
        """A row as the rewriting model is shown it.

        Args:
            row_tried: what came of it.
            task: whose text is rewritten; None: an agent's.
        """
        row = self._rows.rows.rows[row_tried.place]
        assert self.question is not None
        wanted = find_expected_column(row.values, self._settings.of_map.expected)
        shown = {
            name: _shorten(mask_named(name, write_value(each).text))
            for name, each in row.values.items()
            if name != wanted
        }
        output: Any = row_tried.raw or ""
        own = row_tried.outputs.get(task or "")
        if own is not None and own != row_tried.raw:
            output = {f"Of this task ({task})": own, "In the end": row_tried.raw or "nothing"}
        told = []
        value = row_tried.read(self.question)
        if row_tried.fault:
            told.append(f"It failed: {row_tried.fault}")
        elif value is not None:
            record = row_tried.run.scores.get(self.question.score)
            verdict = f"{self.question.score}: {value:g}"
            if self.question.is_share:
                verdict = f"{self.question.score}: {'passed' if value else 'not passed'}"
            told.append(verdict + (f" ({record.reason})" if record is not None and record.reason else ""))
        if wanted is not None and row.values.get(wanted) is not None:
            told.append(f"It should come to: {_shorten(write_value(row.values[wanted]).text)}")
        return {"Inputs": shown, "Outputs": output, "How good it was": mask("\n".join(told))}


def import_optimizer() -> Any:
    """Gepa's `optimize`.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        from gepa.api import optimize
    except ImportError:
        raise MissingPackageError("improve needs gepa", extra="improve") from None
    return optimize


def _shorten(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:2_000]}..."


def write_request(old: str, records: Sequence[Any]) -> str:
    """What the rewriting model is asked, with gepa's own way to write the rows."""
    from gepa.strategies.instruction_proposal import InstructionProposalSignature

    names = find_variables(old)
    kept = "There is no variable in it: write no {braces}."
    if names:
        listed = ", ".join(f"{{{each}}}" for each in names)
        kept = f"Variables in braces are filled in later. All of these must stand in the new text: {listed}. "
        kept += "Write no others."
    template = REQUEST.replace("<variables>", kept)
    written = InstructionProposalSignature.prompt_renderer(
        {"current_instruction_doc": old, "dataset_with_feedback": [*records], "prompt_template": template}
    )
    return str(written)


class _Adapter:
    """What gepa calls to try candidates (`gepa.core.adapter.GEPAAdapter`)."""

    propose_new_texts = None

    def __init__(self, search: TextSearch) -> None:
        self._search = search

    def evaluate(
        self,
        batch: Sequence[int],
        candidate: Texts,
        capture_traces: bool = False,  # noqa: ARG002 - they cost nothing
    ) -> Any:
        from gepa.core.adapter import EvaluationBatch

        scores, tried = self._search.evaluate(batch, candidate)
        return EvaluationBatch(outputs=[each.raw for each in tried], scores=scores, trajectories=tried)

    def make_reflective_dataset(
        self,
        candidate: Texts,  # noqa: ARG002 - what came of it says all
        eval_batch: Any,
        components_to_update: Sequence[str],
    ) -> Mapping[str, Sequence[Any]]:
        found = self._search
        return {
            place: [found.describe(each, _find_task(place)) for each in eval_batch.trajectories]
            for place in components_to_update
        }


def _find_task(place: str) -> str | None:
    kind, _, rest = place.partition(".")
    return rest.rpartition(".")[0] if kind == "task" else None


class _Reflection:
    """What gepa calls for better texts (`gepa.proposer.reflective_mutation.reflection_lm.ReflectionLM`)."""

    def __init__(self, search: TextSearch) -> None:
        self._search = search

    def reflect(
        self, candidate: Texts, reflective_dataset: Mapping[str, Sequence[Any]], components_to_update: Sequence[str]
    ) -> tuple[Any, Any]:
        from gepa.proposer.reflective_mutation.reflection_lm import ReflectionProposal

        made = self._search.propose(candidate, reflective_dataset, components_to_update)
        return ReflectionProposal(new_texts=made), self


class _Rejections:
    """What gepa calls when it does not keep a candidate."""

    def __init__(self, search: TextSearch) -> None:
        self._search = search

    def on_candidate_rejected(self, _event: Any) -> None:
        self._search.reject()


class _Log:
    """Takes what gepa says, which goes to the log."""

    def log(self, message: str) -> None:
        logger.debug("%s", message)
