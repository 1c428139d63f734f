"""The README is true: its cells run from top to bottom, in a real kernel, on the local model."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

README = (Path(__file__).parent.parent / "README.md").read_text()
CELLS = re.findall(r"^```(?:python|yaml)\n(.+?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(900)  # seven tasks on a small model, on whatever cores there are
def test_cells_of_the_readme_run_from_top_to_bottom(tmp_path):
    cells = [nbformat.v4.new_code_cell(source.rstrip()) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    first, last = cells[1], cells[-1]
    assert any("text/html" in output.get("data", {}) for output in first.outputs)
    assert "Researcher" in last.outputs[0]["data"]["text/plain"]
