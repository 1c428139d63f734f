"""What live and saved views call things: one table, and what is said of a row of the timeline with it.

``make wire-types`` makes TypeScript's table of it (`js/src/wire/words.ts`), and `js/src/wording` the same sentences;
`tests/wording_cases.json` is read by the tests of both, so that they can't drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from ensemble_notebook.domain.definitions.enums import ExitReason, PhaseStatus, RunStatus, SpanStatus, ToolOutcome
from ensemble_notebook.domain.definitions.review import NOBODY_TO_ASK, ON_TIMEOUT, Verdict
from ensemble_notebook.domain.planning.map_design import SETTLED
from ensemble_notebook.domain.wording import (
    describe_saving,
    format_duration,
    format_money,
    format_rate,
    format_roughly,
    pluralize,
)

STATUSES: Final[Mapping[str, str]] = {
    SpanStatus.PENDING: "pending",
    SpanStatus.RUNNING: "running",
    SpanStatus.WAITING: "waiting",
    SpanStatus.OK: "done",
    SpanStatus.ERROR: "failed",
    SpanStatus.CANCELLED: "cancelled",
    SpanStatus.INTERRUPTED: "interrupted",
    SpanStatus.SKIPPED: "skipped",
}
OUTCOMES: Final[Mapping[str, str]] = {ToolOutcome.DECLINED: "declined", PhaseStatus.EXITED_EARLY: "exited early"}
"""What became of what was skipped, where that is another word; rows have it as their `outcome`."""
RUN_STATUSES: Final[Mapping[str, str]] = {
    RunStatus.PENDING: "not started",
    RunStatus.RUNNING: "running",
    RunStatus.COMPLETED: "completed",
    RunStatus.COMPLETED_WITH_WARNINGS: "completed with warnings",
    RunStatus.FAILED: "failed",
    RunStatus.BUDGET_EXCEEDED: "budget exceeded",
    RunStatus.EXITED_EARLY: "ended early",
    RunStatus.INTERRUPTED: "interrupted",
}
EXITS: Final[Mapping[str, str]] = {ExitReason.TIMEOUT: "timed out", ExitReason.NOBODY_TO_ASK: "nobody to ask"}
"""Why a run ended, where that says more than how."""

WHEN_SAVED: Final = "running when saved"
"""Of what was saved or exported before its end: nobody can say there how it went on."""
AS_IT_WAS: Final = "as it was"
"""Of a run that is over and shown as it was at a time in it (W35)."""

DEMO: Final = "demo "
"""How the name begins that a run was replayed from where the package has played it (C101); the demo's name follows."""
SCRIPTED_TEAM: Final = "recorded from a scripted team"
"""What such a run is called."""

WAITING_FOR_YOU: Final = "waiting for you"
IN_REVIEW: Final = "in review"
SUBJECTS: Final[Mapping[str, str]] = {
    "task": "review before the start",
    "output": "review of the output",
    "tool": "review of a tool call",
    "question": "question to you",
    "phase": "review of the phase",
}
ANSWERS: Final[Mapping[str, str]] = {
    Verdict.APPROVE: "approved",
    Verdict.EDIT: "edited",
    Verdict.RETRY: "sent back",
    Verdict.REJECT: "rejected",
    Verdict.EXIT_EARLY: "ended the run",
}
NO_RETRY_LEFT: Final = "kept: no retry left"
"""Of work that a review sent back for the last time, and that was kept."""
DONE_AGAIN: Final = "done again"
"""Of work that was repeated although nobody sent it back: its condition does not hold yet."""
UNTIL_MET: Final = "until met"
NO_ROUND_LEFT: Final = "kept: no round left"
"""Of the last round of such work: its condition holds, or it was kept all the same."""
UNKNOWN_WORKER: Final = "who did it is unknown"
"""Said of a written task that a manager saw to, where no text tells which worker did it."""
ENDING_ANSWERS: Final = (Verdict.REJECT, Verdict.EXIT_EARLY)
"""What ends a phase, a task or the run by itself."""
LONGEST_FEEDBACK: Final = 200
UNDECIDED: Final[Mapping[str, str]] = {ON_TIMEOUT: "no answer", NOBODY_TO_ASK: "nobody to ask"}
"""Of a review that nobody has decided, by what did."""

_FEW: Final = 5

Row = Mapping[str, Any]


def name_status(run_status: str) -> str:
    """What a run's status is called; one that only a later version knows goes by its own name."""
    return RUN_STATUSES.get(run_status, run_status.replace("_", " "))


def name_state(row: Row) -> str:
    """How a row stands, in a word or two."""
    return row.get("outcome") or STATUSES[row["status"]]


def describe_state(run: Row) -> str:
    """How a run goes, or ended, in a word or two."""
    if (ended := EXITS.get(run.get("exit_reason") or "")) is not None:
        return ended
    return WAITING_FOR_YOU if run.get("waiting") and run["status"] == "running" else name_status(run["status"])


def describe_standing(run: Row) -> list[str]:
    """How far a run had come that had not ended, or was interrupted: ``4 of 8 tasks``, ``18 s``, ``$0.021``."""
    noun = run.get("task_noun") or "task"
    said = [f"{run['tasks_done']:,} of {pluralize(run['tasks_total'], noun)}"]
    if (many := run.get("many")) is not None and noun == "task":
        said.append(f"{many['done'] + many['failed']:,} of {pluralize(many['total'], 'item')}")
    said.append(format_duration(float(run.get("elapsed_ms") or 0)))
    return [*said, describe_cost(run)] if run.get("cost") else said


