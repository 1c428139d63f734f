"""Runs of other frameworks in the cells that make them: `%ensemble watch` (C109, W171)."""

import pytest

from ensemble_notebook import ValidationError
from ensemble_notebook.ensemble.watching import list_watches
from tests.browser.cell import HOSTILE

SECRET = "sk-proj-" + "a1B2c3D4" * 5
MAKE = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from ensemble_notebook import watch
provider = TracerProvider(shutdown_on_exit=False)
watched = watch(provider)
"""
RUN = """
tracer = provider.get_tracer("of a framework")
agent = {{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": {name!r}}}
call = {{"gen_ai.operation.name": "chat", "gen_ai.request.model": {model!r}}}
with tracer.start_as_current_span({name!r}, attributes=agent):
    tracer.start_span("chat", attributes=call).end()
"""


@pytest.fixture(autouse=True)
def end_watching():
    yield
    for each in list_watches():
        each.stop()


def test_w171_a_run_is_shown_in_the_cell_that_makes_it(shell):
    shell.run(MAKE)
    before = len(shell.displayed)
    shell.run(RUN.format(name="Desk", model="gpt-4o-mini"))
    assert len(shell.displayed) > before  # before the cell was over
    (seen,) = shell.seen()
    assert "Desk" in seen["text/plain"]
    assert seen["application/vnd.ensemble.trace+json"]["kind"] == "saved"
    shell.run("runs = watched.runs")
    (output,) = shell.names["runs"]
    assert output.name == "Desk"


def test_w171_foreign_text_is_masked_and_shown_as_text(shell):
    shell.run(MAKE)
    shell.run(RUN.format(name=f"{HOSTILE} {SECRET}", model=HOSTILE))
    (seen,) = shell.seen()
    assert "<img src=x" not in seen["text/html"]
    assert "<script>window" not in seen["text/html"]
    assert SECRET not in str(seen)


def test_w171_no_timeline_where_none_is_wanted(shell):
    shell.run("%config EnsembleMagics.timeline = False")
    shell.run(MAKE)
    shell.run(RUN.format(name="Desk", model="m"))
    assert shell.seen() == []
    shell.run("count = len(watched.runs)")
    assert shell.names["count"] == 1


def test_c109_watching_begins_is_bound_and_ends(shell, capsys):
    shell.run("%ensemble watch -o seen")
    said = capsys.readouterr().out
    assert said.startswith("Watching the spans of this process: ")
    shell.run("from opentelemetry.trace import get_tracer_provider\nprovider = get_tracer_provider()")
    shell.run(RUN.format(name="Desk", model="m"))
    shell.run("%ensemble watch off")
    assert "Watching ended, with 1 run." in capsys.readouterr().out
    assert [each.name for each in shell.names["seen"].runs] == ["Desk"]
    shell.run("%ensemble watch off")
    assert "Nothing was watched." in capsys.readouterr().out


@pytest.mark.parametrize("line", ["on", "-o", "-o 3", "off now"])
def test_c109_what_can_not_be_read_says_how_it_is_typed(shell, line):
    error = shell.error(f"%ensemble watch {line}")
    assert isinstance(error, ValidationError)
    assert "%ensemble watch [-o NAME], or %ensemble watch off" in str(error)
