"""`%ensemble export`, `models` and `schema` in a real IPython shell (C22, C32, T13)."""

import json
import pickle
import re

import pandas as pd
import pytest

from ensemble_notebook.errors import StoreError, ValidationError
from ensemble_notebook.models.model_kinds import KINDS
from ensemble_notebook.trace.execution_trace import ExecutionTrace

CELL = """
tasks:
  cook: {description: Cook, handler: cook}
"""


@pytest.fixture
def kitchen(shell):
    """A shell with a run in `report`."""
    shell.names["cook"] = lambda task: "pasta"
    assert shell.run(f"%%ensemble -o report --name dinner{CELL}").success
    return shell


@pytest.mark.parametrize("ending", [".trace.json", ".html", ".svg", ".parquet"])
def test_a_run_of_the_notebook_is_exported_by_its_variable(kitchen, tmp_path, capsys, ending):
    file = tmp_path / f"my run{ending}"
    assert kitchen.run(f'%ensemble export report "{file}"').success
    assert file.stat().st_size > 0
    assert re.search(re.escape(f"report is in {file} (") + r"[\d.]+ k?B\)", capsys.readouterr().out)


def test_a_remembered_run_is_exported_by_its_name(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    shell.names["cook"] = lambda task: "pasta"
    assert shell.run(f"%%ensemble -o report --name dinner{CELL}").success
    run_id = shell.names.pop("report").run_id
    for word in ("dinner", "-1", run_id[:6]):
        file = tmp_path / f"{word}.trace.json"
        assert shell.run(f"%ensemble export {word} {file}").success
        assert ExecutionTrace.load(file).run_id == run_id
    assert isinstance(shell.error(f"%ensemble export lunch {tmp_path}/lunch.html"), StoreError)


@pytest.fixture
def wide_terminal(monkeypatch):
    """A terminal in which no line is cut; that of a test process may have any width."""
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.usefixtures("wide_terminal")
def test_a_remembered_run_is_from_the_cell_of_its_prompt(shell, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", str(tmp_path / "runs.sqlite"))
    shell.names["cook"] = lambda task: "pasta"
    prompt = shell.ip.run_cell(f"%%ensemble{CELL}", store_history=True).execution_count
    assert shell.run("%ensemble runs").success
    assert re.findall(r"In\[(\d+)\]", capsys.readouterr().out.rpartition("run ")[2]) == [str(prompt)]


def test_a_loaded_trace_is_exported_too(kitchen, tmp_path):
    kitchen.names["loaded"] = ExecutionTrace.load(kitchen.names["report"].trace.save(tmp_path / "a.trace.json"))
    assert kitchen.run(f"%ensemble export loaded {tmp_path}/a.svg").success
    assert "dinner" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    "line, told",
    [
        ("export report", "takes a run (a variable such as report, an id"),
        ("export report run.pdf", "can't be exported to 'run.pdf'"),
        ("exprt report run.html", "Did you mean 'export'?"),
        ("models all", "takes no 'all'"),
        ("schema all", "takes no 'all'"),
    ],
)
def test_a_wrong_line_is_told_what_is_right(kitchen, line, told):
    error = kitchen.error(f"%ensemble {line}")
    assert isinstance(error, ValidationError)
    assert told in str(error)


def test_a_run_that_goes_on_is_exported_later(kitchen, tmp_path):
    import threading

    go_on = kitchen.names["go_on"] = threading.Event()
    kitchen.names["cook"] = lambda task: str(go_on.wait(20))
    kitchen.run(f"%%ensemble -b -o going{CELL}")
    assert "goes on" in str(kitchen.error(f"%ensemble export going {tmp_path}/a.html"))
    go_on.set()
    kitchen.names["going"].result()
    assert kitchen.run(f"%ensemble export going {tmp_path}/a.html").success


def test_models_lists_what_each_form_of_spec_comes_to(shell):
    assert shell.run("table = %ensemble models").success
    table = shell.names["table"]
    assert list(table.index) == [form for kind in KINDS for form in kind.forms]
    assert table.loc["scripted", "is_ready"]
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
        "is_ready": "boolean",
        "meaning": "string",
        "note": "string",
    }


