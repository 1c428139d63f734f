"""What a class has done, as one page for the teacher (C124): static, without scripts, light and dark, on a phone.

Every text is a text. Without being asked for, there are names, numbers and times alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import partial
from html import escape
from statistics import median
from typing import TYPE_CHECKING, Final

from ensemble_notebook.domain.definitions.enums import RunStatus
from ensemble_notebook.domain.outputs.secrets import mask
from ensemble_notebook.domain.wording import UNKNOWN, format_moment, format_money, format_zone, pluralize
from ensemble_notebook.errors import remove_control_characters
from ensemble_notebook.notebook.picture import html_table as html
from ensemble_notebook.notebook.picture.report import cards, cut, scrolled, section
from ensemble_notebook.notebook.picture.run_page import STYLE

if TYPE_CHECKING:
    from ensemble_notebook.trace.class_runs import ClassRuns, ExerciseRun

MOST_NAMED: Final = 3
MOST_SHOWN: Final = 400
"""Characters of a text that stand in a cell of a table."""

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{parts}
</main>
</body>
</html>
"""
_PASSED, _FAILED = (partial(html.tag, "span", **{"class": name}) for name in ("passed", "failed"))
_HEADS: Final = (
    "student",
    "checks",
    "last run",
    "when",
    "first mistake",
    "most frequent error",
    "runs",
    "cost",
    "cost of all",
)


def make_class_page(found: ClassRuns) -> str:
    """The page of a class."""
    title = f"Class: {', '.join(found.exercises)}" if len(found.exercises) <= 3 else "Class"
    last_day = max(_find_day(each) for each in found.runs)
    parts = [
        _write_head(found, title, last_day),
        _write_overview(found),
        *(_write_exercise(name, runs, found, last_day) for name, runs in found.exercises.items()),
        *_write_rest(found),
    ]
    return _PAGE.format(
        policy=_POLICY, title=escape(remove_control_characters(title)), style=STYLE, parts=html.join(*parts)
    )


def _find_day(run: ExerciseRun) -> date:
    """The local day of a run."""
    assert run.trace.started_at is not None
    return run.trace.started_at.astimezone().date()


def _write_head(found: ClassRuns, title: str, last_day: date) -> html.Html:
    zone = format_zone(max(each.trace.started_at for each in found.runs if each.trace.started_at))
    others = sum(_find_day(each) != last_day for each in found.runs)
    facts = [
        pluralize(len(found.students), "student"),
        pluralize(len(found.exercises), "exercise"),
        f"the last runs are of {last_day:%Y-%m-%d}, {zone}",
        f"{others} of another day" if others else "",
        f"cost of all runs {_sum_cost(found.runs)}",
    ]
    what = (
        "Each student's last run of each exercise, with texts."
        if found.has_texts
        else ("Each student's last run of each exercise, in names and numbers.")
    )
    return html.tag(
        "header", html.tag("h1", title), html.tag("p", " · ".join(filter(None, facts))), html.tag("p", what)
    )


def _sum_cost(runs: Sequence[ExerciseRun]) -> str:
    """What they cost together, by currency."""
    sums: Counter[str] = Counter()
    for each in runs:
        if each.total_cost is not None:
            sums[each.trace.metrics.currency] += each.total_cost  # type: ignore[assignment]
    return " and ".join(format_money(cost, currency) for currency, cost in sums.items()) or UNKNOWN


def _write_overview(found: ClassRuns) -> html.Html:
    """How the class did in each exercise."""
    lines = []
    for name, runs in found.exercises.items():
        checked = [each for each in runs if each.checks]
        whole = sum(each.passed == len(each.checks) for each in checked)
        mistakes = Counter(each.first_mistake[0] for each in runs if each.first_mistake)
        errors = Counter[str]()
        for each in runs:
            if each.frequent_error is not None:
                errors[each.frequent_error[0]] += each.frequent_error[1]
        lines.append(
            (
                name,
                f"{len(runs)} of {len(found.students)}",
                f"{whole} of {len(checked)}" if checked else "not checked",
                _name_most(mistakes, "student"),
                _name_most(errors, "time"),
                f"{median(len(each.earlier) + 1 for each in runs):g}",
                _sum_cost(runs),
            )
        )
    heads = (
        "exercise",
        "students",
        "all checks hold",
        "most frequent first mistake",
        "most frequent error",
        "runs (median)",
        "cost",
    )
    return section("How the class did", scrolled("How the class did", cards(heads, lines, is_short=False), kind="wide"))


def _name_most(counts: Counter[str], noun: str) -> str:
    if not counts:
        return ""
    ((name, count),) = counts.most_common(1)
    return f"{mask(name)} ({pluralize(count, noun)})"


def _write_exercise(name: str, runs: Sequence[ExerciseRun], found: ClassRuns, last_day: date) -> html.Html:
    lines = [[*_write_run(each, last_day, has_texts=found.has_texts)] for each in runs]
    table = scrolled(f"Students in {name}", cards(_HEADS, lines, is_short=False), kind="wide")
    there = {each.student for each in runs}
    missing = [each for each in found.students if each not in there and each not in found.idle]
    note = html.tag("p", f"No run of it: {', '.join(missing)}.") if missing else html.Html()
    return section(name, table, note)


def _write_run(run: ExerciseRun, last_day: date, *, has_texts: bool) -> Iterator[html.Html | str]:
    trace, checks = run.trace, run.checks
    others = [*run.also_in[:MOST_NAMED], *([f"{len(run.also_in) - MOST_NAMED} more"] * (len(run.also_in) > MOST_NAMED))]
    yield html.join(run.student, html.faint(f" (the same run as {', '.join(others)})" if others else ""))
    if checks:
        yield (_PASSED if run.passed == len(checks) else _FAILED)(f"{run.passed} of {len(checks)}")
    else:
        yield html.faint("not checked")
    status = trace.status.value.replace("_", " ")
    yield status if trace.status is RunStatus.COMPLETED else _FAILED(status)
    assert trace.started_at is not None
    moment = html.tag("time", format_moment(trace.started_at), datetime=trace.started_at.isoformat())
    yield moment if _find_day(run) == last_day else html.join(moment, html.faint(" (another day)"))
    mistake, error = run.first_mistake, run.frequent_error
    yield _write_fault(mistake[0], mistake[1] if has_texts else "") if mistake else ""
    yield _write_fault(f"{error[0]} ({pluralize(error[1], 'time')})", error[2] if has_texts else "") if error else ""
    yield f"{len(run.earlier) + 1}"
    for cost in (trace.metrics.cost, run.total_cost):
        yield UNKNOWN if cost is None else format_money(cost, trace.metrics.currency)


def _write_fault(name: str, text: str) -> html.Html:
    said = html.tag("div", cut(text, MOST_SHOWN), style="white-space:pre-wrap") if text else html.Html()
    return html.join(html.tag("div", mask(name)), said)


def _write_rest(found: ClassRuns) -> Iterator[html.Html]:
    """Who has no run, and what can't be read."""
    if found.idle:
        yield section("Without a run", html.tag("ul", *(html.tag("li", each) for each in found.idle)))
    if found.problems:
        yield section("What can't be read", html.tag("ul", *(html.tag("li", mask(each)) for each in found.problems)))
