"""The memory in a file: across processes, and when something is wrong with the file."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from ensemble_notebook import EnsembleError, SqliteMemory, ValidationError
from ensemble_notebook.memory import full_text_store as long_term
from tests.memory.conftest import remembered

WRITER = """
import sys
from tests.memory.conftest import remembered
from ensemble_notebook import SqliteMemory

path, name = sys.argv[1:]
for number in range(25):
    memory = SqliteMemory(path, max_entries=1000)
    memory.store("kitchen", remembered(f"entry {number} of {name}"))
    assert memory.retrieve("kitchen", name, 3)
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def unprivileged():
    """Not even the administrator may write where it is not allowed."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_entries_outlive_the_object(path):
    SqliteMemory(path).store("kitchen", remembered("Rest the steak.", task="cook"))
    (entry,) = SqliteMemory(str(path)).retrieve("kitchen", "steak", 5)
    assert (entry.text, entry.metadata) == ("Rest the steak.", {"task": "cook"})


def test_several_processes_write_at_once(path):
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [
        subprocess.Popen([*command, f"writer{number}"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for number in range(3)
    ]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    memory = SqliteMemory(path)
    assert memory.scopes() == {"kitchen": 75}
    assert len(memory.retrieve("kitchen", "writer2", 100)) == 25


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    memory = SqliteMemory("~/memory.db")
    assert (tmp_path / "memory.db").is_file()
    assert repr(memory) == f"SqliteMemory({str(tmp_path / 'memory.db')!r})"


def test_change_of_the_working_folder_does_not_move_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = SqliteMemory("memory.db")
    memory.store("kitchen", remembered("steak"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert memory.scopes() == {"kitchen": 1}


def test_file_that_was_deleted_is_made_again(path):
    memory = SqliteMemory(path)
    memory.store("kitchen", remembered("steak"))
    path.unlink()
    assert memory.retrieve("kitchen", "steak", 5) == []
    memory.store("kitchen", remembered("dough"))
    assert memory.scopes() == {"kitchen": 1}


def test_other_tables_in_the_file_are_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entry (id, text)")
    SqliteMemory(path).store("kitchen", remembered("steak"))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM entry").fetchone() == (0,)


@pytest.mark.parametrize("wrong", [":memory:", "", 7, None])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(ValidationError, match="SqliteMemory takes the path of a file"):
        SqliteMemory(wrong)


def test_folder_is_refused(tmp_path):
    with pytest.raises(ValidationError, match=r"is a folder\. Name a file in it, such as .*memory\.db"):
        SqliteMemory(tmp_path)


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(ValidationError, match=r"there is no folder .*nowhere\. Make it first"):
        SqliteMemory(tmp_path / "nowhere" / "memory.db")


def test_other_kind_of_file_is_refused_and_left_as_it_is(path):
    path.write_text("These are my notes. " * 100)
    with pytest.raises(ValidationError, match=r"The memory .*memory\.db is damaged, or another kind of file"):
        SqliteMemory(path)
    assert path.read_text().startswith("These are my notes.")


def test_file_that_gets_damaged_is_named(path):
    memory = SqliteMemory(path)
    memory.store("kitchen", remembered("steak"))
    path.write_bytes(path.read_bytes()[:4096] + b"x" * 8192)
    with pytest.raises(EnsembleError, match=r"memory\.db is damaged"):
        memory.retrieve("kitchen", "steak", 5)


def test_locked_file_is_named(path, monkeypatch):
    memory = SqliteMemory(path)
    monkeypatch.setattr(long_term, "LOCK_LIMIT_S", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(EnsembleError, match=r"memory\.db is locked by another program for more than 0.01 s"):
            memory.store("kitchen", remembered("steak"))
        assert memory.retrieve("kitchen", "steak", 5) == []
        other.execute("ROLLBACK")
    memory.store("kitchen", remembered("steak"))
    assert memory.scopes() == {"kitchen": 1}


def test_read_only_file_can_be_read_and_says_why_it_can_not_be_written(unprivileged):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        SqliteMemory(path).store("kitchen", remembered("steak"))
        path.chmod(0o444)
        memory = SqliteMemory(path)
        assert len(memory.retrieve("kitchen", "steak", 5)) == 1
        with pytest.raises(EnsembleError, match=r"memory\.db is read-only\. Make it writable"):
            memory.store("kitchen", remembered("dough"))


def test_folder_without_permission_is_named(unprivileged):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with pytest.raises(ValidationError, match=r"memory\.db can't be opened\. Check the permissions"):
            SqliteMemory(Path(folder, "memory.db"))
