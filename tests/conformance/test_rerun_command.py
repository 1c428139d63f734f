"""`%ensemble rerun` in a real IPython shell (C93)."""

from __future__ import annotations

from typing import Any

import pytest

from ensemble_notebook import CostEstimate, Rerun
from ensemble_notebook.errors import StoreError, ValidationError
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures
from tests.support.openai_server import Answer, OpenAIServer

CELL = """
llm: {{model: "{llm}", cost: {{input_rate: 0.01, output_rate: 0.01}}}}
tasks:
  wind: {{description: Report the wind}}
"""


@pytest.fixture
def sea(shell: Any, server: OpenAIServer, llm: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """A shell with a run in `crossing`, which the store has, too."""
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    server.script(Answer("calm"))
    assert shell.run(f"%%ensemble -o crossing --name sea{CELL.format(llm=llm)}").success
    return shell


@pytest.mark.parametrize("where", ["variable", "store"])
def test_c93_a_call_is_made_again_with_what_is_given(sea: Any, server: OpenAIServer, where: str) -> None:
    run = "crossing" if where == "variable" else "sea"
    if where == "store":
        del sea.names["crossing"]
    line = f'replies = %ensemble rerun {run} wind --user-prompt "The wind?" temperature=0 --repeat 2 -o again'
    sea.run("%config EnsembleMagics.confirm_cost = None")
    assert sea.run(line).success
    assert isinstance(sea.names["again"], Rerun)
    assert sea.names["replies"] is sea.names["again"]
    assert len(server.requests) == 3
    assert (server.requests[-1].prompt, server.requests[-1].body["temperature"]) == ("The wind?", 0)
    assert sea.run("%ensemble rerun again 1.1").error_in_exec is not None


def test_c93_a_dry_run_gives_the_estimate_and_much_is_asked_about_first(sea: Any, server: OpenAIServer) -> None:
    assert sea.run("told = %ensemble rerun sea wind --repeat 5 --dry-run").success
    assert isinstance(sea.names["told"], CostEstimate)
    assert sea.names["told"].llm_calls.high == 5
    error = sea.error("%ensemble rerun crossing wind --repeat 100")
    assert "100 replies, cost about" in str(error)
    assert "confirm_cost" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "words, told",
    [
        ("", "takes one run"),
        ("sea", "takes one run"),
        ("sea wind --repat 3", "Did you mean '--repeat'?"),
        ("sea wind --repeat x", "repeat must be a whole number"),
        ("sea wind --user-prompt", "wants a value"),
        ("sea wind temperature", "is no parameter"),
        ("sea wnd", "Did you mean 'wind'?"),
    ],
)
def test_c93_mistakes_are_told_and_nothing_is_asked(sea: Any, server: OpenAIServer, words: str, told: str) -> None:
    error = sea.error(f"%ensemble rerun {words}")
    assert isinstance(error, ValidationError)
    assert told in str(error)
    assert len(server.requests) == 1


def test_c93_a_run_that_is_not_there_is_told(sea: Any) -> None:
    assert isinstance(sea.error("%ensemble rerun lake wind"), StoreError)
