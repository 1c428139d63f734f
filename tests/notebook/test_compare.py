"""Runs beside each other in a notebook (C32): ``%ensemble diff``, ``%ensemble runs --compare``, what they show."""

import re

import pytest

from ensemble_notebook import ScriptedChatModel
from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.notebook.live.timeline_widget import PlainTimeline, TimelineWidget
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from ensemble_notebook.trace.store.run_store import RunStore

CELL = """%%ensemble -o {out} -i topic={topic} --name {name}
llm: model
tasks:
  - {{name: facts, description: "Name facts about {{topic}}"}}
  - {{name: verse, description: "Write a {style} verse", context: [facts]}}
"""


@pytest.fixture
def runs(shell, store_path):
    """A shell in which two runs were made: of another style, with another verse."""
    run(shell, "first", "short", "Waves roll in.")
    run(shell, "second", "rhymed", "Waves roll in <b>again</b>.")
    return shell


def test_a_variable_names_a_run_wherever_a_run_is_named(runs, tmp_path):
    first, second = runs.names["first"], runs.names["second"]
    assert value(runs, "%ensemble show first").run_id == first.run_id
    assert runs.run(f"%ensemble export second {tmp_path}/a.trace.json").success
    assert runs.run("%ensemble resume first -o later").success
    facts = RunStore.open().find_run(runs.names["later"].run_id).facts
    assert facts.resumed_from == first.run_id != second.run_id
    assert "The variable model holds no output of a run" in str(runs.error("%ensemble show model"))


def test_without_words_the_last_two_runs_of_this_notebook_are_compared(runs, monkeypatch):
    first, second = runs.names["first"].run_id, runs.names["second"].run_id
    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/other.ipynb")
    run(runs, "third", "short", "Snow falls.", name="winter")
    assert "the last two runs of this notebook, and one is remembered" in str(runs.error("%ensemble diff"))
    monkeypatch.delenv("JPY_SESSION_NAME")
    diff = value(runs, "%ensemble diff")
    assert (diff.before.run_id, diff.after.run_id) == (second, runs.names["third"].run_id)
    assert first not in repr(diff)


@pytest.mark.parametrize("words", ["2", "-n2", "-n 2"])
def test_how_many_runs_are_listed_may_be_a_number(runs, words):
    run(runs, "third", "short", "Snow falls.")
    assert len(value(runs, f"%ensemble runs {words}")) == 2


def run(shell, out, style, verse, name="tides", topic="sea"):
    shell.names["model"] = ScriptedChatModel(replies=["The sea is deep.", verse])
    result = shell.run(CELL.format(out=out, topic=topic, name=name, style=style))
    assert result.success


def value(shell, line):
    result = shell.run(line)
    assert result.success
    return result.result


@pytest.mark.parametrize("words", ["first second", "-2 -1", "", "-2 second"])
def test_runs_are_compared_by_variables_by_place_or_the_last_two(runs, words):
    diff = value(runs, f"%ensemble diff {words}")
    assert "Write a [-short-]{+rhymed+} verse" in diff.definition
    assert diff.outputs.startswith("verse:\n  Waves roll in")
    assert dict(zip(diff.frame.path, diff.frame.status, strict=True))["facts"] == "same"


def test_another_variable_is_no_change_of_the_definition(shell, store_path):
    shell.names["model"] = ScriptedChatModel(default="Waves.")
    for out in ("one", "two"):
        assert shell.run(f"%%ensemble -o {out}\nllm: model\ntasks: [Name facts]").success
    diff = value(shell, "%ensemble diff -2 -1")
    assert not diff.definition
    assert [said.split(" · ")[0] for _, said in diff.sides] == ["one", "two"]


def test_runs_are_compared_by_ids_and_their_beginnings(runs):
    first, second = runs.names["first"].run_id, runs.names["second"].run_id
    assert (
        value(runs, f"%ensemble diff {first} {second[:9]}").summary
        == value(runs, "%ensemble diff first second").summary
    )


@pytest.mark.parametrize(
    "line, error, message",
    [
        ("diff first", ValidationError, "takes two runs"),
        ("diff first secnd", StoreError, "No run 'secnd' is remembered.* Variables that hold an output: first, second"),
        ("diff first model", StoreError, "No run 'model' is remembered"),
        ("runs -n", ValidationError, "-n takes how many runs"),
        ("runs -n 0", ValidationError, "-n takes how many runs"),
        ("runs --compar", ValidationError, "Did you mean '--compare'"),
        ("runs --clear -n 3", ValidationError, "takes nothing else"),
        ("dif a b", ValidationError, "Did you mean 'diff'"),
    ],
)
def test_what_is_wrong_is_said(runs, line, error, message):
    raised = runs.error(f"%ensemble {line}")
    assert isinstance(raised, error)
    assert re.search(message, str(raised))


