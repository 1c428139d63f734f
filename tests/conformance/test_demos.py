"""Runs of scripted teams that ship with the package, and are played (C101 to C103)."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ensemble_notebook import ScriptedChatModel
from ensemble_notebook.domain.events import LlmToken
from ensemble_notebook.domain.package_files import find_package_file
from ensemble_notebook.errors import RunInterrupted, ValidationError
from ensemble_notebook.notebook.live.played_run import PlayedRun
from ensemble_notebook.notebook.magics.demo_command import DEMOS
from ensemble_notebook.testing import find_violations
from ensemble_notebook.trace.store.run_store import RunStore
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures
from tests.support.demo_teams import TEAMS
from tests.support.make_demos import LARGEST

FOLDER = find_package_file("demos")
RUNS = [name for name in DEMOS if name != "map"]


def make_run(name: str) -> PlayedRun:
    return PlayedRun(FOLDER / f"{name}.trace.json.gz", f"demo {name}")


@pytest.mark.parametrize("name", RUNS)
def test_c101_a_demo_is_a_run_that_nobody_had_to_be_asked_for(
    shell: Any,  # noqa: F811
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    assert shell.run(f"%ensemble demo {name}").success
    assert shell.run(f"%ensemble demo {name} -o again").success
    first, again = shell.names["_ensemble"], shell.names["again"]
    assert first.run_id != again.run_id
    assert first.raw == again.raw != ""
    assert find_violations(first.trace) == []
    run = first.frames.runs.iloc[0]
    assert (run.replayed_from, run.cost_complete) == (f"demo {name}", True)
    assert 25_000 < run.wall_ms < 35_000
    assert any(isinstance(event, LlmToken) for event in first.events)
    assert "recorded from a scripted team" in shell.seen()[0]["text/plain"]
    assert RunStore.open().list_runs() == []


def test_c103_the_report_of_a_demo_says_why_it_ended_and_who_was_recorded(shell: Any, tmp_path: Path) -> None:  # noqa: F811
    shell.run("%ensemble demo")
    page = shell.names["_ensemble"].export(tmp_path / "demo.html").read_text(encoding="utf-8")
    head = re.sub("<[^>]+>", " ", page.split("Timeline</h2>")[0])
    assert "recorded from a scripted team" in head
    assert "Stopped by its budget after" in head
    assert "429" not in head.split("Answer")[-1]


def test_c101_the_demo_of_a_map_ends_where_its_verdict_is_clear(shell: Any) -> None:  # noqa: F811
    assert shell.run("%ensemble demo map -o letters").success
    letters = shell.names["letters"]
    statuses = Counter(row.status for row in letters)
    assert set(statuses) == {"completed", "settled"}
    assert 180 <= statuses["completed"] / 2 <= 200
    assert re.search(r"tersely passes .* rows and \$0\.\d+ saved", repr(letters.compare()))
    assert letters.trace.events[0].replayed_from == "demo map"
    assert re.search(r"Verdict: tersely is better .* saved", shell.seen()[0]["text/plain"])


def test_c102_a_map_that_is_stopped_has_the_scores_that_had_come() -> None:
    class StopAtScore:
        def __init__(self, played: PlayedRun) -> None:
            self.played, self.count = played, 0

        def on_event(self, _: object) -> None:
            if self.count > 30:
                self.played.stop()

        def on_scores(self, scores: Any) -> None:
            self.count += len(scores)

    played = make_run("map")
    listener = StopAtScore(played)
    trace = played.play([listener], is_paced=False)
    assert len(trace.scores) == listener.count < 40
    assert {score.map_run_id for score in trace.scores} == {played.run_id}


@pytest.mark.parametrize(
    "words, said",
    [
        ("repot", "no demo 'repot'. Did you mean 'report'.*manager: a manager"),
        ("report twice", "can't read 'report twice'"),
        ("--slow", "can't read '--slow'.*--pace now"),
        ("--view bar", "%ensemble demo: --view can't be 'bar'.*Did you mean 'bars'"),
        ("--pace slow", "--pace can't be 'slow'.*'recorded'"),
        ("-o 7", "-o wants the name of a variable, got '7'"),
        ("-o", "-o wants the name"),
    ],
)
def test_c101_what_there_is_not_is_refused_with_what_there_is(shell: Any, words: str, said: str) -> None:  # noqa: F811
    error = shell.error(f"%ensemble demo {words}")
    assert isinstance(error, ValidationError)
    with pytest.raises(ValidationError, match=said):
        raise error
    assert "_ensemble" not in shell.names


def test_c101_what_ships_is_small_and_is_what_the_teams_are_declared_as() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= LARGEST
    cells = {name: (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in DEMOS}
    assert cells == {name: team.write_cell() for name, team in TEAMS.items()}


def test_c102_a_demo_at_its_own_pace_ends_when_it_is_stopped() -> None:
    played, has_begun, traces = make_run("report"), threading.Event(), []

    class Listener:
        def on_event(self, _: object) -> None:
            has_begun.set()

    thread = threading.Thread(target=lambda: traces.append(played.play([Listener()], is_paced=True)))
    thread.start()
    has_begun.wait()
    played.stop()
    thread.join()
    assert traces[0].status == "interrupted"
    assert traces[0].duration.total_seconds() < 29


@pytest.mark.parametrize("name, times", [("report", 12), ("manager", 12), ("map", 2)])
def test_c102_wherever_a_demo_is_stopped_its_trace_is_whole(name: str, times: int) -> None:
    class StopAfter:
        def __init__(self, played: PlayedRun, count: int) -> None:
            self.played, self.left = played, count

        def on_event(self, _: object) -> None:
            self.left -= 1
            if not self.left:
                self.played.stop()

    whole = len(make_run(name).play([], is_paced=False).events)
    for count in range(1, whole, whole // times):
        played = make_run(name)
        trace = played.play([StopAfter(played, count)], is_paced=False)
        assert find_violations(trace) == []
        assert trace.status == "interrupted"
        assert {span.status for span in trace.spans} <= {"ok", "error", "cancelled", "skipped"}


def test_c102_what_was_done_of_a_stopped_demo_is_bound(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    begin = PlayedRun.__init__

    def begin_stopped(self: PlayedRun, *given: Any) -> None:
        begin(self, *given)
        self.stop()

    monkeypatch.setattr(PlayedRun, "__init__", begin_stopped)
    error = shell.error("%ensemble demo -o cut")
    assert isinstance(error, RunInterrupted)
    assert error.output is shell.names["cut"]
    assert set(shell.names["cut"].frames.tasks.status) == {"skipped"}


@pytest.mark.parametrize("name", RUNS)
def test_c103_a_call_of_a_demo_is_forked_with_a_model_that_is_named(shell: Any, name: str) -> None:  # noqa: F811
    shell.run(f"%ensemble demo {name}")
    demo = shell.names["_ensemble"]
    calls = demo.frames.llm_calls
    last = calls.index[-1]
    with pytest.raises(ValidationError, match="replayed from demo"):
        demo.fork(last, user_prompt="Once more")
    model = ScriptedChatModel(default="Other words")
    fork = demo.fork(last, llm=model)
    assert fork.frames.runs.forked_from_run.iloc[0] == demo.run_id
    assert "Other words" in [output.raw for output in fork]
    assert len(model.calls) == (1 if name == "manager" else 2)
    assert demo.rerun(last, llm=model).result[0].raw == "Other words"
    assert demo.ensemble.to_yaml()
