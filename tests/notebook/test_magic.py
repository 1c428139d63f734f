"""`%%ensemble` and `%ensemble` in a real IPython shell; the work is done by handlers and scripted models.

Holds C10, C13, C30 and C31 in a shell.
"""

import gc
import html
import pickle
import signal
import threading
import weakref

import pytest

from ensemble_notebook import (
    Ensemble,
    EnsembleOutput,
    ExecutionPlan,
    Reply,
    RunHandle,
    RunStatus,
    ScriptedChatModel,
    ToolUse,
)
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.reading.options import format_option_help
from ensemble_notebook.ensemble import ensemble
from ensemble_notebook.errors import RunInterrupted, TaskExecutionError, ValidationError
from ensemble_notebook.notebook.live.run_display import NotebookDisplay
from ensemble_notebook.notebook.live.run_feed import find_feed
from ensemble_notebook.notebook.picture.static_picture import TRACE_MIME
from tests.support.hostile_texts import Page

CHAIN = """
tasks:
  cook: {description: "Cook {dish}", expected_output: food, handler: cook}
  serve: {description: Serve it, expected_output: a plate, handler: serve, context: [cook]}
"""


@pytest.fixture
def kitchen(shell):
    """A shell with two handlers, and an event that lets the slow one go on."""
    shell.names["go_on"] = threading.Event()
    shell.names["cook"] = lambda task: f"cooked {task.inputs['dish']}"
    shell.names["serve"] = lambda task: f"served: {task.context[0].raw}"
    shell.names["slow"] = lambda task: shell.names["go_on"].wait(20)
    shell.names["dish"] = "pasta"
    yield shell
    shell.names["go_on"].set()


def test_cell_runs_and_binds_its_output(kitchen):
    assert kitchen.run(f"%%ensemble -o report{CHAIN}").success
    report = kitchen.names["report"]
    assert isinstance(report, EnsembleOutput)
    assert report.raw == "served: cooked pasta"
    assert "_ensemble" not in kitchen.names


def test_output_has_a_name_where_none_is_given(kitchen):
    kitchen.run(f"%%ensemble{CHAIN}")
    assert kitchen.names["_ensemble"]["cook"].raw == "cooked pasta"


def test_options_come_before_the_notebook(kitchen):
    kitchen.run(f'%%ensemble -i dish="red lentils"{CHAIN}')
    assert kitchen.names["_ensemble"]["cook"].raw == "cooked red lentils"


def test_braces_on_the_first_line_are_no_python(kitchen):
    kitchen.run(f"%%ensemble -i dish={{undefined}} -o report{CHAIN}")
    assert kitchen.names["report"]["cook"].raw == "cooked {undefined}"


def test_cell_shows_first_the_plan_then_the_picture_and_below_it_the_answer(kitchen):
    kitchen.run(f"%%ensemble{CHAIN}")
    first, last = kitchen.displayed[0]["data"], kitchen.seen()
    assert "starting" in first["text/plain"]
    assert "cook" in first["text/html"]
    assert [set(bundle) for bundle in last] == [
        {"text/plain", "text/html", TRACE_MIME},
        {"text/plain", "text/html"},
    ]
    assert "✓ completed" in last[0]["text/plain"]
    assert last[1]["text/plain"] == "served: cooked pasta"
    assert Page(last[1]["text/html"]).text == "serve wrote:served: cooked pasta"


def test_no_output_holds_a_widget_where_nobody_watches(kitchen):
    kitchen.run(f"%%ensemble{CHAIN}")
    assert not [output for output in kitchen.displayed if "widget" in str(output["data"].keys())]


def test_no_timeline_leaves_only_the_answer(kitchen):
    kitchen.run(f"%%ensemble --no-timeline{CHAIN}")
    assert [set(bundle) for bundle in kitchen.seen()] == [{"text/plain", "text/html"}]


def test_timeline_can_be_switched_off_for_all_cells(kitchen):
    kitchen.run("%config EnsembleMagics.timeline = False")
    kitchen.run(f"%%ensemble{CHAIN}")
    assert [set(bundle) for bundle in kitchen.seen()] == [{"text/plain", "text/html"}]


