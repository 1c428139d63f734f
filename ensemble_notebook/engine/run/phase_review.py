"""Asks the reviewer of a phase about the outputs of its tasks, and reads the answer (E28)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, cast

from ensemble_notebook.domain.definitions.review import (
    A_PERSON,
    ReviewDecision,
    ReviewHandler,
    ReviewRequest,
    Verdict,
    explain_answers,
    name_reviewer,
)
from ensemble_notebook.domain.planning.graph import PhaseNode
from ensemble_notebook.engine.events.event_stream import SpanEmitter
from ensemble_notebook.engine.run.task_resolver import TaskResolver
from ensemble_notebook.engine.run_spec import ResolvedTask
from ensemble_notebook.engine.task.task_runner import TaskRunner
from ensemble_notebook.engine.task_lifecycle import abandonment_in, run_unplanned_task
from ensemble_notebook.errors import ReviewRejectedError, did_you_mean, summarize_error

_VERDICTS: Final = (Verdict.APPROVE, Verdict.RETRY, Verdict.REJECT, Verdict.EXIT_EARLY)
NO_REASON: Final = "no reason given"
_LONGEST_QUOTE: Final = 300


class PhaseReviewer:
    """The reviews of all phases of one run.

    Args:
        runner: works on the tasks that review phases.
        resolver: tells what there is to look at.
    """

    def __init__(self, runner: TaskRunner, resolver: TaskResolver) -> None:
        self._runner = runner
        self._resolver = resolver

    async def review(
        self, phase: PhaseNode, tasks: Sequence[str], queued_s: float, span: SpanEmitter
    ) -> ReviewDecision:
        """To approve the phase, to do it again, or to leave the run. Says nothing of how often it may be done again.

        Args:
            phase: all its tasks are resolved.
            tasks: their names.
            queued_s: how long the review waited for a free place.
            span: the span of the phase.

        Raises:
            ReviewRejectedError: the phase fails: it was rejected, or its review broke.
            TaskAbandoned, BudgetExceededError: the review is not to go on.
        """
        review, reviewer = phase.phase.review, phase.reviewer
        assert review is not None  # this is asked for phases with a review
        resolved = None if reviewer is None else self._resolver.resolve_reviewer(reviewer, phase)
        outputs = self._resolver.find_outputs(phase.tasks) if resolved is None else resolved.context
        if resolved is None and self._runner.reuse.is_approved(phase, outputs):
            return ReviewDecision.approve()
        request = ReviewRequest(
            subject="phase",
            text="\n\n".join(f"### {each.name}\n{each.raw}" for each in outputs),
            phase=phase.name,
            agent="" if reviewer is None else reviewer.role,
            verdicts=_VERDICTS,
            timeout=None,
            tasks=tuple(tasks),
        )
        review_queue = self._runner.review_queue
        try:
            if resolved is None:
                by: ReviewHandler | None = cast(ReviewHandler, review.by)
                if _asks_person(by) and _asks_person(review_queue.handler):
                    by = None  # the same person, who is asked where everything else is
                decision = (await review_queue.ask(request, span, by)).decision
            else:
                work = functools.partial(self._run_reviewer, resolved, queued_s, span)
                decision = await review_queue.ask_without_waiting(request, span, work)
        except Exception as error:
            if abandonment_in(error) is not None:
                raise
            reason = summarize_error(error)
            raise ReviewRejectedError(f"The review of phase {phase.name!r} broke: {reason}", reason=reason) from error
        if decision.verdict is Verdict.REJECT:
            reason = decision.text.strip() or NO_REASON
            raise ReviewRejectedError(f"Phase {phase.name!r} was rejected by its review: {reason}", reason=reason)
        if decision.verdict is Verdict.EDIT:
            reason = "the outputs of a phase can't be edited; approve, retry or reject"
            raise ReviewRejectedError(f"The review of phase {phase.name!r} broke: {reason}", reason=reason)
        return decision

    async def _run_reviewer(
        self, resolved: ResolvedTask, queued_s: float, phase: SpanEmitter, request: ReviewRequest
    ) -> ReviewDecision:
        """The answer of a reviewer that is a task. One that decides nothing is asked for once more."""
        node, answer = resolved.node, ""
        for waited_s in (queued_s, 0.0):
            span = phase.task_child(node.name, phase.phase)
            work, told = self._runner.run(resolved, span), resolved.description
            output = await run_unplanned_task(span, work, agent=node.role, description=told, queued_s=waited_s)
            answer = output.raw
            try:
                decision = read_answer(answer, request.tasks)
            except UndecidedError as error:
                resolved.revision = resolved.revision.follow(str(error), answer)
                continue
            if decision.verdict is Verdict.APPROVE:
                self._runner.reuse.keep_approving_answer(node, output)
            return decision
        line = " ".join(answer.split())
        quoted = line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} ..."
        said = f"said {quoted!r}" if line else "gave an empty answer"
        return ReviewDecision.reject(f"asked twice, the reviewer decided nothing: it {said}")


def _asks_person(handler: ReviewHandler | None) -> bool:
    return handler is not None and name_reviewer(handler) == A_PERSON


# --- Reads the answer of a task that reviews a phase: its first word is the verdict. Pure -----------------------------
#
# An answer may quote what it is about, and that may be written to be quoted: what is in a quotation is no verdict, and
# an answer with two different ones decides nothing.


_MARKUP: Final = " \t\r\n*_`#~-"
_END_MARKUP: Final = " \t\r\n*_`"
_AROUND_NAME: Final = f"{_MARKUP}\"'>"
_AFTER_WORD: Final = f"{_AROUND_NAME}:.,"
# The word behind Markdown or a number, and over where its Markdown is: **APPROVE**, but not **APPROVE**d or APPROVE?
_WORD: Final = r"(?P<word>APPROVE|RETRY|REJECT)(?P<after>[*_`]*+)(?![^\W_])(?!\s*+\?)"
_VERDICT: Final = re.compile(rf"(?P<markup>[\s*_`#~-]*+(?:\d{{1,3}}[.)]\s++)?+[*_`]*+){_WORD}", re.IGNORECASE)
# Another one may stand behind any sign but a quotation mark: a bullet, an arrow, a bracket, the line of a table.
_SIGNS: Final = r"""(?:\d{1,3}[.)])?+(?:[^\w"'“„«‹‘‚「『]|_)*+"""  # noqa: RUF001
_OTHER: Final = re.compile(rf"\s*+(?P<label>[^:\n]{{1,40}}?[:|=\u2013\u2014-])??{_SIGNS}{_WORD}", re.IGNORECASE)
# What takes an approval back on its own line: a no, or another verdict that begins a clause there.
_NO: Final = re.compile(r"[\s*_`]+(?:not|never|nothing)\b|\W*(?:not?|never|false)\W*$", re.IGNORECASE)
_IN_MARKS: Final = re.compile('"[^"]*"|\u201c[^\u201d]*\u201d|\u00ab[^\u00bb]*\u00bb')
_CLAUSE: Final = re.compile(
    rf"(?:^|[;:,.!?/|=<>()\[\]\u2013\u2014-]|\b(?:or|and|but|no|rather|then|i))[\s*_`]*+{_WORD}", re.IGNORECASE
)
_HEADING: Final = re.compile(r"\b(?P<word>REJECT)[*_`]*+:")  # a retry is what a sentence may wish for
_FORM_END: Final = re.compile(r"[ \t]*+(?:[\n:.,;!-]|$)")
_QUOTED_LINE: Final = re.compile(r"[ \t]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?+>")
_FENCE_LINE: Final = re.compile(r"[ \t]*+(```|~~~)")
_NAME: Final = re.compile(r"[\w.\-]+")


class UndecidedError(ValueError):
    """An answer that decides nothing; says why, and how to answer instead."""


def read_answer(answer: str, tasks: Sequence[str]) -> ReviewDecision:
    """What a reviewer's answer means: ``APPROVE``, ``RETRY: feedback``, ``RETRY task: feedback``, ``REJECT: reason``.

    Letter case doesn't matter, nor does Markdown around the first word. A line that begins with ``RETRY`` and the name
    of a task is for that task, up to the next such line; what else is said is for all of them.

    Args:
        answer: of the reviewer.
        tasks: names of those that feedback may be addressed to.

    Raises:
        UndecidedError: it begins with none of the three words, or with a quotation; another line begins with another
            one of them; or it addresses a task that is not there.
    """
    text, is_wrapped = "\n".join(answer.strip().splitlines()), False
    lines = _split_lines(text)
    # One that stands in a fence, a block quote or quotation marks as a whole is read without them.
    if text[:1] == text[-1:] and text[:1] in ("'", '"') and text.count(text[0]) == 2:
        text, is_wrapped = text[1:-1].strip(), True
    elif all(is_quoted for _, is_quoted in lines):
        is_fence = _FENCE_LINE.match(text) is not None
        inside = [line for line, _ in lines[1:-1]] if is_fence else [line.lstrip(" \t>") for line, _ in lines]
        text, is_wrapped = "\n".join(inside).strip(), True
    found = _find_verdict(text, is_wrapped=is_wrapped)
    if found is None:
        said = "Your answer decides nothing." if text.strip(_AFTER_WORD) else "Your answer was empty."
        raise UndecidedError(f"{said} {explain_answers(tasks)}")
    word = found["word"].upper()
    if (other := _find_other_verdict(text, word)) is not None:
        message = f"Your answer decides nothing: a line of it says {word}, and another one {other}."
        raise UndecidedError(f"{message} {explain_answers(tasks)}")
    if word == "APPROVE" and (other := _find_withdrawal(text[found.end() :].partition("\n")[0])) is not None:
        message = f"Your answer decides nothing: it says APPROVE, and on the same line {other}."
        raise UndecidedError(f"{message} {explain_answers(tasks)}")
    text = found.string[found.start("word") :].rstrip(_END_MARKUP)
    match word:
        case "APPROVE":
            return ReviewDecision.approve()
        case "REJECT":
            return ReviewDecision.reject(text[len(word) :].lstrip(_AFTER_WORD))
    return _read_retry(text, found["word"], tasks)


def _find_verdict(text: str, *, is_wrapped: bool) -> re.Match[str] | None:
    """The verdict at the beginning of an answer; None where there is none, or a quotation begins there.

    What is wrapped as a whole, or begins with a code span or struck out, is no quotation where it has the form of an
    answer: nothing, or a colon, behind the word, and not the rest of a sentence.
    """
    found = _VERDICT.match(text)
    if found is None or _split_lines(text)[text.count("\n", 0, found.start("word"))][1]:
        return None
    is_wrapped = is_wrapped or "`" in found["markup"] or "~" in found["markup"]
    has_form = found["word"].upper() == "RETRY" or _FORM_END.match(text, found.end()) is not None
    return found if has_form or not is_wrapped else None


def _split_lines(text: str) -> list[tuple[str, bool]]:
    """The lines of an answer, each with whether it is in a quotation. A fence that is not closed quotes nothing."""
    lines = text.split("\n")
    quoted = [_QUOTED_LINE.match(line) is not None for line in lines]
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE_LINE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened = (number, fence[1])
        elif fence[1] == opened[1] and not line.strip().strip(fence[1][0]):
            quoted[opened[0] : number + 1] = [True] * (number + 1 - opened[0])
            opened = None
    return list(zip(lines, quoted, strict=True))


def _find_other_verdict(text: str, word: str) -> str | None:
    """Another verdict at the beginning of a line, or behind a label there, as in ``Verdict: REJECT``.

    In the feedback of a retry, and in a reason, a sentence may begin with such a word; behind an approval none does.
    """
    for line, is_quoted in _split_lines(text):
        found = None if is_quoted else _OTHER.match(line)
        if found is None or (other := found["word"].upper()) == word:
            continue
        is_written_out = found["word"] == other
        rest = line[found.end() :].strip(f"{_END_MARKUP}.!|")
        if found["label"] is None:
            is_verdict = is_written_out or word == "APPROVE" or rest.startswith(":")
        elif word == "APPROVE":
            is_verdict = is_written_out or not rest
        else:
            is_verdict = is_written_out and found["label"].endswith(":")
        if is_verdict:
            return other
    return None


def _find_withdrawal(rest: str) -> str | None:
    """What takes an approval back behind it on its line, as in ``APPROVE NOT``; None where nothing does.

    A sentence may speak of a retry, and quote whatever it likes.
    """
    rest = _IN_MARKS.sub('""', rest)
    if no := _NO.match(rest):
        return no[0].strip(_AFTER_WORD).upper()
    for found in (*_CLAUSE.finditer(rest), *_HEADING.finditer(rest)):
        other = found["word"].upper()
        if other != "APPROVE" and (found["word"] == other or _FORM_END.match(rest, found.end())):
            return other
    return None


def _read_retry(text: str, word: str, tasks: Sequence[str]) -> ReviewDecision:
    """The feedback of a retry, by the tasks that it is for; each further part begins with the same word."""
    for_all: list[str] = []
    by_task: dict[str, list[str]] = {}
    lines = for_all
    for line, is_quoted in _split_lines(text):
        begun = None if is_quoted else _VERDICT.match(line)
        if begun is None or begun["word"] != word:
            lines.append(line)
            continue
        name, feedback = _split_address(line[begun.end() :], tasks)
        lines = for_all if name is None else by_task.setdefault(name, [])
        lines.append(feedback)
    common = "\n".join(for_all).strip()
    if not by_task:
        return ReviewDecision.retry(common)
    meant = tasks if common else tuple(by_task)
    return ReviewDecision.retry({name: "\n".join([common, *by_task.get(name, ())]).strip() for name in meant})


def _split_address(rest: str, tasks: Sequence[str]) -> tuple[str | None, str]:
    """The task that a line is for, None for all, and what the line says.

    Raises:
        UndecidedError: it is for one that is not there.
    """
    address, colon, feedback = rest.partition(":")
    address = address.strip(_AROUND_NAME)
    if colon and address:
        same = [each for each in tasks if each.casefold() == address.casefold()]
        if same:
            return address if address in same else same[0], feedback.lstrip(_AROUND_NAME).rstrip(_END_MARKUP)
        if _NAME.fullmatch(address):  # one word before a colon is meant for a name; several are a sentence
            message = f"This phase has no task {address!r}.{did_you_mean(address, tasks)}"
            raise UndecidedError(f"{message} {explain_answers(tasks)}")
    return None, rest.lstrip(_AFTER_WORD).rstrip(_END_MARKUP)
