"""Reports from lines of a notebook and of a terminal (C105)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_notebook import Ensemble, Task
from ensemble_notebook.cli.main import main
from tests.conformance.test_reports import read
from tests.notebook.conftest import ip, shell  # noqa: F401 - fixtures

if TYPE_CHECKING:
    import pytest

ROWS = [{"q": "2 + 2"}, {"q": "3 + 3"}]
CELL = """
name: sums
tasks:
  add: {description: "Answer {q}", llm: scripted}
"""


def answer(_: object) -> str:
    return "a number"


def test_c105_a_stored_map_is_exported_with_the_rows_that_it_took_over(
    shell: Any,  # noqa: F811
    store_path: Path,
    tmp_path: Path,
) -> None:
    team = Ensemble(tasks=[Task.of("Answer {q}", name="add", handler=answer)], name="sums")
    first = team.map(ROWS)
    shell.names["sums"] = team.map([*ROWS, {"q": "4 + 4"}], resume=first)
    for word in ("sums", "-1"):
        file = tmp_path / f"{word}.html"
        assert shell.run(f"%ensemble export {word} {file}").success
        page = read(file)
        assert page.headings[:3] == ["sums", "Result", "Rows"]
        assert page.text.split("Timeline")[0].count("a number") == 3


def test_c105_the_command_line_writes_the_report_of_a_trace_and_of_a_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    team = Ensemble(tasks=[Task.of("Answer {q}", name="add", handler=answer)], name="sums")
    trace = team.map(ROWS).export(tmp_path / "sums.trace.json")
    assert main(["trace", str(trace), "-o", str(tmp_path / "sums.html"), "--no-open"]) == 0
    assert str(tmp_path / "sums.html") in capsys.readouterr().out
    page = read(tmp_path / "sums.html")
    assert page.headings[:3] == ["sums", "Result", "Rows"]
    assert page.text.count("a number") >= 2
    (tmp_path / "cell.yaml").write_text(CELL)
    (tmp_path / "rows.csv").write_text("q\n2 + 2\n")
    assert (
        main(["map", *(str(tmp_path / name) for name in ("cell.yaml", "rows.csv")), "-o", str(tmp_path / "m.html")])
        == 0
    )
    assert read(tmp_path / "m.html").headings[:3] == ["sums", "Result", "Rows"]