def test_widget_gives_way_to_the_picture_at_the_end(kitchen):
    kitchen.run("%config EnsembleMagics.display = 'widget'")
    kitchen.run(f"%%ensemble -o report{CHAIN}")
    kinds = [set(output["data"]) for output in kitchen.displayed]
    assert "application/vnd.jupyter.widget-view+json" in kinds[1]
    assert kinds[2] == {"text/plain", "text/html", TRACE_MIME}
    assert len({output["transient"]["display_id"] for output in kitchen.displayed[:3]}) == 1
    feed = find_feed(kitchen.names["report"].timeline.feed_id)
    assert (feed.is_live, feed.messages.make_snapshot()["run"]["status"]) == (False, "completed")


def test_answer_is_formatting_and_nothing_else(kitchen):
    kitchen.names["cook"] = lambda task: "**bold** <script>alert(1)</script> ![x](http://x.example/y.png)"
    kitchen.run("%%ensemble\ntasks:\n  a: {description: A, expected_output: B, handler: cook}")
    answer = Page(kitchen.seen()[1]["text/html"])
    assert [tag for tag, _ in answer.elements] == ["div", "div", "p", "strong"]
    assert answer.text == "a wrote:bold <script>alert(1)</script> ![x](http://x.example/y.png)"


def test_secret_shows_nowhere(kitchen, monkeypatch):
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    kitchen.names["cook"] = lambda task: f"the key is {secret}"
    kitchen.run("%%ensemble\ntasks:\n  a: {description: A, expected_output: B, handler: cook}")
    assert len(kitchen.seen()) == 2
    assert secret not in str(kitchen.displayed)


def test_repr_of_an_output_is_its_picture(kitchen):
    kitchen.run(f"%%ensemble -o report{CHAIN}")
    bundle, _ = kitchen.ip.display_formatter.format(kitchen.names["report"])
    assert {"text/html", TRACE_MIME} <= set(bundle)


def test_dry_run_shows_the_plan_and_calls_nothing(kitchen):
    kitchen.names["cook"] = pytest.fail
    del kitchen.names["dish"]
    assert kitchen.run(f"%%ensemble --dry-run{CHAIN}").success
    (bundle,) = kitchen.seen()
    assert "plan" in bundle["text/plain"]
    assert "longest chain 2 tasks" in bundle["text/html"]
    assert "_ensemble" not in kitchen.names


def test_dry_run_binds_the_plan_where_a_name_is_given_and_keeps_what_a_run_left(kitchen, capsys):
    assert kitchen.run(f"%%ensemble --dry-run -o plan{CHAIN}").success
    assert isinstance(kitchen.names["plan"], ExecutionPlan)
    assert kitchen.names["plan"].total_tasks == 2
    assert kitchen.run(f"%%ensemble -o report{CHAIN}").success
    report = kitchen.names["report"]
    capsys.readouterr()
    assert kitchen.run(f"%%ensemble --dry-run -o report{CHAIN}").success
    assert kitchen.names["report"] is report
    told = "report still has the output of an earlier run. Give -o another name to bind this plan.\n"
    assert told in capsys.readouterr().out


def test_dry_run_says_what_a_run_would_take_where_that_can_be_told(shell, capsys):
    assert shell.run("%%ensemble --dry-run --llm scripted\n- Write about {topic}\n- Shorten it").success
    assert "Estimate: model calls: 2; tokens: " in capsys.readouterr().out
    assert shell.run(
        "%%ensemble --dry-run --llm scripted\n- {description: Name it, output_type: os.path.Thing}"
    ).success
    assert "Estimate" not in capsys.readouterr().out


