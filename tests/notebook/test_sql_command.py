"""`%ensemble sql` in a real IPython shell (C115)."""

import pandas as pd
import pytest

from ensemble_notebook.errors import StoreError, ValidationError

CELL = """
tasks:
  cook: {description: Cook, handler: cook}
"""


@pytest.fixture
def kitchen(shell, store_path):
    """A shell with a remembered run."""
    shell.names["cook"] = lambda task: "it's pasta"
    assert shell.run(f"%%ensemble --name dinner{CELL}").success
    return shell


def test_c115_the_value_of_the_line_is_a_frame(kitchen):
    line = """%ensemble sql SELECT task, output || '  "so"' AS said FROM tasks WHERE output <> 'it''s' -- '"""
    found = kitchen.run(line).result
    assert isinstance(found, pd.DataFrame)
    assert found.values.tolist() == [["cook", """it's pasta  "so\""""]]
    assert kitchen.run("names = %ensemble sql select name from runs").success
    assert kitchen.names["names"].name.tolist() == ["dinner"]


@pytest.mark.parametrize(
    "text",
    [
        "-o rows {}",
        "-o=rows {}",
        "-o  rows  {}",
        "--out rows {}",
        "{} -o rows",
        "{}  -o=rows ",
        "{} --out rows",
        "{} --out=rows",
    ],
)
def test_c115_o_binds_it_in_place_of_showing_it(kitchen, text):
    done = kitchen.run(f"%ensemble sql {text.format('select count(*) as n from tasks')}")
    assert done.result is None
    assert kitchen.names["rows"].n.tolist() == [1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-o rows",
        "-o 2 select 1",
        "-o",
        "-o class select 1",
        "--output y select 1",
        "select 1 -o 2",
        "select 1 --out class",
    ],
)
def test_c115_what_is_not_typed_as_it_is_meant_is_told(kitchen, text):
    error = kitchen.error(f"%ensemble sql {text}")
    assert isinstance(error, ValidationError)
    assert "It is %ensemble sql [-o NAME] SELECT ..." in str(error)


def test_c115_a_column_that_is_taken_away_stays_sql(kitchen):
    told = "%ensemble sql select a -o as n from (values (3, 1), (5, 1)) as t(a, o)"
    assert kitchen.run(told).result.n.tolist() == [2, 4]
    assert kitchen.run(f"{told} order by a -o desc").result.n.tolist() == [4, 2]


@pytest.mark.parametrize(
    "line, told",
    [
        ("sql", "%ensemble sql [-o NAME] SELECT .... A statement of several lines: ensemble_notebook.store.sql("),
        ("sql -o rows", "%ensemble sql [-o NAME] SELECT ..."),
        ("runs -n 3", "%ensemble runs [-n COUNT]"),
        ("show -1", "%ensemble show RUN"),
    ],
)
def test_c115_a_line_that_is_typed_as_a_cell_says_how_it_is_typed(kitchen, line, told):
    error = kitchen.error(f"%%ensemble {line}\nselect 1")
    assert isinstance(error, ValidationError)
    assert "is a line of its own, with one %" in str(error)
    assert told in str(error)


def test_c115_mistakes_are_those_of_store_sql(kitchen, monkeypatch):
    error = kitchen.error("%ensemble sql select * from task")
    assert str(error) == "SQL: there is no table 'task' (line 1, column 15). Did you mean 'tasks'?"
    assert isinstance(kitchen.error("%ensemble sql drop table runs"), ValidationError)
    monkeypatch.setenv("ENSEMBLE_NOTEBOOK_STORE", "off")
    assert isinstance(kitchen.error("%ensemble sql select 1"), StoreError)


@pytest.mark.parametrize("word", ["--help", "?"])
def test_c115_help_tells_how_it_is_typed(kitchen, capsys, word):
    assert kitchen.run(f"get_ipython().run_line_magic('ensemble', 'sql {word}')").success
    assert "%ensemble sql [-o NAME] SELECT ..." in capsys.readouterr().out


def test_c115_names_of_the_notebook_are_not_put_in(kitchen):
    kitchen.names["name"] = "runs"
    assert isinstance(kitchen.error("%ensemble sql select * from $name"), ValidationError)
    assert kitchen.run("%ensemble sql select '{name}' as text").result.text.tolist() == ["{name}"]
