"""The lessons, run from top to bottom in a real kernel without anybody watching."""

from __future__ import annotations

import ast
import json
import shutil
from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.row_reader import read_rows

pytestmark = pytest.mark.usefixtures("warm_kernels")

LESSONS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.name for path in LESSONS.glob("*.ipynb"))
TRACE = "application/vnd.ensemble.trace+json"


LEFT_BEHIND: dict[str, list[str]] = {}


@cache
def executed(name: str) -> nbformat.NotebookNode:
    """A lesson with its outputs; run once for all tests, in a folder of its own."""
    notebook = nbformat.read(LESSONS / name, as_version=4)
    recording = (LESSONS / name).with_suffix(".yaml")
    with TemporaryDirectory() as folder:
        if recording.exists():
            shutil.copy(recording, folder)
        where = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=300, extra_arguments=["--log-level=ERROR"], resources=where).execute()
        LEFT_BEHIND[name] = sorted(path.name for path in Path(folder).iterdir() if path.name != recording.name)
    return notebook


def code_cells(name: str) -> list[Any]:
    return [cell for cell in executed(name).cells if cell.cell_type == "code"]


def text_of(output: Any) -> str:
    return output.get("text") or "\n".join(output.get("traceback", ())) or output.get("data", {}).get("text/plain", "")


def texts(name: str) -> list[str]:
    """What each code cell shows, as text."""
    return ["\n".join(map(text_of, cell.outputs)) for cell in code_cells(name)]


def traces(name: str) -> list[dict[str, Any]]:
    """The saved timelines, in order."""
    outputs = [output for cell in code_cells(name) for output in cell.outputs]
    return [output["data"][TRACE] for output in outputs if TRACE in output.get("data", {})]


def trace(name: str, run: str) -> dict[str, Any]:
    """The saved timeline of the run of this name."""
    (found,) = (each for each in traces(name) if each["run"]["name"] == run)
    return found


