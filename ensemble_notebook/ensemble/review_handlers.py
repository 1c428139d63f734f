"""Ready-made review handlers, and a review as a conversation in lines of text (E45).

The conversation knows neither terminals nor notebooks: it is given something that writes a text and something that
reads a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ensemble_notebook.domain.definitions.review import ReviewDecision, ReviewHandler, ReviewRequest, Verdict
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.engine.review_queue import describe_consequence
from ensemble_notebook.errors import show_hidden_characters

_TITLES: Final = {
    "task": "May {task} begin?",
    "output": "Is the output of {task} good?",
    "tool": "May {agent} call {tool}?",
    "question": "{agent} asks you:",
    "phase": "Is the phase {phase} done?",
}
_KEYS: Final = {
    Verdict.APPROVE: ("a", "[a]pprove"),
    Verdict.EDIT: ("e", "[e]dit"),
    Verdict.RETRY: ("r", "[r]etry"),
    Verdict.REJECT: ("j", "re[j]ect"),
    Verdict.EXIT_EARLY: ("x", "e[x]it the run"),
}
_EXITS: Final = ("stop", "end", "exit", "exit_early", "exit early")
_ALL: Final = "all"
_ALWAYS: Final = "always"
_EXIT_COMMAND: Final = "/exit"
# What `input` raises where there is nobody: the end of a file, a captured or missing stream, a frontend without input.
NOBODY_ERRORS: Final = (EOFError, OSError, RuntimeError)


def auto_review(decision: ReviewDecision | None = None, *, tools: bool = False) -> ReviewHandler:
    """Make a review handler that always gives the same answer: no gate, on purpose, for tests and unattended runs.

    Args:
        decision: the answer; None: approve.
        tools: whether it answers about calls of reviewed tools, too; if not, these are left pending.
    """
    return AutoReview(ReviewDecision.approve() if decision is None else decision, tools)


def leave_pending() -> ReviewHandler:
    """Make a review handler that asks nobody: calls of reviewed tools are left pending, for an answer in a later run.

    Of other reviews their `on_timeout` decides at once.
    """
    return LeavePending()


@dataclass(frozen=True, slots=True)
class LeavePending:
    """What `leave_pending` makes, in whatever process."""

    @property
    def __name__(self) -> str:
        """By which views call it."""
        return leave_pending.__name__

    def __call__(self, _request: ReviewRequest) -> ReviewDecision:
        """No decision.

        Raises:
            TimeoutError: always.
        """
        raise TimeoutError("Nobody is asked here: calls of reviewed tools wait.")


@dataclass(frozen=True, slots=True)
class AutoReview:
    """What `auto_review` makes: it decides alike about everything, in whatever process."""

    decision: ReviewDecision
    tools: bool = False

    @property
    def __name__(self) -> str:
        """By which views call it."""
        return auto_review.__name__

    def __call__(self, request: ReviewRequest) -> ReviewDecision:
        """The decision.

        Raises:
            TimeoutError: it is about a call of a reviewed tool, about which nobody has said that all are alike.
        """
        if request.call_id is not None and not self.tools:
            raise TimeoutError("auto_review(tools=True) answers about calls of reviewed tools, too.")
        return self.decision


def console_review(request: ReviewRequest) -> ReviewDecision:
    """A review handler that asks with ``print`` and ``input``, for scripts.

    Cells don't need it: ``%%ensemble`` asks in the timeline, or by ``input`` where that can't be clicked.

    Args:
        request: what is asked.

    Raises:
        TimeoutError: nobody can be asked here; the review's `on_timeout` then decides at once.
    """
    try:
        return ask_in_text(request, input, print)
    except NOBODY_ERRORS as error:
        raise TimeoutError(f"Nobody can be asked here: {error}") from error


console_review.is_person = True  # type: ignore[attr-defined]  # for `name_reviewer`


def describe_question(request: ReviewRequest) -> str:
    """What is asked, in a sentence."""
    names = {
        "task": repr(request.task),
        "phase": repr(request.phase),
        "agent": request.agent or "the agent",
        "tool": request.tool or "a tool",
    }
    title = _TITLES[request.subject].format_map(names)
    row = "" if request.row is None else f" ({request.row})"
    return f"{title[0].upper()}{title[1:]}{row}"


def ask_in_text(request: ReviewRequest, read: Callable[[str], str], write: Callable[[str], object]) -> ReviewDecision:
    """Show what is asked, secrets masked, and read until the answer is one.

    Args:
        request: what to ask.
        read: gives the next line for a prompt.
        write: shows a text.
    """
    lines = show_hidden_characters(mask(request.text)).splitlines() or [""]
    limit = "" if request.timeout is None else f"  ({request.timeout:g} s, then {describe_consequence(request)})"
    shown = [f"‖ {describe_question(request)}", *(f"  {line}" for line in lines)]
    # What a model wrote must not move the cursor of a terminal.
    write("\n".join("".join(char for char in line if char.isprintable() or char == "\t") for line in shown))
    if request.subject == "question":
        return _read_answer(read, request, limit)
    choices = " ".join(_KEYS[verdict][1] for verdict in request.verdicts)
    if request.may_be_for_all:
        choices += f", of all rows: [a {_ALL}]"
    has_always = request.call_id is not None
    if has_always:
        choices += f", of all calls of {request.tool} in this run: [a {_ALWAYS}]"
    prompt = f"{choices}{limit}: "
    while True:
        word, _, rest = read(prompt).strip().partition(" ")
        first, _, others = rest.strip().partition(" ")
        is_for_all = request.may_be_for_all and first.lower() == _ALL
        is_always = has_always and first.lower() == _ALWAYS
        rest = others if is_for_all or is_always else rest
        for verdict in request.verdicts:
            is_exit = verdict is Verdict.EXIT_EARLY and word.lower() in _EXITS
            if is_exit or word.lower() in (_KEYS[verdict][0], verdict.value):
                if (decision := _make_decision(verdict, rest.strip(), read)) is not None:
                    may_last = verdict in (Verdict.APPROVE, Verdict.REJECT)
                    return replace(decision, for_all=is_for_all, always=is_always and may_last)
                break
        prompt = f"{choices}: "


def _read_answer(read: Callable[[str], str], request: ReviewRequest, limit: str) -> ReviewDecision:
    can_exit = Verdict.EXIT_EARLY in request.verdicts
    prompt = f"Your answer{f' ({_EXIT_COMMAND} ends the run)' if can_exit else ''}{limit}: "
    while not (text := read(prompt).strip()):
        prompt = "Your answer: "
    return ReviewDecision.exit_early() if can_exit and text == _EXIT_COMMAND else ReviewDecision.edit(text)


def _make_decision(verdict: Verdict, text: str, read: Callable[[str], str]) -> ReviewDecision | None:
    """The decision, its text read where it is missing; None where a person did not want to say it after all."""
    match verdict:
        case Verdict.APPROVE:
            return ReviewDecision.approve()
        case Verdict.EXIT_EARLY:
            return ReviewDecision.exit_early()
        case Verdict.REJECT:
            return ReviewDecision.reject(text or read("Why? (may stay empty) ").strip())
        case Verdict.RETRY:
            text = text or read("What should be different? ").strip()
            return ReviewDecision.retry(text) if text else None
        case Verdict.EDIT:
            if not text:
                lines = [read("The new text, line by line; a line that is only a dot ends it: ")]
                while lines[-1].strip() != ".":
                    lines.append(read("… "))
                text = "\n".join(lines[:-1]).strip()
            return ReviewDecision.edit(text) if text else None
