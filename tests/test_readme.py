"""The README and the guide are true: their cells run from top to bottom, in a real kernel."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.usefixtures("warm_kernels")

ROOT = Path(__file__).parent.parent


def run_cells(document, folder):
    """The Python and YAML blocks of a document, run as the cells of one notebook in a folder."""
    blocks = re.findall(r"^```(?:python|yaml)\n(.+?)^```$", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    cells = [nbformat.v4.new_code_cell(block.rstrip()) for block in blocks]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return cells


def text_below(cells, start):
    """What is shown below the one cell with this text in it."""
    (found,) = (cell for cell in cells if start in cell.source)
    return "\n".join(output["data"]["text/plain"] for output in found.outputs if "data" in output)


@pytest.mark.timeout(900)  # seven tasks on a small model, on whatever cores there are
def test_cells_of_the_readme_run_from_top_to_bottom(tmp_path):
    cells = run_cells(ROOT / "README.md", tmp_path)
    assert any("text/html" in output.get("data", {}) for output in cells[1].outputs)
    assert "✓ completed" in text_below(cells, "-o report")
    assert "input_tokens" in text_below(cells, "report.raw")
    assert "3 rows under 2 variants: 6 completed" in text_below(cells, "-o labelled")
    assert "[-tersely-]{+kindly+}" in text_below(cells, "labelled.diff")


@pytest.mark.timeout(900)
def test_cells_of_the_guide_run_from_top_to_bottom(tmp_path, store_path):
    cells = run_cells(ROOT / "docs" / "guide.md", tmp_path)
    assert "Researcher" in text_below(cells, "tool_wait_ms > 0")
    assert "It is 5." in text_below(cells, "-o sum")
    assert "tool" in text_below(cells, "timeline.selection")
    assert "attempt" in text_below(cells, "timeline.range")
    assert "1 retry: too many requests (HTTP 429)" in text_below(cells, "-o storm")
    assert "all pass" in text_below(cells, "-o leap")
    assert "until tests.ok equals True" in text_below(cells, "leap.frames")
    assert "completed" in text_below(cells, "replay=")
    assert "budget" in text_below(cells, "-o crossing --budget")
    assert text_below(cells, "again.metrics") == "0"
    assert "2 completed, 1 failed" in text_below(cells, "-o surveys")
    assert "LookupError" in text_below(cells, "surveys.frame")
    assert text_below(cells, "whole = ").count("completed") >= 3
