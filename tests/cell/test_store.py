"""Memories and exporters: names of the notebook, or paths (C2, C4)."""

from pathlib import Path

import pytest

from ensemble_notebook.cell.cell_reader import read_cell
from ensemble_notebook.cell.reading.mistakes import CellError
from ensemble_notebook.memory.full_text_store import InMemoryStore, SqliteMemory
from ensemble_notebook.trace.exporters import JsonTraceExporter
from tests.support.cell import assert_mistakes, read


class Store:
    def store(self, scope, entry):
        return None

    def retrieve(self, scope, query, limit):
        return []


def keep(trace):
    return None


def test_memory_may_be_of_the_notebook():
    store = Store()
    assert read("memory: ours\ntasks: [a]", {"ours": store}).definition.memory is store


def test_memory_may_be_made_for_the_ensemble():
    assert isinstance(read("memory: true\ntasks: [a]").build().memory, InMemoryStore)
    assert read("memory: false\ntasks: [a]").build().memory is None


def test_file_of_a_memory_is_opened_when_the_cell_is_built(tmp_path):
    file = tmp_path / "notes.db"
    cell = read(f"memory: {file}\ntasks: [a]")
    assert not file.exists()
    assert isinstance(cell.build().memory, SqliteMemory)
    assert file.exists()


def test_file_that_can_not_be_a_memory_is_a_mistake_in_its_place(tmp_path):
    cell = read(f"tasks: [a]\nmemory: {tmp_path}/")
    with pytest.raises(CellError) as caught:
        cell.build()
    assert [(each.line, each.column) for each in caught.value.mistakes] == [(2, 9)]


def test_memories_of_a_task_are_one_name_or_a_list():
    tasks = read("tasks: [{description: x, memory: letters}, {description: y, memory: [a, b]}]").definition.tasks
    assert [task.memory for task in tasks] == [("letters",), ("a", "b")]


@pytest.mark.parametrize(
    "text, told",
    [
        ("memory: «our»\ntasks: [a]", r"no 'our' in this notebook. Did you mean 'ours'\?"),
        ("memory: «keep»\ntasks: [a]", "Ensemble memory must be an object with store"),
        ("memory: «[a]»\ntasks: [a]", "takes true, the path of a file"),
        ("tasks: [{description: x, memory: «3»}]", "takes the name of a memory, .* and this is the number 3"),
        ("tasks: [{description: x, memory: [a, «a»]}]", "stands twice"),
        ("tasks: [{description: x, memory: [«null»]}]", "takes a name, and this is null"),
        ('tasks: [{description: x, memory: «" "»}]', "takes names of scopes"),
        ("trace_exporter: «kep»\ntasks: [a]", "there is no 'kep' in this notebook"),
        ("trace_exporter: «number»\ntasks: [a]", "must be an object with export"),
    ],
)
def test_mistake_about_a_memory_or_exporter_is_shown_in_its_place(text, told):
    assert_mistakes(text, told, namespace={"ours": Store(), "keep": keep, "number": 3})


def test_hints_say_how_files_are_written():
    for text, told in (("memory: notes", "A file ends in .db."), ("trace_exporter: traces", "A folder ends in /")):
        with pytest.raises(CellError) as caught:
            read_cell(f"{text}\ntasks: [a]", {})
        assert told in caught.value.mistakes[0].hint


@pytest.mark.parametrize("path", ["traces/", "run.trace.json", "out/run.json"])
def test_path_of_an_exporter_is_used_when_the_cell_is_built(path):
    cell = read(f"trace_exporter: {path}\ntasks: [a]")
    assert not isinstance(cell.definition.trace_exporter, JsonTraceExporter)
    built = cell.build().trace_exporter
    assert isinstance(built, JsonTraceExporter)
    assert built.path == Path(path)


def test_exporter_may_be_of_the_notebook():
    assert read("trace_exporter: keep\ntasks: [a]", {"keep": keep}).definition.trace_exporter is keep