def describe_progress(many: Row, elapsed_ms: float) -> str:
    """How far work on many has come, and how it goes on if it goes on so: ``151 of 1,700 · 38/s · about 40 s left``.

    How fast it is can be said of a few that have ended, and of a second.
    """
    ended, total, took_s = many["done"] + many["failed"], many["total"], (elapsed_ms - many["start_ms"]) / 1000
    said = f"{ended:,} of {total:,}"
    if ended < _FEW or took_s < 1:
        return said
    said = f"{said} · {format_rate(ended / took_s)}"
    return said if ended >= total else f"{said} · about {format_roughly((total - ended) * took_s / ended)} left"


def describe_cost(run: Row) -> str:
    """What a run has cost, as far as that is known."""
    return ("" if run["cost_complete"] else "at least ") + format_money(run["cost"], run["currency"])


def format_time_of_day(instant: str) -> str:
    """The hour and minute of an ISO instant, on the clock of this process, and its zone: ``10:51 PM GMT+1``.

    Nobody knows where a picture is read. Browsers write zones like this, too, and short names differ by system.
    """
    at = datetime.fromisoformat(instant).astimezone()
    minutes = round((at.utcoffset() or timedelta()).total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    zone = f"GMT{'-' if minutes < 0 else '+'}{hours}{f':{rest:02}' if rest else ''}" if minutes else "UTC"
    return f"{at:%I:%M %p} {zone}".removeprefix("0")


def describe_times(row: Row) -> str:
    """How often a task runs, behind its name; empty for once."""
    if row.get("item_count") is not None:
        return f" x {row['item_count']:,}"
    return " x ?" if (row.get("settings") or {}).get("for_each") is not None else ""


def describe_skip(reason: str | None, said: str = STATUSES[SpanStatus.SKIPPED]) -> str:
    """Why a task or phase never ran, or did not go on; that it did not is `said` once."""
    if not reason:
        return said
    if reason.startswith(("condition", SETTLED)):
        return reason
    why = reason.removeprefix("not started: ")
    return f"{said}, since {why}" if why.startswith("phase ") else f"{said}: {why}"


def describe_redoing(row: Row) -> str:
    """Why a task or phase was done again."""
    reason = row.get("retry_reason") or "review"
    return f"a {reason} sent it back" if reason in ("review", "guardrail") else str(reason)


def describe_return(feedback: str | None) -> str:
    """That work was sent back, and what was asked for: ``sent back: "shorter, and name the vendor"``."""
    words = " ".join((feedback or "").split())
    said = words if len(words) <= LONGEST_FEEDBACK else words[: LONGEST_FEEDBACK - 1] + "…"
    return f'{ANSWERS[Verdict.RETRY]}: "{said}"' if said else ANSWERS[Verdict.RETRY]


def describe_rounds(row: Row) -> list[str]:
    """What became of each go at the work of a phase or task that was sent back: ``round 1 · sent back: "shorter"``."""
    noun = name_round(row)
    return [
        f"{noun} {number} · {verdict}" if (verdict := each.get("verdict")) else f"{noun} {number}"
        for number, each in enumerate(row.get("rounds") or (), start=1)
    ]


def name_round(row: Row) -> str:
    """What one go at the work is called: of a phase a round, of a task a draft."""
    return "round" if row["kind"] == "phase" else "draft"


def describe_length(row: Row) -> str:
    """How long what is over took, and from start to end where that is more: ``7.8 s of 14 s``."""
    whole_ms = row["end_ms"] - row["start_ms"]
    own, whole = format_duration(row.get("duration_ms", whole_ms)), format_duration(whole_ms)
    return own if own == whole else f"{own} of {whole}"


def describe_reuse(row: Row) -> str:
    """Why a task was reused, or ran although somebody asked for reuse; empty where nobody did."""
    said = "reused" if row.get("reused") else "not reused"
    return f"{said}: {row['reuse_reason']}" if row.get("reuse_reason") else ""


def describe_row_saving(row: Row, currency: str | None = None) -> str:
    """What a reused task saved; empty where nothing is known. `currency` is that of rows that don't say theirs."""
    saved = (row.get("saved_cost"), row.get("saved_tokens"), row.get("saved_ms"))
    return describe_saving(*saved, row.get("currency") or currency)


def describe_answer(row: Row) -> str:
    """What came of a review, in a word or two."""
    review: Row = row.get("review") or {}
    if row.get("end_ms") is None:  # phases are looked at by tasks and functions, everything else by a person
        return IN_REVIEW if review.get("subject") == "phase" else WAITING_FOR_YOU
    undecided, decision = find_undecided(row), review.get("decision")
    if not decision:
        return undecided or (STATUSES[SpanStatus.CANCELLED] if row["status"] == "cancelled" else UNDECIDED[ON_TIMEOUT])
    is_answer = review.get("subject") == "question" and decision == Verdict.EDIT
    answer = "answered" if is_answer else ANSWERS.get(decision, decision)
    return f"{undecided}: {answer}" if undecided else answer


def find_undecided(row: Row) -> str:
    """Why nobody has decided a review; empty where somebody has. Earlier versions say only whether it was in time."""
    review: Row = row.get("review") or {}
    return UNDECIDED.get(ON_TIMEOUT if review.get("is_timeout") else review.get("by") or "", "")