def rows_of(saved: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The rows of a kind, in order."""
    return [row for row in read_rows(saved) if row["kind"] == kind]


def below(name: str, start: str) -> str:
    """What is shown below the one code cell that has this text in it."""
    (found,) = (text for cell, text in zip(code_cells(name), texts(name), strict=True) if start in cell.source)
    return found


def test_there_are_the_demo_and_the_seven_lessons() -> None:
    assert NAMES == [
        "00-demo.ipynb",
        "01-first-ensemble.ipynb",
        "02-kitchen.ipynb",
        "03-manager-and-workers.ipynb",
        "04-when-things-fail.ipynb",
        "05-reading-traces.ipynb",
        "06-many-rows.ipynb",
        "07-which-is-better.ipynb",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_cells_that_are_wrong_on_purpose_fail(name: str) -> None:
    for cell in code_cells(name):
        has_failed = any(output.output_type == "error" for output in cell.outputs)
        assert has_failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.source


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_leaves_no_file_behind(name: str) -> None:
    executed(name)
    assert LEFT_BEHIND[name] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_saved_small_and_without_widgets(name: str) -> None:
    notebook = executed(name)
    assert "widgets" not in notebook.metadata
    assert "widget-view" not in json.dumps(notebook)
    largest = 400_000 if name == NAMES[0] else 350_000  # the demo has a map of 300 rows under two variants
    assert len(json.dumps(notebook)) < largest, "with the log of its messages (W120), where that has room"


def test_the_demo_asks_no_model_and_has_what_its_runs_had() -> None:
    report, clock, letters = runs = traces("00-demo.ipynb")
    assert [each["run"]["replayed_from"] for each in runs] == ["demo report", "demo manager", "demo map"]
    assert letters["run"]["tasks_done"] < letters["run"]["tasks_total"]
    assert "rows and $0." in below("00-demo.ipynb", "letters.compare()")
    assert (report["run"]["status"], clock["run"]["status"]) == ("budget_exceeded", "completed")
    assert below("00-demo.ipynb", 'report["report"].raw').startswith("## Two nights for all")
    assert "stage 1 is not yet complete" in below("00-demo.ipynb", "story.frames.delegations.reason")


def test_the_first_lesson_runs_a_chain_and_a_graph_on_the_local_model() -> None:
    chain, graph = traces("01-first-ensemble.ipynb")
    assert [row["name"] for row in rows_of(chain, "task")] == ["writer_1", "writer_2"]
    rows = {row["name"]: row for row in rows_of(graph, "task")}
    assert list(rows) == ["gather", "risks", "brief"]
    assert rows["brief"]["start_ms"] >= max(rows["gather"]["end_ms"], rows["risks"]["end_ms"])
    assert rows["risks"]["start_ms"] < rows["gather"]["end_ms"]
    calls = rows_of(graph, "llm")
    assert {row["provider"] for row in calls} == {"local"}
    assert all(row["output_tokens"] > 0 for row in calls)


def test_the_first_lesson_selects_no_rows_where_nobody_selects() -> None:
    assert below("01-first-ensemble.ipynb", "report.timeline.selection]").startswith(
        "Empty DataFrame\nColumns: [kind, name"
    )


def test_the_first_lesson_s_mistakes_are_named_at_their_place() -> None:
    shown = "\n".join(texts("01-first-ensemble.ipynb"))
    assert "3 mistakes in this cell" in shown
    for word in ("'goal'", "'Poet'", "'haiku'"):
        assert f"Did you mean {word}?" in shown


def test_the_kitchen_cooks_three_dishes_at_once_and_serves_last() -> None:
    dinner, _ = traces("02-kitchen.ipynb")
    rows = {row["name"]: row for row in rows_of(dinner, "phase")}
    dishes = [rows[name] for name in ("steak", "salmon", "pasta")]
    assert max(row["start_ms"] for row in dishes) < min(row["end_ms"] for row in dishes)
    assert rows["serve"]["start_ms"] >= max(row["end_ms"] for row in dishes)
    assert dinner["run"]["is_scripted"]


def test_a_burnt_steak_skips_what_depends_on_it_and_spares_the_salmon() -> None:
    _, burnt = traces("02-kitchen.ipynb")
    status = {row["name"]: row["status"] for row in rows_of(burnt, "phase")}
    assert status == {"steak": "error", "salmon": "ok", "serve": "skipped", "clear": "skipped"}
    error = next(text for text in texts("02-kitchen.ipynb") if "PhaseExecutionError" in text)
    assert "the steak is charcoal" in error
    assert "Traceback" not in error


MANAGER = "03-manager-and-workers.ipynb"


def test_a_scripted_manager_has_real_workers_work_side_by_side() -> None:
    newsroom = trace(MANAGER, "newsroom")
    tasks = {row["name"]: row for row in rows_of(newsroom, "task")}
    assert list(tasks) == ["manager", "reporter_1", "historian_1", "writer_1"]
    first = [tasks["reporter_1"], tasks["historian_1"]]
    assert max(row["start_ms"] for row in first) < min(row["end_ms"] for row in first)
    assert tasks["writer_1"]["start_ms"] >= max(row["end_ms"] for row in first)
    providers = {(row["task"], row["provider"]) for row in rows_of(newsroom, "llm")}
    assert providers == {
        ("manager", "scripted"),
        ("reporter_1", "local"),
        ("historian_1", "local"),
        ("writer_1", "local"),
    }
    assert newsroom["run"]["is_scripted"]
    assert "scripted and real models" in below(MANAGER, "--name newsroom\n")


def test_a_manager_s_forbidden_wishes_are_refused_with_their_reasons() -> None:
    wishes = [
        (row["delegate_to"], row["status"], row.get("reason", ""))
        for row in rows_of(trace(MANAGER, "newsroom, with rules"), "delegation")
    ]
    stage = "Cannot delegate to 'Writer': stage 1 is not yet complete (still to come: 'Reporter', 'Historian')"
    assert wishes == [
        ("Writer", "error", stage),
        ("Intern", "error", "Agent 'Intern' is not in the allowed_workers list"),
        ("Reporter", "ok", ""),
        ("Historian", "ok", ""),
        ("Reporter", "error", "Agent 'Reporter' has reached its delegation cap of 1"),
        ("Writer", "ok", ""),
        ("Historian", "error", "Global delegation cap of 3 has been reached"),
    ]
    shown = below(MANAGER, "printed.frames.delegations")
    assert all(reason in shown for _, _, reason in wishes)


def test_a_manager_who_leaves_too_early_violates_its_constraints_and_keeps_what_was_done() -> None:
    assert "Required worker 'Writer' was never delegated a task" in below(MANAGER, "newsroom, too early")
    assert len(below(MANAGER, "printed.task_outputs[0].raw")) > 20
    assert "Did you mean 'Reporter'?" in " ".join(below(MANAGER, "Reportr").split())  # it wraps between words


def test_a_policy_forbids_one_request_of_a_peer_and_changes_the_other() -> None:
    gossip, flower = rows_of(trace(MANAGER, "garden"), "delegation")
    assert (gossip["status"], gossip["reason"]) == ("error", "This house prints no gossip")
    assert flower["status"] == "ok"
    asked = "Which flower grows on rocks by the sea? Answer in one short sentence."
    assert asked in below(MANAGER, 'delegations["request"]')


STORM = "04-when-things-fail.ipynb"


def test_a_busy_server_is_asked_again_and_a_dead_one_is_replaced() -> None:
    first, second = (row for row in rows_of(trace(STORM, "busy server"), "attempt") if row["task"] == "north")
    assert (first["status"], first["retry_reason"], second["status"]) == ("error", "429", "ok")
    assert second["start_ms"] - first["end_ms"] >= 990
    radar, observer = rows_of(trace(STORM, "fallback"), "llm")
    assert (radar["status"], observer["status"], observer["provider"]) == ("error", "ok", "local")
    assert below(STORM, "from_fallback").strip() == "completed_with_warnings, from a fallback: True (Observer)"


def test_the_error_strategies_end_as_they_say() -> None:
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in below(STORM, "end_of(replace(").splitlines():  # of a table in two parts, one below the other
        name, *statuses = line.split() or [""]
        table[name] += statuses
    assert table["fail_fast"] == ["ok", "error", "skipped", "skipped", "skipped", "failed"]
    assert table["continue_on_error"] == ["ok", "error", "skipped", "ok", "ok", "failed"]
    assert table["partial"] == ["ok", "error", "ok", "ok", "ok", "completed_with_warnings"]
    told = below(STORM, '== "forecast"')
    assert "Report the wind from West Rock\nNot available: it failed (ConnectionError: no signal from the west)" in told


def test_conditions_decide_which_of_two_tasks_runs() -> None:
    tasks = {row["name"]: row["status"] for row in rows_of(trace(STORM, "conditions"), "task")}
    assert tasks == {"triage": "ok", "warn": "ok", "note": "skipped"}
    calm, storm = filter(None, below(STORM, "for wind in").splitlines())
    assert "All quiet" in calm
    assert "STORM WARNING" in storm


def test_an_unfit_reply_is_corrected_and_a_frightening_one_stopped() -> None:
    assert below(STORM, "parsed_output") == "{'beaufort': 9, 'ships_may_leave': False}"
    assert len(rows_of(trace(STORM, "typed output"), "turn")) == 2
    assert "GuardrailViolationError: The output guardrail stopped the task" in below(STORM, "--name guardrail")


def test_a_captain_sends_a_text_back_once() -> None:
    decisions = [row["review"]["decision"] for row in rows_of(trace(STORM, "review"), "review")]
    assert decisions == ["retry", "approve"]


def test_a_budget_buys_five_calls_and_the_run_returns() -> None:
    tasks = [row["status"] for row in rows_of(trace(STORM, "eight stations, 5 calls"), "task")]
    assert tasks == ["ok"] * 5 + ["skipped"] * 3
    assert below(STORM, "print(bought.status.value)").startswith("budget_exceeded\nbought: 5 reports for $0.00505")


def test_a_rate_limit_sends_four_requests_half_a_second_apart() -> None:
    starts = sorted(row["start_ms"] for row in rows_of(trace(STORM, "four stations, 2 requests a second"), "attempt"))
    assert len(starts) == 4
    assert all(start >= 500 * place for place, start in enumerate(starts))  # a busy machine sends later, never earlier


def test_a_replay_says_the_same_words_without_the_model() -> None:
    recorded, replayed = trace(STORM, "record"), trace(STORM, "replay")
    assert recorded["run"]["output_tokens"] == replayed["run"]["output_tokens"] > 0
    assert "the same words: True" in below(STORM, "Path(")
    assert replayed["run"]["elapsed_ms"] < recorded["run"]["elapsed_ms"]


TRACES = "05-reading-traces.ipynb"
CHART = "application/vnd.vegalite.v5+json"


def test_ten_questions_about_a_trace_are_answered_in_at_most_two_lines_each() -> None:
    notebook = executed(TRACES)
    asked = [cell.source.splitlines()[0] for cell in notebook.cells if cell.cell_type == "markdown"]
    assert [int(line.split()[1].rstrip(".")) for line in asked if line.startswith("## ") and line[3].isdigit()] == [
        *range(1, 11)
    ]
    begun = next(number for number, cell in enumerate(notebook.cells) if cell.source.startswith("## 1."))
    answers = [cell for cell in notebook.cells[begun:] if cell.cell_type == "code" and cell.source[0] != "%"]
    assert len(answers) == 14
    assert all(len(cell.source.splitlines()) <= 2 and cell.outputs for cell in answers)


def test_the_answers_about_a_trace_are_those_of_its_script() -> None:
    tools = below(TRACES, "tool_tokens").splitlines()
    assert [line.split()[0] for line in tools[2:4]] == ["Archivist", "Pilot"]
    assert below(TRACES, "backoff_ms").split()[-5:-3] == ["check", "429"]
    failed = {line.split()[0]: line.split()[1:3] for line in below(TRACES, "agg(calls=").splitlines()[2:]}
    assert failed == {"tide_table": ["4", "0"], "search_log": ["3", "1"]}
    assert "north" in below(TRACES, "nunique").splitlines()[2]
    assert below(TRACES, "status != 'same'").split()[-4:-2] == ["almanac", "changed"]
    assert "Write the almanac of 2027{+, with a table of the tides+}" in below(TRACES, "print(change.prompts)")


def test_the_figures_of_a_trace_are_charts_with_a_picture_beside_them() -> None:
    charts = [output.data for cell in code_cells(TRACES) for output in cell.outputs if CHART in output.get("data", {})]
    assert [each["image/svg+xml"].startswith("<svg") for each in charts] == [True] * 3
    assert all("text/html" not in each for each in charts)


ROWS = "06-many-rows.ipynb"


def test_a_row_that_failed_is_resumed_and_the_others_stay_as_they_were() -> None:
    failed = below(ROWS, '"hits", "error"]')
    assert "LookupError: too few words that I know" in failed
    resumed = {line.split()[0]: line.split()[1:3] for line in below(ROWS, "resume=ruled").splitlines()[1:]}
    assert resumed["pl1"] == ["completed", "Polish"]
    assert resumed["pl2"] == resumed["pl3"] == ["completed", "English"]
    assert below(ROWS, "right=(").split()[-6:] == ["needed=1", "12", "12", "needed=2", "9", "9"]


def test_a_map_ends_with_its_account() -> None:
    asked = trace(ROWS, "model")
    sent = [row for row in rows_of(asked, "llm") if row["status"] == "ok"]
    assert (asked["run"]["status"], len(sent)) == ("budget_exceeded", 6)
    assert "6 completed" in below(ROWS, "--budget")


def test_ways_of_asking_are_scored_and_compared() -> None:
    assert below(ROWS, "score=is_right").startswith("No difference that 12 rows can show")
    assert "[-French-]{+English+}" in below(ROWS, "result.diff(")
    said = [[int(word) for word in line.split()[1:]] for line in below(ROWS, "pd.crosstab").splitlines()[2:]]
    assert sum(map(sum, said)) == 12
    assert sum(row[place] for place, row in enumerate(said)) == 8


def test_a_task_for_each_row_is_reduced_to_one_answer() -> None:
    tasks = {row["name"]: row["status"] for row in rows_of(trace(ROWS, "map and reduce"), "task")}
    assert tasks["label[2]"] == tasks["count"] == "ok"
    counted = ast.literal_eval(below(ROWS, "-o digest").splitlines()[-1])
    assert sum(counted.values()) == 3
    assert set(counted) <= {"people", "machines", "code"}


BETTER = "07-which-is-better.ipynb"


def test_the_last_lesson_shows_what_few_rows_can_and_can_not_show() -> None:
    assert len(set(ast.literal_eval(below(BETTER, "for _ in range(4)")))) > 1
    assert below(BETTER, 'compare("one", "other")').startswith("No difference that 40 rows can show")
    assert below(BETTER, "few = both.map").startswith("No difference that 40 rows can show")
    assert below(BETTER, "many = both.map").startswith("carefully passes 15 points more often than quickly")
    early = below(BETTER, "early = hurried.map")
    assert early.startswith("quickly passes ")
    assert " rows saved." in early
    means = dict(line.rsplit(maxsplit=1) for line in below(BETTER, "held = three").splitlines()[1:3])
    assert float(means["if sure"]) == 1.0 > float(means["quickly"])
    assert "15 rows failed under if sure and count as not passed" in below(BETTER, 'compare("quickly", "if sure")')
    assert "by a judge that nobody has checked" in below(BETTER, "judged = many.score")
    assert "the judge agreed with a person on 13 of 40 rows" in texts(BETTER)[-4]


EXERCISES = {
    "def is_capital": "def is_capital(output, expected):\n"
    "    return expected.casefold() in output.raw.casefold().strip(' .').split()\n",
    "for_ten_points": "for_ten_points, for_five_points = 350, 1_400\n",
    "by = 0.5": "by = 0.26\n",
}


@pytest.mark.parametrize("start", EXERCISES)
def test_an_exercise_says_what_is_wrong_until_it_is_right(start: str) -> None:
    notebook = nbformat.read(LESSONS / BETTER, as_version=4)
    (cell,) = (each for each in notebook.cells if each.cell_type == "code" and each.source.startswith(start))
    (shown,) = map(text_of, cell.outputs)
    assert shown.strip("'\"").startswith("Not yet: ")
    cell.source = "\n\n".join([EXERCISES[start], cell.source.partition("\n\n\n")[2]])
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
    (solved,) = map(text_of, cell.outputs)
    assert solved.strip("'\"").startswith("Right: "), solved


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_kept_with_what_it_shows(name: str) -> None:
    kept = nbformat.read(LESSONS / name, as_version=4)
    shown = [[sorted(output.get("data", {})) for output in cell.outputs] for cell in kept.cells if "outputs" in cell]
    assert shown == [[sorted(output.get("data", {})) for output in cell.outputs] for cell in code_cells(name)]
    assert len(json.dumps(kept)) < (400_000 if name == NAMES[0] else 320_000)