@pytest.mark.parametrize("options", ["", " --map rows", " --vary llm=openai:m@http://127.0.0.1:9/v1"])
def test_dry_run_says_in_its_picture_what_costs_the_most_v14(shell, capsys, options):
    shell.names["rows"] = [{"n": 1}, {"n": 2}]
    body = "llm: openai:m@http://127.0.0.1:9/v1\ncost: {input_rate: 0.0001, output_rate: 0.0002}\ntasks:\n"
    body += "  look: {description: Look, output_type: {found: bool}}\n  say: Say it\n"
    assert shell.run(f"%%ensemble --dry-run{options}\n{body}").success
    (bundle,) = shell.seen()
    said = f"most of that for 'look', up to {8 if 'map' in options else 4} calls"
    assert said in capsys.readouterr().out
    assert said in html.unescape(bundle["text/html"])


def test_dry_run_tells_what_can_run_and_can_never_end_well(kitchen, capsys):
    body = """
workflow: hierarchical
manager_llm: scripted
agents: {Cook: {goal: Cook}, Waiter: {goal: Serve}}
hierarchical_constraints: {required_workers: [Cook, Waiter], global_max_delegations: 1}
tasks: [Serve a dish]"""
    assert kitchen.run(f"%%ensemble --dry-run{body}").success
    assert "Warning: The required workers can't all be asked" in capsys.readouterr().out


def test_define_binds_the_ensemble_and_shows_nothing(kitchen):
    del kitchen.names["dish"]
    kitchen.run(f"%%ensemble --define -o team{CHAIN}")
    assert isinstance(kitchen.names["team"], Ensemble)
    assert kitchen.names["team"].name == "team"
    assert kitchen.seen() == []
    assert kitchen.names["team"].run(dish="soup").raw == "served: cooked soup"


@pytest.mark.parametrize(
    "option",
    ["--record a.yaml", "--replay a.yaml", "--reuse", "--only cook", "--timeout 5", "--continue chat", "--map rows"],
)
def test_define_refuses_what_is_about_a_run(kitchen, option):
    error = kitchen.error(f"%%ensemble --define -o team {option}{CHAIN}")
    assert f"--define runs nothing: leave out {option.split()[0]} or --define" in str(error)
    assert "team" not in kitchen.names


def test_define_leaves_out_what_the_first_line_of_a_file_says_of_runs(kitchen, tmp_path):
    file = tmp_path / "team.yaml"
    file.write_text(f"%%ensemble --timeout 5 --record a.yaml{CHAIN}")
    assert kitchen.run(f"%%ensemble --define -o team --file {file}").success
    assert kitchen.names["team"].run(dish="soup").raw == "served: cooked soup"
    assert Ensemble.from_yaml(f"%%ensemble --define --reuse{CHAIN}", kitchen.names).name is None


def test_run_keeps_its_error_in_the_words_of_python_where_the_cell_shows_those_of_a_cell(kitchen):
    kitchen.names["model"] = ScriptedChatModel(default=Reply(calls=[ToolUse("look", {"place": "x"})]))
    kitchen.names["look"] = look
    body = "agents: {A: {goal: g, tools: look, max_iterations: 1}}\ntasks: [{description: x, agent: A}]"
    error = kitchen.error(f"%%ensemble -o report\nllm: model\n{body}")
    assert "Raise `max_iterations: ...` under the agent" in str(error)
    report = kitchen.names["report"]
    assert error.output is report
    again = pickle.loads(pickle.dumps(report))
    for output in (report, again):
        (told,) = output.frames.errors.error_message.unique()
        assert "Raise max_iterations" in told
        assert "Raise max_iterations" in str(output.failures[0].error)


def look(place: str) -> str:
    """Look there."""
    return place


def test_ensemble_of_an_output_runs_again_and_is_the_cells_own(kitchen):
    kitchen.run(f"%%ensemble -o report{CHAIN}")
    shown = len(kitchen.displayed)
    again = kitchen.names["report"].ensemble.run(dish="soup")
    assert again.raw == "served: cooked soup"
    assert again.ensemble.listeners == ()
    assert len(kitchen.displayed) == shown


