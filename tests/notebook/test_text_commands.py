"""`%ensemble yaml`, `python` and `--file` in a real IPython shell (C32), and what every line command answers."""

import pytest

from ensemble_notebook import Ensemble, Task, ValidationError
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.notebook.magics.line_commands import LINE_COMMANDS
from tests.support.written_ensembles import picture

CELL = """\
agents:
  Cook: {goal: Feed people}
tasks:
  plan: {description: Plan it, handler: cook}
  eat: {description: "Eat {dish}", context: plan, handler: cook}
"""


@pytest.fixture
def kitchen(shell, tmp_path, monkeypatch):
    """A shell in a folder with a cell in `team.yaml`, and a handler."""
    monkeypatch.chdir(tmp_path)
    shell.names["cook"] = lambda task: f"{task.name} {task.inputs.get('dish')}"
    (tmp_path / "team.yaml").write_text(CELL)
    return shell


def value_of(shell, line):
    assert shell.run(f"found = %ensemble {line}").success
    return shell.names["found"]


def test_an_ensemble_goes_to_a_cell_and_back(kitchen):
    assert kitchen.run(f"%%ensemble --define -o desk\n{CELL}").success
    desk = kitchen.names["desk"]
    text = value_of(kitchen, "yaml desk")
    assert text == f"%%ensemble --define -o desk\nname: desk\n{CELL}"
    assert kitchen.run(text).success
    assert kitchen.names["desk"] is not desk
    assert picture(kitchen.names["desk"]) == picture(desk)


def test_an_output_goes_to_source_that_runs_in_this_notebook(kitchen):
    assert kitchen.run(f"%%ensemble -o report -i dish=soup\n{CELL}").success
    source = value_of(kitchen, "python report")
    assert source.startswith("from ensemble_notebook import Agent, Ensemble, Task\n\ncook_agent = Agent(")
    assert kitchen.run(source).success
    made = kitchen.names["report_ensemble"]
    assert picture(made) == picture(kitchen.names["report"].ensemble)
    assert made.run().raw == "eat soup"
    assert value_of(kitchen, "python report") == source
    assert value_of(kitchen, "yaml report").startswith("%%ensemble -o report\ninputs: {dish: soup}\n")


def test_the_ensemble_of_a_map_is_written_without_its_rows(kitchen):
    kitchen.names["rows"] = [{"dish": "soup"}, {"dish": "pie"}]
    assert kitchen.run(f"%%ensemble -o meals --map rows\n{CELL}").success
    for command in ("yaml", "python"):
        assert kitchen.run(value_of(kitchen, f"{command} meals")).success
        assert kitchen.names.pop("meals_ensemble").map(kitchen.names["rows"])[1].raw == "eat pie"


def test_the_text_is_shown_as_it_is_where_no_cell_can_be_made(kitchen, capsys):
    kitchen.names["desk"] = Ensemble(tasks=[Task.of("Do it")])
    assert kitchen.run("%ensemble yaml desk").success
    assert "%%ensemble --define -o desk\n- Do it\n" in capsys.readouterr().out


def test_a_remembered_run_goes_to_the_cell_that_it_was_and_to_source(kitchen, store_path):
    cell = f"%%ensemble -o report -i dish=soup\n{CELL}"
    assert kitchen.run(cell).success
    run_id = kitchen.names["report"].run_id
    for word in ("-1", run_id[:8]):
        assert value_of(kitchen, f"yaml {word}").strip() == cell.strip()
        assert kitchen.run(value_of(kitchen, f"python {word}")).success
        assert kitchen.names.pop("report_ensemble").run().raw == "eat soup"
    run = Ensemble(tasks=[Task.of("Do it", handler=lambda _: "x")]).run()
    assert f"No cell is kept of run {run.run_id}" in str(kitchen.error("%ensemble yaml -1"))


@pytest.mark.parametrize(
    "line, told",
    [
        ("yaml", "takes one variable that holds an ensemble or an output. Here are: desk."),
        ("yaml dsk", "there is no variable 'dsk'. Did you mean 'desk'? Here are: desk."),
        ("yaml other", "there is no variable 'other'. Here are: desk."),
        ("python cook", "cook holds no ensemble, but a value of type function."),
    ],
)
def test_a_variable_without_an_ensemble_is_told(kitchen, line, told):
    kitchen.names["desk"] = Ensemble(tasks=[Task.of("Do it")])
    error = kitchen.error(f"%ensemble {line}")
    assert isinstance(error, ValidationError)
    assert told in str(error)


def test_a_file_is_a_cell_with_or_without_a_body(kitchen):
    assert kitchen.run("%ensemble --file team.yaml -o report -i dish=soup").success
    assert kitchen.names["report"].raw == "eat soup"
    assert kitchen.run("%%ensemble -o other --file=team.yaml\ninputs: {dish: pasta}").success
    assert kitchen.names["other"].raw == "eat pasta"
    assert kitchen.run("%%ensemble --define -o team --file team.yaml").success
    assert kitchen.names["team"].run(dish="rice").raw == "eat rice"


def test_the_first_line_of_a_file_holds_where_the_magic_does_not_say_otherwise(kitchen, tmp_path):
    (tmp_path / "team.yaml").write_text(f"%%ensemble -o dinner -i dish=soup --name meal\n{CELL}")
    assert kitchen.run("%ensemble --file team.yaml --name supper").success
    assert (kitchen.names["dinner"].raw, kitchen.names["dinner"].name) == ("eat soup", "supper")


def test_mistakes_in_a_file_have_its_name_and_line(kitchen, tmp_path):
    (tmp_path / "team.yaml").write_text(CELL.replace("context", "contxt"))
    error = kitchen.error("%ensemble --file team.yaml -i dish=soup")
    assert isinstance(error, CellError)
    assert error.mistakes[0].where == "team.yaml, line 5"
    assert "no such file" in str(kitchen.error("%ensemble --file gone.yaml"))


def test_a_task_that_is_not_there_has_a_caret_in_the_options(kitchen):
    error = kitchen.error("%%ensemble --only eta -i dish=soup --file team.yaml")
    shown = "\n".join(error.draw())
    assert "options: there is no task 'eta' in this cell. Did you mean 'eat'?" in shown
    assert "      | %%ensemble --only eta -i dish=soup" in shown
    assert "      |                   ^^^\n" in shown


def test_a_plan_that_is_bound_is_said(kitchen, capsys):
    assert kitchen.run(f"%%ensemble --dry-run -o plan\n{CELL}").success
    assert kitchen.names["plan"].total_tasks == 2
    assert "plan is this plan." in capsys.readouterr().out


@pytest.mark.parametrize("question", ["{} --help", "{} ?", "{}?", "{} -h"])
@pytest.mark.parametrize("command", LINE_COMMANDS, ids=lambda command: command.word)
def test_every_line_command_says_what_it_does(shell, capsys, command, question):
    assert shell.run(f"%ensemble {question.format(command.word)}").success
    told = capsys.readouterr().out
    assert command.usage in told
    assert command.meaning in told