def test_a_comparison_is_shown_without_scripts_and_with_everything_escaped(runs):
    diff = runs.names["first"].diff(runs.names["second"])
    html = diff._repr_mimebundle_()["text/html"]
    assert "Waves roll in<ins" in html
    assert "&lt;b&gt;again&lt;/b&gt;" in html
    assert "<b>" not in html
    assert "<script" not in html
    assert '>short</del><ins style="' in html
    text = diff._repr_mimebundle_()["text/plain"]
    assert "≠ verse  changed" in re.sub(" +", " ", text).replace(" changed", "  changed")
    assert diff.prompts._repr_mimebundle_()["text/html"].count("<del") == 1
    assert "Nothing changed" in diff.inputs._repr_mimebundle_()["text/html"]


def test_the_last_runs_are_one_table_each_with_what_changed_since_the_one_before(runs):
    run(runs, "other", "short", "Snow falls.", name="winter")
    run(runs, "third", "rhymed", "Waves roll in.", topic="lake")
    history = value(runs, "%ensemble runs -n 3 --compare")
    frame = history.frame
    ids = [runs.names[name].run_id for name in ("third", "other", "second", "first")]
    assert list(frame.index) == ids[:3]
    assert list(frame.compared_with.fillna("")) == [ids[2], "", ids[3]]
    assert list(frame.inputs) == [{"topic": "lake"}, {"topic": "sea"}, {"topic": "sea"}]
    assert "[-short-]{+rhymed+}" in frame.definition.iloc[2]
    assert "[-sea-]{+lake+}" in frame.prompts.iloc[0]
    assert [*frame.outputs_changed.fillna(-1)] == [1, -1, 1]
    assert (
        frame.delta_output_tokens.iloc[2]
        == frame.output_tokens.iloc[2] - history.runs[2].diff.before.metrics.output_tokens
    )
    html = history._repr_mimebundle_()["text/html"]
    assert html.count("<tr") == 1 + 3 + 2  # heads, runs, and what changed where there is a run to compare with
    assert "<b>" not in html
    text = repr(history)
    assert "[-short-]{+rhymed+}" in text
    for told in (
        f"since {ids[2][:8]}: {history.runs[0].diff.task_summary}",
        "2 tasks: 1 same, 1 changed",
        "same: inputs",
    ):
        assert told in html
        assert told in text
    assert len(value(runs, "%ensemble runs -n 2")) == 2
    assert len(value(runs, "%ensemble runs --compare").frame) == 4


@pytest.fixture(params=[TimelineWidget, PlainTimeline])
def timeline(request, runs, monkeypatch):
    """The timeline of a comparison, in a notebook and where nobody watches."""
    if request.param is PlainTimeline:
        monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    diff = value(runs, "%ensemble diff first second")
    assert isinstance(diff.timeline, request.param)
    assert diff.timeline.run_selection is diff.timeline.run_selection
    return diff.timeline


def test_a_comparison_has_a_timeline_that_a_saved_notebook_shows_too(timeline):
    bundle = timeline._repr_mimebundle_()
    parts = bundle[0] if isinstance(bundle, tuple) else bundle
    assert parts["text/plain"].index("A · verse") < parts["text/plain"].index("B · verse")
    assert parts[TRACE_MIME]["run"]["name"] == "tides: A → B"
    assert "tokens +8" in parts["text/html"]


def test_what_is_selected_in_a_comparison_is_of_both_runs(timeline):
    span_ids = [each for each in timeline.run_selection._messages.list_span_ids() if each.startswith(("A.", "B."))]
    timeline.selection = [span_ids[0], span_ids[-1]]
    assert timeline.run_selection.selection == [span_ids[0], span_ids[-1]]


def test_runs_without_a_task_in_common_are_said_to_be_of_different_ensembles_w30(runs):
    runs.names["rows"] = [str(number) for number in range(300)]
    runs.run("def work(task): return task.name")
    runs.run("%%ensemble -o many\ntasks:\n  each: {for_each: rows, description: 'Do {item}', handler: work}")
    diff = runs.names["many"].diff(runs.names["second"])
    bundle = diff._repr_mimebundle_()
    said = "A and B are different ensembles: of 1 and 2 tasks they have none in common"
    assert repr(diff).splitlines()[2:3] == [said] == [diff.summary]
    assert said in bundle["text/html"]
    assert sum(map(len, bundle.values())) < 3_000
    assert len(diff.frame) > 300  # the data has all of it
    assert diff.timeline is not None