def test_mistakes_are_short_and_all_at_once(kitchen, capsys):
    error = kitchen.error("%%ensemble\ntasks:\n  a: {descripton: A}\n  b: {description: B, handler: cok}")
    assert isinstance(error, ValidationError)
    shown = capsys.readouterr().out
    assert "Traceback" not in shown
    assert "description" in shown
    assert "'cook'" in shown
    assert "^" in shown
    assert kitchen.displayed == []


def test_unknown_option_fails_the_cell_and_names_the_nearest(kitchen, capsys):
    assert isinstance(kitchen.error(f"%%ensemble --otu report{CHAIN}"), ValidationError)
    assert "Did you mean '--out'?" in capsys.readouterr().out


def test_failed_run_shows_three_lines_keeps_the_picture_and_binds_what_was_done(kitchen, capsys):
    def burn(task):
        raise OSError("the stove is on fire")

    kitchen.names["serve"] = burn
    error = kitchen.error(f"%%ensemble -o report{CHAIN}")
    shown = capsys.readouterr().out.strip().splitlines()
    assert isinstance(error, TaskExecutionError)
    assert 1 <= len(shown) <= 3
    assert "'serve'" in shown[0]
    assert "Handler" in shown[0]
    assert "the stove is on fire" in "".join(shown)
    report = kitchen.names["report"]
    assert report.status is RunStatus.FAILED
    assert report["cook"].raw == "cooked pasta"
    (picture,) = kitchen.seen()
    assert "✕ failed" in picture["text/plain"]
    assert "OSError: the stove is on fire" in picture["text/html"]


def test_whole_traceback_is_a_magic_away(kitchen, capsys):
    def burn(task):
        raise OSError("the stove is on fire")

    kitchen.names["serve"] = burn
    kitchen.error(f"%%ensemble{CHAIN}")
    capsys.readouterr()
    kitchen.run("%tb")
    shown = capsys.readouterr().out
    assert "in burn" in shown
    assert "The above exception was the direct cause" in shown


def test_interrupt_stops_the_run_and_binds_what_was_done(kitchen, capsys):
    kitchen.names["serve"] = kitchen.names["slow"]

    def interrupt(event):
        if type(event).__name__ == "TaskStarted" and event.task == "serve":
            signal.raise_signal(signal.SIGINT)

    kitchen.names["interrupt"] = interrupt
    error = kitchen.error(f"%%ensemble -o report\nlisteners: [interrupt]{CHAIN}")
    assert isinstance(error, RunInterrupted)
    assert capsys.readouterr().out.strip().splitlines() == ["Stopped: 1 of 2 tasks are done and kept."]
    assert kitchen.names["report"].status is RunStatus.INTERRUPTED
    assert kitchen.names["report"]["cook"].raw == "cooked pasta"
    assert "⊘ interrupted" in kitchen.seen()[0]["text/plain"]


def test_interrupt_before_the_run_has_begun_is_not_lost(kitchen, monkeypatch):
    start = ensemble.start_run

    def interrupted_start(*arguments):
        signal.raise_signal(signal.SIGINT)
        return start(*arguments)

    monkeypatch.setattr(ensemble, "start_run", interrupted_start)
    kitchen.names["cook"] = kitchen.names["slow"]
    assert isinstance(kitchen.error(f"%%ensemble -o report{CHAIN}"), RunInterrupted)
    assert kitchen.names["report"].status is RunStatus.INTERRUPTED


def test_interrupt_while_the_last_picture_is_made_ends_the_cell_and_keeps_the_output(kitchen, monkeypatch):
    close = NotebookDisplay.close

    def interrupted_close(*arguments):
        signal.raise_signal(signal.SIGINT)
        return close(*arguments)

    monkeypatch.setattr(NotebookDisplay, "close", interrupted_close)
    assert isinstance(kitchen.error(f"%%ensemble -o report{CHAIN}"), KeyboardInterrupt)
    assert kitchen.names["report"].status is RunStatus.COMPLETED


