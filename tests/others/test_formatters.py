"""What black, ruff and jupytext do to cells of a notebook, as docs/formatters.md says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import nbformat
import pytest

from tests.others.venv import Venv

CELL: Final = '%%ensemble -o out\nllm:   scripted\ntasks: [{description: "Say it",   tools: [math.sqrt]}]'
PYTHON: Final = "import math\n\nx  =  1"

PLAIN: Final = "%%ensemble\ntasks:\n- |\n  {}\n  and more"
ODD_QUOTES: Final = PLAIN.format('Write """ and stop')
ODD_SINGLE_QUOTES: Final = PLAIN.format("Write ''' and stop")
PAIR_OF_QUOTES: Final = PLAIN.format('Write """this""" and stop')
ESCAPED_QUOTES: Final = '%%ensemble\ntasks: ["Write \\"\\"\\" and stop"]'
MARK: Final = PLAIN.format("# %%")
FENCE: Final = PLAIN.format("```python\n  x\n  ```")
TILDES: Final = PLAIN.format("~~~python\n  x\n  ~~~")


@pytest.fixture(scope="module")
def venv(make_venv: Callable[..., Venv]) -> Venv:
    return make_venv("formatters", "black[jupyter]", "ruff", "jupytext", "myst-parser", ours=None)


def write_notebook(path: Path, *sources: str) -> Path:
    python = {"language_info": {"name": "python"}, "kernelspec": {"name": "python3", "display_name": "Python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)), metadata=python), path)
    return path


def read_cells(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


@pytest.mark.parametrize("command", [("black",), ("ruff", "format")], ids=" ".join)
def test_formatters_leave_a_cell_as_it_is(venv: Venv, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = write_notebook(tmp_path / "a.ipynb", CELL, PYTHON)
    venv.run(*command, path, cwd=tmp_path)
    assert read_cells(path) == [CELL, "import math\n\nx = 1"]


def test_black_writes_yaml_as_python_where_it_is_told_to(venv: Venv, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", CELL, PYTHON)
    venv.run("black", "--python-cell-magics", "ensemble", path, cwd=tmp_path)
    assert "llm: scripted\n" in read_cells(path)[0]


def test_ruff_deletes_an_import_that_only_a_cell_uses(venv: Venv, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", PYTHON, CELL)
    venv.run("ruff", "check", "--fix", path, cwd=tmp_path)
    assert read_cells(path) in (["\nx  =  1", CELL], ["x  =  1", CELL])


def test_settings_of_ruff_keep_an_import_that_only_a_cell_uses(venv: Venv, tmp_path: Path) -> None:
    path = write_notebook(tmp_path / "a.ipynb", PYTHON, CELL, "print(out)")
    (tmp_path / "ruff.toml").write_text('[lint.per-file-ignores]\n"*.ipynb" = ["F401", "F821"]\n')
    venv.run("ruff", "check", "--fix", path, cwd=tmp_path)
    assert read_cells(path) == [PYTHON, CELL, "print(out)"]


def go_there_and_back(venv: Venv, folder: Path, form: str, cell: str) -> list[str]:
    """The cells of a notebook that jupytext has written as text, and read again; two of Python follow the cell."""
    path = write_notebook(folder / "a.ipynb", cell, "x = 1", "y = 2")
    text, back = folder / f"a.{form.partition(':')[0]}", folder / "b.ipynb"
    venv.run("jupytext", "--to", form, "--output", text, path)
    venv.run("jupytext", "--from", form, "--to", "ipynb", "--output", back, text)
    return read_cells(back)


@pytest.mark.parametrize(
    "form, cells",
    [
        ("py:percent", (CELL, PAIR_OF_QUOTES, ESCAPED_QUOTES, FENCE)),
        ("py:light", (CELL, PAIR_OF_QUOTES, ESCAPED_QUOTES, FENCE, MARK)),
        ("md", (CELL, PAIR_OF_QUOTES, ESCAPED_QUOTES, FENCE, MARK)),
        ("md:myst", (CELL, PAIR_OF_QUOTES, ESCAPED_QUOTES, ODD_QUOTES, ODD_SINGLE_QUOTES, MARK, TILDES)),
    ],
)
def test_jupytext_gives_back_cells(venv: Venv, tmp_path: Path, form: str, cells: tuple[str, ...]) -> None:
    for cell in cells:
        assert go_there_and_back(venv, tmp_path, form, cell) == [cell, "x = 1", "y = 2"]


@pytest.mark.parametrize("form", ["py:percent", "py:light", "md", "Rmd"])
def test_jupytext_has_odd_quotes_swallow_the_cells_behind(venv: Venv, tmp_path: Path, form: str) -> None:
    for cell in (ODD_QUOTES, ODD_SINGLE_QUOTES):
        (found,) = go_there_and_back(venv, tmp_path, form, cell)
        assert found.startswith(cell)
        assert found.endswith("y = 2") or "y = 2\n" in found


def test_jupytext_splits_a_cell_at_a_mark_in_a_prompt(venv: Venv, tmp_path: Path) -> None:
    assert go_there_and_back(venv, tmp_path, "py:percent", MARK)[1] == "  and more"


def test_jupytext_ends_a_cell_of_myst_at_a_fence_in_a_prompt(venv: Venv, tmp_path: Path) -> None:
    assert "and more" not in go_there_and_back(venv, tmp_path, "md:myst", FENCE)[0]
