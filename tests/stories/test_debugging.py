"""A handler fails, the table of errors says where it began, it is mended, and only what is missing is paid for."""

from __future__ import annotations

from tests.stories.conftest import Asked, Notebook

HANDLER = """
def parse(line):
    return int(line.split(":")[1])

def add(task):
    return str(sum(parse(line) for line in task.context[0].raw.splitlines()))
"""
MENDED = HANDLER.replace('split(":")[1]', "split()[-1]")
CELL = """
%%ensemble -o report --reuse
llm: openai:test-model
tasks:
  gather: List the ships in each port
  add: {description: Add them up, handler: add, context: gather}
  write: {description: Write about it, context: add}
"""


def answer(asked: Asked) -> str:
    """The model: one of its lines has no colon."""
    if asked.task == "List the ships in each port":
        return "Cuxhaven: 3\nOstende 4"
    return "7 ships are in port." if "\n7\n" in asked.last else "No ship is there."


def test_fault_is_found_mended_and_only_the_rest_is_paid_for(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(HANDLER)
    error = notebook.shell.error(CELL.strip())
    assert str(error) == "Task 'add' (Handler) failed: IndexError: list index out of range (at In[1]:2 in parse)"
    assert notebook.value("report.frames.errors.query('is_origin').origin.item()") == "In[1]:2 in parse"
    assert notebook.value("report['gather'].raw") == "Cuxhaven: 3\nOstende 4"
    assert len(notebook.server.requests) == 1

    notebook.run(MENDED, "%ensemble resume -1 -o report")
    assert notebook.value("report.raw") == "7 ships are in port."
    assert notebook.value("report.frames.tasks.query('reused').task.tolist()") == ["gather"]
    assert "not reused: no remembered run has completed it" in notebook.pictures()  # add and write
    assert len(notebook.server.requests) == 2

    notebook.run(CELL.replace("Write about it", "Write about it in one line"))
    assert notebook.value("report.frames.tasks.query('reused').task.tolist()") == ["gather", "add"]
    assert notebook.value("report.frames.runs[['total_tokens', 'saved_tokens']].values.tolist()") == [[18, 18]]
    assert len(notebook.server.requests) == 3
    assert "2 of 3 tasks reused: 18 tokens" in notebook.pictures()
