"""`%ensemble fork` in a real IPython shell (C92)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import Ensemble, ForkPlan, Task
from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.trace.store.run_store import RunStore
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures
from tests.support.openai_server import Answer, OpenAIServer

CELL = """
llm: {llm}
tasks:
  wind: {{description: Report the wind}}
  advice: {{description: Give advice, context: [wind], handler: advise}}
"""


@pytest.fixture
def crossing(shell: Any, server: OpenAIServer, llm: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """A shell with a run in `crossing`, which the store has, too."""
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    shell.names["advise"] = lambda task: f"sail, it is {task.context[0].raw}"
    server.script(Answer("calm"))
    assert shell.run(f"%%ensemble -o crossing --name sea{CELL.format(llm=llm)}").success
    return shell


def find_call(shell: Any) -> str:  # noqa: F811
    trace = shell.names["crossing"].trace
    return next(each.span_id for each in trace.spans if each.kind == "llm")


@pytest.mark.parametrize("where", ["variable", "store"])
def test_c92_a_run_goes_on_from_a_span_with_a_change(crossing: Any, server: OpenAIServer, where: str) -> None:
    span = find_call(crossing)
    run = "crossing" if where == "variable" else "sea"
    if where == "store":
        del crossing.names["crossing"]
    assert crossing.run(f'%ensemble fork {run} {span} --reply "a storm" -o other').success
    other = crossing.names["other"]
    assert (other.raw, len(server.requests)) == ("sail, it is a storm", 1)
    facts = RunStore.open().list_runs(1)[0].facts
    assert (facts.forked_from_span, facts.changed) == (span, ("reply",))
    server.script(Answer("a breeze"))
    number = span.rpartition(".")[2]
    assert crossing.run(f'%ensemble fork {run} {number} --user-prompt "Say it shortly"').success
    assert crossing.names["_ensemble"].raw == "sail, it is a breeze"
    assert server.requests[-1].body["messages"][-1]["content"] == "Say it shortly"


def test_c92_a_dry_run_gives_the_plan_and_does_nothing(crossing: Any, server: OpenAIServer) -> None:
    asked, runs = len(server.requests), len(RunStore.open().list_runs())
    assert crossing.run("plan = %ensemble fork sea wind --dry-run").success
    plan = crossing.names["plan"]
    assert isinstance(plan, ForkPlan)
    assert [each.name for each in plan.effects] == ["advise"] or plan.effects[0].kind == "handler"
    assert (len(server.requests), len(RunStore.open().list_runs())) == (asked, runs)
    assert crossing.run("%ensemble fork crossing wind --dry-run -o seen").success
    assert isinstance(crossing.names["seen"], ForkPlan)


def test_c92_what_is_missing_in_the_notebook_is_named(crossing: Any) -> None:
    span = find_call(crossing)
    del crossing.names["crossing"], crossing.names["advise"]
    error = crossing.error(f"%ensemble fork sea {span}")
    assert isinstance(error, ValidationError)
    assert "First run the cells that define: advise" in str(error)
    assert f"%ensemble fork sea {span} goes on" in str(error)


@pytest.mark.parametrize(
    "words, told",
    [
        ("crossing", "takes one run"),
        ("crossing wind again", "takes one run"),
        ("crossing wind --replay x", "Did you mean '--reply'"),
        ("crossing wind --reply", "--reply wants a value behind it"),
        ("crossing winds", "Did you mean 'wind'"),
        ("crossing wind --reply a --output b", "leave out output="),
        ("crossing wind --until noon", "until: no task 'noon'"),
    ],
)
def test_c92_a_wrong_line_is_told_what_it_takes(crossing: Any, words: str, told: str) -> None:
    error = crossing.error(f"%ensemble fork {words}")
    assert isinstance(error, ValidationError)
    assert told in str(error)


def test_c92_runs_that_cannot_be_forked_are_refused_with_the_way(crossing: Any) -> None:
    assert isinstance(crossing.error("%ensemble fork lake wind"), StoreError)
    run_id = Ensemble(tasks=[Task.of("Look", name="look", handler=lambda task: "land")]).run().run_id
    error = crossing.error(f"%ensemble fork {run_id} look")
    assert isinstance(error, ValidationError)
    assert f"ensemble.fork('{run_id}', '{run_id}." in str(error)
    assert crossing.run("%%ensemble --capture metadata --name bare\n- {name: a, description: A, handler: advise}\n")
    error = crossing.error("%ensemble fork bare a")
    assert isinstance(error, ValidationError | StoreError)
    assert "kept no texts (capture_mode metadata)" in str(error)
