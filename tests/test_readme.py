"""The README is true: its cells run from top to bottom, in a real kernel, on the local model."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

README = (Path(__file__).parent.parent / "README.md").read_text()
CELLS = re.findall(r"^```(?:python|yaml)\n(.+?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def text_below(cells, start):
    """What is shown below the one cell with this text in it."""
    (found,) = (cell for cell in cells if start in cell.source)
    return "\n".join(output["data"]["text/plain"] for output in found.outputs if "data" in output)


@pytest.mark.timeout(900)  # ten tasks on a small model, on whatever cores there are
def test_cells_of_the_readme_run_from_top_to_bottom(tmp_path):
    cells = [nbformat.v4.new_code_cell(source.rstrip()) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert any("text/html" in output.get("data", {}) for output in cells[1].outputs)
    assert "Researcher" in text_below(cells, "tool_wait_ms > 0")
    assert "↳ reporter_1" in text_below(cells, "workflow: hierarchical")
    assert "1 retry: 429" in text_below(cells, "-o storm")
    assert "✓ completed" in text_below(cells, "-o diary")
    assert (tmp_path / "diary.db").exists()
    assert len(list((tmp_path / "traces").glob("*.trace.json"))) == 1
    assert "completed" in text_below(cells, "replay=")