def test_run_that_does_not_stop_in_time_leaves_its_handle(kitchen, monkeypatch, capsys):
    started, go_on = threading.Event(), threading.Event()

    async def block(_):
        started.set()
        go_on.wait(20)
        return "cooked slowly"

    def give_up(_, **_options):
        started.wait(20)
        raise KeyboardInterrupt

    kitchen.names["cook"] = block
    with monkeypatch.context() as patch:
        patch.setattr(RunHandle, "result", give_up)
        patch.setattr("ensemble_notebook.ensemble.run_handle.INTERRUPT_LIMIT_S", 0.01)
        assert isinstance(kitchen.error(f"%%ensemble -o report{CHAIN}"), RunInterrupted)
    assert "Something blocks its event loop" in capsys.readouterr().out
    go_on.set()
    handle = kitchen.names["report"]
    with pytest.raises(RunInterrupted) as caught:
        handle.result(timeout=20)
    assert [each.raw for each in caught.value.output.task_outputs] == ["cooked slowly"]


def test_timeout_of_the_run_is_an_option(kitchen):
    kitchen.names["cook"] = kitchen.names["slow"]
    error = kitchen.error(f"%%ensemble -o report --timeout 0.2{CHAIN}")
    assert "took longer than 0.2 s" in str(error)
    assert "timed out" in kitchen.seen()[0]["text/plain"]


def test_background_cell_returns_at_once_with_a_live_handle(kitchen):
    kitchen.names["serve"] = kitchen.names["slow"]
    assert kitchen.run(f"%%ensemble -b -o report{CHAIN}").success
    handle = kitchen.names["report"]
    assert isinstance(handle, RunHandle)
    assert handle.status in (RunStatus.PENDING, RunStatus.RUNNING)
    kitchen.names["go_on"].set()
    assert handle.result(timeout=20)["serve"].raw == "True"


def test_background_run_can_be_cancelled(kitchen):
    kitchen.names["serve"] = kitchen.names["slow"]
    kitchen.run(f"%%ensemble -b -o report{CHAIN}")
    kitchen.names["report"].cancel()
    with pytest.raises(RunInterrupted):
        kitchen.names["report"].result(timeout=20)


def test_model_comes_from_option_cell_or_configuration_in_this_order(kitchen):
    for name in ("optional", "written", "configured"):
        kitchen.names[name] = ScriptedChatModel(replies=[f"by {name}"] * 3)
    kitchen.run("%config EnsembleMagics.llm = 'configured'")
    written = "\nllm: written\ntasks: [Say who]"
    kitchen.run("%%ensemble -o a\n- Say who")
    kitchen.run(f"%%ensemble -o b{written}")
    kitchen.run(f"%%ensemble -o c --llm optional{written}")
    assert [kitchen.names[name].raw for name in "abc"] == ["by configured", "by written", "by optional"]


@pytest.mark.parametrize("line", ["%%ensemble --help\nanything", "%ensemble help", "%ensemble --help"])
def test_help_is_the_same_everywhere(shell, capsys, line):
    assert shell.run(line).success
    assert capsys.readouterr().out == format_option_help()


def test_question_mark_shows_options_and_examples(shell):
    info = shell.ip.object_inspect("%%ensemble")
    assert "--dry-run" in info["docstring"]
    assert "examples:" in info["docstring"]


def test_line_magic_tells_what_there_is(shell, capsys):
    shell.run("%ensemble")
    shell.run("%ensemble version")
    shown = capsys.readouterr().out
    assert "%config EnsembleMagics" in shown
    assert "ensemble-notebook 0" in shown
    assert "Did you mean 'version'?" in str(shell.error("%ensemble verzion"))
    assert "A cell that runs begins with %%ensemble" in str(shell.error("%ensemble -o x"))


def test_configuration_lists_what_is_used(shell, capsys):
    shell.run("%config EnsembleMagics")
    shown = capsys.readouterr().out
    assert {"llm", "timeline", "display"} <= {
        line.split(".")[1].split("=")[0] for line in shown.splitlines() if line.startswith("EnsembleMagics.")
    }