def test_models_are_shown_with_the_whole_note(shell, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    table = shell.run("%ensemble models").result
    bundle, _ = shell.ip.display_formatter.format(table)
    assert len(bundle["text/plain"].splitlines()) == 1 + len(table)
    for text in bundle.values():
        assert "OPENAI_API_KEY, which is not set" in text


@pytest.fixture
def remembered(shell, store_path, wide_terminal):
    """A shell with two remembered runs, the second one of hostile inputs."""
    shell.names["cook"] = lambda task: "pasta"
    quoted = '"Cook for {guests}"'
    for guests in ("two", "<b>\x1b[2J & " + "so many " * 40):
        shell.names["guests"] = guests
        assert shell.run(f"%%ensemble -o report --name dinner{CELL.replace('Cook', quoted)}").success
    return shell


def test_the_runs_are_one_line_each_with_what_is_looked_for_first(remembered):
    table = remembered.run("%ensemble runs").result
    bundle, _ = remembered.ip.display_formatter.format(table)
    heads, second, first = bundle["text/plain"].splitlines()
    assert heads.split() == [
        "run",
        "name",
        "status",
        "began",
        "tasks",
        "time",
        "tokens",
        "cost",
        "inputs",
        "from",
    ]
    # By the clock of this computer, not by that of Greenwich.
    assert f"{table.start_time.iloc[1].to_pydatetime().astimezone():%Y-%m-%d %H:%M:%S}" in first
    assert re.fullmatch(
        rf"{table.index[1][:8]}  dinner  completed  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d    1/1 +<?\d+ m?s +0 +\$0  "
        r"guests: two +In\[\d+\]",
        first,
    )
    assert "guests: <b>[2J & so many" in second
    assert "…" in second
    assert len(second) < 160
    html = bundle["text/html"]
    assert html.count("<tr") == 1 + 2
    # A page may be read in another zone than that of this computer.
    assert len(re.findall(r"\d\d:\d\d:\d\d UTC([+-]\d+(:\d\d)?)?<", html)) == 2
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert list(table.columns[:7]) == ["name", "kind", "status", "start_time", "tasks_done", "tasks", "wall_ms"]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_line_of_the_runs_is_longer_than_those_of_the_terminal(remembered, monkeypatch, columns):
    table = remembered.run("%ensemble runs").result
    every = repr(table).splitlines()[0].split()
    monkeypatch.setenv("COLUMNS", str(columns))
    heads, *lines = repr(table).splitlines()
    assert max(map(len, (heads, *lines))) <= columns
    assert heads.split() == every[: len(heads.split())]
    left_out = " ".join(lines[2:])
    for head in every[len(heads.split()) :]:
        assert head in left_out
    assert bool(left_out) == (columns < 120)


def test_the_runs_are_a_dataframe_and_what_is_made_of_them_is_a_plain_one(remembered):
    table = remembered.run("%ensemble runs -n 1").result
    assert isinstance(table, pd.DataFrame)
    assert type(table.query("status == 'completed'")) is pd.DataFrame
    assert pickle.loads(pickle.dumps(table)).equals(table)
    table["rating"] = 5
    for text in (repr(table), table._repr_html_()):
        assert "rating" in text


def test_more_runs_than_pandas_shows_are_counted(remembered):
    table = remembered.run("%ensemble runs").result
    with pd.option_context("display.max_rows", 1):
        assert repr(table).splitlines()[-1] == "and 1 more row, which this DataFrame has, too"
        assert table._repr_html_().count("<tr") == 1 + 1


def test_where_nothing_is_remembered_that_is_said(shell, store_path):
    table = shell.run("%ensemble runs").result
    assert len(table) == 0
    for text in (repr(table), table._repr_html_()):
        assert "No run is remembered yet" in text


def test_schema_is_shown_as_json_and_is_a_dict(shell, capsys):
    assert shell.run("schema = %ensemble schema").success
    schema = shell.names["schema"]
    assert isinstance(schema, dict)
    assert "description" in schema["$defs"]["task"]["properties"]
    bundle, _ = shell.ip.display_formatter.format(schema)
    assert json.loads(bundle["text/plain"]) == bundle["application/json"] == schema
    assert capsys.readouterr().out == ""
