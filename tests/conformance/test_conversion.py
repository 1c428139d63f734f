"""Cells in files and texts, ensembles as cells, and back (C32): from_yaml, to_yaml, --file, -i NAME=@PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ensemble_notebook import Ensemble, Task, TaskInput, ValidationError, config
from ensemble_notebook.cell.cell_reader import add_options, read_cell, read_cell_file
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.cell.reading.options import Options, parse_options

CELL = """\
llm: scripted
agents:
  Cook: {goal: Feed people}
tasks:
  plan: {description: "Plan {dish}", agent: Cook}
  cook: {description: Cook it, context: plan, handler: cook}
"""


def cook(task: TaskInput) -> str:
    """Say what was planned."""
    return f"cooked after {task.context[0].name}"


def test_c32_ensemble_is_made_of_a_text_and_written_back_as_it_was() -> None:
    names = {"cook": cook}
    ensemble = Ensemble.from_yaml(CELL, names)
    assert ensemble.run(dish="soup").raw == "cooked after plan"
    assert ensemble.to_yaml(names) == CELL
    assert Ensemble.from_yaml(f"%%ensemble -o report -i dish=soup --name dinner\n{CELL}", names).inputs == {
        "dish": "soup"
    }


def test_c32_path_is_a_file_and_its_mistakes_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("team.yaml").write_text(f"%%ensemble --name dinner\n{CELL}")
    assert Ensemble.from_yaml(Path("team.yaml"), {"cook": cook}).name == "dinner"
    Path("team.yaml").write_text("tasks:\n  plan: Plan it\n  eat: {description: Eat, contxt: plan}\n")
    with pytest.raises(CellError) as caught:
        Ensemble.from_yaml(Path("team.yaml"))
    shown = "\n".join(caught.value.draw())
    assert "1 mistake in team.yaml" in shown
    assert "team.yaml, line 3: unknown key 'contxt' in task 'eat'. Did you mean 'context'?" in shown
    assert "    3 |   eat: {description: Eat, contxt: plan}\n      |                           ^^^^^^\n" in shown


def test_c32_body_stands_in_place_of_the_keys_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(f"%%ensemble -o dinner -i dish=soup\n{CELL}")
    kept = read_cell_file(tmp_path / "team.yaml")
    options = add_options(parse_options("-i dish=pasta"), kept.options)
    assert (options.out, options.inputs) == ("dinner", {"dish": "pasta"})
    names = {"cook": cook}
    cell = read_cell('name: supper\ntasks: ["Eat {dish}"]', names, file=kept, overrides=options.overrides)
    assert (cell.definition.name, cell.definition.llm) == ("supper", "scripted")
    assert [task.description for task in cell.definition.tasks] == ["Eat {dish}"]
    assert [agent.role for agent in cell.definition.agents] == ["Cook"]
    phased = read_cell("phases: {one: [Eat]}", names, file=kept, overrides=options.overrides).definition
    assert (len(phased.tasks), len(phased.phases)) == (0, 1)


def test_c32_mistakes_show_whether_they_are_in_the_body_or_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(CELL.replace("agent: Cook", "agent: Cok"))
    kept = read_cell_file(tmp_path / "team.yaml")
    with pytest.raises(CellError) as caught:
        read_cell("\nlm: local\n", {"cook": cook}, file=kept, needs_inputs=False)
    found = [(each.line, Path(each.file).name) for each in caught.value.mistakes]
    assert found == [(2, ""), (5, "team.yaml")]
    shown = "\n".join(caught.value.draw())
    assert "2 mistakes in this cell and" in shown
    assert "    2 | lm: local" in shown
    assert '    5 |   plan: {description: "Plan {dish}", agent: Cok}' in shown


@pytest.mark.parametrize("source, told", [(3, "takes a text or a Path"), (Path("gone.yaml"), "no such file in")])
def test_c32_what_can_not_be_read_is_said(source: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Ensemble.from_yaml(source)  # type: ignore[arg-type]


def test_c32_file_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("%%ensemble --file b.yaml\n- Do it\n")
    with pytest.raises(ValidationError, match=r"a\.yaml, line 1: --file is for a cell"):
        read_cell_file(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_text("%%ensemble --fil b.yaml\n- Do it\n")
    with pytest.raises(ValidationError, match=r"a\.yaml, line 1: .*unknown option '--fil'\. Did you mean '--file'\?"):
        read_cell_file(tmp_path / "a.yaml")


def test_c32_input_may_be_the_text_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b.txt").write_bytes(b"\xef\xbb\xbfTides\nturn.")
    options = parse_options('-i "notes=@a b.txt" -i who=@@bob --file x.yaml')
    assert options == Options(inputs={"notes": "Tides\nturn.", "who": "@bob"}, file=Path("x.yaml"))


@pytest.mark.parametrize(
    "content, told",
    [
        (None, "a.txt can't be read: there is no such file in "),
        (b"a\xff", "it is no text in UTF-8, from byte 2 on"),
        (b"x" * 10_000_001, "it has 10,000,001 bytes, and 10,000,000 is the most"),
        ("folder", "it is a folder; name a file in it"),
        ("pipe", "it is a device or a pipe; name a file"),
        (Path("/dev/zero"), "it is a device or a pipe; name a file"),
    ],
)
def test_c32_file_that_is_no_text_is_refused(
    content: object, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content == "folder":
        Path("a.txt").mkdir()
    elif content == "pipe":
        os.mkfifo("a.txt")
    elif isinstance(content, Path):
        Path("a.txt").symlink_to(content)
    elif isinstance(content, bytes):
        Path("a.txt").write_bytes(content)
    with pytest.raises(ValidationError) as caught:
        parse_options("-i notes=@a.txt")
    assert told in str(caught.value)
    assert "For the text '@a.txt' itself write @@a.txt." in str(caught.value)


@pytest.mark.parametrize("value", ["$diff", "${diff}"])
@pytest.mark.parametrize("option", ["-i", "--vary"])
def test_c32_a_variable_that_nothing_fills_in_is_answered_with_what_to_write(option: str, value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_options(f"{option} 'text={value}'")
    assert f"text={value}: no variable is filled in here" in str(caught.value)
    assert "write text = diff above" in str(caught.value)
    for plain in ("$5", "US$", "a $diff", "{diff}"):
        assert parse_options(f"-i 'text={plain}'").inputs == {"text": plain}


def test_c32_the_most_that_a_file_may_have_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"x" * 2_000)
    monkeypatch.setattr(config, "max_input_mb", 0.001)
    with pytest.raises(ValidationError, match=r"2,000 bytes, and 1,000 is the most; .*max_input_mb, now"):
        parse_options(f"-i notes=@{file}")
    monkeypatch.setattr(config, "max_input_mb", 0.002)
    assert parse_options(f"-i notes=@{file}").inputs == {"notes": "x" * 2_000}
    with pytest.raises(ValueError, match="max_input_mb must be a number > 0"):
        config.max_input_mb = 0


def test_c32_object_without_a_name_is_named_with_its_place() -> None:
    made = Ensemble(tasks=[Task.of("Do it", name="it", handler=lambda task: "")])
    with pytest.raises(ValidationError, match="The handler of task 'it' is a lambda, which has no name here"):
        made.to_yaml()
    assert "handler: say" in made.to_yaml({"say": made.tasks[0].handler})


def test_c32_an_ensemble_of_a_cell_remembers_the_names_that_it_was_read_with() -> None:
    text = "tasks:\n  it:\n    description: Do it\n    handler: say\n"
    names = {"say": lambda task: ""}
    made = Ensemble.from_yaml(text, names)
    assert "handler: say" in made.to_yaml()
    assert Ensemble.from_yaml(made.to_yaml(), names).to_yaml() == made.to_yaml()
    assert "handler: speak" in made.to_yaml({"speak": names["say"]})