def test_environment_says_how_to_show_runs(kitchen, monkeypatch, capsys):
    kitchen.run("%config EnsembleMagics.display = 'auto'")
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "static")
    kitchen.run(f"%%ensemble{CHAIN}")
    assert "text/html" in kitchen.seen()[0]
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_DISPLAY", "statik")
    assert "Did you mean 'static'?" in str(kitchen.error(f"%%ensemble{CHAIN}"))


def test_shell_without_a_terminal_shows_a_table_and_the_answer_as_text(kitchen):
    kitchen.run("%config EnsembleMagics.display = 'auto'")
    kitchen.run(f"%%ensemble{CHAIN}")
    table, answer = kitchen.seen()
    assert set(table) == {"text/plain"}
    assert table["text/plain"].index("✓ cook") < table["text/plain"].index("✓ serve")
    assert answer == {"text/plain": "\nserved: cooked pasta"}


@pytest.mark.parametrize("magic", ["%%time", "%%capture captured", "\n\n"])
def test_other_magics_go_above_it(kitchen, magic):
    assert kitchen.run(f"{magic}\n%%ensemble -o report{CHAIN}").success
    assert kitchen.names["report"].raw == "served: cooked pasta"


def test_replies_stream_only_where_somebody_watches(kitchen):
    kitchen.names["team"] = ScriptedChatModel(default="one two three")
    kinds = {}
    for display in ("static", "widget"):
        kitchen.run(f"%config EnsembleMagics.display = '{display}'")
        kitchen.run(f"%%ensemble --llm team -o {display}\n- Say something")
        kinds[display] = {type(event).__name__ for event in kitchen.names[display].events}
    assert "LlmToken" not in kinds["static"]
    assert "LlmToken" in kinds["widget"]


def test_finished_run_leaves_no_thread_behind(kitchen):
    kitchen.run(f"%%ensemble{CHAIN}")
    names = {thread.name for thread in threading.enumerate()}
    assert not [name for name in names if name in ("ensemble-painter", "ensemble-background", "ensemble-Live")]


def test_output_that_nobody_holds_is_freed(kitchen):
    kitchen.run("%config EnsembleMagics.display = 'widget'")
    kitchen.run(f"%%ensemble -o report{CHAIN}")
    output = weakref.ref(kitchen.names["report"])
    del kitchen.names["report"]
    gc.collect()
    assert output() is None


def test_unknown_option_does_not_hide_the_mistakes_of_the_body_c10(kitchen):
    error = kitchen.error("%%ensemble --llmm x\n- {description: Cook, tols: knife}")
    assert isinstance(error, CellError)
    assert [(each.where, each.message.partition(".")[0]) for each in error.mistakes] == [
        ("options", "%%ensemble: unknown option '--llmm'"),
        ("line 1", "unknown key 'tols' in task 1"),
    ]
    alone = kitchen.error("%%ensemble --llmm x\n- Cook {dish}")
    assert str(alone).startswith("%%ensemble: unknown option '--llmm'. Did you mean '--llm'?")


def test_wrong_default_model_is_refused_when_it_is_set(kitchen, caplog):
    kitchen.run("%config EnsembleMagics.llm = 'scripted'")
    for wrong in ("gpt-4o", "opnai:gpt-4o"):
        kitchen.run(f"%config EnsembleMagics.llm = '{wrong}'")
        assert "Write local, openai:gpt-4o" in caplog.text or "Did you mean 'openai:gpt-4o'" in caplog.text
        caplog.clear()
    kitchen.run("%%ensemble -o report\n- Cook")
    assert "scripted" in set(kitchen.names["report"].frames.llm_calls["model"])


def test_default_model_that_is_gone_is_named(kitchen):
    kitchen.names["cook"] = ScriptedChatModel(replies=["Soup."])
    kitchen.run("%config EnsembleMagics.llm = 'cook'")
    del kitchen.names["cook"]
    error = kitchen.error("%%ensemble\n- Cook")
    assert isinstance(error, CellError)
    assert error.mistakes[0].message.startswith("the default model, EnsembleMagics.llm: there is no model 'cook'.")
    assert "%config EnsembleMagics.llm" in error.mistakes[0].hint
